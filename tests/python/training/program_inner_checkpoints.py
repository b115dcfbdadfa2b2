"""torch.utils.checkpoint within compiled functions: what the second run does again, it does."""

import functools
import random

import torch
from program_cases import attempt, case, grads_of, leaf, mlp
from program_checkpoints import captured_whole, dropping
from torch import nn
from torch.utils.checkpoint import (
    checkpoint,
    checkpoint_sequential,
    create_selective_checkpoint_contexts,
    noop_context_fn,
)

calls = []
total = torch.zeros(())
given = [0]


def counting(h):
    calls.append(len(h))
    return h.tanh()


def summing(h):
    with torch.no_grad():
        total.add_(h.sum())
    return h.tanh()


def setting(h):
    given[0] = given[0] + 1
    return h.tanh() * given[0]


def drawing(h):
    return h.tanh() * random.random()


def filling(h):
    """A tensor of its own."""
    made = torch.zeros_like(h)
    made[0] = 1
    return h.tanh() * made.add_(1)


class Numbered(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.calls = 0

    def forward(self, h):
        self.calls += 1
        return self.layer(h).tanh()


PARTS = {
    "statistics": lambda: nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Tanh()),
    "averaged_statistics": lambda: nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4, momentum=None), nn.Tanh()),
    "statistics_of_samples": lambda: nn.Sequential(
        nn.Linear(4, 4), nn.Unflatten(1, (2, 2)), nn.InstanceNorm1d(2, track_running_stats=True), nn.Flatten()
    ),
    "singular_vectors": lambda: nn.utils.parametrizations.spectral_norm(nn.Linear(4, 4)),
    "a_list": lambda: counting,
    "a_tensor_from_outside": lambda: summing,
    "an_item": lambda: setting,
    "an_attribute": Numbered,
    "numbers_of_python": lambda: drawing,
    "dropout": dropping,
    "a_tensor_of_its_own": lambda: filling,
}
KEPT_WHOLE = {"dropout", "a_tensor_of_its_own"}  # There is nothing that could happen twice.


def within(make, sequential):
    def program(compile):
        calls.clear()
        total.zero_()
        given[0] = 0
        random.seed(0)
        part = make()
        layers = [nn.Linear(4, 4), part if isinstance(part, nn.Module) else nn.Tanh()]
        model = nn.Sequential(*layers, nn.Linear(layers[-1](torch.randn(5, 4)).shape[1], 2))
        inner = layers[1] if isinstance(part, nn.Module) else part

        def step(x):
            h = layers[0](x)
            if sequential:
                h = checkpoint_sequential([inner, torch.sin], 2, h, use_reentrant=False)
            else:
                h = checkpoint(inner, h, use_reentrant=False)
            return model[2](h).square().sum()

        f = compile(step)
        for n in (3, 3, 4, 3, 5):
            model.zero_grad()
            x = leaf(n, 4)
            loss = f(x)
            yield loss, list(calls), total, given[0], getattr(inner, "calls", None)
            loss.backward()
            yield grads_of(model), x.grad, dict(model.named_buffers()), list(calls), total, given[0]
            yield getattr(inner, "calls", None), random.random(), torch.rand(1)
            with torch.no_grad():
                yield f(torch.randn(n, 4)), dict(model.named_buffers()), list(calls)

    return program


for name, make in PARTS.items():
    for sequential in (False, True):
        program = within(make, sequential)
        program.__name__ = f"checkpoint_within_around_{name}{'_in_a_row' if sequential else ''}"
        case(program)
        if name in KEPT_WHOLE and not sequential:
            captured_whole.add(program.__name__)


# ---- contexts that say which operators' results are kept


def keeping(*operators):
    return functools.partial(create_selective_checkpoint_contexts, list(operators))


PRODUCTS = keeping(torch.ops.aten.addmm.default, torch.ops.aten.mm.default)
SELECTIVE = {
    "products": (lambda model, x: model(x).tanh(), PRODUCTS),
    "nothing": (lambda model, x: model(x).tanh(), noop_context_fn),
    "what_is_written": (lambda model, x: model(x).relu_() * 2, PRODUCTS),
    "a_packet": (lambda model, x: model(x).tanh(), keeping(torch.ops.aten.addmm)),
    "by_a_function": (lambda model, x: model(x).tanh(), lambda: PRODUCTS()),
    "random_numbers": (lambda model, x: torch.nn.functional.dropout(model(x), 0.5), PRODUCTS),
}


def selective(run, contexts):
    def program(compile):
        model = mlp()
        f = compile(
            lambda x: checkpoint(functools.partial(run, model), x, use_reentrant=False, context_fn=contexts).sum()
        )
        for n in (5, 5, 3, 1, 7):
            model.zero_grad()
            x = leaf(n, 4)
            yield attempt(lambda x: f(x).backward(), x)
            yield grads_of(model), x.grad

    return program


for name, (run, contexts) in SELECTIVE.items():
    program = selective(run, contexts)
    program.__name__ = f"checkpoint_within_that_keeps_{name}"
    case(program)
    if name in ("products", "nothing"):
        captured_whole.add(program.__name__)


@case
def checkpoint_within_that_keeps_others(compile):
    model, operators = mlp(), [torch.ops.aten.addmm.default]
    contexts = functools.partial(create_selective_checkpoint_contexts, operators)
    f = compile(lambda x: checkpoint(model, x, use_reentrant=False, context_fn=contexts).sum())
    for change in (None, None, "mm", None, torch.ops.aten.mm.default, None):
        if change is not None:
            operators[1:] = [change]
        model.zero_grad()
        yield attempt(lambda: f(torch.ones(3, 4)).backward()), grads_of(model)
        operators[1:] = [one for one in operators[1:] if one != "mm"]
