"""Programs with torch.func over and within compiled functions."""

import copy

import torch
import torch.nn.functional as F
from program_cases import attempt, batches, case, grads_of, leaf, mlp
from program_functions import captured_whole
from torch.func import functional_call, grad, grad_and_value, hessian, jacrev, jvp, stack_module_state, vjp, vmap

# ---- torch.func, over and within


@case
def func_grad_of_a_compiled_function(compile):
    f = compile(lambda w, x: torch.tanh(x @ w).sum())
    for n in (3, 3, 4):
        w, x = torch.randn(4, 2), torch.randn(n, 4)
        yield grad(f)(w, x), grad_and_value(f, argnums=(0, 1))(w, x)


@case
def func_grad_within(compile):
    model = mlp()

    def g(x):
        parameters = dict(model.named_parameters())
        return grad(lambda p: functional_call(model, p, (x,)).square().sum())(parameters)

    f = compile(g)
    for n in (3, 3, 4):
        yield f(torch.randn(n, 4))


@case
def func_vmap_within(compile):
    w = leaf(4)
    f = compile(lambda x: vmap(lambda row: torch.tanh(row * w).sum())(x).sum())
    for n in (3, 3, 4):
        w.grad = None
        f(torch.randn(n, 4)).backward()
        yield w.grad


@case
def func_vmap_of_a_compiled_function(compile):
    f = compile(lambda row, w: torch.tanh(row * w).sum())
    for n in (3, 3, 4):
        w = leaf(4)
        vmap(f, in_dims=(0, None))(torch.randn(n, 4), w).sum().backward()
        yield w.grad


@case
def func_jacobians(compile):
    f = compile(lambda x: torch.stack([x.prod(), x.sum() ** 2]))
    g = compile(lambda x: jacrev(lambda y: torch.stack([y.prod(), y.sum() ** 2]))(x))
    h = compile(lambda x: hessian(lambda y: (y**3).sum())(x))
    for _ in range(3):
        x = torch.randn(3)
        yield jacrev(f)(x), g(x), h(x)


@case
def func_products(compile):
    f = compile(lambda x: torch.tanh(x) * x)
    g = compile(lambda x, v: (vjp(torch.sin, x)[1](v)[0], jvp(torch.cos, (x,), (v,))[1]))
    for _ in range(3):
        x, v = torch.randn(3), torch.randn(3)
        yield vjp(f, x)[1](v), jvp(f, (x,), (v,)), g(x, v)


@case
def func_gradients_of_samples(compile):
    model = mlp()
    parameters = {name: p.detach() for name, p in model.named_parameters()}

    def loss(p, x, t):
        return F.cross_entropy(functional_call(model, p, (x[None],)), t[None])

    f = compile(vmap(grad(loss), in_dims=(None, 0, 0)))
    for n in (3, 3, 4):
        yield f(parameters, torch.randn(n, 4), torch.randint(3, (n,)))


@case
def func_ensemble(compile):
    models = [mlp() for _ in range(3)]
    parameters, buffers = stack_module_state(models)
    shape = copy.deepcopy(models[0]).to("meta")
    f = compile(
        lambda p, x: vmap(lambda p, b, x: functional_call(shape, (p, b), (x,)), (0, 0, None))(p, buffers, x)
    )
    for n in (3, 3, 4):
        f(parameters, torch.randn(n, 4)).square().sum().backward()
        yield {name: p.grad for name, p in parameters.items()}


@case
def func_inner_steps(compile):
    model = mlp()

    def adapted(x, t):
        p = dict(model.named_parameters())
        g = grad(lambda p: F.cross_entropy(functional_call(model, p, (x,)), t))(p)
        return {name: p[name] - 0.1 * g[name] for name in p}

    f = compile(lambda x, t: F.cross_entropy(functional_call(model, adapted(x, t), (x,)), t))
    for x, t in batches(3):
        model.zero_grad()
        loss = f(x, t)
        yield attempt(loss.backward), loss, grads_of(model)


@case
def func_call_with_replaced_parameters(compile):
    model = mlp()
    f = compile(lambda p, x: functional_call(model, p, (x,)).square().sum())
    for n in (3, 3, 4):
        p = {name: q.detach().clone().requires_grad_() for name, q in model.named_parameters()}
        f(p, torch.randn(n, 4)).backward()
        yield {name: q.grad for name, q in p.items()}, grads_of(model)


# ---- ensembles: one module, without elements of its own, with each one's parameters


def statistics():
    return torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3).eval())


def ensemble(make, call):
    def program(compile):
        models = [make() for _ in range(3)]
        parameters, buffers = stack_module_state(models)
        base = copy.deepcopy(models[0]).to("meta")
        f = compile(lambda x: call(base, parameters, buffers, x).square().sum())
        for n in (5, 5, 3, 1, 7):
            for one in parameters.values():
                one.grad = None
            f(torch.randn(n, 4)).backward()
            yield {name: one.grad for name, one in parameters.items()}
            yield [one.device.type for one in base.parameters()]

    return program


ENSEMBLES = {
    "by_name": lambda base, p, b, x: vmap(lambda p, x: functional_call(base, p, (x,)), (0, None))(p, x),
    "with_buffers": lambda base, p, b, x: vmap(
        lambda p, b, x: functional_call(base, (p, b), (x,)), (0, 0, None), randomness="same"
    )(p, b, x),
    "one_by_one": lambda base, p, b, x: torch.stack(
        [functional_call(base, [{n: t[k] for n, t in one.items()} for one in (p, b)], (x,)) for k in (0, 2)]
    ),
}
for name, call in ENSEMBLES.items():
    for make in (mlp, statistics) if name != "by_name" else (mlp,):
        program = ensemble(make, call)
        program.__name__ = f"ensemble_of_{make.__name__}_{name}"
        captured_whole.append(program.__name__)
        case(program)


@case
def module_without_elements_is_filled(compile):
    base = torch.nn.Linear(4, 3, device="meta")
    f = compile(lambda x: x * 2 if base.weight.is_meta else base(x))
    for k in range(5):
        if k == 2:
            base.to_empty(device="cpu")
            torch.nn.init.ones_(base.weight)
            torch.nn.init.zeros_(base.bias)
        yield f(torch.randn(3, 4)), attempt(lambda: base(torch.ones(1, 4)))


@case
def module_without_elements_is_made_in_each_call(compile):
    def g(x):
        layer = torch.nn.Linear(4, 2, device="meta").to_empty(device="cpu")
        torch.nn.init.ones_(layer.weight)
        torch.nn.init.zeros_(layer.bias)
        return layer(x) * x.sum()

    f = compile(g)
    for n in (3, 3, 5, 1, 3, 3, 5, 3):
        x = leaf(n, 4)
        f(x).sum().backward()
        yield x.grad
