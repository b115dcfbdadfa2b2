"""Programs that save a copy: writes to what was copied do not disturb the backward, writes to what is saved do."""

import torch
from program_cases import attempt, case, grads_of, leaf
from torch import nn


def written_before_the_backward(name, function, *sizes):
    """The first argument is written to between forward and backward; the result is a loss."""

    def program(compile):
        f = compile(function)
        for _ in range(4):
            x, w = torch.randn(*sizes), leaf(*sizes)
            loss = f(x, w)
            x.zero_()
            yield attempt(loss.backward), loss, w.grad

    program.__name__ = f"copy_{name}"
    case(program)


ARGUMENTS = {
    "of_an_argument": lambda x, w: (x.clone() * w).exp().sum(),
    "by_to": lambda x, w: (x.to(torch.float32, copy=True) * w).exp().sum(),
    "by_copy_": lambda x, w: (torch.empty_like(x).copy_(x) * w).exp().sum(),
    "by_repeat": lambda x, w: (x.repeat(1, 1) * w).exp().sum(),
    "by_contiguous": lambda x, w: (x.t().contiguous() * w.t()).exp().sum(),
    "by_reshape": lambda x, w: (x.t().reshape(-1) * w.reshape(-1)).exp().sum(),
    "of_a_view": lambda x, w: (x[1:].clone() * w[1:]).exp().sum(),
    "of_a_part": lambda x, w: (x.clone()[1:] * w[1:]).exp().sum(),
    "in_a_product": lambda x, w: (x.clone().t() @ w).exp().sum(),
    "of_what_is_written": lambda x, w: (x.mul_(2).clone() * w).exp().sum(),
    "beside_the_argument": lambda x, w: ((x.clone() * w) * (x * w)).sum(),
    "none": lambda x, w: (x * w).exp().sum(),
    "none_of_a_view": lambda x, w: (x.t() * w.t()).exp().sum(),
    "none_of_what_is_written": lambda x, w: (x.mul_(2) * w).exp().sum(),
}
for name, function in ARGUMENTS.items():
    written_before_the_backward(name, function, 2, 3)


@case
def copies_that_are_returned(compile):
    """A result is written to, and the other one of the same elements is saved."""

    def saves_the_copy(x, w):
        a = x.sin()
        return (a.clone() * w).sum(), a

    def saves_the_original(x, w):
        a = x.sin()
        return (a * w).sum(), a.clone()

    def saves_what_it_returns(x, w):
        a = x.sin()
        return (a * w).sum(), a

    for function in (saves_the_copy, saves_the_original, saves_what_it_returns):
        f = compile(function)
        for _ in range(3):
            w = leaf(3)
            loss, other = f(torch.randn(3), w)
            other.add_(1)
            yield attempt(loss.backward), w.grad


@case
def copies_of_a_buffer(compile):
    """As spectral_norm's: two calls, then a backward through both."""
    buffer = torch.ones(3)

    def copied(x):
        with torch.no_grad():
            mine = buffer.mul_(1.1).clone()
        return (x * mine).sum()

    def computed_before(x):
        with torch.no_grad():
            value = buffer * 1.1
            buffer.copy_(value)
        return (x * value).sum()

    def itself(x):
        with torch.no_grad():
            buffer.mul_(1.1)
        return (x * buffer).sum()

    for function in (copied, computed_before, itself):
        f = compile(function)
        for _ in range(3):
            x = leaf(3)
            loss = f(x) + f(x)
            yield attempt(loss.backward), x.grad, buffer.clone()


@case
def copies_of_a_parameter(compile):
    parameter = nn.Parameter(torch.randn(3, 3))
    f = compile(lambda x: (x @ parameter.clone()).exp().sum())
    for _ in range(3):
        x = leaf(3)
        loss = f(x)
        with torch.no_grad():
            parameter.mul_(0.5)
        yield attempt(loss.backward), x.grad


@case
def copies_of_spectral_norm(compile):
    norm = nn.utils.spectral_norm(nn.Linear(4, 8))
    net = nn.Sequential(norm, nn.Tanh(), nn.Linear(8, 1))
    f = compile(net)
    for n in (5, 5, 3, 5):
        net.zero_grad()
        loss = f(torch.randn(n, 4)).mean() - f(torch.randn(n, 4)).mean()
        loss.backward()
        yield loss, grads_of(net), norm.weight_u.clone()


@case
def copies_under_a_penalty(compile):
    norm = nn.utils.spectral_norm(nn.Linear(4, 8))
    net = nn.Sequential(norm, nn.Tanh(), nn.Linear(8, 1))

    def critic(x):
        x = x.detach().requires_grad_()
        (g,) = torch.autograd.grad(net(x).sum(), x, create_graph=True)
        return net(x).mean() + (g.norm(2, 1) - 1).square().mean()

    f = compile(critic)
    for _ in range(4):
        net.zero_grad()
        loss = f(torch.randn(5, 4))
        loss.backward()
        yield loss, grads_of(net)
