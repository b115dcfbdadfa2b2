"""NumPy's arrays that a graph computes, in captures.

What `t.numpy()` gives there is an Array: an object of this class around a tensor of the same memory, which stands
for the array. What NumPy would compute of it is computed of the tensor, by code that is watched like any other, and
where an Array leaves the capture a replay gives the tensor's `numpy()` in its place. NumPy itself says which types
its functions compute in (ufunc.resolve_dtypes), so that results have NumPy's type; what PyTorch does otherwise ends
the graph. A number that NumPy gives (of a reduction, or an item) is a Scalar, around a tensor without dimensions.

Warnings of NumPy's about values (a quotient by zero, an overflow) are not given: nobody looks at the values. Nor is
the one that PyTorch's tensors do not take all arguments that NumPy has for them.
"""

import operator
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

from braze._array_types import common_type, may_cast, numpy_type, scalar_class, type_named
from braze._load import C

WHY = "numpy() shows the values of a tensor"

# ---- arrays


def end() -> Any:
    return C.end_graph(WHY)


def _ends(self: Any, *arguments: Any, **named: Any) -> Any:
    return C.end_graph(WHY)


def _operator(name: str) -> Callable[[Any, Any], Any]:
    def operate(self: Any, other: Any) -> Any:
        return BINARY[name](self, other)

    return operate


def _reflected(name: str) -> Callable[[Any, Any], Any]:
    def operate(self: Any, other: Any) -> Any:
        return BINARY[name](other, self)

    return operate


def _in_place(name: str) -> Callable[[Any, Any], Any]:
    def operate(self: Any, other: Any) -> Any:
        if isinstance(self, Scalar):
            return BINARY[name](self, other)
        return self._store(BINARY[name](self, other))

    return operate


def _method(name: str) -> Callable[..., Any]:
    def call(self: Any, *arguments: Any, **named: Any) -> Any:
        return METHODS[name](self, *arguments, **named)

    def call_of_numpy(self: Any, *arguments: Any, **named: Any) -> Any:
        return getattr(self, name)(*arguments, **named)

    call_of_numpy.__name__ = name
    # Where a graph ends before the call of a method that has been looked up: what is called then, of the array.
    call.of_numpy = call_of_numpy  # type: ignore[attr-defined]
    return call


# Filled by _array_functions: what operators and methods are.
BINARY: dict[str, Callable[..., Any]] = {}
UNARY: dict[str, Callable[..., Any]] = {}
METHODS: dict[str, Callable[..., Any]] = {}


class Array:
    """Stands for an array of the class `_type`, which the memory of `_tensor` is: for `_given`, if there is one.
    `_begins` says that the tensor's storage is known to begin where the array does. Views of arrays are made again
    as such: of a view, `_origin` is the function that gives it, with the array and what else it is given."""

    __slots__ = ("_begins", "_given", "_origin", "_tensor", "_type")
    __array_ufunc__ = None  # NumPy's arrays leave operators to it.
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, tensor: torch.Tensor, type: Any, begins: bool = True) -> None:
        self._tensor = tensor
        self._type = type
        self._begins = begins
        self._given: Any = None
        self._origin: Any = None

    # ---- what it is

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self._tensor.shape)

    @property
    def ndim(self) -> int:
        return self._tensor.dim()

    @property
    def size(self) -> int:
        return self._tensor.numel()

    @property
    def itemsize(self) -> int:
        return self._tensor.element_size()

    @property
    def nbytes(self) -> int:
        return self._tensor.numel() * self._tensor.element_size()

    @property
    def strides(self) -> tuple[int, ...]:
        bytes_of_item = self._tensor.element_size()
        if 1 in self._tensor.shape:
            end()  # Where there is one item, NumPy's may be anything.
        return tuple([stride * bytes_of_item for stride in self._tensor.stride()])

    @property
    def dtype(self) -> Any:
        return numpy_type(self._tensor.dtype)

    @property
    def T(self) -> Any:
        return METHODS["transpose"](self)

    @property
    def real(self) -> Any:
        if isinstance(self, Scalar):
            end()
        is_complex = self._tensor.is_complex()
        return view(self, lambda tensor: tensor.real, (np.real, self), False) if is_complex else self

    @property
    def imag(self) -> Any:
        if isinstance(self, Scalar) or not self._tensor.is_complex():
            end()
        return view(self, lambda tensor: tensor.imag, (np.imag, self), False)

    def __getattr__(self, name: str) -> Any:
        if hasattr(self._type, name):
            return C.end_graph(WHY)
        raise AttributeError(f"'{self._type.__module__}.{self._type.__name__}' object has no attribute '{name}'")

    # ---- items

    def __len__(self) -> int:
        return self._tensor.shape[0] if self._tensor.dim() > 0 else end()

    def __iter__(self) -> Iterator[Any]:
        if self._tensor.dim() == 0:
            end()
        for k in range(self._tensor.shape[0]):
            yield self[k]

    def __getitem__(self, key: Any) -> Any:
        if isinstance(self, Scalar):
            return end()
        if isinstance(key, int) and not isinstance(key, bool) and self._tensor.dim() == 1:
            return scalar(self._tensor[key].clone())
        if isinstance(key, Scalar) and self._tensor.dim() == 1 and key._tensor.dtype is torch.int64:
            return scalar(self._tensor[key._tensor.reshape(1)].reshape(()))
        places, is_item, turned = key_of(self._tensor, key)
        if len(turned) > 0:
            return Late(self, lambda tensor: tensor[places].flip(turned), (operator.getitem, self, key))
        if is_item:
            return scalar(self._tensor[places].clone())
        for place in places:
            if isinstance(place, torch.Tensor):
                return chosen(self._tensor, places)
        return view(self, lambda tensor: tensor[places], (operator.getitem, self, key), False)

    def __setitem__(self, key: Any, value: Any) -> None:
        if isinstance(self, Scalar):
            end()
        kind = self._tensor.dtype
        if isinstance(key, Array) and key._tensor.dtype is torch.bool:
            return self._store_where(key._tensor, value)
        places, _, turned = key_of(self._tensor, key)
        if len(turned) > 0:
            end()
        if isinstance(value, (Array, np.ndarray, np.generic)):
            stored = tensor_of(value)
            if stored.is_complex() and not self._tensor.is_complex():
                end()
            self._tensor[places] = stored.to(kind, copy=True)  # Of the same memory, perhaps.
        elif isinstance(value, bool):
            self._tensor[places] = value
        elif isinstance(value, int):
            self._tensor[places] = fitting(value, kind)
        elif isinstance(value, float) and (kind.is_floating_point or kind.is_complex):
            self._tensor[places] = value
        else:
            end()

    def _store_where(self, mask: torch.Tensor, value: Any) -> None:
        """A number, where a mask of the first dimensions says so."""
        kind = self._tensor.dtype
        if isinstance(value, (Array, np.ndarray, np.generic)):
            stored = tensor_of(value)
            if stored.dim() > 0 or (stored.is_complex() and not kind.is_complex):
                end()
            value = stored.to(kind)
        elif isinstance(value, int) and not isinstance(value, bool):
            value = fitting(value, kind)
        elif not isinstance(value, bool) and not (isinstance(value, float) and kind.is_floating_point):
            end()
        if mask.dim() == 0 or mask.shape != self._tensor.shape[: mask.dim()]:
            end()
        for _ in range(self._tensor.dim() - mask.dim()):
            mask = mask.unsqueeze(-1)
        self._tensor.masked_fill_(mask, value)

    def _store(self, value: Any) -> Any:
        """The result of an operator in place, which computes as the operator does and casts."""
        if not isinstance(value, Array) or not may_cast(value._tensor.dtype, self._tensor.dtype):
            return end()
        if value._tensor.shape != self._tensor.shape:
            return end()
        self._tensor.copy_(value._tensor)
        return self

    # ---- numbers

    def __float__(self) -> float:
        return float(self._tensor) if self._tensor.numel() == 1 and not self._tensor.is_complex() else end()

    def __int__(self) -> int:
        return int(self._tensor) if self._tensor.numel() == 1 and not self._tensor.is_complex() else end()

    def __bool__(self) -> bool:
        return bool(self._tensor) if self._tensor.numel() == 1 else end()

    def __index__(self) -> int:
        return int(self._tensor) if isinstance(self, Scalar) and not self._tensor.is_floating_point() else end()

    # ---- operators

    def __neg__(self) -> Any:
        return UNARY["negative"](self)

    def __pos__(self) -> Any:
        return UNARY["positive"](self)

    def __abs__(self) -> Any:
        return UNARY["absolute"](self)

    def __invert__(self) -> Any:
        return UNARY["invert"](self)

    __add__, __radd__, __iadd__ = _operator("add"), _reflected("add"), _in_place("add")
    __sub__, __rsub__, __isub__ = _operator("subtract"), _reflected("subtract"), _in_place("subtract")
    __mul__, __rmul__, __imul__ = _operator("multiply"), _reflected("multiply"), _in_place("multiply")
    __truediv__, __rtruediv__, __itruediv__ = _operator("divide"), _reflected("divide"), _in_place("divide")
    __floordiv__, __rfloordiv__ = _operator("floor_divide"), _reflected("floor_divide")
    __ifloordiv__ = _in_place("floor_divide")
    __mod__, __rmod__, __imod__ = _operator("remainder"), _reflected("remainder"), _in_place("remainder")
    __pow__, __rpow__, __ipow__ = _operator("power"), _reflected("power"), _in_place("power")
    __and__, __rand__, __iand__ = _operator("bitwise_and"), _reflected("bitwise_and"), _in_place("bitwise_and")
    __or__, __ror__, __ior__ = _operator("bitwise_or"), _reflected("bitwise_or"), _in_place("bitwise_or")
    __xor__, __rxor__, __ixor__ = _operator("bitwise_xor"), _reflected("bitwise_xor"), _in_place("bitwise_xor")
    __matmul__, __rmatmul__ = _operator("matmul"), _reflected("matmul")
    __lt__, __le__ = _operator("less"), _operator("less_equal")
    __gt__, __ge__ = _operator("greater"), _operator("greater_equal")
    __eq__, __ne__ = _operator("equal"), _operator("not_equal")  # type: ignore[assignment]

    def __divmod__(self, other: Any) -> Any:
        return BINARY["floor_divide"](self, other), BINARY["remainder"](self, other)

    all, any, argmax, argmin = _method("all"), _method("any"), _method("argmax"), _method("argmin")
    astype, clip, copy, cumsum = _method("astype"), _method("clip"), _method("copy"), _method("cumsum")
    dot, fill, flatten, max = _method("dot"), _method("fill"), _method("flatten"), _method("max")
    mean, min, prod, ravel = _method("mean"), _method("min"), _method("prod"), _method("ravel")
    repeat, reshape, round, squeeze = _method("repeat"), _method("reshape"), _method("round"), _method("squeeze")
    std, sum, swapaxes, take = _method("std"), _method("sum"), _method("swapaxes"), _method("take")
    transpose, var, item, tolist = _method("transpose"), _method("var"), _method("item"), _method("tolist")
    argsort, cumprod, diagonal, sort = _method("argsort"), _method("cumprod"), _method("diagonal"), _method("sort")
    ptp, trace, view = _method("ptp"), _method("trace"), _method("view")

    # What object has, or what C code asks for.
    __repr__ = __str__ = __format__ = __reduce__ = __reduce_ex__ = __dir__ = __sizeof__ = _ends  # type: ignore
    __contains__ = __complex__ = __rdivmod__ = __imatmul__ = __delitem__ = __round__ = _ends
    __lshift__, __rlshift__, __ilshift__ = (
        _operator("left_shift"),
        _reflected("left_shift"),
        _in_place("left_shift"),
    )
    __rshift__, __rrshift__ = _operator("right_shift"), _reflected("right_shift")
    __irshift__ = _in_place("right_shift")
    __trunc__ = __floor__ = __ceil__ = __copy__ = __deepcopy__ = __array__ = __bytes__ = _ends


class Scalar(Array):
    """Stands for a number of NumPy's, of which nobody has another one: no operator changes it."""

    __slots__ = ()
    __hash__ = _ends  # type: ignore[assignment]


class Late(Array):
    """Stands for a view whose strides no tensor has: what its items are is read of `_of` each time, by `_turn`. So
    nothing may be written there, and views of it are such, too."""

    __slots__ = ("_of", "_turn")

    def __init__(self, of: Any, turn: Callable[[torch.Tensor], torch.Tensor], origin: tuple[Any, ...]) -> None:
        self._of = of
        self._turn = turn
        self._type = np.ndarray
        self._begins = False
        self._given: Any = None
        self._origin = origin

    @property  # type: ignore[misc]
    def _tensor(self) -> torch.Tensor:  # type: ignore[override]
        return self._turn(self._of._tensor)

    @property
    def strides(self) -> tuple[int, ...]:
        return end()

    def __setitem__(self, key: Any, value: Any) -> None:
        end()

    def _store(self, value: Any) -> Any:
        return end()


def array(tensor: torch.Tensor, begins: bool = True) -> Array:
    return Array(tensor, np.ndarray, begins)


def view(of: Array, turn: Callable[[torch.Tensor], torch.Tensor], origin: tuple[Any, ...], begins: bool) -> Array:
    """Of an array, by a function of tensors that gives a view; `origin` makes it natively."""
    if isinstance(of, Late):
        return Late(of, turn, origin)
    made = array(turn(of._tensor), begins and of._begins)
    made._origin = origin
    return made


def scalar(tensor: torch.Tensor) -> Scalar:
    return Scalar(tensor, scalar_class(tensor.dtype))


def of_given(tensor: torch.Tensor, given: Any) -> Array | None:
    """An array that existed before, over whose memory the tensor lies."""
    if numpy_type(tensor.dtype) is None:
        return None
    made = array(tensor)
    made._given = given
    return made


def constant(known: Any) -> Array:
    """An array that no tensor decides, of which a number that varies picks an item."""
    return array(torch.tensor(np.array(known), device="cpu"))


def computed(made: Any) -> Array:
    """In the place of an array that no tensor has decided yet."""
    known = np.array(made)
    kind = type_named(known.dtype)
    if known.dtype.kind in "biuf" and not known.any() and not (known.dtype.kind == "f" and np.signbit(known).any()):
        return array(torch.zeros(known.shape, dtype=kind, device="cpu"))
    return array(torch.tensor(known, device="cpu").clone())


def result(tensor: torch.Tensor) -> Array:
    """What NumPy's functions give: a number where there are no dimensions."""
    return scalar(tensor) if tensor.dim() == 0 else array(tensor)


# ---- what is given


def tensor_of(value: Any) -> torch.Tensor:
    """Of an array, or of what NumPy makes one of. An array or number that no tensor decides is a constant."""
    if isinstance(value, Array):
        return value._tensor
    if isinstance(value, torch.Tensor):
        return checked(value)
    if isinstance(value, (list, tuple)):
        return _stacked(value)
    known = np.array(value)
    if type_named(known.dtype) is None:
        end()
    return torch.tensor(known, device="cpu")


def _stacked(items: Any) -> torch.Tensor:
    tensors = [tensor_of(item) for item in items]
    if len(tensors) == 0:
        end()
    kind = common_type(tuple([tensor.dtype for tensor in tensors]))
    for tensor in tensors:
        if kind is None or tensor.shape != tensors[0].shape:
            end()
    return torch.stack([tensor.to(kind) for tensor in tensors])


def checked(tensor: torch.Tensor) -> torch.Tensor:
    """What a tensor shows as an array: itself, apart from its history and versions."""
    is_plain = tensor.device.type == "cpu" and tensor.layout == torch.strided and not tensor.requires_grad
    if not is_plain or tensor.is_conj() or tensor.is_neg() or numpy_type(tensor.dtype) is None:
        end()
    return tensor.data


def numpy(self: torch.Tensor, *, force: bool = False) -> Array:
    """torch.Tensor.numpy"""
    return array(checked(self), False) if force is False else end()


def operand(value: Any) -> Any:
    """A tensor, or a number of Python's, which takes the type of what is beside it."""
    if isinstance(value, Array):
        return value._tensor
    if isinstance(value, bool):
        return torch.tensor(value, device="cpu")
    if isinstance(value, (int, complex)):
        return value
    if isinstance(value, float) and not isinstance(value, np.generic):
        return value
    return tensor_of(value)


def fitting(number: int, kind: torch.dtype) -> int:
    """NumPy raises where an integer is none of the type."""
    if kind is torch.bool:
        end()
    if not kind.is_floating_point and not kind.is_complex:
        limits = torch.iinfo(kind)
        if number < limits.min or number > limits.max:
            end()
    return number


def chosen(tensor: torch.Tensor, places: tuple[Any, ...]) -> Array:
    """What arrays of places choose. NumPy's result lies in memory as if what they choose came first."""
    first = 0
    while not isinstance(places[first], torch.Tensor):
        if not isinstance(places[first], slice) and places[first] is not Ellipsis:
            return end()
        first = first + 1
    if first == 0:
        return array(tensor[places])
    dims = [place.dim() for place in places if isinstance(place, torch.Tensor)]
    if len(dims) != 1 or dims[0] != 1 or first != 1 or len(places) != 2 or places[0] is Ellipsis:
        return end()
    return array(tensor[places].transpose(0, 1).contiguous().transpose(0, 1))


def key_of(tensor: torch.Tensor, key: Any) -> tuple[Any, bool, tuple[int, ...]]:
    """A subscript as tensors have it, whether it is of one item, and which dimensions of what it gives are turned
    round then."""
    parts = key if isinstance(key, tuple) else (key,)
    if any([isinstance(part, slice) and _is_backwards(part) for part in parts]):
        return _turned_key(tensor, parts)
    places = [_place(part) for part in parts]
    integers = [part for part in places if isinstance(part, int)]
    for k, part in enumerate(places):
        # Behind a number or a new dimension NumPy puts what an array of places chooses in front.
        if isinstance(part, torch.Tensor) and k > 0 and not isinstance(places[k - 1], (torch.Tensor, slice)):
            end()
    is_item = len(integers) == len(places) and len(places) == tensor.dim()
    return tuple(places), is_item, ()


def _is_backwards(part: slice) -> bool:
    return isinstance(part.step, int) and part.step < 0


def is_row_major(tensor: torch.Tensor) -> bool:
    """Its items lie in the order of its dimensions, one after the other or not: so do NumPy's results of it."""
    strides = [tensor.stride(k) for k in range(tensor.dim()) if tensor.shape[k] != 1]
    for k in range(1, len(strides)):
        if strides[k] > strides[k - 1]:
            return False
    return len(strides) == 0 or strides[-1] > 0


def _turned_key(tensor: torch.Tensor, parts: tuple[Any, ...]) -> tuple[Any, bool, tuple[int, ...]]:
    """Of slices, numbers and new dimensions, some of the slices backwards: forwards, and turned round then."""
    places: list[Any] = []
    turned: list[int] = []
    dim = made = 0
    for part in parts:
        if part is None:
            places.append(None)
            made = made + 1
            continue
        if dim >= tensor.dim() or part is Ellipsis:
            return end()
        if isinstance(part, slice):
            if _is_backwards(part):
                places.append(_forwards(part, tensor.shape[dim]))
                turned.append(made)
            else:
                places.append(part)
            made = made + 1
        else:
            place = _place(part)
            places.append(place if isinstance(place, int) else end())
        dim = dim + 1
    return tuple(places), False, tuple(turned)


def _forwards(part: slice, size: int) -> slice:
    """The same places in the other order."""
    if part.start is None and part.stop is None and part.step == -1:
        return slice(None)
    start, stop, step = part.indices(size)
    count = len(range(start, stop, step))
    return slice(start + (count - 1) * step, start + 1, -step) if count > 0 else slice(0, 0)


def _are_numbers(items: list[Any]) -> bool:
    for item in items:
        if not isinstance(item, int) or isinstance(item, bool):
            return False
    return len(items) > 0


def _place(part: Any) -> Any:
    if part is None or part is Ellipsis:
        return part
    if isinstance(part, Array):
        if isinstance(part, Scalar):
            return operator.index(part)
        if part._tensor.dim() == 0:
            end()
        if part._tensor.dtype is torch.bool or part._tensor.is_floating_point() or part._tensor.is_complex():
            end()
        return part._tensor.long()
    if isinstance(part, slice):
        return part
    if isinstance(part, list):
        part = np.array(part) if _are_numbers(part) else end()
    if isinstance(part, bool):
        end()
    if isinstance(part, int):
        return part
    if isinstance(part, np.integer):
        return int(part)
    if isinstance(part, np.ndarray) and part.ndim > 0 and part.dtype.kind in "iu":
        return torch.tensor(np.array(part), device="cpu").long()
    return end()
