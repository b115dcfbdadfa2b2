"""What eager refuses: types that an operator does not take, and OpInfo's wrong inputs. A compiled function raises
the same exception."""

import copy
import warnings
from collections.abc import Iterator

import opinfo_sweep
import torch
from opinfo_skips import SKIPPED
from torch.utils import _pytree as pytree

import braze

DTYPES = (torch.bool, torch.uint8, torch.int64, torch.float16, torch.complex64)


def refused(op) -> Iterator[tuple[str, object]]:
    """(label, sample) of calls that eager may refuse."""
    if op.error_inputs_func is not None:
        for number, wrong in enumerate(op.error_inputs("cpu")):
            yield f"error {number}", wrong.sample_input
    if torch.float32 not in op.supported_dtypes("cpu"):
        return
    sample = next(iter(op.sample_inputs("cpu", torch.float32, requires_grad=False)), None)
    for dtype in DTYPES if sample else ():
        if dtype in op.supported_dtypes("cpu"):
            continue
        other = copy.copy(sample)
        other.input, other.args, other.kwargs = pytree.tree_map_only(
            torch.Tensor,
            lambda x, dtype=dtype: x.to(dtype) if x.is_floating_point() else x,
            (sample.input, sample.args, sample.kwargs),
        )
        yield str(dtype), other


def outcome(fn, sample) -> str:
    try:
        fn(sample.input, *sample.args, **sample.kwargs)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "no exception"


def differences(op) -> Iterator[str]:
    if opinfo_sweep.name_of(op) in SKIPPED:
        return
    for label, sample in refused(op):
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            torch.manual_seed(0)
            expected = outcome(op.op, sample)
            if expected == "no exception":
                continue

            def call(*args, **kwargs):
                return op.op(*args, **kwargs)

            torch.manual_seed(0)
            got = outcome(braze.compile(call), sample)
        if got != expected:
            yield f"{opinfo_sweep.name_of(op)} {label}: {got[:120]!r}, in eager {expected[:120]!r}"
