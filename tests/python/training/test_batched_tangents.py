"""Backwards of compiled functions under vmap: several tangents at once, of either kind of vmap that PyTorch has."""

import pytest
import torch
from torch.autograd import grad

import braze


def function(a, b):
    return a.exp() * b, a.sum(), b.sin()


def both_ways(ask):
    for dynamic in (None, True):
        compiled = braze.compile(function, dynamic=dynamic)
        for k in range(3):
            found = []
            for f in (function, compiled):
                torch.manual_seed(k)
                a, b = torch.randn(3, requires_grad=True), torch.randn(3, requires_grad=True)
                found.append(ask(f, a, b))
            torch.testing.assert_close(found[1], found[0])
        assert compiled.counts()["native"] == 0


def test_is_grads_batched():
    def ask(f, a, b):
        y, total, _ = f(a, b)
        one = grad(y, [a, b], torch.eye(3), is_grads_batched=True, retain_graph=True)
        other = grad([y, total], [a], [torch.rand(5, 3), torch.rand(5)], is_grads_batched=True, retain_graph=True)
        return one, other, grad(y, [b], torch.rand(4, 3), is_grads_batched=True)

    both_ways(ask)


def test_under_vmap():
    def ask(f, a, b):
        y, _, wave = f(a, b)
        rows = torch.vmap(lambda v: grad(y, a, v, retain_graph=True)[0])(torch.eye(3))
        columns = torch.vmap(lambda v: grad(wave, b, v, retain_graph=True)[0], in_dims=1)(torch.rand(3, 4))
        return rows, columns

    both_ways(ask)


def test_under_two_vmaps():
    def ask(f, a, b):
        y, total, _ = f(a, b)
        inner = torch.vmap(lambda v: grad([y, total], [a, b], [v, v.sum()], retain_graph=True))
        return torch.vmap(inner)(torch.rand(2, 4, 3))

    both_ways(ask)


def test_jacobian():
    both_ways(lambda f, a, b: torch.autograd.functional.jacobian(lambda a: f(a, b)[0], a, vectorize=True))


def test_what_is_freed_is_freed():
    y, _, _ = braze.compile(function)(torch.ones(3, requires_grad=True), b := torch.ones(3, requires_grad=True))
    grad(y, b, torch.eye(3), is_grads_batched=True)
    with pytest.raises(RuntimeError, match="a second time"):
        grad(y, b, torch.ones(3))
