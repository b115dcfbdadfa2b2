"""Shapes that are broadcast: torch._C._infer_size, of weights of losses, and torch.broadcast_shapes."""

import subprocess
import sys

import pytest
import torch

import braze


@pytest.mark.parametrize(
    "shapes", [((2, 3), (3,)), ((1,), (4, 5)), ((), (2,)), ((2, 1, 3), (4, 1)), ((0, 2), (1, 2))], ids=str
)
def test_shapes(shapes):
    def both(x, y):
        size = torch._C._infer_size(x.size(), y.size())
        return x.expand(size) + y.expand(size), size

    x, y = (torch.randn(shape) for shape in shapes)
    compiled = braze.compile(both, fullgraph=True)
    for _ in range(3):
        got, wanted = compiled(x, y), both(x, y)
        torch.testing.assert_close(got[0], wanted[0])
        assert got[1] == wanted[1] and type(got[1]) is torch.Size
    assert compiled.counts() == {"captured": 1, "replayed": 2, "native": 0}


def test_sizes_that_vary():
    compiled = braze.compile(lambda x, y: x.expand(torch._C._infer_size(x.size(), y.size())) + y, fullgraph=True)
    for n in (3, 5, 7, 9):
        x, y = torch.randn(n), torch.randn(2, n)
        torch.testing.assert_close(compiled(x, y), x + y)
    assert compiled.counts()["captured"] == 2


def test_shapes_that_do_not_fit_raise_as_in_eager():
    compiled = braze.compile(lambda x, y: x.expand(torch._C._infer_size(x.size(), y.size())) + y)
    with pytest.raises(RuntimeError, match="must match"):
        compiled(torch.randn(3), torch.randn(4))


@pytest.mark.parametrize(
    "shapes",
    [(), ((2, 3), (3,)), ((1,), 4, (2, 1)), (None, (2,), ()), ((0, 2), [1, 2]), (torch.Size([2, 1]), (1, 5))],
    ids=str,
)
def test_several_shapes(shapes):
    def both(x):
        size = torch.broadcast_shapes(*shapes, x.shape)
        return x.expand(size) * 2, size

    x = torch.randn(1)
    compiled = braze.compile(both, fullgraph=True)
    for _ in range(3):
        got, wanted = compiled(x), both(x)
        torch.testing.assert_close(got[0], wanted[0])
        assert got[1] == wanted[1] and type(got[1]) is torch.Size
    assert compiled.counts() == {"captured": 1, "replayed": 2, "native": 0}


@pytest.mark.parametrize("shapes", [((2,), (3,)), ((2, -1),), ((2,), "ab")], ids=str)
def test_several_shapes_that_do_not_fit_raise_as_in_eager(shapes):
    def both(x):
        return x + 1, torch.broadcast_shapes(*shapes)

    with pytest.raises((RuntimeError, ValueError, TypeError)) as wanted:
        both(torch.randn(2))
    compiled = braze.compile(both)
    for _ in range(2):
        with pytest.raises(type(wanted.value)) as got:
            compiled(torch.randn(2))
        assert str(got.value) == str(wanted.value)


def test_several_sizes_that_vary():
    compiled = braze.compile(lambda x, y: x.expand(torch.broadcast_shapes(x.shape, (2, 1))) + y, fullgraph=True)
    for n in (3, 5, 7, 9):
        x, y = torch.randn(n), torch.randn(2, n)
        torch.testing.assert_close(compiled(x, y), x + y)
    assert compiled.counts()["captured"] == 2


PROGRAM = """
import sys, torch, braze
def f(x): return torch.distributions.MultivariateNormal(x, torch.eye(2)).log_prob(x)
compiled = braze.compile(f, fullgraph=True)
x = torch.randn(3, 2)
ours = compiled(x)
assert not {"sympy", "torch.fx.experimental.symbolic_shapes"} & sys.modules.keys()
torch.testing.assert_close(ours, f(x))
"""


def test_the_first_call_of_a_distribution_is_one_graph():
    subprocess.run([sys.executable, "-c", PROGRAM], check=True)
