"""Integers, orders and choices made of bf16 and f16 are eager's: all that they are made of is rounded as there."""

from __future__ import annotations

import pytest
import torch

import braze

INTEGERS = {
    "argmax": lambda x, w, c: (x * w + c).argmax(-1),
    "argmin": lambda x, w, c: (x * w).argmin(-1),
    "max": lambda x, w, c: (x * w + c).max(-1),
    "cummax": lambda x, w, c: (x * w - c).cummax(-1),
    "sorted": lambda x, w, c: (x * w - c).sort(-1).indices,
    "median": lambda x, w, c: (x * w + c).median(-1).values,
    "kthvalue": lambda x, w, c: (x * w + c).kthvalue(3, -1).values,
    "mode": lambda x, w, c: (x * w + c).mode(-1).values,
    "isclose": lambda x, w, c: (x * w).isclose(c),
    "equal": lambda x, w, c: x * w + c == c + x * w,
    "above": lambda x, w, c: (x * w - c) * w > c,
    "sign": lambda x, w, c: (x * w + c).sign(),
    "integer": lambda x, w, c: ((x * w + c) * 3).to(torch.int32),
    "round": lambda x, w, c: (x * w + c).round(),
    "floor division": lambda x, w, c: (x * w + c) // 0.3,
    "buckets": lambda x, w, c: torch.bucketize(x * w - c, c[0].sort().values),
    "searched": lambda x, w, c: torch.searchsorted(c[0].float().sort().values, (x * w - c).float()),
    "histogram": lambda x, w, c: torch.histc((x * w + c).float(), 20),
}
CHOICES = {
    "amax": lambda v: v.amax(-1),
    "amin of all": lambda v: v.amin((0, 1)),
    "max of all": lambda v: v.max(),
    "median": lambda v: v.median(),
    "infinite norm": lambda v: v.norm(float("inf"), dim=-1),
    "scaled by the largest": lambda v: v / v.abs().amax(-1, keepdim=True),
}


def arguments(dtype, seed):
    torch.manual_seed(seed)
    return [torch.randn(16, 65).to(dtype) for _ in range(3)]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", INTEGERS)
def test_steps_are_eagers(name, dtype):
    function = INTEGERS[name]
    compiled = braze.compile(function)
    for seed in range(10):
        given = arguments(dtype, seed)
        for ours, eager in zip(compiled(*given), function(*given), strict=True):
            assert torch.equal(ours, eager)


#: Computed before the choice, and before it is saved.
BEFORE = {
    "product": lambda x, w: x * w,
    "gelu and lerp": lambda x, w: torch.lerp(torch.nn.functional.gelu(x * w), w, 0.3),
    "layer norm": lambda x, w: torch.nn.functional.layer_norm(x * w, (65,)),
    "softmax": lambda x, w: (x * w).softmax(-1) * w,
}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("before", BEFORE)
@pytest.mark.parametrize("name", CHOICES)
def test_what_is_chosen_has_the_gradient(name, before, dtype):
    """The backward computes again what it compares, from numbers that were rounded when they were saved."""
    choose, compute = CHOICES[name], BEFORE[before]

    def function(x, w, c):
        y = compute(x, w)
        return choose(y + c), (y * y).sum(), y

    compiled = braze.compile(function)
    for seed in range(10):
        found = []
        for call in (compiled, function):
            given = [one.requires_grad_() for one in arguments(dtype, seed)]
            call(*given)[0].float().sum().backward()
            found.append([one.grad for one in given])
        for ours, eager in zip(*found, strict=True):
            assert torch.equal(ours.isfinite(), eager.isfinite())
            # What is rounded otherwise on the way is another choice here and there.
            assert ((ours - eager).abs() > 0.02 + 0.05 * eager.abs()).float().mean() < 0.02
