"""Comparing a program with eager PyTorch, for all tests."""

import copy
from typing import Any

import torch
from torch.utils import _pytree as pytree

import braze

TOLERANCES = {torch.float64: 1e-10, torch.float32: 2e-5, torch.float16: 4e-3, torch.bfloat16: 2e-2}


def copies(tree: Any) -> Any:
    """New tensors with the same values and layout."""

    def copy_one(tensor):
        # The whole storage, so that expanded tensors stay expanded.
        storage = tensor.untyped_storage().clone()
        fresh = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
        fresh.set_(storage, tensor.storage_offset(), tensor.size(), tensor.stride())
        return fresh.requires_grad_(tensor.requires_grad)

    return pytree.tree_map_only(torch.Tensor, copy_one, tree)


def assert_same_form(one: torch.Tensor, other: torch.Tensor) -> None:
    """The same dtype, shape, device and, where they are seen, strides."""
    assert (one.dtype, one.shape, one.device) == (other.dtype, other.shape, other.device)
    if other.numel():
        seen = [(a, b) for n, a, b in zip(other.shape, one.stride(), other.stride(), strict=True) if n > 1]
        assert all(a == b for a, b in seen), f"strides {one.stride()}, eager has {other.stride()}"


def assert_same(got: Any, expected: Any) -> None:
    """The same structure, types, dtypes, shapes and strides; values within rounding."""
    got_leaves, got_spec = pytree.tree_flatten(got)
    expected_leaves, expected_spec = pytree.tree_flatten(expected)
    assert got_spec == expected_spec
    for one, other in zip(got_leaves, expected_leaves, strict=True):
        assert type(one) is type(other)
        if not isinstance(other, torch.Tensor):
            assert one == other
            continue
        assert_same_form(one, other)
        tolerance = TOLERANCES.get(other.dtype, 0)
        torch.testing.assert_close(one, other.detach(), rtol=tolerance, atol=tolerance, equal_nan=True)


def check(fn, *args, calls: int = 2, **kwargs) -> braze.Program:
    """Traces fn and compares results, changed inputs and random state with eager's, on several calls."""
    program = braze.trace(fn, copies(args), copies(kwargs), check=False)
    for seed in range(calls):
        mine, theirs = copies((args, kwargs)), copies((args, kwargs))
        torch.manual_seed(seed)
        expected = fn(*theirs[0], **theirs[1])
        state = torch.get_rng_state()
        torch.manual_seed(seed)
        with torch.no_grad():
            got = program(*mine[0], **mine[1])
        assert torch.equal(torch.get_rng_state(), state)
        assert_same(got, expected)
        assert_same(mine, theirs)
    return program


def eager_copy(module: torch.nn.Module) -> torch.nn.Module:
    return copy.deepcopy(module)
