"""Histories of what is written in place: saved tensors, results, inputs and aliases."""

import torch
from backward_cases import block, case, gradients, raised
from torch import nn


@case
def a_saved_parameter_is_written(compile):
    m = block()
    f = compile(m)
    f(torch.ones(2, 4)).sum().backward()
    y = f(torch.ones(2, 4, requires_grad=True))
    with torch.no_grad():
        m[2].weight.mul_(2)
    return raised(y.sum().backward)[:80]


@case
def a_saved_result_is_written(compile):
    f = compile(lambda x: x.exp())
    x = torch.ones(3, requires_grad=True)
    y = f(x)
    with torch.no_grad():
        y.mul_(2)
    return raised(y.sum().backward)[:80]


@case
def a_result_that_is_not_saved_is_written(compile):
    f = compile(lambda x: (x * 2 + 1, x.exp() + 1))
    x = torch.ones(3, requires_grad=True)
    y, z = f(x)
    with torch.no_grad():
        y.mul_(7)
        z.mul_(7)
    (y.sum() + z.sum()).backward()
    return x.grad


@case
def an_input_that_is_not_saved_is_written(compile):
    f = compile(lambda x: x.sigmoid().relu().tanh())
    x = torch.ones(3, requires_grad=True)
    y = f(x)
    with torch.no_grad():
        x.mul_(7)
    y.sum().backward()
    return x.grad


@case
def results_written_with_history(compile):
    f = compile(lambda x: x * 2)
    x = torch.ones(3, requires_grad=True)
    y = f(x)
    y.mul_(3).add_(x)
    y.sum().backward()
    return x.grad, y


@case
def inputs_written_with_history(compile):
    w = torch.ones(3, requires_grad=True)

    def scale(h):
        h.mul_(w).exp_()
        return h.sum()

    f = compile(scale)
    found = []
    for _ in range(3):
        w.grad = None
        h = w * 3
        s = f(h)
        (h * 2 + s).sum().backward()
        found.append((h.detach().clone(), w.grad.clone(), h.requires_grad, h._version))
    return found


@case
def inplace_activation_of_an_input(compile):
    m = nn.Sequential(nn.ReLU(inplace=True), nn.Linear(4, 4), nn.ReLU(inplace=True))
    torch.manual_seed(1)
    m[1].reset_parameters()
    w = torch.randn(2, 4, requires_grad=True)
    f = compile(m)
    for _ in range(2):
        h = w * 1
        f(h).sum().backward()
    return w.grad, gradients(m), h.detach()


@case
def a_leaf_is_written(compile):
    def f(x):
        x.mul_(2)
        return x

    g = compile(f)
    x = torch.ones(3, requires_grad=True)
    return raised(lambda: g(x))


def saved_and_written(compile, write):
    """`write` changes an input that the function's first operators have saved."""
    m = nn.Linear(3, 3)
    torch.manual_seed(2)
    m.reset_parameters()

    def f(x, y):
        h = m(x) * x + y * x
        with torch.no_grad():
            write(x, y)
        return h.sum()

    g = compile(f)
    found = []
    for _ in range(2):
        w = torch.ones(2, 3, requires_grad=True)
        x, y = w * 2, w.detach() * 3
        found.append(raised(lambda x=x, y=y: g(x, y).backward())[:80])
        found.append((x.detach().clone(), y, x._version, y._version))
    return found


@case
def an_input_is_written_that_was_saved(compile):
    return saved_and_written(compile, lambda x, y: x.mul_(2))


@case
def a_detached_input_is_written_that_was_saved(compile):
    return saved_and_written(compile, lambda x, y: x.detach().mul_(2))


@case
def a_plain_input_is_written_that_was_saved(compile):
    return saved_and_written(compile, lambda x, y: y.mul_(2))


@case
def an_alias_is_written_that_was_saved(compile):
    def f(x, alias):
        h = x * x
        alias.mul_(2)
        return h.sum()

    g = compile(f)
    x = torch.ones(3, requires_grad=True)
    return raised(lambda: g(x, x.detach()).backward())[:80]


@case
def what_a_written_input_held_is_saved(compile):
    f = compile(lambda h: h.clamp_(min=2.5) * 2)
    w = torch.arange(5.0, requires_grad=True)
    for _ in range(2):
        h = w * 1
        f(h).sum().backward()
    return w.grad, h


@case
def an_input_is_written_and_then_saved(compile):
    def f(x, y):
        with torch.no_grad():
            y.mul_(2)
        return (x * y).sum()

    g = compile(f)
    x, y = torch.ones(3, requires_grad=True), torch.ones(3)
    g(x, y).backward()
    g(x, y).backward()
    s = g(x, y)
    y.add_(1)
    return x.grad, y, raised(s.backward)[:80], y._version
