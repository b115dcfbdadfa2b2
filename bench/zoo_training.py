"""One step of training of a model of zoo_cases.py: results, gradients and buffers beside eager's, in f64.

In f32 a rounding moves a few elements of a deep network across the corner of a relu, which moves gradients by a
tenth: eager is as far from eager on inputs that differ by an ulp, and what is right cannot be told from what is
wrong. With twice the digits what differs by more than TOLERANCE computes something else.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_leaves, tree_map

from zoo_cases import CASES

TOLERANCE = 2e-6  # some models embed positions in f32
BATCHES = (2, 2, 2, 3)  # the third call is to be replayed


def distance(ours: torch.Tensor, theirs: torch.Tensor) -> float:
    """The largest difference, beside the largest element; infinite where they are not laid out alike."""
    if ours.shape != theirs.shape or ours.dtype != theirs.dtype or ours.stride() != theirs.stride():
        return float("inf")
    if not theirs.is_floating_point() or not theirs.numel():
        return 0.0 if torch.equal(ours, theirs) else float("inf")
    same = (ours.isnan() & theirs.isnan()) | (ours == theirs)
    # What all but cancels out is a sum of larger numbers.
    largest = theirs.detach().nan_to_num(0, 0, 0).abs().max().clamp(min=1e-3)
    return ((ours - theirs).detach().masked_fill(same, 0).abs().max() / largest).item()


def batch_of(inputs: Callable[[int], tuple], number: int, count: int) -> tuple:
    """So many calls' arguments as one: of what has one row."""
    rows = [inputs(100 * number + k) for k in range(count)]
    return tuple(
        torch.cat(parts) if isinstance(parts[0], torch.Tensor) and parts[0].shape[:1] == (1,) else parts[0]
        for parts in zip(*rows, strict=True)
    )


def prepared(value: Any, channels_last: bool) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    value = value.double() if value.is_floating_point() else value
    return value.to(memory_format=torch.channels_last) if channels_last and value.dim() == 4 else value


def seed(number: int) -> None:
    """PyTorch's dice and Python's."""
    torch.manual_seed(number)
    random.seed(number)


def step(call: Callable[..., Any], module: nn.Module, arguments: tuple, number: int) -> dict[str, torch.Tensor]:
    """By name what one step leaves behind."""
    seed(number)
    module.zero_grad()
    results = [leaf for leaf in tree_leaves(call(*arguments)) if isinstance(leaf, torch.Tensor)]
    losses = [
        (result * torch.linspace(-1, 1, result.numel(), dtype=result.dtype).view(result.shape)).mean()
        + result.square().mean()
        for result in results
        if result.is_floating_point() and result.requires_grad
    ]
    if losses:
        sum(losses).backward()
    found = {f"result {k}": result for k, result in enumerate(results)}
    found |= {f"gradient of {k}": p.grad for k, p in module.named_parameters() if p.grad is not None}
    return found | {f"buffer {k}": buffer.clone() for k, buffer in module.named_buffers()}


def run_training(name: str, channels_last: bool) -> dict[str, Any]:
    import braze

    torch.manual_seed(0)
    module, inputs = CASES[name]()
    if not isinstance(module, nn.Module):
        return {"error": "no module"}
    module = module.double().train()
    if channels_last:
        module = module.to(memory_format=torch.channels_last)
    other = copy.deepcopy(module)
    compiled = braze.compile(other)
    facts: dict[str, Any] = {"difference": 0.0, "tolerance": TOLERANCE}
    for number, count in enumerate(BATCHES):
        arguments = tree_map(lambda value: prepared(value, channels_last), batch_of(inputs, number, count))
        before = compiled.counts()
        ours = step(compiled, other, copy.deepcopy(arguments), number)
        after = compiled.counts()
        theirs = step(module, module, arguments, number)
        gaps = {key: distance(ours[key], theirs[key]) if key in ours else float("inf") for key in theirs}
        gaps |= dict.fromkeys(ours.keys() - theirs.keys(), float("inf"))
        worst = max(gaps, key=gaps.__getitem__, default=None)
        if worst is not None and gaps[worst] > facts["difference"]:
            facts |= {"difference": gaps[worst], "where": f"{worst}, call {number + 1}"}
        if number == 2:
            facts["replayed"] = after["replayed"] > before["replayed"] and after["captured"] == before["captured"]
    return facts | {"report": compiled.report()}
