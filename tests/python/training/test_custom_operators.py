"""Operators of users (torch.library) with gradients by Python code: their backward is part of the graph."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

import braze


@torch.library.custom_op("braze_tests::scaled", mutates_args=())
def scaled(x: Tensor, factor: float) -> Tensor:
    return torch.from_numpy(np.asarray(x.detach().numpy()) * np.float32(factor))


@scaled.register_fake
def _(x, factor):
    return torch.empty_like(x)


calls: list[str] = []


def keep_factor(ctx, inputs, output):
    ctx.factor = inputs[1]
    ctx.save_for_backward(inputs[0])


scaled.register_autograd(lambda ctx, gradient: (gradient * ctx.factor, None), setup_context=keep_factor)


@torch.library.custom_op("braze_tests::noted", mutates_args=())
def noted(x: Tensor, factor: float) -> Tensor:
    return x * factor


@noted.register_fake
def _(x, factor):
    return torch.empty_like(x)


def gradient_of_noted(ctx, gradient):
    calls.append("backward")
    return gradient * ctx.factor, None


noted.register_autograd(gradient_of_noted, setup_context=keep_factor)


@torch.library.custom_op("braze_tests::joined", mutates_args=())
def joined(parts: list[Tensor]) -> Tensor:
    return torch.cat(parts).clone()


@joined.register_fake
def _(parts):
    return torch.cat(parts)


def keep_sizes(ctx, inputs, output):
    ctx.sizes = [len(part) for part in inputs[0]]


joined.register_autograd(lambda ctx, gradient: list(gradient.split(ctx.sizes)), setup_context=keep_sizes)


@torch.library.custom_op("braze_tests::rounded", mutates_args=())
def rounded(x: Tensor) -> Tensor:
    return x.round()


@rounded.register_fake
def _(x):
    return torch.empty_like(x)


def trained(function, weight, x):
    weight.grad = None
    loss = function(weight, x)
    loss.backward()
    return loss.detach(), weight.grad.clone()


def on_one(weight, x):
    return (scaled(x * weight, 2.5).sin() + 1).square().sum()


def on_lists(weight, x):
    return (joined([x * weight, x + weight, x]) + 1).exp().sum()


def twice(weight, x):
    return (scaled(scaled(x * weight, 2.0) + weight, 3.0) * x).sum()


@pytest.mark.parametrize("function", [on_one, on_lists, twice])
def test_gradients(function):
    weight = torch.randn(4, requires_grad=True)
    compiled = braze.compile(function)
    for _ in range(4):
        x = torch.randn(4)
        torch.testing.assert_close(trained(compiled, weight, x), trained(function, weight, x))
    assert compiled.counts()["native"] == 0, compiled.reasons()
    assert compiled.operators()["native"] == 0, compiled.operators()
    assert compiled.counts() == {"captured": 1, "replayed": 3, "native": 0}


def test_a_backward_with_effects_runs_once_a_call():
    def function(weight, x):
        return (noted(x * weight, 2.5).sin() + 1).square().sum()

    weight = torch.randn(4, requires_grad=True)
    compiled = braze.compile(function)
    for count in range(1, 5):
        calls.clear()
        x = torch.randn(4)
        found = trained(compiled, weight, x)
        assert calls == ["backward"], count
        torch.testing.assert_close(found, trained(function, weight, x))
    operators = compiled.operators()
    assert operators["compiled"] > operators["native"] > 0
    assert any("does more than compute gradients" in reason for reason in operators["reasons"])


def test_one_graph_without_gradients():
    compiled = braze.compile(on_one, fullgraph=True)
    weight, x = torch.randn(4), torch.randn(4)
    for _ in range(3):
        torch.testing.assert_close(compiled(weight, x), on_one(weight, x))
    with torch.no_grad():
        torch.testing.assert_close(compiled(weight.requires_grad_(), x), on_one(weight, x))
    assert compiled.counts()["native"] == 0


def test_gradients_that_nobody_has_written():
    def function(weight, x):
        return rounded(x * weight).sum()

    weight, x = torch.randn(4, requires_grad=True), torch.randn(4)
    compiled = braze.compile(function)
    for _ in range(3):
        loss = compiled(weight, x)
        torch.testing.assert_close(loss.detach(), function(weight, x).detach())
        with pytest.raises(RuntimeError, match="no autograd formula was registered"):
            loss.backward()


def test_from_training_to_inference():
    weight = torch.randn(4, requires_grad=True)
    compiled = braze.compile(on_one)
    for _ in range(2):
        x = torch.randn(4)
        torch.testing.assert_close(trained(compiled, weight, x), trained(on_one, weight, x))
        with torch.no_grad():
            torch.testing.assert_close(compiled(weight, x), on_one(weight, x))
    assert compiled.counts()["native"] == 0
