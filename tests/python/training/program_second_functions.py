"""Second derivatives of functions with gradients of their own: torch.autograd.Function and operators of
torch.library."""
# ruff: noqa: B023  Functions are called before their loop goes on.

import torch
from program_cases import attempt, case, grads_of, leaf, mlp
from torch import nn
from torch.autograd import Function, grad
from torch.autograd.function import once_differentiable


def twice(f, *leaves, weigh=torch.Tensor.square):
    """First gradients, and what comes of going through them."""
    result = f(*leaves)
    results = result if isinstance(result, tuple) else (result,)
    loss = sum(weigh(one).sum() for one in results if one.requires_grad)
    first = grad(loss, leaves, create_graph=True, allow_unused=True)
    through = [one for one in first if one is not None and one.requires_grad]
    if not through:
        return first, None
    weighed = sum((one * torch.linspace(0.5, 1.5, one.numel()).view(one.shape)).sum() for one in through)
    return first, attempt(lambda: grad(weighed, leaves, allow_unused=True))


def of(make, *sizes, calls=3):
    """A program that differentiates make() twice, of leaves of these sizes."""

    def program(compile):
        f = compile(make)
        for k in range(calls):
            yield twice(f, *[leaf(*[n + (k == 2) * (n == 3) for n in one]) for one in sizes])

    return program


class Cube(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return 3 * gradient * x**2


class Exp(Function):
    """Saves its result."""

    @staticmethod
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.saved_tensors[0]


class Sigmoid(Function):
    """Saves what has no history: eager loses a part of the second derivative."""

    @staticmethod
    def forward(ctx, x):
        s = torch.sigmoid(x)
        ctx.save_for_backward(s)
        return x * s

    @staticmethod
    def backward(ctx, gradient):
        (s,) = ctx.saved_tensors
        return gradient * s * (2 - s)


class Scaled(Function):
    @staticmethod
    def forward(ctx, x, scale, w):
        ctx.scale = scale
        ctx.save_for_backward(x, w)
        return x * w * scale

    @staticmethod
    def backward(ctx, gradient):
        x, w = ctx.saved_tensors
        return gradient * w * ctx.scale, None, gradient * x * ctx.scale


class Reversed(Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        return -gradient


class Identity(Function):
    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2


class StraightThrough(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x.abs() < 1)
        return x.sign()

    @staticmethod
    def backward(ctx, gradient):
        return torch.where(ctx.saved_tensors[0], gradient, 0.0)


class Once(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient):
        return gradient * ctx.saved_tensors[0].cos()


class SetUp(Function):
    @staticmethod
    def forward(x, w):
        return x @ w

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, gradient):
        x, w = ctx.saved_tensors
        return gradient @ w.t(), x.t() @ gradient


class Sorted(Function):
    """One result has no gradient."""

    @staticmethod
    def forward(ctx, x):
        values, places = x.sort()
        ctx.mark_non_differentiable(places)
        ctx.save_for_backward(places)
        return values, places

    @staticmethod
    def backward(ctx, gradient, _):
        (places,) = ctx.saved_tensors
        return torch.zeros_like(gradient).scatter(-1, places, gradient)


class Both(Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x * w, x + w * w

    @staticmethod
    def backward(ctx, a, b):
        x, w = ctx.saved_tensors
        return a * w + b, a * x + 2 * b * w


class Doubled(Function):
    """Writes to what it is given."""

    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2


class Squared(Function):
    """Its gradient is a function with a gradient of its own."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, gradient):
        return SquaredBackward.apply(gradient, ctx.saved_tensors[0])


class SquaredBackward(Function):
    @staticmethod
    def forward(ctx, gradient, x):
        ctx.save_for_backward(gradient, x)
        return 2 * gradient * x

    @staticmethod
    def backward(ctx, again):
        gradient, x = ctx.saved_tensors
        # Not what autograd would find: it shows whose gradient was taken.
        return 5 * again * x, 7 * again * gradient


class Product(Function):
    """Its gradients are itself, as those of a convolution are convolutions."""

    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a @ b

    @staticmethod
    def backward(ctx, gradient):
        a, b = ctx.saved_tensors
        return Product.apply(gradient, b.t()), Product.apply(a.t(), gradient)


class Branching(Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return (x * w).tanh()

    @staticmethod
    def backward(ctx, gradient):
        x, w = ctx.saved_tensors
        inner = gradient * (1 - (x * w).tanh() ** 2)
        return inner * w if ctx.needs_input_grad[0] else None, inner * x if ctx.needs_input_grad[1] else None


class Attribute(Function):
    """Keeps tensors as attributes."""

    @staticmethod
    def forward(ctx, x):
        ctx.x, ctx.half = x, x * 0.5
        return x.sin() * x

    @staticmethod
    def backward(ctx, gradient):
        return gradient * (ctx.x.sin() + ctx.half * 2 * ctx.x.cos())


class InPlace(Function):
    """Writes to what it makes in its backward."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.square()

    @staticmethod
    def backward(ctx, gradient):
        found = ctx.saved_tensors[0] * 1.0
        found.mul_(2).mul_(gradient)
        return found


class Reshaped(Function):
    """Its gradient is viewed in another shape: what comes of sum() has strides of zero."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sinh()

    @staticmethod
    def backward(ctx, gradient):
        return (gradient.contiguous().view(-1) * ctx.saved_tensors[0].cosh().view(-1)).view(gradient.shape)


PROGRAMS = {
    "cube": of(lambda x: Cube.apply(x.sin()), (3, 2)),
    "cube_alone": of(Cube.apply, (3, 2)),
    "cube_of_cube": of(lambda x: Cube.apply(Cube.apply(x) * x), (3, 2)),
    "saved_result": of(lambda x: Exp.apply(x) * x, (4,)),
    "saved_without_history": of(lambda x: Sigmoid.apply(x * 2), (4,)),
    "other_arguments": of(lambda x, w: Scaled.apply(x.cos(), 2.5, w), (3,), (3,)),
    "reversed": of(lambda x: Reversed.apply(x * x).exp(), (3,)),
    "identity": of(lambda x: Identity.apply(x * x).exp() * x, (3,)),
    "straight_through": of(lambda x: StraightThrough.apply(x * x) * x.exp(), (3,)),
    "once": of(lambda x: Once.apply(x * x), (3,)),
    "set_up": of(lambda x, w: SetUp.apply(x, w).tanh(), (3, 2), (2, 4)),
    "not_differentiable": of(lambda x: Sorted.apply(x * x)[0] * torch.arange(4.0), (3, 4)),
    "two_results": of(lambda x, w: Both.apply(x.sin(), w), (3,), (3,)),
    "one_of_two_results": of(lambda x, w: Both.apply(x.sin(), w)[0], (3,), (3,)),
    "dirty": of(lambda x: Doubled.apply(x * x).exp(), (3,)),
    "inner_function": of(lambda x: Squared.apply(x.sin()), (3,)),
    "function_of_itself": of(lambda x, w: Product.apply(x, w).tanh(), (3, 2), (2, 4)),
    "needs": of(lambda x, w: Branching.apply(x, w), (3,), (3,)),
    "needs_one": of(lambda x: Branching.apply(x, torch.full_like(x, 0.3).detach()), (3,)),
    "attributes": of(lambda x: Attribute.apply(x * x), (3,)),
    "writes_in_backward": of(lambda x: InPlace.apply(x * x).exp(), (3,)),
    "reshaped": of(lambda x: Reshaped.apply(x * x), (3, 2)),
    "several": of(lambda x: Exp.apply(Cube.apply(x)) + Reversed.apply(x) * Cube.apply(x * 2), (3,)),
}
for name, program in PROGRAMS.items():
    program.__name__ = f"twice_through_{name}"
    case(program)


@case
def derivatives_of_a_function_of_all_orders(compile):
    for function in (Cube, Exp, Squared):
        f = compile(lambda x, function=function: function.apply(x * 1.5).sum())
        for _ in range(2):
            x = leaf(3)
            g = f(x)
            for _ in range(4):
                (g,) = grad(g.sum(), x, create_graph=True)
                yield g
                if not g.requires_grad:
                    break


@case
def a_product_of_all_orders(compile):
    f = compile(lambda x, w: Product.apply(x, w).pow(5).sum())
    for _ in range(2):
        x, w = leaf(2, 3), leaf(3, 2)
        g = f(x, w)
        for _ in range(3):
            (g,) = grad(g.sum(), x, create_graph=True)
            yield g


@case
def functions_checked_by_differences(compile):
    for function in (Cube, Exp, InPlace, Attribute):
        f = compile(lambda x, function=function: function.apply(x.tanh()).sin())
        x = torch.randn(2, 3, dtype=torch.float64, requires_grad=True)
        yield torch.autograd.gradcheck(f, x), attempt(lambda: torch.autograd.gradgradcheck(f, x))


@case
def products_checked_by_differences(compile):
    f = compile(lambda x, w: Product.apply(x, w).tanh())
    x = torch.randn(2, 3, dtype=torch.float64, requires_grad=True)
    w = torch.randn(3, 2, dtype=torch.float64, requires_grad=True)
    yield torch.autograd.gradgradcheck(f, (x, w))


@case
def a_penalty_of_a_function(compile):
    class Critic(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = mlp()

        def forward(self, x):
            return Cube.apply(self.layers(x).tanh())

    critic = Critic()
    f = compile(critic)
    for n in (3, 3, 5, 4):
        x = leaf(n, 4)
        critic.zero_grad()
        (g,) = grad(f(x).sum(), x, create_graph=True)
        (g.norm(2, 1) - 1).square().mean().backward()
        yield grads_of(critic), x.grad


@case
def through_functions_twice_with_and_without(compile):
    """The first derivatives are taken with and without a graph, in turn."""
    f = compile(lambda x: Cube.apply(x).exp())
    for k in range(5):
        x = leaf(3)
        (g,) = grad(f(x).sum(), x, create_graph=k % 2 == 0)
        yield g
        if k % 2 == 0:
            yield grad(g.sum(), x)


@case
def a_function_whose_number_changes_later(compile):
    scale = [2]
    f = compile(lambda x: Scaled.apply(x, scale[0], x * 2).exp())
    for _ in range(3):
        scale[0] = 2
        x = leaf(3)
        (g,) = grad(f(x).sum(), x, create_graph=True)
        scale[0] = 100  # Not of this call.
        yield g, grad(g.sum(), x)


@case
def a_function_in_a_checkpoint(compile):
    from torch.utils.checkpoint import checkpoint

    f = compile(lambda x: checkpoint(lambda y: Cube.apply(y).sin(), x * 2, use_reentrant=False) * x)
    for _ in range(3):
        yield twice(f, leaf(3))


@case
def a_function_around_which_is_a_checkpoint(compile):
    from torch.utils.checkpoint import checkpoint

    f = compile(lambda x: Cube.apply(x * 2).sin() * x)
    for _ in range(3):
        yield twice(lambda x: checkpoint(f, x, use_reentrant=False).exp(), leaf(3))


@case
def behind_a_break_in_front_of_a_function(compile):
    seen = []

    def g(x):
        h = Exp.apply(x)
        seen.append(h.detach().sum().item())
        return Cube.apply(h).sin()

    f = compile(g)
    for _ in range(3):
        yield twice(lambda x: f(x * 0.3), leaf(3))


@case
def a_function_under_no_grad(compile):
    def g(x):
        with torch.no_grad():
            still = Cube.apply(x)
        return Cube.apply(x) * still

    f = compile(g)
    for _ in range(3):
        yield twice(f, leaf(3))


@torch.library.custom_op("braze_second::cubed", mutates_args=())
def cubed(x: torch.Tensor) -> torch.Tensor:
    return x**3


@cubed.register_fake
def _(x):
    return torch.empty_like(x)


def _set_up(ctx, inputs, output):
    ctx.save_for_backward(inputs[0])


cubed.register_autograd(lambda ctx, g: 3 * g * ctx.saved_tensors[0] ** 2, setup_context=_set_up)


@torch.library.custom_op("braze_second::power", mutates_args=())
def power(x: torch.Tensor, n: int) -> torch.Tensor:
    return x**n


@power.register_fake
def _(x, n):
    return torch.empty_like(x)


def _set_up_power(ctx, inputs, output):
    x, ctx.n = inputs
    ctx.save_for_backward(x)


def _power_backward(ctx, gradient):
    """By the operator itself."""
    return gradient * ctx.n * power(ctx.saved_tensors[0], ctx.n - 1), None


power.register_autograd(_power_backward, setup_context=_set_up_power)

for name, program in {
    "an_operator": of(lambda x: cubed(x.sin()) * x, (3,)),
    "an_operator_of_itself": of(lambda x: power(x.sin(), 4) * x, (3,)),
}.items():
    program.__name__ = f"twice_through_{name}"
    case(program)


@case
def an_operator_of_all_orders(compile):
    f = compile(lambda x: power(x, 5).sum())
    for _ in range(2):
        x = leaf(3)
        g = f(x)
        for _ in range(4):
            (g,) = grad(g.sum(), x, create_graph=True)
            yield g


class Affine(Function):
    @staticmethod
    def forward(ctx, x, w, b):
        ctx.save_for_backward(x, w)
        return x * w + b

    @staticmethod
    def backward(ctx, gradient):
        x, w = ctx.saved_tensors
        return gradient * w, gradient * x, gradient


class OfData(Function):
    """Keeps the elements of what it is given, and not its history."""

    @staticmethod
    def forward(ctx, x):
        ctx.x = x.detach()
        return x**3

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 3 * ctx.x**2


for name, program in {
    "data_of_an_argument": of(lambda x: OfData.apply(x) + 1, (3,)),
    "data_of_what_was_computed": of(lambda x: OfData.apply(x.sin()) * x, (3,)),
    "a_detached_argument": of(lambda x, w: Affine.apply(x.detach(), w, x), (3,), (3,)),
    "an_argument_in_two_ways": of(lambda x, w: Affine.apply(x.detach(), w, x) * Affine.apply(x, w, x), (3,), (3,)),
    "detached_intermediates": of(
        lambda x, w: (lambda h: Affine.apply(h.detach(), w, h) + h)((x * w).sin()), (3,), (3,)
    ),
}.items():
    program.__name__ = f"twice_through_{name}"
    case(program)
