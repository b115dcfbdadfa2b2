"""Sizes that vary, on a GPU: kernels for all sizes of a family, judged by float64."""

import math

import programs_of_sizes
import pytest
import torch
from on_gpu import needs_gpu
from torch.nn import functional as F
from torch.utils import _pytree as pytree

import braze

pytestmark = [needs_gpu, pytest.mark.filterwarnings("ignore")]


def element_set(x):
    y = x.clone()
    y[0], y[1, 1:] = x.shape[0] % 5, x.shape[0]
    return y


ROWS = {
    "pointwise": lambda x: (x * 2).sin() + 1,
    "softmax": lambda x: x.softmax(-1) + 1,
    "softmax of columns": lambda x: x.softmax(0) * 2,
    "layer_norm": lambda x: F.layer_norm(x, x.shape[-1:]) + F.gelu(x),
    "sums": lambda x: (x.sum(0), x.sum(1), x.sum(), x.mean(-1), x.var(0)),
    "extremes": lambda x: (x.amax(0), x.argmax(-1), x.max(), x.min(1)),
    "transposed": lambda x: x.t().contiguous() + 1,
    "joined": lambda x: torch.cat([x, x[1:] * 2, x[:2]]),
    "padded": lambda x: F.pad(x, (1, 2, 0, 3)),
    "gathered": lambda x: x.gather(1, x.argsort(-1)),
    "entropy": lambda x: -(x.softmax(-1) * torch.log(x.softmax(-1) + 1e-8)).sum(-1),
    "normalised": lambda x: F.normalize(x, dim=-1) * x.shape[0],
    "product": lambda x: torch.relu(x @ x.t()) / x.shape[1],
    "rolled": lambda x: x.roll(1, 0) - x.flip(1),
    "scanned": lambda x: x.cumsum(0),
    "scaled": lambda x: x / math.sqrt(x.shape[1]) + x.shape[0] / 7,
    "divided by what is left": lambda x: x.sum() / (x.shape[0] * 2 - 1) - x.shape[0],
    "masked": lambda x: torch.where(x > 0, x, -x).tril(),
    "an element": lambda x: torch.cat([element_set(x), x]),
}
SIZES = [(5, 64), (9, 64), (13, 40), (2, 7), (300, 1000), (64, 4096), (1000, 33), (3, 20000)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("name", ROWS)
def test_rows_of_any_size(name, dynamic, dtype):
    function = ROWS[name]
    compiled = braze.compile(function, dynamic=dynamic)
    tolerance = 1e-4 if dtype == torch.float32 else 3e-2
    with torch.no_grad():
        for rows, columns in SIZES:
            x = torch.randn(rows, columns, device="cuda", dtype=dtype)
            exact = pytree.tree_map(lambda t: t.to(dtype) if t.is_floating_point() else t, function(x.double()))
            torch.testing.assert_close(compiled(x), exact, rtol=tolerance, atol=tolerance)
    counts = compiled.counts()
    assert counts["native"] == 0
    assert counts["captured"] <= 4, counts


@pytest.mark.parametrize("name", programs_of_sizes.FUNCTIONS)
def test_gradients_at_any_size(name):
    compiled = programs_of_sizes.check(name, device="cuda")
    assert compiled.counts()["native"] == 0, compiled.reasons()


@pytest.mark.parametrize("name", programs_of_sizes.BATCHES)
def test_batches_of_any_size(name):
    function = programs_of_sizes.BATCHES[name]
    compiled = braze.compile(function)
    with torch.no_grad():
        for sizes in ((2, 4), (3, 6), (5, 9), (2, 33), (7, 12)):
            x = torch.randn(*sizes, 16, device="cuda")
            got, wanted = compiled(x), function(x)
            torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-4)
            assert [t.stride() for t in pytree.tree_leaves(got)] == [t.stride() for t in pytree.tree_leaves(wanted)]
    counts = compiled.counts()
    assert counts["native"] == 0 and counts["captured"] <= 2, compiled.reasons()


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("kind", [torch.nn.GRU, torch.nn.LSTM, torch.nn.RNN])
def test_recurrent_nets(kind, batch_first):
    model = kind(6, 8, num_layers=2, batch_first=batch_first, bidirectional=batch_first).cuda().eval()
    compiled = braze.compile(model.forward)
    with torch.no_grad():
        for length in (5, 9, 13, 2, 33, 9):
            x = torch.randn((3, length, 6) if batch_first else (length, 3, 6), device="cuda")
            got, wanted = pytree.tree_leaves(compiled(x)), pytree.tree_leaves(model(x))
            torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-4)
            assert [t.stride() for t in got] == [t.stride() for t in wanted]
    assert compiled.counts()["native"] == 0, compiled.reasons()


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("name", ["rfft2", "fft", "irfft"])
def test_spectra_of_any_size(name, dynamic):
    """Their layout is that of the GPU's library, which is asked for the sizes of a program before it is made."""
    transform = getattr(torch.fft, name)
    compiled = braze.compile(lambda x: transform(x).abs() + 1, dynamic=dynamic)
    for rows in (6, 8, 12, 20, 8):
        x = torch.randn(rows, rows + 3, device="cuda")
        wanted = transform(x).abs() + 1
        got = compiled(x)
        torch.testing.assert_close(got, wanted)
        assert got.stride() == wanted.stride()
    assert compiled.counts()["captured"] <= (1 if dynamic else 2), compiled.reasons()


@pytest.mark.parametrize("kind", [torch.nn.GRU, torch.nn.LSTM])
def test_recurrent_nets_whose_every_size_may_vary_are_trained(kind):
    net = kind(6, 8).cuda()
    compiled = braze.compile(net, dynamic=True)
    for length in (5, 7, 9, 5):
        x = torch.randn(length, 3, 6, device="cuda")
        both = []
        for call in (compiled, net):
            net.zero_grad()
            output = call(x)[0]
            output.square().sum().backward()
            both.append([output, *(each.grad.clone() for each in net.parameters())])
        torch.testing.assert_close(*both, rtol=1e-3, atol=1e-3)
    assert compiled.counts()["native"] == 0, compiled.reasons()
