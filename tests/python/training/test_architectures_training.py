"""Whole architectures in train mode: outputs, gradients and random numbers are eager's, and few calls are left."""

import copy
import random
import warnings

import pytest
import torch
from against_eager import close, loss_of, tensors
from architectures import ARCHITECTURES

import braze


def outputs_of(model, inputs):
    torch.manual_seed(7)
    outputs = model(**inputs)
    outputs = dict(outputs) if hasattr(outputs, "keys") else outputs
    return [each for each in tensors(outputs) if each.is_floating_point()]


# Their backward is Python code, or an operator of transformers' own.
NATIVE = {"mixtral"}


def flat(model):
    return {name: p.grad for name, p in model.named_parameters()}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_trains_as_eager(name):
    torch.manual_seed(0)
    model, inputs = ARCHITECTURES[name](random.Random(f"{name} 0"))
    model.train()
    other = copy.deepcopy(model)
    fast = braze.compile(other)
    for call in range(2):
        model.zero_grad(), other.zero_grad()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            theirs, ours = outputs_of(model, inputs), outputs_of(fast, inputs)
        assert len(ours) == len(theirs)
        for number, (a, b) in enumerate(zip(ours, theirs, strict=True)):
            close(a, b, f"call {call}, output {number}", 2e-4)
        loss_of(theirs).backward()
        loss_of(ours).backward()
        mine, eagers = flat(other), flat(model)
        largest = max(g.abs().max().item() for g in eagers.values() if g is not None)
        for key, gradient in eagers.items():
            assert (mine[key] is None) == (gradient is None), key
            if gradient is not None:
                error = (mine[key] - gradient).abs().max().item()
                assert error <= 2e-4 * max(1e-2 * largest, gradient.abs().max().item()), (key, error)
    if name in NATIVE:
        return
    assert fast.counts()["native"] == 0, fast.reasons()
    operators = fast.operators()
    assert operators["compiled"] >= 9 * operators["native"], operators
