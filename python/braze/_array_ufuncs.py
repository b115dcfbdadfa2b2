"""NumPy's ufuncs of arrays that a graph computes (_arrays.py), in operators of PyTorch."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from braze._array_operator import OF_COMPLEX, call
from braze._array_types import loop_of, only_warns
from braze._arrays import BINARY, UNARY, Array, Scalar, array, end, fitting, operand, result

Function = Callable[..., Any]

# ---- ufuncs: NumPy's name, PyTorch's function, whether that takes a number of Python's as its second operand


def _logical_not(x: torch.Tensor) -> torch.Tensor:
    return torch.logical_not(x)


def _same(x: torch.Tensor) -> torch.Tensor:
    return x.clone()


def _remainder(x: torch.Tensor, y: Any) -> torch.Tensor:
    """NumPy gives a remainder of zero the sign of the divisor."""
    if not x.is_floating_point():
        return torch.remainder(x, y)
    divisor = y if isinstance(y, torch.Tensor) else torch.full((), y, dtype=x.dtype, device="cpu")
    rest = torch.remainder(x, divisor)
    return torch.where(rest == 0, torch.copysign(torch.zeros_like(rest), divisor), rest)


def _rint(x: torch.Tensor) -> torch.Tensor:
    return torch.round(x)


def _conjugate(x: torch.Tensor) -> torch.Tensor:
    return torch.conj_physical(x)


def _sign(x: torch.Tensor) -> torch.Tensor:
    return torch.where(torch.isnan(x), x, torch.sign(x)) if x.is_floating_point() else torch.sign(x)


def _heaviside(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.where(torch.isnan(x), x, torch.heaviside(x, y.expand(x.shape)))


UNARY_ROWS: dict[str, Function] = {
    "absolute": torch.abs,
    "arccos": torch.arccos,
    "arccosh": torch.arccosh,
    "arcsin": torch.arcsin,
    "arcsinh": torch.arcsinh,
    "arctan": torch.arctan,
    "arctanh": torch.arctanh,
    "ceil": torch.ceil,
    "conjugate": _conjugate,
    "cos": torch.cos,
    "cosh": torch.cosh,
    "deg2rad": torch.deg2rad,
    "degrees": torch.rad2deg,
    "exp": torch.exp,
    "exp2": torch.exp2,
    "expm1": torch.expm1,
    "fabs": torch.abs,
    "floor": torch.floor,
    "invert": torch.bitwise_not,
    "isfinite": torch.isfinite,
    "isinf": torch.isinf,
    "isnan": torch.isnan,
    "log": torch.log,
    "log10": torch.log10,
    "log1p": torch.log1p,
    "log2": torch.log2,
    "logical_not": _logical_not,
    "negative": torch.neg,
    "positive": _same,
    "rad2deg": torch.rad2deg,
    "radians": torch.deg2rad,
    "reciprocal": torch.reciprocal,
    "rint": _rint,
    "sign": _sign,
    "signbit": torch.signbit,
    "sin": torch.sin,
    "sinh": torch.sinh,
    "sqrt": torch.sqrt,
    "square": torch.square,
    "tan": torch.tan,
    "tanh": torch.tanh,
    "trunc": torch.trunc,
}

BINARY_ROWS: dict[str, tuple[Function, bool]] = {
    "add": (torch.add, True),
    "arctan2": (torch.arctan2, False),
    "bitwise_and": (torch.bitwise_and, True),
    "bitwise_or": (torch.bitwise_or, True),
    "bitwise_xor": (torch.bitwise_xor, True),
    "copysign": (torch.copysign, True),
    "divide": (torch.true_divide, True),
    "equal": (torch.eq, True),
    "fmax": (torch.fmax, False),
    "fmin": (torch.fmin, False),
    "greater": (torch.gt, True),
    "greater_equal": (torch.ge, True),
    "heaviside": (_heaviside, False),
    "hypot": (torch.hypot, False),
    "less": (torch.lt, True),
    "less_equal": (torch.le, True),
    "logaddexp": (torch.logaddexp, False),
    "logical_and": (torch.logical_and, False),
    "logical_or": (torch.logical_or, False),
    "logical_xor": (torch.logical_xor, False),
    "maximum": (torch.maximum, False),
    "minimum": (torch.minimum, False),
    "multiply": (torch.mul, True),
    "not_equal": (torch.ne, True),
    "subtract": (torch.sub, True),
}

# Of whole numbers: NumPy gives 0 for a shift by all bits.
SHIFT_ROWS: dict[str, tuple[Function, bool]] = {
    "left_shift": (torch.bitwise_left_shift, True),
    "right_shift": (torch.bitwise_right_shift, True),
}

# Where integers are divided, NumPy gives 0 for a quotient by 0, and raises for a power below 1.
FLOAT_ROWS: dict[str, tuple[Function, bool]] = {
    "floor_divide": (torch.floor_divide, True),
    "fmod": (torch.fmod, True),
    "power": (torch.pow, True),
    "remainder": (_remainder, True),
}


def _extent(tensor: torch.Tensor) -> int:
    """How many dimensions it has of more than one item: by these NumPy and PyTorch order a result."""
    return len([size for size in tensor.shape if size != 1])


def keep_order(tensors: list[torch.Tensor]) -> None:
    """Of several operands that lie in different orders NumPy and PyTorch choose differently for the result."""
    if len(tensors) < 2 or not [tensor for tensor in tensors if not tensor.is_contiguous()]:
        return
    first = None
    for tensor in tensors:
        if _extent(tensor) < 2:
            continue
        if first is None:
            first = tensor
        if tensor.shape != first.shape or tensor.stride() != first.stride():
            end()
    for tensor in tensors:
        if first is not None and tensor.dim() > first.dim():
            end()


def given_in(value: Any, kind: torch.dtype, takes_number: bool) -> Any:
    """An operand in the type that is computed in."""
    if isinstance(value, torch.Tensor):
        return value if value.dtype is kind else value.to(kind)
    if isinstance(value, int):
        value = fitting(value, kind)
    if takes_number and kind is not torch.float16:
        return value
    return torch.full((), value, dtype=kind, device="cpu")


def _wrapped(computed: torch.Tensor, operands: tuple[Any, ...]) -> Any:
    """Where a tensor is among the operands NumPy hands the result to its __array_wrap__, which makes a tensor."""
    for one in operands:
        if isinstance(one, torch.Tensor):
            return computed.to(torch.uint8) if computed.dtype is torch.bool else computed
    return result(computed)


UFUNCS: dict[str, Any] = {}


def call_of_complex(name: str, numbers: list[Any], operands: tuple[Any, ...]) -> Any:
    for one in operands:
        if isinstance(one, torch.Tensor):
            end()
    return call(name, tuple(numbers), {}) if name in OF_COMPLEX else end()


def _compute(name: str, function: Function, takes_number: bool, operands: tuple[Any, ...]) -> Any:
    if not only_warns():
        end()
    if isinstance(operands[-1], Scalar) and isinstance(operands[0], (list, tuple)):
        end()  # A list is repeated.
    values = [operand(one) for one in operands]
    kinds = tuple([one.dtype if isinstance(one, torch.Tensor) else type(one) for one in values])
    loop = loop_of(UFUNCS[name], kinds)
    if loop is None:
        return end()
    if loop[0].is_complex:  # Where numbers are infinite, PyTorch's come out otherwise.
        numbers = [array(given_in(values[k], loop[k], False)) for k in range(len(values))]
        return call_of_complex(name, numbers, operands)
    keep_order([one for one in values if isinstance(one, torch.Tensor)])
    given = [given_in(values[k], loop[k], takes_number and k == 1) for k in range(len(values))]
    computed = function(given[0]) if len(given) == 1 else function(given[0], given[1])
    return _wrapped(computed, operands) if computed.dtype is loop[-1] else end()


def put(out: Any, computed: Any) -> Any:
    """As `out=` asks for, which has no say in what is computed."""
    if out is None:
        return computed
    is_plain = isinstance(out, Array) and not isinstance(out, Scalar) and isinstance(computed, Array)
    return out._store(array(computed._tensor)) if is_plain else end()


def _unary(name: str, function: Function) -> Function:
    UFUNCS[name] = getattr(np, name)

    def call(x: Any, *rest: Any, out: Any = None, **named: Any) -> Any:
        return end() if len(rest) > 0 or len(named) > 0 else put(out, _compute(name, function, False, (x,)))

    return call


def _binary(name: str, function: Function, takes_number: bool) -> Function:
    UFUNCS[name] = getattr(np, name)

    def call(x: Any, y: Any, *rest: Any, out: Any = None, **named: Any) -> Any:
        if len(rest) > 0 or len(named) > 0:
            end()
        return put(out, _compute(name, function, takes_number, (x, y)))

    return call


def _is_of_floats(value: Any) -> bool:
    given = operand(value)
    return given.is_floating_point() if isinstance(given, torch.Tensor) else isinstance(given, float)


def _binary_of_floats(name: str, function: Function, takes_number: bool) -> Function:
    of_any = _binary(name, function, takes_number)

    def call(x: Any, y: Any, *rest: Any, **named: Any) -> Any:
        if not _is_of_floats(x) and not _is_of_floats(y):
            is_plain = isinstance(y, int) and not isinstance(y, bool) and isinstance(x, Array)
            if not is_plain or x._tensor.is_complex() or y < (0 if name == "power" else 1):
                end()
        return of_any(x, y, *rest, **named)

    return call


def _shift(name: str, function: Function, takes_number: bool) -> Function:
    of_any = _binary(name, function, takes_number)

    def call(x: Any, y: Any, *rest: Any, **named: Any) -> Any:
        is_plain = isinstance(y, int) and not isinstance(y, bool) and isinstance(x, Array)
        if not is_plain or x._tensor.dtype is torch.bool or x._tensor.is_floating_point():
            end()
        return of_any(x, y, *rest, **named) if 0 <= y < 8 * x._tensor.element_size() - 1 else end()

    return call


def install() -> None:
    for name, function in UNARY_ROWS.items():
        UNARY[name] = _unary(name, function)
    for name, (function, takes_number) in BINARY_ROWS.items():
        BINARY[name] = _binary(name, function, takes_number)
    for name, (function, takes_number) in FLOAT_ROWS.items():
        BINARY[name] = _binary_of_floats(name, function, takes_number)
    for name, (function, takes_number) in SHIFT_ROWS.items():
        BINARY[name] = _shift(name, function, takes_number)
