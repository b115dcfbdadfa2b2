"""Numbers of NumPy's that vary from call to call (_arrays.py): made of floats and whole numbers of Python's."""

import operator
from typing import Any

import numpy as np
import torch

from braze._array_types import only_warns, type_named
from braze._arrays import BINARY, UNARY, Scalar, end

LARGEST_EXACT = 2**53  # Whole numbers up to here are floats, too.


class Number(Scalar):
    """Stands for a number of NumPy's that is none of a tensor: `_number` is the float or int of Python's, or the
    truth, that is equal to it, and that varies from call to call."""

    __slots__ = ("_number",)

    def __init__(self, number: Any, type: Any) -> None:
        self._number = number
        self._type = type
        self._begins = True
        self._given: Any = None
        self._origin: Any = None

    @property  # type: ignore[misc]
    def _tensor(self) -> torch.Tensor:  # type: ignore[override]
        return torch.ones((), dtype=type_named(self._type), device="cpu") * self._number

    def __float__(self) -> float:
        return float(self._number)

    def __int__(self) -> int:
        return int(self._number)

    def __bool__(self) -> bool:
        return bool(self._number)

    def __index__(self) -> int:
        return self._number if self._type.__name__.endswith(("int8", "int16", "int32", "int64")) else end()

    def __lt__(self, other: Any) -> Any:
        return _decided(self, other, operator.lt, "less")

    def __le__(self, other: Any) -> Any:
        return _decided(self, other, operator.le, "less_equal")

    def __gt__(self, other: Any) -> Any:
        return _decided(self, other, operator.gt, "greater")

    def __ge__(self, other: Any) -> Any:
        return _decided(self, other, operator.ge, "greater_equal")

    def __eq__(self, other: Any) -> Any:  # type: ignore[override]
        return _decided(self, other, operator.eq, "equal")

    def __ne__(self, other: Any) -> Any:  # type: ignore[override]
        return _decided(self, other, operator.ne, "not_equal")

    __hash__ = Scalar.__hash__  # type: ignore[assignment]

    def __add__(self, other: Any) -> Any:
        return _computed(self, other, operator.add, "add")

    def __sub__(self, other: Any) -> Any:
        return _computed(self, other, operator.sub, "subtract")

    def __mul__(self, other: Any) -> Any:
        return _computed(self, other, operator.mul, "multiply")

    def __radd__(self, other: Any) -> Any:
        return _computed(other, self, operator.add, "add")

    def __rsub__(self, other: Any) -> Any:
        return _computed(other, self, operator.sub, "subtract")

    def __rmul__(self, other: Any) -> Any:
        return _computed(other, self, operator.mul, "multiply")

    def __neg__(self) -> Any:
        is_own = self._type in (np.float64, np.float32, np.float16, np.int64)
        return Number(-self._number, self._type) if is_own else UNARY["negative"](self)

    __iadd__, __isub__, __imul__ = __add__, __sub__, __mul__

    def item(self) -> Any:
        return self._number

    def tolist(self) -> Any:
        return self._number


def given_number(number: Any, given: Any) -> Number:
    """For a number that existed before."""
    made = Number(number, type(given))
    made._given = given
    return made


def _plain(value: Any, kind: Any) -> Any:
    """The number of Python's that computes as NumPy's does beside one of this kind; None if there is none."""
    if isinstance(value, Number):
        return value._number if value._type is kind or value._type is np.int64 else None
    is_whole = isinstance(value, int) and not isinstance(value, (bool, np.generic))
    is_real = kind is np.float64 and isinstance(value, float) and not isinstance(value, np.generic)
    return value if is_whole or is_real else None


def _both(left: Any, right: Any) -> tuple[Any, Any, Any] | None:
    """Two operands as Python's numbers, and the kind of the result: numpy.float64, or numpy.int64."""
    kinds = [one._type for one in (left, right) if isinstance(one, Number)]
    kind = np.float64 if np.float64 in kinds else np.int64
    if kind not in kinds:
        return None
    one, two = _plain(left, kind), _plain(right, kind)
    if one is None or two is None:
        return None
    for number in (one, two):
        if isinstance(number, int) and not -LARGEST_EXACT < number < LARGEST_EXACT:
            return None
    return one, two, kind


def rounded(kind: Any, number: Any) -> Any:
    """A number of Python's as NumPy compares it with one of this kind; None where that is not known."""
    if kind in (np.float32, np.float16):
        return float(kind(number)) if abs(number) < 60000 else None
    return number if abs(number) < LARGEST_EXACT else None


def _decided(left: Any, right: Any, operate: Any, name: str) -> Any:
    both = _both(left, right)
    if both is not None:
        return np.True_ if operate(both[0], both[1]) else np.False_
    if isinstance(right, (int, float)) and not isinstance(right, (bool, np.generic, Scalar)):
        other = rounded(left._type, right)
        if other is not None:
            return np.True_ if operate(left._number, other) else np.False_
    return BINARY[name](left, right)


def _computed(left: Any, right: Any, operate: Any, name: str) -> Any:
    """Sums and products of whole numbers that are none of NumPy's type wrap around there."""
    both = _both(left, right)
    if both is None or not only_warns():
        return BINARY[name](left, right)
    made = operate(both[0], both[1])
    if both[2] is np.float64:
        return Number(made, both[2])
    return Number(made, both[2]) if -(2**62) <= made <= 2**62 else BINARY[name](left, right)
