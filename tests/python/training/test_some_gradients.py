"""Backwards in which some results have no gradient, or some inputs are not asked for theirs: what eager does not
reach adds nothing, is not read, and is not freed."""

import pytest
import torch
from torch import nn
from torch.autograd import grad
from torch.utils import _pytree as pytree

import braze


def leaf(*sizes, value=None):
    return (torch.randn(*sizes) if value is None else torch.full(sizes, value)).requires_grad_()


def raised(call):
    try:
        return call()
    except RuntimeError as error:
        return str(error)[:40]


def same(ours, theirs):
    leaves, spec = pytree.tree_flatten(ours)
    expected, expected_spec = pytree.tree_flatten(theirs)
    assert spec == expected_spec
    for one, other in zip(leaves, expected, strict=True):
        if isinstance(other, torch.Tensor):
            torch.testing.assert_close(one, other, equal_nan=True, rtol=1e-4, atol=1e-5)
        else:
            assert one == other


def infinite_derivatives(compile):
    """Zero times an infinite derivative is NaN; a result without a gradient is no gradient of zeros."""
    f = compile(lambda x: (x.sqrt(), x * 2, x.pow(0.5).sum(), torch.log(x).mean(), x.norm()))
    for rows in (3, 3, 4, 5):
        for k in range(5):
            x = leaf(rows, value=0.0)
            f(x)[k].sum().backward()
            yield x.grad
        x = leaf(rows, value=0.0)
        first, second, *_ = f(x)
        (first.sum() + second.sum()).backward()
        yield x.grad


def through_a_shared_value(compile):
    def function(x, w):
        h = x @ w
        return h, h.sqrt().sum(), torch.cat([h, h.sqrt() + 1]).mean(), h.sum(0) - h.log().sum(0)

    f = compile(function)
    for rows in (3, 3, 5, 2):
        for k in range(4):
            x, w = leaf(rows, 3, value=0.0), leaf(3, 2, value=0.0)
            f(x, w)[k].sum().backward()
            yield x.grad, w.grad


def parts_of_a_view(compile):
    def function(x):
        a, b, c = (x * 2).unbind(1)
        return a.sqrt(), b, c.exp()

    f = compile(function)
    for _ in range(3):
        for k in range(3):
            x = leaf(4, 3, value=0.0)
            f(x)[k].sum().backward()
            yield x.grad


def losses_that_share_a_parameter(compile):
    """Their graphs have no node in common, so that both run."""
    f = compile(lambda w: ((w * w).sum(), w.exp().sum()))
    for rows in (4, 4, 5):
        w = leaf(rows)
        first, second = f(w)
        first.backward()
        yield w.grad.clone()
        second.backward()
        yield w.grad, raised(first.backward), raised(second.backward)


def losses_that_share_a_node(compile):
    def function(w):
        h = w.exp()
        return (h * h).sum(), h.sum()

    f = compile(function)
    for _ in range(3):
        w = leaf(4)
        first, second = f(w)
        first.backward()
        yield w.grad, raised(second.backward)


def a_shared_node_that_saves_nothing(compile):
    def function(w):
        h = w + 1
        return (h * h).sum(), h.sum(), h.exp().sum()

    f = compile(function)
    for _ in range(3):
        w = leaf(4)
        first, second, third = f(w)
        for loss in (second, second, first, third, second):
            loss.backward()
            yield w.grad.clone()
        yield raised(first.backward), raised(third.backward)


def heads(compile):
    body, one, other = nn.Linear(4, 3), nn.Linear(3, 2), nn.Linear(3, 2)

    def function(x):
        h = torch.tanh(body(x))
        return one(h).square().mean(), other(h).abs().mean()

    f = compile(function)
    parameters = [*body.parameters(), *one.parameters(), *other.parameters()]
    for rows in (3, 3, 4, 5):
        first, second = f(torch.randn(rows, 4))
        first.backward(retain_graph=True)
        second.backward()
        yield [p.grad.clone() for p in parameters]
        first, second = f(torch.randn(rows, 4))
        first.backward()
        yield raised(second.backward)
        for p in parameters:
            p.grad = None  # Eager gets as far as to the node that was freed.
        first, second = f(torch.randn(rows, 4))
        yield grad(first, list(one.parameters()))
        yield grad(second, list(other.parameters()))
        yield raised(lambda first=first: grad(first, list(body.parameters())))


def of_one_layout_beside_another(compile):
    """What a normalisation is given beside its own gradient lies in rows; without that one it is all there is."""

    def function(x, w):
        made = nn.functional.group_norm(x, 1)
        return (made * w).sum(), made, made.mul(w.cos()).exp()

    f = compile(function)
    for side in (2, 2, 3, 4):
        w = torch.randn(2, 3, side, side)
        for k in range(3):
            x = leaf(2, 3, side, side).detach().contiguous(memory_format=torch.channels_last).requires_grad_()
            yield grad(f(x, w)[k].sum(), x)


def of_complex_values(compile):
    """Which are added up by ATen."""

    def function(x):
        y = torch.fft.rfft(x)
        return torch.fft.irfft(y), torch.fft.irfft(y * 2).sum(), x.sum()

    f = compile(function)
    for _ in range(3):
        for k in range(3):
            x = leaf(6)
            f(x)[k].sum().backward()
            yield x.grad


def of_one_input(compile):
    model = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3))
    f = compile(model)
    for rows in (2, 3, 4, 2):
        x = leaf(rows, 4)
        f(x).sum().backward(inputs=[model[0].weight])
        yield model[0].weight.grad, model[0].bias.grad, x.grad
        loss = f(x).sum()
        yield grad(loss, x), raised(loss.backward)
        model.zero_grad()


def written_between(compile):
    """Nothing that the second backward reads was written to."""
    one, other = nn.Linear(4, 3), nn.Linear(4, 3)
    f = compile(lambda x: (one(x).exp().sum(), other(x).exp().sum()))
    for _ in range(3):
        x = leaf(2, 4)
        first, second = f(x)
        first.backward()
        with torch.no_grad():
            one.weight.add_(1)
        second.backward()
        yield x.grad, other.weight.grad.clone()


PROGRAMS = [
    infinite_derivatives,
    through_a_shared_value,
    parts_of_a_view,
    losses_that_share_a_parameter,
    losses_that_share_a_node,
    a_shared_node_that_saves_nothing,
    heads,
    of_one_layout_beside_another,
    of_complex_values,
    of_one_input,
    written_between,
]


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_as_eager(program, dynamic):
    compiled = []

    def compile(function):
        compiled.append(braze.compile(function, dynamic=dynamic))
        return compiled[-1]

    torch.manual_seed(1)
    expected = list(program(lambda function: function))
    torch.manual_seed(1)
    same(list(program(compile)), expected)
    assert all(f.counts()["native"] == 0 for f in compiled), [f.reasons() for f in compiled]
