"""autograd.Functions that do more than compute: in the forward and in the backward, when each is due."""

import torch
from program_cases import case, leaf

total = torch.zeros(())
seen = []


def to_a_tensor(value):
    total.add_(value.sum().detach())


def to_a_part(value):
    total.view(1)[:1].add_(value.max().detach())


def to_a_list(value):
    seen.append(len(value))


DOES = {"a_tensor": to_a_tensor, "a_view": to_a_part, "a_list": to_a_list}


def effects(does, when, known):
    class Doing(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            if when == "forward":
                does(x)
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            if when == "backward":
                does(gradient)
            return gradient * 2

    def function(x):
        before = total * 2 if known else 0  # The graph has met the tensor, or has not.
        return Doing.apply(x).sin() + before

    def program(compile):
        f = compile(function)
        total.zero_()
        seen.clear()
        for n in (3, 3, 4, 3):
            x = leaf(n)
            y = f(x)
            yield y, total, list(seen)
            y.sum().backward()
            yield x.grad, total, list(seen)

    return program


for name, does in DOES.items():
    for when in ("forward", "backward"):
        for known in (False, True):
            program = effects(does, when, known)
            program.__name__ = f"function_changes_{name}_in_its_{when}{'_known_before' if known else ''}"
            case(program)
