"""NumPy's functions on what a graph computes (numpy_functions.txt, a program of a tensor `x` a line): one graph,
with NumPy's types, shapes, strides and values, of arrays of several types and orders."""

import pathlib

import numpy as np
import pytest
import torch
from test_numpy_numbers import outcome

import braze
from braze._load import C

pytestmark = [
    pytest.mark.skipif(not hasattr(C, "CompiledFunction"), reason="no evaluator for this Python"),
    pytest.mark.usefixtures("quiet"),
]
PROGRAMS = pathlib.Path(__file__).with_name("numpy_functions.txt").read_text().strip().splitlines()


def function_of(line):
    names = {"np": np, "torch": torch}
    body = "".join(f"\n    {part}" for part in f"x = x * 2 + 1; {line}".split("; "))
    exec(f"def f(x):{body}\n    return r", names)
    return names["f"]


def alike(ours, theirs):
    assert type(ours) is type(theirs)
    if isinstance(theirs, (np.ndarray, np.generic)):
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
        assert ours.strides == theirs.strides or 1 in theirs.shape or theirs.size == 0
        np.testing.assert_allclose(ours, theirs, rtol=2e-3 if theirs.dtype == np.float16 else 1e-4, atol=1e-5)
    elif isinstance(theirs, torch.Tensor):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5, equal_nan=True)
    elif isinstance(theirs, (tuple, list)):
        assert len(ours) == len(theirs)
        for one, other in zip(ours, theirs, strict=True):
            alike(one, other)
    else:
        assert ours == theirs


def drawn(seed, kind=torch.float32, shape=(3, 4)):
    """Apart from each other, so that no order depends on rounding."""
    places = torch.randperm(shape[0] * shape[1], generator=torch.Generator().manual_seed(seed))
    return (places.reshape(shape) * 0.37 - 1.9).to(kind)


@pytest.mark.parametrize("line", PROGRAMS)
def test_is_one_graph(line):
    f = function_of(line)
    fast = C.CompiledFunction(f, fullgraph=True)
    for seed in range(3):
        x, other = drawn(seed), drawn(seed)
        alike(fast(x), f(other))
        assert torch.equal(x, other)
    assert fast.counts() == {"captured": 1, "replayed": 2, "native": 0}


@pytest.mark.parametrize("line", PROGRAMS)
def test_is_right_of_other_types_orders_and_sizes(line):
    f = function_of(line)
    fast = braze.compile(f)
    made = [drawn(k, kind) for k, kind in enumerate((torch.float64, torch.int64, torch.uint8, torch.float16))]
    made += [drawn(7, shape=(4, 3)).T, drawn(8, shape=(3, 8))[:, ::2], drawn(1)]
    made += [torch.tensor([[0.0, -0.0, float("nan"), 1.0]] * 3)]
    for x in made:
        alike(outcome(fast, x), outcome(f, x))


@pytest.mark.parametrize("line", PROGRAMS)
def test_is_right_of_sizes_that_vary(line):
    f = function_of(line)
    fast = braze.compile(f, dynamic=True)
    for rows in (3, 5):
        x = drawn(rows, shape=(rows, 4))
        alike(outcome(fast, x), outcome(f, x))


def test_of_what_stands_apart_from_its_history():
    """The graph is given the tensor itself, of which gradients are wanted."""

    def f(x):
        a, b = x.detach().numpy(), x.data.numpy()
        return np.sort(a), np.percentile(a, [20, 80]), np.fft.rfft(b), np.linalg.norm(b), (x * 2).sum()

    with torch.enable_grad():
        fast = C.CompiledFunction(f, fullgraph=True)
        for seed in range(3):
            x, other = drawn(seed).requires_grad_(), drawn(seed).requires_grad_()
            ours, theirs = fast(x), f(other)
            alike(ours, theirs)
            ours[-1].backward()
            assert torch.equal(x.grad, torch.full_like(x, 2.0))
    assert fast.counts() == {"captured": 1, "replayed": 2, "native": 0}
