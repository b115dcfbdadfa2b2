"""Training programs, each of which runs in eager and compiled: what they yield must be the same."""

import torch
from torch import nn

CASES = []


def case(program):
    CASES.append(program)
    return program


def in_halves(program):
    """A case that computes in half precision, where eager rounds more often."""
    program.rounds = True
    return case(program)


def leaf(*sizes):
    return torch.randn(*sizes).requires_grad_()


def mlp():
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3))


def grads_of(model):
    return {name: p.grad for name, p in model.named_parameters()}


def values_of(model):
    return [p.detach().clone() for p in model.parameters()]


def batches(count, n=5):
    for _ in range(count):
        yield torch.randn(n, 4), torch.randint(3, (n,))


def attempt(call, *arguments):
    try:
        return call(*arguments)
    except Exception as error:
        return "raised", type(error).__name__, str(error)[:45]


def frozen(value):
    """As it is now: elements, strides, and what autograd knows."""
    if isinstance(value, torch.Tensor):
        now = value.detach()
        return now.clone(), tuple(now.stride()), value.requires_grad, value.is_leaf
    if isinstance(value, (list, tuple)):
        return [frozen(one) for one in value]
    if isinstance(value, dict):
        return {key: frozen(one) for key, one in value.items()}
    return value


def assert_same(ours, theirs, where="result", rounds=False):
    assert type(ours) is type(theirs), f"{where}: {ours} instead of {theirs}"
    if isinstance(theirs, torch.Tensor):
        half = rounds or theirs.dtype in (torch.bfloat16, torch.float16)
        tolerance = {"rtol": 2e-2, "atol": 1e-2} if half else {"rtol": 1e-4, "atol": 1e-5}
        torch.testing.assert_close(ours, theirs, equal_nan=True, msg=lambda text: f"{where}: {text}", **tolerance)
    elif isinstance(theirs, (list, tuple)):
        assert len(ours) == len(theirs), f"{where}: {ours} instead of {theirs}"
        for k, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            assert_same(one, other, f"{where}[{k}]", rounds)
    elif isinstance(theirs, dict):
        assert list(ours) == list(theirs), where
        for key, other in theirs.items():
            assert_same(ours[key], other, f"{where}[{key!r}]", rounds)
    else:
        assert ours == theirs, f"{where}: {ours} instead of {theirs}"
