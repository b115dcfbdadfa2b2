"""Programs that ask for gradients of what they are given, and train by these: requires_grad_() ends a graph, and
all that comes behind it is the next one."""

import torch
from program_cases import attempt, case, grads_of, leaf
from program_functions import captured_whole
from torch import nn
from torch.autograd import grad


def whole(program):
    captured_whole.append(program.__name__)
    return case(program)


def energy():
    return nn.Sequential(nn.Linear(3, 8), nn.SiLU(), nn.Linear(8, 1))


def trained(make):
    """On batches of several sizes; positions are given anew, or again, or need gradients already."""

    def program(compile):
        model = energy()
        f = compile(make(model))
        again = torch.randn(5, 3)
        for k, n in enumerate((5, 5, 3, 1, 5, 7, 5)):
            positions = leaf(n, 3) if k == 3 else again if k in (4, 6) else torch.randn(n, 3)
            model.zero_grad()
            loss, results = f(positions)
            loss.backward()
            yield results, grads_of(model), positions.grad, positions.requires_grad

    program.__name__ = make.__name__
    return program


def forces_of_what_is_given(model):
    def run(positions):
        positions.requires_grad_(True)
        e = model(positions).sum()
        force = -grad(e, positions, create_graph=True)[0]
        return e + force.square().sum(), (e, force)

    return run


def forces_behind_other_work(model):
    def run(positions):
        distances = (positions[:, None] - positions[None]).square().sum(-1)
        positions.requires_grad_()
        e = model(positions).sum() + distances.sum()
        (force,) = grad([e], [positions], create_graph=True, retain_graph=True)
        return e + force.pow(4).sum(), (distances, force)

    return run


def forces_behind_layers(model):
    def run(positions):
        first = model(positions.detach() * 2).tanh().sum()
        positions.requires_grad_()
        force = grad(model(positions).sum(), positions, create_graph=True)[0]
        return first + force.square().sum(), force

    return run


def equations(model):
    def run(positions):
        x, rest = positions[:, :1].clone().requires_grad_(), positions[:, 1:]
        u = model(torch.cat([x, rest], 1))
        du = grad(u, x, torch.ones_like(u), create_graph=True)[0]
        d2u = grad(du, x, torch.ones_like(du), create_graph=True)[0]
        return (u * du - 0.1 * d2u).square().mean(), (du, d2u)

    return run


def forces_with_a_break_behind(model):
    seen = []

    def run(positions):
        positions.requires_grad_()
        force = grad(model(positions).sum(), positions, create_graph=True)[0]
        seen.append(float(force.detach().sum()))
        return (force * 2).square().sum(), (force, len(seen))

    return run


def layers_that_are_differentiated_behind_a_break(model):
    def run(positions):
        positions.requires_grad_()
        e = model(positions).sum()
        scale = 1 + (float(e.detach()) > 0)
        force = grad(e * scale, positions, create_graph=True)[0]
        return force.square().sum() + e, force

    return run


def backward_that_is_differentiated(model):
    def run(positions):
        positions.requires_grad_()
        model(positions).sum().backward(create_graph=True)
        force = positions.grad
        positions.grad = None
        for one in model.parameters():
            one.grad = None
        return force.square().sum(), force

    return run


for make in (forces_of_what_is_given, equations):
    whole(trained(make))
for make in (
    forces_behind_other_work,
    forces_behind_layers,
    forces_with_a_break_behind,
    layers_that_are_differentiated_behind_a_break,
    backward_that_is_differentiated,
):
    case(trained(make))


@case
def forces_with_gradients_off(compile):
    model = energy()

    def g(positions):
        positions.requires_grad_()
        return grad(model(positions).sum(), positions, create_graph=True)[0]

    f = compile(g)
    for n in (3, 3, 4, 1):
        with torch.no_grad():
            yield attempt(f, torch.randn(n, 3))
        with torch.enable_grad():
            yield f(torch.randn(n, 3))


@whole
def equations_of_two_that_are_given(compile):
    model = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))

    def g(x, t):
        x = x.requires_grad_()
        t = t.requires_grad_()
        u = model(torch.cat([x, t], 1))
        ones = torch.ones_like(u)
        dx = grad(u, x, ones, create_graph=True)[0]
        dt = grad(u, t, ones, create_graph=True)[0]
        dxx = grad(dx, x, ones, create_graph=True)[0]
        return (dt + u * dx - 0.01 * dxx).square().mean()

    f = compile(g)
    for n in (5, 5, 3, 1, 7):
        model.zero_grad()
        x, t = torch.rand(n, 1), torch.rand(n, 1)
        loss = f(x, t)
        loss.backward()
        yield loss, grads_of(model), x.grad, t.grad
