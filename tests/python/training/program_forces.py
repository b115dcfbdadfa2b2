"""Programs that ask for gradients of what they are given, and train by these: requires_grad_() ends a graph, and
all that comes behind it is the next one."""

import torch
from program_cases import attempt, case, grads_of, leaf
from program_functions import captured_whole
from torch import nn
from torch.autograd import grad
from torch.func import functional_call


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


noted = []


def note(tensor):
    noted.append(float(tensor.detach()))


def inner_steps_with_breaks(model):
    def run(positions):
        parameters = dict(model.named_parameters())
        for _ in range(3):
            loss = functional_call(model, parameters, (positions,)).square().mean()
            steps = grad(loss, list(parameters.values()), create_graph=True)
            parameters = {name: p - 0.1 * s for (name, p), s in zip(parameters.items(), steps, strict=True)}
            note(loss)
        return functional_call(model, parameters, (positions,)).square().mean(), torch.tensor(noted[-3:])

    return run


def forces_of_another_function(model):
    def force_on(positions):
        positions.requires_grad_()
        return grad(model(positions).square().sum(), positions, create_graph=True)[0]

    def run(positions):
        force = force_on(positions) * 2
        note(force.sum())
        return force.square().sum() + model(positions).sum(), torch.tensor(noted[-1])

    return run


def forces_unless_it_raises(model):
    calls = []

    def run(positions):
        positions.requires_grad_()
        try:
            e = model(positions).square().sum()
            if len(positions) == 3:
                raise ValueError(len(positions))
            force = grad(e, positions, create_graph=True)[0]
        except ValueError:
            force = torch.zeros_like(positions)
        finally:
            calls.append(1)
        return e + force.square().sum(), (force, len(calls))

    return run


def forces_with_hooks(model):
    seen = []
    model[0].weight.register_hook(lambda gradient: seen.append(gradient.sum()))

    def run(positions):
        positions.requires_grad_()
        force = grad(model(positions).tanh().sum(), positions, create_graph=True)[0]
        positions.register_hook(lambda gradient: gradient * 2)
        return force.square().sum() + positions.sum(), (force, list(seen))

    return run


for make in (
    inner_steps_with_breaks,
    forces_of_another_function,
    forces_unless_it_raises,
    forces_with_hooks,
):
    case(trained(make))


@whole
def forces_that_are_differentiated_again(compile):
    model = nn.Sequential(nn.Linear(3, 8), nn.SiLU(), nn.Linear(8, 2))

    def g(positions):
        positions.requires_grad_()
        e = model(positions).tanh().sum()
        return e, grad(e, positions, create_graph=True)[0]

    f = compile(g)
    for n in (5, 5, 3, 1, 7):
        model.zero_grad()
        positions = torch.randn(n, 3)
        e, force = f(positions)
        (second,) = grad(force.square().sum(), positions, create_graph=True)
        (second.square().sum() + e).backward()
        yield e, force, second, grads_of(model), positions.grad


class ForceField(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = energy()
        self.calls = 0

    def forward(self, positions):
        self.calls += 1
        positions.requires_grad_(True)
        with torch.enable_grad():
            e = self.layers(positions).sum(-1)
            force = -grad(e.sum(), positions, create_graph=self.training, retain_graph=self.training)[0]
        return {"energy": e, "forces": force if self.training else force.detach()}


@case
def force_field(compile):
    model = ForceField()
    f = compile(model)
    for k, n in enumerate((5, 5, 3, 1, 5, 7, 5)):
        model.train(k % 3 != 2)
        model.zero_grad()
        positions = torch.randn(n, 3)
        with torch.set_grad_enabled(k != 5):
            results = f(positions)
        if model.training:
            (results["energy"].sum() + results["forces"].square().sum()).backward()
        yield results, grads_of(model), positions.grad, model.calls


@case
def forces_of_specialised_code(compile):
    model = energy()
    run = forces_of_what_is_given(model)
    for _ in range(70):
        run(torch.randn(2, 3))
    f = compile(run)
    for n in (5, 5, 3, 1, 7):
        model.zero_grad()
        loss, results = f(torch.randn(n, 3))
        loss.backward()
        yield results, grads_of(model)
