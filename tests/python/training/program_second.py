"""Programs that differentiate gradients again: penalties, products with Hessians, steps that are differentiated."""
# ruff: noqa: B023  Functions are called before their loop goes on.

import torch
from program_cases import attempt, case, grads_of, leaf, mlp, values_of
from torch import nn
from torch.autograd import grad


def penalty(f, x):
    (g,) = grad(f(x).sum(), x, create_graph=True)
    return (g.flatten(1).norm(2, 1) - 1).square().mean()


@case
def penalised_critic(compile):
    d = nn.Sequential(nn.Linear(4, 8), nn.Softplus(), nn.Linear(8, 1))
    f, optimizer = compile(d), torch.optim.Adam(d.parameters(), 1e-2)
    for n in (5, 5, 5, 3, 4):
        real, fake = torch.randn(n, 4), torch.randn(n, 4)
        mixed = (0.3 * real + 0.7 * fake).requires_grad_()
        loss = f(fake).mean() - f(real).mean() + 10 * penalty(f, mixed)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield loss, values_of(d)


@case
def penalised_at_times(compile):
    """As StyleGAN's: every other step."""
    d = mlp()
    f = compile(d)
    for k in range(6):
        x = leaf(5, 4)
        d.zero_grad()
        (penalty(f, x) if k % 2 else f(x).square().mean()).backward()
        yield grads_of(d), x.grad


def penalised(make, *sizes):
    def program(compile):
        model = make()
        f = compile(model)
        for n in (3, 3, 5, 4, 3):
            x = leaf(n, *sizes)
            model.zero_grad()
            loss = penalty(f, x)
            torch.rand(2)  # The numbers that the forward has drawn are not drawn anew.
            loss.backward()
            yield loss, grads_of(model), x.grad, torch.rand(1), dict(model.state_dict())

    return program


MODELS = {
    "dropout": (lambda: nn.Sequential(nn.Linear(4, 8), nn.Softplus(), nn.Dropout(0.5), nn.Linear(8, 1)), 4),
    "batch_norm": (lambda: nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Softplus(), nn.Linear(8, 1)), 4),
    "layer_norm": (lambda: nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.SiLU(), nn.Linear(8, 1)), 4),
    "convolution": (
        lambda: nn.Sequential(
            nn.Conv1d(2, 4, 3, padding=1),
            nn.GroupNorm(2, 4),
            nn.GELU(),
            nn.AvgPool1d(2),
            nn.Flatten(),
            nn.Linear(8, 1),
        ),
        2,
        4,
    ),
    "max_pool": (
        lambda: nn.Sequential(nn.Conv1d(2, 4, 3, padding=1), nn.Tanh(), nn.MaxPool1d(2), nn.Flatten()),
        2,
        4,
    ),
    "relu": (
        lambda: nn.Sequential(nn.Linear(4, 8), nn.LeakyReLU(0.2), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1)),
        4,
    ),
    "attention": (lambda: nn.TransformerEncoderLayer(4, 2, 8, 0.0, batch_first=True), 5, 4),
    "gru": (lambda: Last(nn.GRU(4, 3, batch_first=True)), 5, 4),
}


class Last(nn.Module):
    def __init__(self, rnn):
        super().__init__()
        self.rnn = rnn

    def forward(self, x):
        return self.rnn(x)[0][:, -1]


for name, (make, *sizes) in MODELS.items():
    if name != "attention":  # Eager's fused attention has no second derivative.
        program = penalised(make, *sizes)
        program.__name__ = f"penalised_{name}"
        case(program)


@case
def products_with_a_hessian(compile):
    model = mlp()
    f = compile(lambda x: model(x).tanh().square().mean())
    parameters = list(model.parameters())
    for _ in range(3):
        first = grad(f(torch.randn(3, 4)), parameters, create_graph=True)
        yield grad(sum((g * torch.ones_like(g)).sum() for g in first), parameters)


@case
def a_step_is_differentiated(compile):
    """As in MAML."""
    model = mlp()
    f = compile(lambda named, x: torch.func.functional_call(model, named, (x,)).square().mean())
    for _ in range(3):
        named, x = dict(model.named_parameters()), torch.randn(3, 4)
        gradients = grad(f(named, x), list(named.values()), create_graph=True)
        stepped = {name: p - 0.1 * g for (name, p), g in zip(named.items(), gradients, strict=True)}
        model.zero_grad()
        f(stepped, x).backward()
        yield grads_of(model)


@case
def derivatives_of_all_orders(compile):
    f = compile(lambda x: (x.sin() * x.exp()).sum())
    for _ in range(3):
        x = leaf(3)
        g = f(x)
        for _ in range(4):
            (g,) = grad(g.sum(), x, create_graph=True)
            yield g


@case
def some_of_the_results(compile):
    f = compile(lambda x, w: ((x * w).sin(), (x + w).exp(), x * 2.5))
    for _ in range(4):
        x, w = leaf(3), leaf(3)
        a, b, c = f(x, w)
        first = grad(a.sum() * b.sum(), (x, w), create_graph=True)
        second = grad(first[0].square().sum() + first[1].sum(), (x, w), create_graph=True)
        yield first, second, grad(second[0].sum(), (x, w))
        yield grad(c.sum(), x, create_graph=True)[0].detach()


@case
def along_tangents(compile):
    f = compile(lambda x: x.sin())
    for _ in range(3):
        x, v = leaf(3), leaf(3)
        (g,) = grad(f(x), x, v, create_graph=True)
        (g * g).sum().backward()
        yield x.grad, v.grad


@case
def functions_of_autograd(compile):
    f, g = compile(lambda x: (x**3).sum()), compile(lambda x: x.sin() * x)
    of = torch.autograd.functional
    for _ in range(3):
        x, v = torch.randn(3), torch.ones(3)
        yield of.hessian(f, x), of.hvp(f, x, v), of.vhp(f, x, v), of.jvp(g, x, v)
        yield of.hessian(f, x, vectorize=True), of.jacobian(g, x, create_graph=True)


@case
def checked_by_differences(compile):
    f = compile(lambda x, w: torch.tanh(x @ w))
    x = torch.randn(2, 3, dtype=torch.float64, requires_grad=True)
    w = torch.randn(3, 2, dtype=torch.float64, requires_grad=True)
    yield torch.autograd.gradgradcheck(f, (x, w))


@case
def views_and_writes_within(compile):
    def g(x):
        h = x * 2
        h[0].mul_(x[1])
        h.add_(1)
        return h.pow(3), h[1:]

    f = compile(g)
    for _ in range(3):
        x = leaf(3)
        a, b = f(x)
        (first,) = grad(a.sum() + b.exp().sum(), x, create_graph=True)
        first.square().sum().backward()
        yield x.grad


@case
def hooks_run_once(compile):
    f = compile(lambda x, w: (x * w).sin().sum())
    for _ in range(3):
        seen, x, w = [], leaf(3), leaf(3)
        x.register_hook(lambda g: seen.append(g.detach().clone()) or g * 2)
        h = x * 1
        h.register_hook(lambda g: seen.append(g.detach().clone()) or g * 3)
        (g,) = grad(f(h, w), w, create_graph=True)
        g.square().sum().backward()
        yield x.grad, w.grad, seen


@case
def behind_a_break(compile):
    def g(x, w):
        h = (x * w).sin()
        seen.append(h.detach().sum().item())
        return (h * w).exp().sum()

    seen = []
    f = compile(g)
    for _ in range(3):
        x, w = leaf(3), leaf(3)
        (first,) = grad(f(x, w), x, create_graph=True)
        first.square().sum().backward()
        yield x.grad, w.grad


@case
def freed_or_written_in_between(compile):
    f = compile(lambda x, w: (x * w).sin().sum())
    for _ in range(3):
        x, w = leaf(3), leaf(3)
        (g,) = grad(f(x, w), x, create_graph=True)
        g.sum().backward()
        yield x.grad, attempt(g.sum().backward)
        (g,) = grad(f(x, w), x, create_graph=True)
        with torch.no_grad():
            w.add_(1)
        yield attempt(g.sum().backward)


@case
def graphs_nobody_goes_through(compile):
    model = mlp()
    f = compile(lambda x: model(x).square().mean())
    for _ in range(3):
        model.zero_grad()
        f(torch.randn(3, 4)).backward(create_graph=True)
        yield [p.grad.detach() for p in model.parameters()]
        for p in model.parameters():
            p.grad = None


@case
def numbers_of_a_generator(compile):
    """They are drawn again, and the generator is where it was."""
    generator = torch.Generator()
    f = compile(lambda x: (x * torch.rand(3, generator=generator) + torch.rand(3)).exp())
    for k in range(4):
        generator.manual_seed(k)
        x = leaf(3)
        (g,) = grad(f(x).sum(), x, create_graph=True)
        torch.rand(2, generator=generator)
        yield g, grad(g.sum(), x), torch.rand(1, generator=generator), torch.rand(1)


@case
def numbers_of_a_generator_in_place(compile):
    generator = torch.Generator().manual_seed(3)

    def noisy(x):
        mask = torch.empty(3).bernoulli_(0.5, generator=generator)
        return (x * mask).sin() * torch.randn(3, generator=generator)

    f = compile(noisy)
    for _ in range(4):
        x = leaf(3)
        (g,) = grad(f(x).sum(), x, create_graph=True)
        (h,) = grad(g.square().sum(), x, create_graph=True)
        yield g, h, grad(h.sum(), x), torch.rand(1, generator=generator)


@case
def physics(compile):
    """The Laplacian of a network, by two gradients outside of the compiled function."""
    model = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
    f = compile(model)
    for n in (4, 4, 6):
        at = leaf(n, 2)
        u = f(at)
        (du,) = grad(u.sum(), at, create_graph=True)
        second = [grad(du[:, k].sum(), at, create_graph=True)[0][:, k] for k in range(2)]
        model.zero_grad()
        (sum(second) + u.squeeze(1).sin()).square().mean().backward()
        yield [g.flatten() for g in grads_of(model).values()], at.grad  # Strides of the one row may differ.


@case
def physics_within(compile):
    """Likewise, within the compiled function."""
    model = nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 1))

    def residual(t):
        u = model(t)
        (du,) = grad(u.sum(), t, create_graph=True)
        (ddu,) = grad(du.sum(), t, create_graph=True)
        return (ddu + u).square().mean()

    f = compile(residual)
    for n in (4, 4, 6):
        model.zero_grad()
        t = leaf(n, 1)
        loss = f(t)
        loss.backward()
        yield loss, grads_of(model), t.grad


@case
def an_adjoint(compile):
    """A neural ODE, whose gradients are a second run with products of vectors and Jacobians."""
    field = nn.Sequential(nn.Linear(2, 6), nn.Tanh(), nn.Linear(6, 2))
    f = compile(field)

    class Solve(torch.autograd.Function):
        @staticmethod
        def forward(ctx, y, *parameters):
            with torch.no_grad():
                for _ in range(3):
                    y = y + 0.1 * f(y)
            ctx.save_for_backward(y)
            return y.clone()

        @staticmethod
        def backward(ctx, gradient):
            (y,) = ctx.saved_tensors
            total = [torch.zeros_like(p) for p in field.parameters()]
            for _ in range(3):
                with torch.enable_grad():
                    y = y.detach().requires_grad_()
                    back, *found = grad(f(y), [y, *field.parameters()], gradient)
                    y = y - 0.1 * f(y).detach()
                gradient = gradient + 0.1 * back
                total = [t + 0.1 * one for t, one in zip(total, found, strict=True)]
            return gradient, *total

    for _ in range(3):
        y = leaf(3, 2)
        field.zero_grad()
        Solve.apply(y, *field.parameters()).square().sum().backward()
        yield y.grad, grads_of(field)


@case
def hessians_of_torch_func(compile):
    w = torch.randn(3, 3)
    f = compile(lambda x: ((w @ x).tanh() * x.exp()).sum())
    for _ in range(3):
        x = torch.randn(3)
        yield torch.func.hessian(f)(x), torch.func.grad(f)(x), torch.func.jacrev(torch.func.grad(f))(x)


@case
def products_along_a_vector(compile):
    model = mlp()
    f = compile(lambda x: model(x).square().mean())
    parameters = list(model.parameters())
    for _ in range(3):
        first = grad(f(torch.randn(3, 4)), parameters, create_graph=True)
        along = [torch.randn_like(p) for p in parameters]
        yield grad(first, parameters, along, retain_graph=True)
        yield grad(sum((a * b).sum() for a, b in zip(first, along, strict=True)), parameters)


@case
def steps_within_steps(compile):
    """An inner loop of three differentiated steps."""
    w = leaf(4, 2)
    f = compile(lambda w, x, y: ((x @ w).tanh() - y).square().mean())
    for _ in range(3):
        x, y, inner = torch.randn(5, 4), torch.randn(5, 2), w
        for _ in range(3):
            (g,) = grad(f(inner, x, y), inner, create_graph=True)
            inner = inner - 0.1 * g
        w.grad = None
        f(inner, x, y).backward()
        yield w.grad


@case
def with_and_without_grad_in_turn(compile):
    f = compile(lambda x, w: (x * w).sin().exp())
    for k in range(6):
        x, w = leaf(3), leaf(3)
        if k % 3 == 0:
            w = w.detach()
        first = grad(f(x, w).sum(), x, create_graph=k % 2 == 0)[0]
        yield first
        if k % 2 == 0:
            yield grad(first.sum(), x)


@case
def kept_gradients_are_differentiated(compile):
    f = compile(lambda x, w: (x * w).sin().exp().sum())
    for _ in range(3):
        x, w = leaf(3), leaf(3)
        f(x, w).backward(create_graph=True)
        penalty = x.grad.square().sum() + w.grad.square().sum()
        found = grad(penalty, (x, w), retain_graph=True)
        penalty.backward()
        yield found, x.grad, w.grad
        x.grad = w.grad = None


@case
def a_graph_is_kept_for_several_second_derivatives(compile):
    f = compile(lambda x: (x**4).exp().sum())
    for _ in range(3):
        x = leaf(3)
        y = f(x * 0.5)
        first = [grad(y, x, create_graph=True)[0] for _ in range(2)]
        yield [grad(g[k], x, retain_graph=True)[0] for k, g in enumerate(first)]
        yield grad(first[0].sum() + first[1].sum(), x)


@case
def gradients_that_depend_on_nothing(compile):
    """Eager's have no history where nothing that requires grad is left in them."""
    linear, mixed = compile(lambda x: x * 3 + 1), compile(lambda x, w: (x @ w, x * 2))
    for _ in range(3):
        x = leaf(3)
        (g,) = grad(linear(x).sum(), x, create_graph=True)
        yield g, g.grad_fn is None, attempt(lambda: g.sum().backward())
        (g,) = grad(linear(x).square().sum(), x, create_graph=True)
        yield g, grad(g.sum(), x)
        x, w = leaf(2, 3), leaf(3)
        a, b = mixed(x, w)
        for loss in (a.sum(), b.sum(), a.sum() + b.sum(), a.square().sum() + b.sum()):
            found = grad(loss, (x, w), create_graph=True, allow_unused=True)
            yield found, [one is not None and one.grad_fn is None for one in found]


@case
def gradients_by_a_frozen_weight(compile):
    f = compile(lambda x, w: x @ w)
    for k in range(4):
        x, w = leaf(2, 3), leaf(3).detach().requires_grad_(k % 2 == 0)
        yield grad(f(x, w).sum(), x, create_graph=True)
