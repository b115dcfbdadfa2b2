"""What a tensor that is computed says of its history: that there is one, or none."""

import torch
from program_cases import case, grads_of, leaf, mlp
from program_functions import whole
from torch import func as T
from torch import nn


class Sorted(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        values, places = x.sort()
        ctx.mark_non_differentiable(places)
        ctx.save_for_backward(places)
        return values, places.to(x.dtype)

    @staticmethod
    def backward(ctx, a, b):
        (places,) = ctx.saved_tensors
        return torch.zeros_like(a).scatter(0, places, a)


def told(t):
    facts = [t.grad_fn is None, None is t.grad_fn, t.is_leaf]
    if t.grad_fn:
        facts.append("true")
    if not t.grad_fn:
        facts.append("none")
    if t.grad_fn is not None and not t.is_leaf:
        facts.append("both")
    while t.grad_fn is not None:
        t = t.detach()
    return facts


@whole
def histories_of_results(compile):
    model = mlp()

    def f(x, w):
        h = model(x)
        with torch.no_grad():
            n = model(x)
        values, places = Sorted.apply(w * 2)
        view, constant = w[1:], torch.ones(2)
        written = constant.clone()
        before = told(written)
        written.mul_(w[:2])
        all = [h, n, values, places, view, constant, written, h.detach(), w.detach(), x + 1, (x + 1).relu_()]
        return [told(t) for t in all], before, h.sum() + values.sum() + written.sum()

    f = compile(f)
    for n in (3, 4, 5, 5):
        w = leaf(n)
        model.zero_grad()
        *facts, loss = f(torch.randn(n, 4), w)
        loss.backward()
        yield facts, loss, w.grad, grads_of(model)


@case
def histories_that_begin_within(compile):
    def f(x, w):
        a = (x * 2).requires_grad_()
        b = (w * 3).detach().requires_grad_()
        c = torch.ones(3, requires_grad=True)
        d = nn.Parameter(x * 2)
        facts = [told(t) for t in (a, b, c, d, a * 2, b * 2, c * 2, d * 2, w * 2)]
        (g,) = torch.autograd.grad((b * b * w).sum(), b, create_graph=True)
        return facts, told(g), told(g.detach()), (a * w).sum() + g.sum()

    f = compile(f)
    for n in (3, 4, 5, 5):
        w = leaf(n)
        *facts, loss = f(torch.randn(n), w)
        loss.backward()
        yield facts, loss, w.grad


@case
def histories_in_transforms(compile):
    def loss(w):
        y = (w * 2).sin()
        return (y * (2 if y.grad_fn is None else 3) * (5 if y.is_leaf else 7)).sum()

    f = compile(lambda w: (T.grad(loss)(w), T.vmap(loss)(w[None]), T.vmap(T.grad(loss))(w[None]), loss(w)))
    for n in (3, 4, 5, 5):
        for w in (torch.randn(n), leaf(n)):
            results = f(w)
            yield results


@case
def histories_that_are_passed(compile):
    f = compile(lambda t: (told(t), told(t * 2), (t * (3 if t.grad_fn is not None else 4)).sum()))
    for n in (3, 4, 5, 5):
        for t in (leaf(n), leaf(n) * 2, torch.randn(n)):
            yield f(t)


@whole
def histories_in_layers(compile):
    """Layers that ask whether what they are given has a history."""

    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, 4)

        def forward(self, x):
            y = self.linear(x)
            return y * 0.5 if y.requires_grad and y.grad_fn is not None else y

    model = nn.Sequential(Scaled(), nn.Tanh(), Scaled())
    f = compile(model)
    for k in range(6):
        model.zero_grad()
        x = torch.randn(3 + k % 2, 4)
        with torch.set_grad_enabled(k != 3):
            y = f(x)
        if k != 3:
            y.sum().backward()
        yield y, grads_of(model)
