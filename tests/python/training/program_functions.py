"""Programs about torch.autograd.Function and operators with gradients in Python: their backward is part of the
graph where it only computes, and runs when autograd comes to it where it does more."""
# ruff: noqa: B023  Functions are called before their loop goes on.

from types import SimpleNamespace

import numpy as np
import torch
from program_cases import attempt, case, leaf
from torch import nn
from torch.autograd import Function, grad
from torch.autograd.function import once_differentiable

captured_whole = []  # Cases in which nothing may run natively.


def whole(program):
    captured_whole.append(program.__name__)
    return case(program)


class Swish(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * torch.sigmoid(x)

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        s = torch.sigmoid(x)
        return gradient * (s + x * s * (1 - s))


class StraightThrough(Function):
    @staticmethod
    def forward(ctx, x):
        return x.round()

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class Reversed(Function):
    @staticmethod
    def forward(ctx, x, rate):
        ctx.rate = rate
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        return -ctx.rate * gradient, None


class Linear(Function):
    @staticmethod
    def forward(ctx, x, weight, bias):
        ctx.save_for_backward(x, weight)
        ctx.has_bias = bias is not None
        y = x @ weight.t()
        return y + bias if bias is not None else y

    @staticmethod
    def backward(ctx, gradient):
        x, weight = ctx.saved_tensors
        of_x = gradient @ weight if ctx.needs_input_grad[0] else None
        of_weight = gradient.t() @ x if ctx.needs_input_grad[1] else None
        of_bias = gradient.sum(0) if ctx.has_bias and ctx.needs_input_grad[2] else None
        return of_x, of_weight, of_bias


class Three(Function):
    @staticmethod
    def forward(x):
        return x * 2, x.exp(), x > 0

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output[1])
        ctx.mark_non_differentiable(output[2])

    @staticmethod
    def backward(ctx, of_double, of_exp, of_mask):
        (exp,) = ctx.saved_tensors
        return of_double * 2 + of_exp * exp


class Masked(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.clamp(min=0)

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        found = gradient.clone()
        found[x < 0] = 0
        return found


def on_product(cls, *more):
    def program(compile):
        f = compile(lambda x, w: (cls.apply(x * w, *more) * w).sum())
        for n in (3, 3, 4, 5):
            w, x = leaf(4), torch.randn(n, 4)
            loss = f(x, w)
            loss.backward()
            yield loss, w.grad

    return program


@whole
def function_that_saves(compile):
    yield from on_product(Swish)(compile)


@whole
def function_straight_through(compile):
    yield from on_product(StraightThrough)(compile)


@whole
def function_with_a_number(compile):
    yield from on_product(Reversed, 0.3)(compile)


@whole
def function_that_writes_its_gradient(compile):
    yield from on_product(Masked)(compile)


@whole
def function_whose_result_is_returned(compile):
    f = compile(Swish.apply)
    for _ in range(3):
        w = leaf(4)
        y = f(w * 2)
        y.sum().backward()
        yield y, w.grad


@whole
def function_whose_view_is_returned(compile):
    f = compile(lambda w: Reversed.apply(w, 0.5))
    g = compile(lambda w: (Reversed.apply(w * 2, 0.5).view(2, 2), (w * 3).view(2, 2)))
    for _ in range(3):
        w = leaf(4)
        y = f(w)
        yield y, y._is_view(), attempt(lambda: y.add_(1) is y)[:2]
        y.sum().backward()
        a, b = g(w)
        yield a, b, a._is_view()
        (a * b).sum().backward()
        yield w.grad


@whole
def function_of_parameters(compile):
    layer = nn.Linear(4, 3)
    f = compile(lambda x: Linear.apply(x, layer.weight, layer.bias).square().mean())
    for n in (2, 2, 3, 4):
        layer.zero_grad()
        loss = f(torch.randn(n, 4))
        loss.backward()
        yield loss, layer.weight.grad, layer.bias.grad
    layer.bias.requires_grad_(False)
    for n in (2, 2, 3):
        layer.zero_grad()
        f(torch.randn(n, 4)).backward()
        yield layer.weight.grad, layer.bias.grad


@whole
def function_in_a_module(compile):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 4)

        def forward(self, x):
            return Linear.apply(StraightThrough.apply(self.layer(x)), self.layer.weight, self.layer.bias)

    model = Model()
    f, optimizer = compile(model), torch.optim.SGD(model.parameters(), 0.1)
    for n in (2, 3, 4, 4):
        optimizer.zero_grad()
        loss = f(torch.randn(n, 4)).square().mean()
        loss.backward()
        optimizer.step()
        yield loss, model.layer.weight


@whole
def function_with_several_results(compile):
    f = compile(lambda x: Three.apply(x))
    g = compile(lambda x: Three.apply(x)[1].sum())
    for k in range(4):
        x = leaf(4)
        a, b, mask = f(x)
        yield a, b, mask
        (a, b, a * b, a + b)[k].sum().backward()
        yield x.grad
        g(x).backward()
        yield x.grad


@whole
def function_within_functions(compile):
    f = compile(lambda x: (Swish.apply(Swish.apply(x)) + Swish.apply(x * 2)).sum())
    for n in (3, 4, 5):
        x = leaf(n)
        f(x).backward()
        yield x.grad


@whole
def function_that_writes_its_input(compile):
    class Doubled(Function):
        @staticmethod
        def forward(ctx, x):
            x.mul_(2)
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx, gradient):
            return gradient * 2

    f = compile(lambda x: (Doubled.apply(x * 3) + 1).sum())
    for n in (3, 4, 5):
        x = leaf(n)
        f(x).backward()
        yield x.grad


@whole
def function_that_gives_its_input(compile):
    class Scaled(Function):
        @staticmethod
        def forward(ctx, x):
            return x

        @staticmethod
        def backward(ctx, gradient):
            return gradient * 7

    f, g = compile(lambda x: Scaled.apply(x * 2).sum()), compile(lambda x: Scaled.apply(x))
    for _ in range(3):
        x = leaf(3)
        f(x).backward()
        y = g(x)
        yield y is x, y._is_view()
        y.sum().backward()
        yield x.grad


@whole
def function_that_gives_a_view_of_its_own(compile):
    class Turned(Function):
        @staticmethod
        def forward(ctx, x):
            return (x * 2).t()

        @staticmethod
        def backward(ctx, gradient):
            return gradient.t() * 2

    f = compile(lambda w: Turned.apply(w * 1.5))
    for n in (2, 2, 3):
        w = leaf(n, 2)
        y = f(w)
        yield y, y._is_view()
        (y * y).sum().backward()
        yield w.grad


@whole
def function_differentiable_once(compile):
    class Cube(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        @once_differentiable
        def backward(ctx, gradient):
            (x,) = ctx.saved_tensors
            return 3 * x * x * gradient

    f = compile(lambda x: Cube.apply(x).sum())
    for _ in range(3):
        x = leaf(3)
        f(x).backward()
        yield x.grad


@whole
def function_under_autocast(compile):
    class Product(Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type="cpu")
        def forward(ctx, x, w):
            ctx.save_for_backward(x, w)
            return x @ w

        @staticmethod
        @torch.amp.custom_bwd(device_type="cpu")
        def backward(ctx, gradient):
            x, w = ctx.saved_tensors
            return gradient @ w.t(), x.t() @ gradient

    w = leaf(4, 3)

    def g(x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return Product.apply(x, w).float().sum()

    f = compile(g)
    for _ in range(3):
        w.grad = None
        x = leaf(2, 4)
        f(x).backward()
        yield w.grad, x.grad


@whole
def function_with_some_gradients(compile):
    f = compile(lambda x, y: Linear.apply(x, y, None).sum())
    for k in range(4):
        x, y = leaf(2, 4), leaf(3, 4)
        yield grad(f(x, y), [x] if k % 2 else [y])


@whole
def function_with_a_graph_that_is_kept(compile):
    f, g = compile(lambda x: Swish.apply(x).sum()), compile(lambda x: StraightThrough.apply(x).sum())
    for _ in range(3):
        x = leaf(3)
        loss = f(x)
        loss.backward(retain_graph=True)
        loss.backward()
        yield x.grad, attempt(loss.backward)
        loss = g(x)
        loss.backward()
        loss.backward()
        yield x.grad


@whole
def function_whose_input_is_written_before_its_backward(compile):
    f = compile(lambda x, w: Linear.apply(x, w, None).sum())
    for k in range(4):
        x, w = torch.randn(2, 4), leaf(3, 4)
        loss = f(x, w)
        if k % 2:
            x.add_(1)
        yield attempt(loss.backward), w.grad


@whole
def function_that_reads_its_class(compile):
    class Scaled(Function):
        factor = 2.0

        @staticmethod
        def forward(ctx, x):
            return x * Scaled.factor

        @staticmethod
        def backward(ctx, gradient):
            return gradient * Scaled.factor

    f = compile(lambda x: Scaled.apply(x).sum())
    for k in range(6):
        Scaled.factor = 1.0 + k // 2
        x = leaf(3)
        f(x).backward()
        yield x.grad


@whole
def function_whose_backward_is_replaced(compile):
    class Scaled(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            return gradient * 2

    f = compile(lambda x: Scaled.apply(x).sum())
    for k in range(6):
        if k == 3:
            Scaled.backward = staticmethod(lambda ctx, gradient: gradient * 5)
        x = leaf(3)
        f(x).backward()
        yield x.grad


@case
def function_that_saves_what_is_written(compile):
    def g(x):
        y = x * 2
        z = Swish.apply(y)
        y.add_(1)
        return z.sum() + y.sum()

    f = compile(g)
    for _ in range(3):
        x = leaf(4)
        yield attempt(lambda: f(x).backward()), x.grad


@case
def function_with_effects_in_its_backward(compile):
    calls = []

    class Noted(Function):
        @staticmethod
        def forward(ctx, x):
            calls.append("forward")
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            calls.append("backward")
            return gradient * 2

    f = compile(lambda x: Noted.apply(x * 3).sum() * 2)
    for _ in range(4):
        calls.clear()
        x = leaf(3)
        loss = f(x)
        yield list(calls)
        loss.backward()
        yield x.grad, list(calls)


@case
def function_that_changes_the_same_again_in_its_backward(compile):
    """Changes that take the place of those of the forward."""
    counts, entries, state = [0, 0], {}, SimpleNamespace(last=None)
    for note in (
        lambda where: counts.__setitem__(where, counts[where] + 1),
        lambda where: entries.update(last=where),
        lambda where: setattr(state, "last", where),
    ):

        class Noted(Function):
            @staticmethod
            def forward(ctx, x):
                note(0)
                return x * 2

            @staticmethod
            def backward(ctx, gradient):
                note(1)
                return gradient * 2

        f = compile(lambda x: Noted.apply(x * 3).sum() * 2)
        for _ in range(4):
            x = leaf(3)
            loss = f(x)
            yield list(counts), dict(entries), state.last
            loss.backward()
            yield x.grad, list(counts), dict(entries), state.last


@case
def function_with_random_numbers_in_its_backward(compile):
    class Noisy(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            return gradient * torch.rand(3)

    f = compile(lambda x: Noisy.apply(x * 3).sum() + torch.rand(()))
    for _ in range(4):
        x = leaf(3)
        loss = f(x) + torch.rand(())
        loss.backward()
        yield loss, x.grad


@case
def function_that_asks_which_gradients_there_are(compile):
    class Pair(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            return x * 2, x * 3

        @staticmethod
        def backward(ctx, a, b):
            found = 0
            if a is not None:
                found = found + a * 2
            if b is not None:
                found = found + b * 3
            return found

    f = compile(lambda x: Pair.apply(x))
    for k in range(4):
        x = leaf(3)
        f(x)[k % 2].sum().backward()
        yield x.grad


@case
def function_with_too_few_gradients(compile):
    class Short(Function):
        @staticmethod
        def forward(ctx, x, y):
            return x * y

        @staticmethod
        def backward(ctx, gradient):
            return gradient

    f = compile(lambda x, y: Short.apply(x, y).sum())
    for _ in range(3):
        yield attempt(lambda: f(leaf(3), leaf(3)).backward())


@case
def function_that_reads_values(compile):
    class Normed(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.size = x.abs().max().item()
            return x / ctx.size

        @staticmethod
        def backward(ctx, gradient):
            return gradient / ctx.size if gradient.sum() > 0 else gradient * 5

    f = compile(lambda x, sign: Normed.apply(x * 2).sum() * sign)
    for k in range(4):
        x = leaf(3)
        f(x, torch.tensor(1.0 - k % 2 * 2)).backward()
        yield x.grad


@torch.library.custom_op("braze_programs::joined", mutates_args=())
def joined(parts: list[torch.Tensor], factor: int) -> list[torch.Tensor]:
    return [torch.from_numpy(np.concatenate([p.detach().numpy() for p in parts])) * factor, torch.cat(parts[::-1])]


@joined.register_fake
def _(parts, factor):
    return [torch.cat(parts), torch.cat(parts)]


def keep_sizes(ctx, inputs, output):
    ctx.sizes = [len(part) for part in inputs[0]]
    ctx.factor = inputs[1]


def gradient_of_joined(ctx, gradients):
    forwards = gradients[0].split(ctx.sizes)
    backwards = gradients[1].split(ctx.sizes[::-1])[::-1]
    return [a * ctx.factor + b for a, b in zip(forwards, backwards, strict=True)], None


joined.register_autograd(gradient_of_joined, setup_context=keep_sizes)


@whole
def operator_on_lists(compile):
    f = compile(lambda x, w: joined([x * w, x + w, x], 2)[0].exp().sum() + joined([w, w], 3)[1].sum())
    g = compile(lambda x, w: torch.ops.braze_programs.joined([x * w, x], factor=2)[0].sum())
    for n in (3, 4, 5, 5):
        w = leaf(n)
        f(torch.randn(n), w).backward()
        g(torch.randn(n), w).backward()
        yield w.grad
