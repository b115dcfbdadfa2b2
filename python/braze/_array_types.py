"""What NumPy says of types, in captures (_arrays.py): which ones PyTorch has, and what is computed in which."""

from typing import Any

import numpy as np
import torch

TORCH_TYPES = {
    np.dtype(np.bool_): torch.bool,
    np.dtype(np.uint8): torch.uint8,
    np.dtype(np.int8): torch.int8,
    np.dtype(np.int16): torch.int16,
    np.dtype(np.int32): torch.int32,
    np.dtype(np.int64): torch.int64,
    np.dtype(np.float16): torch.float16,
    np.dtype(np.float32): torch.float32,
    np.dtype(np.float64): torch.float64,
    np.dtype(np.complex64): torch.complex64,
    np.dtype(np.complex128): torch.complex128,
}
NONE_OF_BOOLEANS = frozenset(["absolute", "ceil", "fabs", "floor", "rint", "square", "trunc"])
NUMPY_TYPES = {ours: theirs for theirs, ours in TORCH_TYPES.items()}

# ---- answers that depend on types alone, given once


def loop_of(ufunc: Any, kinds: tuple[Any, ...]) -> tuple[torch.dtype, ...] | None:
    """What a ufunc computes in, of tensors of these types or Python's numbers: each operand, then the result."""
    given = [NUMPY_TYPES.get(kind, kind) for kind in kinds]
    try:
        found = ufunc.resolve_dtypes((*given, *[None] * ufunc.nout))
    except (TypeError, ValueError):
        return None
    types = [TORCH_TYPES.get(one) for one in found]
    # PyTorch has no such functions of booleans.
    is_other = found[0].kind == "b" and ufunc.__name__ in NONE_OF_BOOLEANS
    return None if is_other or None in types else tuple(types)


def common_type(kinds: tuple[Any, ...]) -> torch.dtype | None:
    """Of what is put into one array. Python's numbers are given as 0, 0.0 and 0j."""
    try:
        return TORCH_TYPES.get(np.result_type(*[NUMPY_TYPES.get(kind, kind) for kind in kinds]))
    except TypeError:
        return None


def type_named(name: Any) -> torch.dtype | None:
    try:
        return TORCH_TYPES.get(np.dtype(name))
    except TypeError:
        return None


def numpy_type(kind: torch.dtype) -> Any:
    return NUMPY_TYPES.get(kind)


def scalar_class(kind: torch.dtype) -> Any:
    return NUMPY_TYPES[kind].type


def may_cast(kind: torch.dtype, to: torch.dtype) -> bool:
    """As operators in place do."""
    return np.can_cast(NUMPY_TYPES[kind], NUMPY_TYPES[to], "same_kind")


def only_warns() -> bool:
    """What numpy.errstate says of quotients by zero and the like is no exception or call."""
    return all(how in ("ignore", "warn") for how in np.geterr().values())
