"""Compiled functions on a CUDA device against eager on the same device, judged by float64 on the CPU."""

import pytest
import torch
from compare import assert_same_form
from torch.utils import _pytree as pytree

from braze._load import C


def why_not() -> str:
    if not hasattr(C, "CompiledFunction"):
        return "no evaluator for this Python"
    if not torch.cuda.is_available():
        return "no CUDA device"
    if torch.cuda.get_device_capability() != (9, 0):
        return "braze generates code for sm_90"
    return ""


needs_gpu = pytest.mark.skipif(bool(why_not()), reason=why_not() or "-")

#: An error is allowed of so many units in the last place of the largest element, or twice eager's.
ULPS = 4


def on_device(tree, device="cuda"):
    """Copies on the device in the same layout."""

    def move(tensor):
        return torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device=device).copy_(tensor)

    return pytree.tree_map_only(torch.Tensor, move, tree)


def in_double(tree):
    """The same numbers on the CPU, floating ones in float64."""
    return pytree.tree_map_only(
        torch.Tensor, lambda t: t.detach().cpu().double() if t.is_floating_point() else t.detach().cpu(), tree
    )


def assert_as_eager(got, eager, reference=None):
    """Types, devices, strides and aliasing like eager's; floating values as near to the reference as eager's."""
    mine, spec = pytree.tree_flatten(got)
    theirs, wanted = pytree.tree_flatten(eager)
    assert spec == wanted
    exact = pytree.tree_leaves(reference) if reference is not None else [None] * len(theirs)
    for one, other, true in zip(mine, theirs, exact, strict=True):
        if not isinstance(other, torch.Tensor):
            assert one == other
            continue
        assert_same_form(one, other)
        if not other.is_floating_point():
            assert torch.equal(one, other)
            continue
        if not isinstance(true, torch.Tensor):
            true = other.detach().cpu().double()
        unit = torch.finfo(other.dtype).eps
        one, other = one.detach().cpu().double(), other.detach().cpu().double()
        assert torch.equal(one.isnan(), other.isnan())
        finite = true.isfinite() & other.isfinite()
        assert torch.equal(one[~finite].nan_to_num(), other[~finite].nan_to_num())
        if not finite.any():
            continue
        error, theirs_error = ((x[finite] - true[finite]).abs().max().item() for x in (one, other))
        allowed = max(2 * theirs_error, ULPS * unit * true[finite].abs().max().item())
        assert error <= allowed, f"error {error:.3g}, eager's {theirs_error:.3g}, allowed {allowed:.3g}"


def check(function, *arguments, calls=3, graphs=1, reference=True):
    """Three calls on copies of the arguments, the same results and changes as eager's; all replayed, whole."""
    fast = C.CompiledFunction(function)
    for seed in range(calls):
        mine, theirs, exact = on_device(arguments), on_device(arguments), in_double(arguments)
        torch.manual_seed(seed)
        with torch.no_grad():
            wanted = function(*theirs)
        state = torch.cuda.get_rng_state()
        torch.manual_seed(seed)
        with torch.no_grad():
            got = fast(*mine)
        assert torch.equal(torch.cuda.get_rng_state(), state), "random numbers were drawn otherwise"
        true = None
        if reference:
            with torch.no_grad():
                true = function(*exact)
            true = (true, exact)
        assert_as_eager((got, mine), (wanted, theirs), true)
    assert fast.counts() == {"captured": graphs, "replayed": calls - graphs, "native": 0}, fast.counts()
    return fast
