"""Whole architectures in train mode beside eager: outputs, and the gradients of their parameters."""

import contextlib
import copy
import random
import warnings

import torch
from against_eager import close, loss_of, tensors
from architectures import ARCHITECTURES
from torch.utils import _pytree as pytree

import braze

# Their backward is Python code, or an operator of transformers' own.
NATIVE = {"mixtral"}


def outputs_of(model, inputs):
    torch.manual_seed(7)
    outputs = model(**inputs)
    outputs = dict(outputs) if hasattr(outputs, "keys") else outputs
    return [each for each in tensors(outputs) if each.is_floating_point()]


@contextlib.contextmanager
def answering_as_compiled():
    """Models may ask whether they are compiled: transformers make masks then that they skip otherwise, and
    attention with a mask is another kernel, with other random numbers."""
    torch.compiler._is_compiling_flag = True
    try:
        yield
    finally:
        torch.compiler._is_compiling_flag = False


def answers_of(model, inputs):
    """Eager's outputs without the masks that are made for a compiler, and with them. Masks that are known to hide
    nothing, or what comes later, are left out by braze, and others are not."""
    without = outputs_of(model, inputs)
    with answering_as_compiled():
        return without, outputs_of(model, inputs)


def distance(some, others):
    return sum((a - b).abs().max().item() for a, b in zip(some, others, strict=True))


def flat(model):
    return {name: p.grad for name, p in model.named_parameters()}


def check(name, device="cpu", calls=2, tolerance=2e-4, **choices):
    """Trains the architecture for some calls. Returns the compiled module."""
    torch.manual_seed(0)
    model, inputs = ARCHITECTURES[name](random.Random(f"{name} 0"))
    model.train().to(device)
    inputs = pytree.tree_map_only(torch.Tensor, lambda t: t.to(device), inputs)
    other = copy.deepcopy(model)
    fast = braze.compile(other, **choices)
    for call in range(calls):
        model.zero_grad(), other.zero_grad()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            without_masks, with_masks = answers_of(model, inputs)
            ours = outputs_of(fast, inputs)
            # Other random numbers are far away; what only differs by roundings is what a compiler is told.
            is_without = distance(ours, with_masks) > 10 * distance(ours, without_masks) + 1e-3
            theirs = without_masks if is_without else with_masks
        for number, (a, b) in enumerate(zip(ours, theirs, strict=True)):
            close(a, b, f"call {call}, output {number}", tolerance)
        loss_of(theirs).backward()
        loss_of(ours).backward()
        mine, eagers = flat(other), flat(model)
        largest = max(g.abs().max().item() for g in eagers.values() if g is not None)
        for key, gradient in eagers.items():
            assert (mine[key] is None) == (gradient is None), key
            if gradient is not None:
                error = (mine[key] - gradient).abs().max().item()
                assert error <= tolerance * max(1e-2 * largest, gradient.abs().max().item()), (key, error)
    return fast
