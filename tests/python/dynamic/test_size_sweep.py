"""Operators and random programs at sizes other than those captured; `python size_sweep.py` runs them all."""

import opinfo_sweep
import pytest
import size_sweep
import torch
from torch.nn import functional as F

import braze
from braze._load import C

pytestmark = pytest.mark.skipif(not hasattr(C, "CompiledFunction"), reason="no evaluator for this Python")

# A family of operators each: a rule, or a library call whose sizes are guessed.
OPERATORS = [
    *("add", "where", "sum", "var_mean", "argmax", "cumsum", "softmax", "logsumexp"),
    *("view", "reshape", "expand", "permute", "narrow", "split", "cat", "stack", "repeat", "roll", "tril", "diag"),
    *("matmul", "bmm", "baddbmm", "einsum", "linalg.solve", "linalg.svd", "median", "topk", "sort", "bucketize"),
    *("nn.functional.conv2d", "nn.functional.max_pool2d", "nn.functional.adaptive_avg_pool2d", "float"),
    *("nn.functional.layer_norm", "native_layer_norm", "nn.functional.group_norm", "nn.functional.nll_loss"),
    *("nn.functional.pad.reflect", "nn.functional.interpolate.bilinear", "gather", "index_select", "scatter_add"),
    *("fft.rfft", "fft.hfftn", "uniform", "bernoulli", "nn.functional.embedding"),
]


@pytest.fixture(scope="module")
def operators():
    return {opinfo_sweep.name_of(op): op for op in opinfo_sweep.operators()}


@pytest.mark.parametrize("part", range(4))
def test_operators_at_other_sizes(operators, part):
    failures = []
    for name in OPERATORS[part::4]:
        failures += size_sweep.sweep(operators[name], torch.float32, 1, 60, lambda where: None)[0]
    assert not failures, "\n".join(failures)


@pytest.mark.parametrize("first", [0, 10])
def test_random_programs_at_other_sizes(first):
    counts, failures = size_sweep.Counts(), []
    for seed in range(first, first + 10):
        failures += size_sweep.program_failures(seed, counts)
    assert not failures, "\n".join(failures)
    assert counts.native == 0


def captures(function, *calls):
    """Compares each call with eager."""
    with torch.no_grad():
        compiled = braze.compile(function, dynamic=True)
        for call in calls:
            torch.testing.assert_close(compiled(*call), function(*call), equal_nan=True)
    assert compiled.counts()["native"] == 0
    return compiled.counts()["captured"]


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.linalg.svd(x)[1],
        lambda x: torch.linalg.solve(x @ x.mT + torch.eye(x.shape[0]), x),
        lambda x: torch.median(x, 1).values,
        lambda x: torch.fft.rfft(x),
        lambda x: torch.polygamma(1, x.abs() + 1),
        lambda x: torch.linalg.inv(x[:, : x.shape[0]] + 9 * torch.eye(x.shape[0])),
        lambda x: F.pad(x, (2, 1), mode="reflect") + F.pad(x, (1, 2), mode="replicate"),
    ],
    ids=["svd", "solve", "median", "rfft", "polygamma", "inv", "mirrored"],
)
def test_library_calls_are_for_all_sizes(function):
    torch.manual_seed(0)
    assert captures(function, *[(torch.randn(n, n + 3),) for n in (4, 6, 9, 3, 17)]) == 1


def test_a_size_among_the_arguments_of_a_call():
    """A number by then, and no torch.SymInt."""
    calls = [(torch.randn(3, n, dtype=torch.complex64),) for n in (5, 6, 5)]
    with torch.no_grad():
        compiled = braze.compile(torch.fft.hfftn, dynamic=True)
        for call in calls:
            torch.testing.assert_close(compiled(*call), torch.fft.hfftn(*call))


def test_a_depthwise_convolution_keeps_rows():
    weight = torch.randn(4, 1, 3, 3)

    def convolved(x, weight):
        return torch.conv2d(x, weight, groups=4)

    with torch.no_grad():
        compiled = braze.compile(convolved, dynamic=True)
        for size in (6, 7):
            x = torch.randn(2, 4, size, size)
            assert compiled(x, weight).stride() == convolved(x, weight).stride()


@pytest.mark.parametrize("function", [lambda x: 2.0 / x.numel() * x, lambda x: x + x.shape[0] / 3])
def test_numbers_computed_of_sizes_in_a_trace(function):
    """They are for one size, and never a number that says nothing."""
    x, dynamic = torch.randn(4, 5), {"x": {0: ("n", 2, 64)}}
    torch.testing.assert_close(braze.trace(function, (x,))(x), function(x))
    with pytest.raises(braze.ArgumentValueError, match="needs it to be 4"):
        braze.trace(function, (x,), dynamic=dynamic)


def test_the_mean_of_an_empty_row():
    def normalised(x):
        return torch.native_layer_norm(x, (0,), None, None, 1e-5)

    empty = torch.randn(3, 0)
    for one, other in zip(braze.trace(normalised, empty)(empty), normalised(empty), strict=True):
        torch.testing.assert_close(one, other, equal_nan=True)


@pytest.mark.filterwarnings("ignore:.*degrees of freedom")
@pytest.mark.parametrize("dynamic", [True, None])
def test_gradients_at_other_sizes(operators, dynamic):
    failures = []
    for name in ("softmax", "matmul", "var", "cumsum", "cat", "gather", "nn.functional.conv2d", "linalg.solve"):
        one = operators[name]
        failures += size_sweep.sweep(
            one, torch.float32, 1, 60, lambda where: None, dynamic=dynamic, of_gradients=True
        )[0]
    assert not failures, "\n".join(failures)
