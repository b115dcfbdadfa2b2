"""Recipes that take derivatives by `torch.func` of batches whose sizes vary."""

import copy

import torch
import torch.nn.functional as F
from program_cases import case, grads_of, mlp
from torch import func as T
from torch import nn

SIZES = (5, 6, 4, 7, 5)


def parameters_of(model):
    return {name: p.detach() for name, p in model.named_parameters()}


@case
def gradients_of_an_ensemble(compile):
    models = [mlp() for _ in range(3)]
    stacked = {name: p.detach() for name, p in T.stack_module_state(models)[0].items()}
    base = copy.deepcopy(models[0])

    def loss(p, x, y):
        return F.cross_entropy(T.functional_call(base, p, (x,)), y)

    f = compile(lambda p, x, y: T.vmap(T.grad_and_value(loss), (0, None, None))(p, x, y))
    for n in SIZES:
        yield f(stacked, torch.randn(n, 4), torch.randint(3, (n,)))


@case
def tangent_kernel(compile):
    model = mlp()

    def one(p, x):
        return T.functional_call(model, p, (x[None],)).squeeze(0)

    def kernel(p, a, b):
        first, second = (T.vmap(T.jacrev(one), (None, 0))(p, x) for x in (a, b))
        pairs = zip(first.values(), second.values(), strict=True)
        return sum(torch.einsum("naf,mbf->nmab", x.flatten(2), y.flatten(2)) for x, y in pairs)

    f = compile(kernel)
    for n in SIZES:
        yield f(parameters_of(model), torch.randn(n, 4), torch.randn(n - 1, 4))


@case
def product_with_gauss_newton(compile):
    model = mlp()

    def product(p, x, v):
        def outputs(q):
            return T.functional_call(model, q, (x,))

        _, moved = T.jvp(outputs, (p,), (v,))
        return T.vjp(outputs, p)[1](moved / x.shape[0])[0]

    f = compile(product)
    for n in SIZES:
        p = parameters_of(model)
        yield f(p, torch.randn(n, 4), {name: torch.randn_like(one) for name, one in p.items()})


@case
def laplacians(compile):
    model = nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 1))

    def residual(x):
        laplacian = T.vmap(lambda z: torch.trace(T.hessian(lambda a: model(a).squeeze(-1))(z)))(x)
        return (laplacian - x.shape[0]).pow(2).mean()

    f = compile(residual)
    for n in SIZES:
        model.zero_grad()
        loss = f(torch.randn(n, 3))
        loss.backward()
        yield loss, grads_of(model)


@case
def forces_of_a_table_of_distances(compile):
    model = nn.Sequential(nn.Linear(1, 6), nn.Tanh(), nn.Linear(6, 1))

    def energy(at):
        squares = (at[:, None] - at[None]).pow(2).sum(-1) + torch.eye(at.shape[0])
        return model(squares.reshape(-1, 1)).sum() / at.shape[0]

    def step(at, reference):
        forces, total = T.grad_and_value(energy)(at)
        return total, (forces + reference).pow(2).mean()

    f = compile(step)
    for n in SIZES:
        model.zero_grad()
        total, loss = f(torch.randn(n, 3), torch.randn(n, 3))
        (total + loss).backward()
        yield total, loss, grads_of(model)


@case
def transforms_of_what_is_held(compile):
    """Tensors in a dict, a list in it, and an object, which each step replaces."""

    class Batch:
        pass

    held, batch = {}, Batch()

    def step(b):
        first = T.grad(lambda p: (p["x"] * p["x"].shape[0]).sum() + p["all"][0].sum())(held)
        second = T.vmap(lambda a: a * b.x.shape[0], in_dims=1)(b.y)
        return first, second, T.grad(lambda p: p[0].sum() * p[1].shape[0])([b.x, b.y])

    f = compile(step)
    for n in SIZES:
        held["x"], held["all"] = torch.randn(n), [torch.randn(n + 1)]
        batch.x, batch.y = torch.randn(n), torch.randn(n, 2)
        yield f(batch)


@case
def trees_under_vmap(compile):
    def one(q):
        return {"a": q["x"] * q["y"][0].shape[0], "b": (q["y"][1],)}

    f = compile(lambda d: T.vmap(one, in_dims=({"x": 0, "y": [1, 0]},))(d))
    for n in SIZES:
        yield f({"x": torch.randn(n, 2), "y": [torch.randn(3, n), torch.randn(n)]})
