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
