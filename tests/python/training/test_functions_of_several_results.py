"""An autograd.Function with several results, all of them the compiled function's, whose backward is given some of
the gradients: the others are zeros for it, and what comes of those alone is zeros, where eager has them."""

import pytest
import torch

import braze


class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        return x * 2, y * 3

    @staticmethod
    def backward(ctx, a, b):
        return a * 2, b * 3


class Mixed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return x * y, x.sum(), torch.arange(3), y.double()

    @staticmethod
    def backward(ctx, a, b, _, c):
        x, y = ctx.saved_tensors
        return a * y + b, a * x + c.float()


def given_back(x, y):
    return Scaled.apply(x, y)


def goes_on(x, y):
    a, b = Scaled.apply(x.exp(), y)
    return a.sum(), b.cos(), (a * b).sum()


def of_other_types(x, y):
    a, b, _, c = Mixed.apply(x, y.sin())
    return a, b, c


def without_elements(x, y):
    a, b = Scaled.apply(x[:0], y)
    return a, b


PROGRAMS = (given_back, goes_on, of_other_types, without_elements)
GIVEN = ((0,), (1,), (2,), (0, 1), (1, 2), (0, 1, 2))


def trained(function, given, twice=False):
    x, y = (torch.linspace(-1, 1, 6, requires_grad=True).reshape(2, 3) for _ in range(2))
    for leaf in (x, y):
        leaf.retain_grad()
    results = function(x, y)
    if any(k >= len(results) for k in given):
        pytest.skip("so many results it has not")
    total = sum(results[k].float().sum() for k in given)
    gradients = torch.autograd.grad(total, (x, y), create_graph=twice, allow_unused=True)
    if twice:
        total = sum(g.sum() for g in gradients if g is not None)
        gradients += torch.autograd.grad(total, (x, y), allow_unused=True) if total.requires_grad else ()
    return gradients


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("given", GIVEN, ids=str)
@pytest.mark.parametrize("function", PROGRAMS)
def test_some_results_are_used(function, given, dynamic):
    compiled = braze.compile(function, dynamic=dynamic)
    for _ in range(3):
        ours, theirs = trained(compiled, given), trained(function, given)
        for one, other in zip(ours, theirs, strict=True):
            assert (one is None) == (other is None)
            if one is not None:
                torch.testing.assert_close(one, other)
    assert compiled.counts()["native"] == 0, compiled.reasons()


@pytest.mark.parametrize("given", GIVEN, ids=str)
@pytest.mark.parametrize("function", (given_back, goes_on))
def test_second_derivatives(function, given):
    compiled = braze.compile(function)
    for _ in range(2):
        ours, theirs = trained(compiled, given, twice=True), trained(function, given, twice=True)
        for one, other in zip(ours, theirs, strict=True):
            torch.testing.assert_close(
                torch.zeros(()) if one is None else one.sum(), torch.zeros(()) if other is None else other.sum()
            )
