"""Cases of what can be done with a history: each is a function that gives what is compared with eager's."""

import torch
from torch import nn

CASES = {}


def case(function):
    """`function(compile)` gives what is compared: numbers, tensors, texts and lists of such."""
    CASES[function.__name__] = function
    return function


def block():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))


def gradients(module):
    return [None if p.grad is None else p.grad.clone() for p in module.parameters()]


def raised(call):
    try:
        call()
    except RuntimeError as error:
        return str(error)[:90]
    return "nothing was raised"
