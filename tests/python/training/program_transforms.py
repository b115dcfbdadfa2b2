"""Programs about functional transforms, penalties, functions of the user's, and contexts."""
# ruff: noqa: B023  Functions are called before their loop goes on.

import torch
import torch.nn.functional as F
from program_cases import attempt, case, grads_of, in_halves, leaf, mlp, values_of
from torch import nn
from torch.autograd import Function, grad
from torch.func import functional_call, hessian, jacfwd, jacrev, jvp, vjp, vmap
from torch.utils.checkpoint import checkpoint


def energy(w, x):
    return (w * x).sin().square().sum()


TRANSFORMS = {
    "grad": lambda f: lambda w, x: torch.func.grad(f)(w, x),
    "grad_of_both": lambda f: lambda w, x: torch.func.grad(f, (0, 1))(w, x),
    "grad_and_value": lambda f: lambda w, x: torch.func.grad_and_value(f)(w, x),
    "vjp": lambda f: lambda w, x: vjp(f, w, x)[1](torch.tensor(2.0)),
    "jvp": lambda f: lambda w, x: jvp(f, (w, x), (x, w)),
    "jacrev": lambda f: lambda w, x: jacrev(lambda v: f(v, x) * v)(w),
    "jacfwd": lambda f: lambda w, x: jacfwd(lambda v: f(v, x) * v)(w),
    "hessian": lambda f: lambda w, x: hessian(f)(w, x),
    "vmap": lambda f: lambda w, x: vmap(f, (None, 0))(w, torch.stack([x, x * 2])),
    "vmap_of_grad": lambda f: lambda w, x: vmap(torch.func.grad(f), (None, 0))(w, torch.stack([x, x * 2])),
    "functional": lambda f: lambda w, x: torch.autograd.functional.vjp(f, (w, x)),
}


def transformed(transform, inside):
    def program(compile):
        f = compile(transform(energy)) if inside else transform(compile(energy))
        for n in (3, 3, 4, 3):
            yield attempt(f, torch.randn(n), torch.randn(n))
            w = leaf(n)
            value = attempt(f, w, torch.randn(n))
            yield value
            if isinstance(value, torch.Tensor) and value.requires_grad:
                value.sum().backward()
                yield w.grad

    return program


for name, transform in TRANSFORMS.items():
    for inside in (False, True):
        program = transformed(transform, inside)
        program.__name__ = f"{name}_{'within' if inside else 'of'}_a_compiled_function"
        case(program)


@case
def functional_calls(compile):
    model = mlp()
    f = compile(lambda parameters, x: functional_call(model, parameters, (x,)).square().sum())
    for k in range(5):
        names = [name for name, _ in model.named_parameters()][k % 2 :]
        parameters = {name: torch.randn_like(model.get_parameter(name)).requires_grad_() for name in names}
        model.zero_grad()
        f(parameters, torch.randn(2, 4)).backward()
        yield {name: p.grad for name, p in parameters.items()}, grads_of(model), values_of(model)


@case
def functional_calls_of_compiled(compile):
    model = mlp()
    f = compile(model)
    for k in range(4):
        prefix = "_orig_mod." if f is not model else ""
        parameters = {prefix + name: torch.randn_like(p) for name, p in model.named_parameters()}
        loss = functional_call(f, parameters, (torch.randn(2, 4),)).sum() if k % 2 else f(torch.ones(2, 4)).sum()
        yield loss, loss.requires_grad


@case
def tied_functional_calls(compile):
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4))
    model[2].weight = model[0].weight
    f = compile(lambda w, x: functional_call(model, {"0.weight": w}, (x,), tie_weights=True).sum())
    for _ in range(4):
        w = leaf(4, 4)
        f(w, torch.randn(2, 4)).backward()
        yield w.grad, grads_of(model)


# ---- gradients of gradients


@case
def penalty_on_a_critic(compile):
    critic = mlp()
    f = compile(critic)
    optimizer = torch.optim.Adam(critic.parameters(), 0.1)
    for _ in range(4):
        optimizer.zero_grad()
        x = leaf(5, 4)
        (g,) = grad(f(x).sum(), x, create_graph=True)
        loss = ((g.norm(dim=1) - 1) ** 2).mean()
        loss.backward()
        optimizer.step()
        yield loss, grads_of(critic), x.grad


@case
def penalty_within(compile):
    critic = mlp()

    def g(x):
        x = x.detach().requires_grad_()
        (slope,) = grad(critic(x).sum(), x, create_graph=True)
        return ((slope.norm(dim=1) - 1) ** 2).mean()

    f = compile(g)
    for _ in range(4):
        critic.zero_grad()
        loss = f(torch.randn(5, 4))
        loss.backward()
        yield loss, grads_of(critic)


@case
def penalty_of_norms(compile):
    for norm in (nn.LayerNorm(4), nn.RMSNorm(4), nn.GroupNorm(2, 4), nn.BatchNorm1d(4)):
        f = compile(lambda x: norm(x).sin())
        for _ in range(3):
            norm.zero_grad()
            x = leaf(3, 4)
            (g,) = grad(f(x).sum(), x, create_graph=True)
            g.square().sum().backward()
            yield x.grad, grads_of(norm)


@case
def gradients_of_all_kinds(compile):
    f = compile(lambda a, b: (a * b.exp(), a.sum(), b.detach()))
    for _ in range(6):
        a, b, c = leaf(3), leaf(3), leaf(3)
        y, s, d = f(a, b)
        yield attempt(lambda: grad(y, (a, b), torch.ones(3), retain_graph=True))
        yield attempt(lambda: grad(y, (a, c), torch.ones(3), retain_graph=True))
        yield attempt(lambda: grad(y, (a, c), torch.ones(3), retain_graph=True, allow_unused=True))
        yield attempt(lambda: grad(y, (a, c), torch.ones(3), retain_graph=True, materialize_grads=True))
        yield attempt(lambda: grad([y, s], (a, b), [torch.ones(3), None], retain_graph=True))
        yield attempt(lambda: grad(y, a, torch.eye(3), is_grads_batched=True, retain_graph=True))
        yield attempt(lambda: grad(y, a, torch.ones(2)))
        yield attempt(lambda: grad(y, a))
        yield attempt(lambda: grad(d, a, torch.ones(3)))
        yield attempt(lambda: torch.autograd.backward([y, s], [torch.ones(3), None], inputs=[b])), a.grad, b.grad


@case
def retained_gradients(compile):
    model = mlp()

    def g(x):
        h = model[0](x)
        h.retain_grad()
        return h, model[2](model[1](h)).sum()

    f = compile(g)
    for _ in range(4):
        model.zero_grad()
        h, loss = f(torch.randn(2, 4))
        h.retain_grad()
        loss.backward()
        yield h.grad, h.retains_grad, grads_of(model)


@case
def hooks_within(compile):
    seen = []
    w = leaf(4)

    def g(x):
        h = (x * w).sin()
        if h.requires_grad:
            h.register_hook(lambda g: seen.append(g.sum().item()))
        return (h * h).sum()

    f = compile(g)
    for k in range(4):
        w.requires_grad_(k != 2)
        w.grad = None
        y = f(torch.randn(4))
        if y.requires_grad:
            y.backward()
        yield w.grad, [round(s, 3) for s in seen]


@case
def hooks_of_modules_see_gradients(compile):
    model = mlp()
    f = compile(model)
    seen = []
    for k in range(6):
        handle = None
        if k in (1, 2):
            handle = model[0].register_full_backward_hook(lambda m, gi, go: seen.append(len(gi)))
        if k in (3, 4):
            handle = model[1].register_full_backward_pre_hook(lambda m, go: (go[0] * 2,))
        model.zero_grad()
        x = leaf(2, 4)
        f(x).sum().backward()
        yield x.grad, grads_of(model), list(seen)
        if handle:
            handle.remove()


# ---- functions


class Scaled(Function):
    """With state of Python, numbers and None among its arguments."""

    calls = 0

    @staticmethod
    def forward(ctx, x, scale, name=None):
        Scaled.calls += 1
        ctx.scale, ctx.name = scale, name
        ctx.save_for_backward(x)
        return x * scale

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * ctx.scale + (x if ctx.name == "plus" else 0), None, None


@case
def function_with_state(compile):
    f = compile(lambda x, s, n: Scaled.apply(x.sin(), s, n).sum())
    for s, n in ((2.0, None), (2.0, "plus"), (3, "plus"), (3, None), (2.0, None)):
        x = leaf(3)
        f(x, s, n).backward()
        yield x.grad, Scaled.calls > 0


class Partly(Function):
    """Results without a gradient, of other types, and no tensors."""

    @staticmethod
    def forward(ctx, x):
        values, places = x.sort()
        ctx.mark_non_differentiable(places)
        ctx.save_for_backward(places)
        ctx.set_materialize_grads(False)
        return values, places, "text", 3

    @staticmethod
    def backward(ctx, g, *others):
        assert others == (None, None, None)
        if g is None:
            return None
        (places,) = ctx.saved_tensors
        return torch.zeros_like(g).scatter(0, places, g)


@case
def function_with_partial_results(compile):
    f = compile(lambda x: Partly.apply(x * 2))
    for _ in range(4):
        x = leaf(5)
        values, places, text, number = f(x)
        (values * torch.arange(5.0)).sum().backward()
        yield x.grad, values, places, text, number


class InPlace(Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.mark_dirty(x)
        x.mul_(y)
        ctx.save_for_backward(y)
        return x

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return g * y, None


@case
def function_that_is_dirty(compile):
    f = compile(lambda x, y: InPlace.apply(x * 1, y).exp().sum())
    g = compile(lambda x, y: InPlace.apply(x, y))
    for _ in range(3):
        x, y = leaf(3), torch.randn(3)
        f(x, y).backward()
        h = x * 1
        r = g(h, y)
        yield x.grad, r is h, h._version, r
        yield attempt(g, x, y)


class Asks(Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x @ w

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return (g @ w.t() if ctx.needs_input_grad[0] else None), (x.t() @ g if ctx.needs_input_grad[1] else None)


@case
def function_that_asks(compile):
    f = compile(lambda x, w: Asks.apply(x, w).sum())
    for k in range(8):
        x, w = torch.randn(2, 3).requires_grad_(k % 2 == 0), torch.randn(3, 2).requires_grad_(k % 3 == 0)
        y = f(x, w)
        yield attempt(y.backward), x.grad, w.grad


class NewStyle(Function):
    @staticmethod
    def forward(x, y):
        return x * y, x + y

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, a, b):
        x, y = ctx.saved_tensors
        return a * y + b, a * x + b


@case
def function_of_the_new_style(compile):
    f = compile(lambda x, y: NewStyle.apply(x, y.exp()))
    for k in range(6):
        x, y = leaf(3), leaf(3)
        a, b = f(x, y)
        (a.sum() if k % 3 == 0 else b.sum() if k % 3 == 1 else (a * b).sum()).backward()
        yield x.grad, y.grad


class Raises(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        if g.sum() > 10:
            raise OverflowError("large")
        return g * 2


@case
def function_that_raises(compile):
    f = compile(lambda x, s: Raises.apply(x).mul(s).sum())
    for s in (1.0, 5.0, 1.0, 9.0):
        x = leaf(3)
        yield attempt(lambda: f(x, torch.tensor(s)).backward()), x.grad


# ---- contexts


@in_halves
def autocast_disabled_within(compile):
    a, b = nn.Linear(4, 4), nn.Linear(4, 4)

    def g(x, on):
        with torch.autocast("cpu", torch.bfloat16, enabled=on):
            h = a(x)
            with torch.autocast("cpu", enabled=False):
                h = b(h.float())
            return a(h), h

    f = compile(g)
    for on in (True, True, False, True):
        a.zero_grad(), b.zero_grad()
        y, h = f(torch.randn(2, 4), on)
        (y.float().sum() + h.sum()).backward()
        yield y, y.dtype, h.dtype, grads_of(a), grads_of(b)


@in_halves
def autocast_around_at_times(compile):
    model = mlp()
    f = compile(model)
    for k in range(6):
        model.zero_grad()
        with torch.autocast("cpu", torch.float16 if k == 4 else torch.bfloat16, enabled=k % 2 == 0):
            y = f(torch.randn(2, 4))
        y.float().sum().backward()
        yield y.dtype, grads_of(model), [g.dtype for g in grads_of(model).values()]


def checkpoints(reentrant):
    def program(compile):
        model, head = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.Tanh()), nn.Linear(4, 1)
        f = compile(model)
        for k in range(5):
            model.zero_grad(), head.zero_grad()
            model.train(k != 2)
            model[0].weight.requires_grad_(k != 3)
            x = leaf(3, 4)
            head(checkpoint(f, x, use_reentrant=reentrant)).sum().backward()
            yield x.grad, grads_of(model), grads_of(head), torch.rand(2)

    return program


for reentrant in (False, True):
    program = checkpoints(reentrant)
    program.__name__ = f"checkpoints_{'reentrant' if reentrant else 'by_hooks'}"
    case(program)


@case
def views_as_results(compile):
    def g(x, w):
        h = x * w
        return h, h[0], h.t(), x.view(-1), h.detach()

    f = compile(g)
    for k in range(6):
        x, w = torch.randn(2, 3) if k % 2 else leaf(2, 3), leaf(3)
        h, row, t, flat, free = f(x, w)
        yield row._base is h, t._base is h, flat._base is x, h._version, row.is_leaf, free.requires_grad
        if k == 3:
            yield attempt(row.add_, 1), h._version
        if k == 4:
            free.zero_()
        loss = row.exp().sum() + t.sum() + (flat.sum() if flat.requires_grad else 0)
        yield attempt(loss.backward), x.grad, w.grad


@case
def writes_to_inputs_within(compile):
    def g(x, buffer, w):
        buffer.mul_(0.9).add_(x.detach().mean(0), alpha=0.1)
        x.mul_(2)
        return ((x - buffer) * w).square().sum()

    f = compile(g)
    buffer = torch.zeros(3)
    for _ in range(4):
        a, w = leaf(2, 3), leaf(3)
        x = a * 1
        y = f(x, buffer, w)
        y.backward()
        yield a.grad, w.grad, buffer, buffer._version, x._version


@case
def losses_that_share_a_trunk(compile):
    trunk, left, right = nn.Linear(4, 4), nn.Linear(4, 1), nn.Linear(4, 1)

    def g(x):
        h = trunk(x).tanh()
        return left(h).sum(), right(h.detach()).sum(), right(h).square().sum()

    f = compile(g)
    for k in range(4):
        for m in (trunk, left, right):
            m.zero_grad()
        a, b, c = f(torch.randn(3, 4))
        order = [(a, b, c), (c, a, b), (b, c, a), (a, c, b)][k]
        for one in order:
            one.backward(retain_graph=True)
            yield grads_of(trunk), grads_of(left), grads_of(right)
        (a + b + c).backward()
        yield grads_of(trunk), attempt(a.backward)


@case
def losses_of_a_variational_model(compile):
    model = nn.Linear(4, 6)

    def g(x):
        mean, spread = model(x).chunk(2, -1)
        q = torch.distributions.Normal(mean, F.softplus(spread) + 0.1)
        z = q.rsample()
        kl = torch.distributions.kl_divergence(q, torch.distributions.Normal(torch.zeros(3), torch.ones(3)))
        return z.square().sum() + kl.sum()

    f = compile(g)
    for _ in range(4):
        model.zero_grad()
        loss = f(torch.randn(2, 4))
        loss.backward()
        yield loss, grads_of(model)
