"""What comes to a result by another one that is computed from it: hooks of the result see it, `retain_grad` keeps
it and `autograd.grad` gives it, as in eager."""

import pytest
import torch
from program_cases import assert_same, frozen
from program_inner_hooks import OTHERS
from program_inner_results import PROGRAMS

import braze


def outcome(program, compile):
    torch.manual_seed(0)
    return [frozen(one) for one in program(compile)]


def without_strides(value):
    """Gradients that are views in eager have memory of their own."""
    if isinstance(value, (list, tuple)):
        is_tensor = isinstance(value, tuple) and len(value) == 4 and isinstance(value[0], torch.Tensor)
        return [value[0], *value[2:]] if is_tensor else [without_strides(one) for one in value]
    return value


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_as_eager(program):
    compiled = []

    def compile(function):
        compiled.append(braze.compile(function, fullgraph=True))
        return compiled[-1]

    expected = outcome(program, lambda function: function)
    ours = outcome(program, compile)
    if not program.lies_as_eagers:
        ours, expected = without_strides(ours), without_strides(expected)
    assert_same(ours, expected)
    for function in compiled:
        assert function.operators()["native"] == 0 and function.counts()["replayed"] > 0


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("program", OTHERS, ids=lambda p: p.__name__)
def test_others_as_eager(program, dynamic):
    expected = outcome(program, lambda function: function)
    assert_same(outcome(program, lambda function: braze.compile(function, dynamic=dynamic)), expected)


def test_second_derivatives_of_what_comes_to_an_inner_result():
    def program(function):
        x = torch.arange(1.0, 5).requires_grad_()
        h, loss = function(x)
        (first,) = torch.autograd.grad(loss, h, create_graph=True)
        (second,) = torch.autograd.grad(first.square().sum(), x, create_graph=True)
        (third,) = torch.autograd.grad(second.sum(), x)
        return first.detach(), second.detach(), third

    def f(x):
        h = x.sin()
        return h, (h * h * h).sum()

    compiled = braze.compile(f)
    for _ in range(2):
        for mine, other in zip(program(compiled), program(f), strict=True):
            torch.testing.assert_close(mine, other)


def test_second_derivatives_of_what_comes_to_a_view_are_refused_by_name():
    @braze.compile
    def f(x):
        view = x.sin()[1:]
        return view, (view * view).sum()

    x = torch.randn(4).requires_grad_()
    view, loss = f(x)
    view.register_hook(lambda g: g * 2)
    (first,) = torch.autograd.grad(loss, x, create_graph=True)
    with pytest.raises(RuntimeError, match="a view, by another one"):
        first.sum().backward()
