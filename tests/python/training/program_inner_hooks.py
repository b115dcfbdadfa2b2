"""Programs with hooks of results from which other results of the same call are computed."""

import torch
from program_cases import attempt, leaf
from torch import nn

OTHERS = []


def noting(seen, factor=None, name=None):
    def hook(gradient):
        seen.append((name, gradient.clone()))
        return None if factor is None else gradient * factor

    return hook


def other(program):
    OTHERS.append(program)
    return program


@other
def behind_a_break(compile):
    w = leaf(4, 2)

    def f(x):
        h = (x * 2).tanh()
        print(end="")
        return h, (h @ w).square().sum()

    compiled = compile(f)
    for _ in range(3):
        x = leaf(3, 4)
        h, loss = compiled(x)
        h.retain_grad()
        h.register_hook(lambda g: g * 2)
        loss.backward()
        yield h.grad, x.grad


@other
def hooks_of_an_inner_module(compile):
    model = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 2))
    seen = []
    model[1].register_full_backward_hook(lambda m, i, o: seen.append((i[0].clone(), o[0].clone())))

    def f(x):
        h = model[:2](x)
        return h, model[2](h).square().sum()

    compiled = compile(f)
    for _ in range(3):
        x = leaf(3, 4)
        h, loss = compiled(x)
        h.retain_grad()
        loss.backward()
        yield h.grad, x.grad, list(seen)


@other
def input_that_is_written(compile):
    def f(x, w):
        x.mul_(w)
        return x, (x.exp() * w).sum()

    compiled = compile(f)
    for _ in range(3):
        x, w = leaf(3, 4), leaf(4)
        y = x * 2
        same, loss = compiled(y, w)
        y.retain_grad()
        y.register_hook(lambda g: g + 1)
        loss.backward()
        yield y.grad, x.grad, w.grad, same is y


@other
def kept_on_the_cpu(compile):
    w = leaf(4, 2)

    def f(x):
        h = x.exp()
        return h, (h @ w).square().sum()

    compiled = compile(f)
    for k in range(4):
        x = leaf(3, 4)
        with torch.autograd.graph.save_on_cpu():
            h, loss = compiled(x)
        h.retain_grad()
        loss.backward(retain_graph=k % 2 == 0)
        yield h.grad, x.grad
        yield attempt(torch.autograd.grad, loss, h)


@other
def checkpointed(compile):
    w = leaf(4, 2)

    def f(x):
        h = x.exp().sin()
        return h, (h @ w).square().sum()

    compiled = compile(f)
    for _ in range(4):
        x = leaf(3, 4)
        h, loss = torch.utils.checkpoint.checkpoint(compiled, x, use_reentrant=False)
        h.retain_grad()
        h.register_hook(lambda g: g * 3)
        loss.backward()
        yield h.grad, x.grad


@other
def written_in_between(compile):
    """Eager's node between the results saves what is written to; the other one does not."""

    def f(x, w):
        h = x.sin()
        return h, (h * w).sum()

    compiled = compile(f)
    for _ in range(3):
        x, w = leaf(3, 4), leaf(4)
        h, loss = compiled(x, w)
        with torch.no_grad():
            w.add_(1)
        h.retain_grad()
        yield attempt(torch.autograd.grad, loss, h, None, True)
        yield attempt(loss.backward, None, True)
        h.sum().backward()
        yield h.grad, x.grad, w.grad


@other
def leaves_alone(compile):
    """What is asked for does not come by the inner result: its hooks do not run."""

    def f(x, w):
        h = x.sin()
        return h, (h.detach() * w).sum() + h.sum()

    compiled = compile(f)
    for _ in range(3):
        x, w = leaf(3, 4), leaf(4)
        h, loss = compiled(x, w)
        seen = []
        h.register_hook(noting(seen))
        yield torch.autograd.grad(loss, w, retain_graph=True), list(seen)
        yield torch.autograd.grad(loss, x), list(seen)


@other
def results_dropped(compile):
    def f(x, w):
        h = x.sin() * w
        return h, (h * h).sum()

    compiled = compile(f)
    for _ in range(3):
        x, w = leaf(3, 4), leaf(4)
        seen = []
        h, loss = compiled(x, w)
        h.register_hook(noting(seen, 2))
        del h
        loss.backward()
        yield seen, x.grad, w.grad


@other
def order_of_hooks(compile):
    def f(x, w):
        a = x * w
        b = a.sin()
        c = b.exp()
        return c, a, b, (c * a).sum()

    compiled = compile(f)
    for _ in range(3):
        x, w = leaf(3, 4), leaf(4)
        seen = []
        c, a, b, loss = compiled(x, w)
        for name, one in {"a": a, "b": b, "c": c, "loss": loss, "x": x}.items():
            one.register_hook(noting(seen, name=name))
        loss.backward()
        yield seen, x.grad, w.grad


@other
def twice_differentiated(compile):
    """Where nobody looks, as ever."""

    def f(x, w):
        h = x.sin() * w
        return h, (h * h).sum()

    compiled = compile(f)
    for _ in range(3):
        x, w = leaf(3, 4), leaf(4)
        h, loss = compiled(x, w)
        (first,) = torch.autograd.grad(loss, x, create_graph=True)
        first.square().sum().backward()
        yield first.detach(), x.grad, w.grad


@other
def hook_of_an_outer_result(compile):
    """Two calls, of which the second reads the first one's results."""

    def f(x, w):
        h = x.sin() * w
        return h, h.cos()

    compiled = compile(f)
    for _ in range(3):
        x, w = leaf(3, 4), leaf(4)
        h, y = compiled(x, w)
        again, z = compiled(y, w)
        seen = []
        for one in (h, y, again, z):
            one.register_hook(noting(seen, 2))
        (z.sum() + h.sum()).backward()
        yield seen, x.grad, w.grad
