"""Programs whose backward ends with an error: what leaves have got until then, and what a second backward adds."""
# ruff: noqa: B023  Functions are called before their loop goes on.

import torch
from program_cases import attempt, case, frozen, grads_of
from torch import nn


def layers():
    return nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4), nn.LayerNorm(4), nn.Tanh(), nn.Linear(4, 2))


def refuse(*of):
    raise ValueError("refused")


HOOKS = {
    "hook": lambda p: p.register_hook(refuse),
    "late_hook": lambda p: p.register_post_accumulate_grad_hook(refuse),
    "shape": lambda p: p.register_hook(lambda g: g[:1]),
}


def ended(hook, number, is_late):
    def program(compile):
        model = layers()
        f = compile(lambda x: model(x).sum())
        parameter = list(model.parameters())[number]
        for k in range(4):
            model.zero_grad()
            if not is_late:
                handle = hook(parameter)
            loss = f(torch.randn(3, 4))
            if is_late:
                handle = hook(parameter)
            raised = attempt(lambda: loss.backward(retain_graph=k > 1))
            yield raised, frozen(grads_of(model))
            handle.remove()
            yield attempt(loss.backward), grads_of(model)

    return program


for name, hook in HOOKS.items():
    for number in (0, 1, 3, 5, 7):
        for is_late in (False, True):
            program = ended(hook, number, is_late)
            program.__name__ = f"a_{name}_ends_the_backward_at_{number}{'_added_late' * is_late}"
            case(program)


@case
def a_hook_of_a_result_ends_it(compile):
    model = layers()
    f = compile(model)
    for k in range(4):
        model.zero_grad()
        y = f(torch.randn(3, 4))
        handle = y.register_hook(refuse)
        yield attempt(lambda: y.sum().backward(retain_graph=k % 2 == 1)), frozen(grads_of(model))
        handle.remove()
        yield attempt(y.sum().backward), grads_of(model)


@case
def a_hook_between_two_parts_ends_it(compile):
    first, second = layers(), nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1))
    f, g = compile(first), compile(second)
    for k in range(4):
        first.zero_grad(), second.zero_grad()
        h = f(torch.randn(3, 4))
        handle = h.register_hook(refuse) if k != 2 else None
        loss = g(h).sum()
        yield attempt(lambda: loss.backward(retain_graph=True)), frozen([grads_of(first), grads_of(second)])
        if handle:
            handle.remove()
        yield attempt(loss.backward), grads_of(first), grads_of(second)


@case
def an_infinite_gradient_ends_it(compile):
    def check(gradient):
        if not gradient.isfinite().all():
            raise ArithmeticError("not finite")

    model = layers()
    for p in model.parameters():
        p.register_hook(check)
    f = compile(lambda x, scale: (model(x) * scale).sum())
    for scale in (1.0, 2.0, float("inf"), 3.0, float("nan"), 1.0):
        model.zero_grad()
        yield attempt(f(torch.randn(3, 4), torch.tensor(scale)).backward), grads_of(model)
