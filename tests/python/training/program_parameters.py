"""Programs about parameters that are computed, of other types, in lists, or of subclasses."""

import torch
from program_cases import case, grads_of, leaf
from torch import nn
from torch.nn.utils import parametrizations, parametrize, prune

# ---- weights that are computed


class Symmetric(nn.Module):
    def forward(self, x):
        return x.triu() + x.triu(1).t()

    def right_inverse(self, x):
        return x.triu()


def parametrized(change):
    def program(compile):
        model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4))
        change(model[0])
        f = compile(model)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for k in range(5):
            optimizer.zero_grad()
            model.train(k != 3)
            loss = f(torch.randn(3, 4)).square().sum()
            loss.backward()
            optimizer.step()
            yield loss, grads_of(model), [b.clone() for b in model.buffers()]

    return program


for name, change in {
    "symmetric": lambda m: parametrize.register_parametrization(m, "weight", Symmetric()),
    "weight_norm": parametrizations.weight_norm,
    "spectral_norm": parametrizations.spectral_norm,
    "orthogonal": parametrizations.orthogonal,
    "old_spectral_norm": nn.utils.spectral_norm,
    "pruned_at_random": lambda m: prune.random_unstructured(m, "weight", 0.5),
    "pruned_rows": lambda m: prune.ln_structured(m, "weight", 0.5, 2, 0),
    "pruned_bias": lambda m: prune.l1_unstructured(m, "bias", 2),
}.items():
    program = parametrized(change)
    program.__name__ = f"weights_{name}"
    case(program)


@case
def parametrizations_come_and_go(compile):
    model = nn.Linear(4, 4)
    f = compile(model)
    for k in range(6):
        if k == 1:
            parametrize.register_parametrization(model, "weight", Symmetric())
        if k == 4:
            parametrize.remove_parametrizations(model, "weight", leave_parametrized=False)
        model.zero_grad()
        with parametrize.cached() if k == 3 else torch.enable_grad():
            f(torch.randn(2, 4)).sum().backward()
        yield grads_of(model)


@case
def pruning_is_made_permanent(compile):
    model = nn.Linear(4, 4)
    f = compile(model)
    for k in range(6):
        if k == 1:
            prune.l1_unstructured(model, "weight", 0.5)
        if k == 3:
            prune.l1_unstructured(model, "weight", 0.5)
        if k == 5:
            prune.remove(model, "weight")
        model.zero_grad()
        y = f(torch.ones(2, 4))
        y.sum().backward()
        yield y, grads_of(model)


class Tagged(nn.Parameter):
    pass


@case
def parameters_of_a_subclass(compile):
    model = nn.Linear(4, 3)
    model.weight = Tagged(model.weight.detach())
    f = compile(model)
    for _ in range(4):
        model.zero_grad()
        y = f(torch.randn(2, 4))
        y.sum().backward()
        yield y, type(model.weight).__name__, type(model.weight.grad).__name__, grads_of(model)


class Logged(torch.Tensor):
    pass


@case
def tensors_of_a_subclass(compile):
    f = compile(lambda x, w: (x * w).sin().sum())
    for _ in range(4):
        x, w = torch.randn(3).as_subclass(Logged), leaf(3)
        y = f(x, w)
        y.backward()
        yield type(y).__name__, y.as_subclass(torch.Tensor), type(w.grad).__name__, w.grad.as_subclass(torch.Tensor)


class Lists(nn.Module):
    def __init__(self):
        super().__init__()
        self.list = nn.ParameterList([leaf(3) for _ in range(3)])
        self.dict = nn.ParameterDict({"a": leaf(3), "b": leaf(3)})

    def forward(self, x):
        for p in self.list:
            x = (x * p).tanh()
        return x + sum(self.dict.values())


@case
def lists_of_parameters(compile):
    model = Lists()
    f = compile(model)
    for k in range(5):
        if k == 2:
            model.list.append(leaf(3))
        if k == 3:
            model.dict["c"] = leaf(3)
        if k == 4:
            model.list[0] = leaf(3)
        model.zero_grad()
        f(torch.randn(2, 3)).sum().backward()
        yield grads_of(model)


@case
def complex_parameters(compile):
    w = torch.randn(4, dtype=torch.complex64, requires_grad=True)
    f = compile(lambda x: torch.view_as_real(w * x).square().sum())
    for _ in range(4):
        w.grad = None
        f(torch.randn(4)).backward()
        yield w.grad
