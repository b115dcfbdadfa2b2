"""Rows and elements picked where there are none: eager's errors, no reads of memory that is not there."""

import pytest
import torch
from torch.nn import functional as F

import braze

PICKS = {
    "gather": lambda x, i: x.gather(0, i[:, None].expand(-1, x.shape[1])),
    "gather in columns": lambda x, i: x.t().gather(1, i[None].expand(x.shape[1], -1)),
    "index": lambda x, i: x[i],
    "take": lambda x, i: x.take(i),
    "embedding": lambda x, i: F.embedding(i, x),
    "embedding with a largest norm": lambda x, i: F.embedding(i, x.clone(), max_norm=1.0),
    "index_select": lambda x, i: x.index_select(0, i),
    "take_along_dim": lambda x, i: x.take_along_dim(i[:, None], 0),
}


def outcome(function, *arguments):
    try:
        return function(*arguments)
    except (IndexError, RuntimeError) as error:
        return type(error)


@pytest.mark.parametrize("dynamic", [None, True, False])
@pytest.mark.parametrize("name", PICKS)
def test_as_eager(name, dynamic):
    function = PICKS[name]
    compiled = braze.compile(function, dynamic=dynamic)
    with torch.no_grad():
        for rows, picked in ((8, 5), (6, 4), (0, 3), (0, 0), (3, 0), (2, 2), (0, 3)):
            x, index = torch.randn(rows, 6), torch.randint(max(rows, 1), (picked,))
            got, wanted = outcome(compiled, x, index), outcome(function, x, index)
            if isinstance(wanted, type):
                assert isinstance(got, type), (rows, picked)
            else:
                torch.testing.assert_close(got, wanted)


# Only the sizes of what they find are looked at.
LOOKS = {
    "max": lambda x: x.new_zeros(x.max(0)[0].size(0)),
    "place of the least": lambda x: x.new_zeros(x.min(0)[1].size(0)),
    "max of all": lambda x: (x.max(), x.new_zeros(2))[1],
    "amax": lambda x: x.new_zeros(x.amax(0).size(0)),
    "argmax": lambda x: x.new_zeros(x.argmax(0).size(0)),
    "median": lambda x: x.new_zeros(x.median(0)[0].size(0)),
    "nanmedian": lambda x: x.new_zeros(x.nanmedian(0)[0].size(0)),
    "mode": lambda x: x.new_zeros(x.mode(0)[0].size(0)),
    "kthvalue": lambda x: x.new_zeros(x.kthvalue(1, 0)[0].size(0)),
    "gather": lambda x: x.new_zeros(x.gather(0, torch.zeros(1, 6, dtype=torch.int64)).size(1)),
    "index": lambda x: x.new_zeros(x[torch.tensor([0])].size(1)),
    "complex index": lambda x: x.new_zeros(x.to(torch.complex64)[torch.tensor([0])].size(1)),
    "nothing to find": lambda x: x.new_zeros(x.median(1)[0].size(0)),
}


@pytest.mark.parametrize("dynamic", [None, True, False])
@pytest.mark.parametrize("name", LOOKS)
def test_looking_in_vain_raises_though_nobody_uses_it(name, dynamic):
    function = LOOKS[name]
    compiled = braze.compile(function, dynamic=dynamic)
    for rows in (8, 6, 0, 3, 0):
        x = torch.randn(rows, 6)
        got, wanted = outcome(compiled, x), outcome(function, x)
        if isinstance(wanted, type):
            assert got is wanted, rows
        else:
            torch.testing.assert_close(got, wanted)


def test_empty_batches_are_trained_on_as_any_other():
    net = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.Flatten(), torch.nn.Linear(144, 5))
    compiled = braze.compile(net)
    for rows in (2, 0, 3, 0):
        x = torch.randn(rows, 3, 8, 8)
        gradients = []
        for function in (net, compiled):
            net.zero_grad()
            function(x).sum().backward()
            gradients.append([parameter.grad.clone() for parameter in net.parameters()])
        torch.testing.assert_close(gradients[1], gradients[0])
    assert compiled.report()["first_break"] is None
