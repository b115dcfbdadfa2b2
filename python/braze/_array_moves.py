"""NumPy's functions that move, choose or join items of arrays that a graph computes (_arrays.py)."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from braze._array_operator import call
from braze._array_types import common_type, numpy_type, type_named
from braze._arrays import (
    BINARY,
    METHODS,
    Array,
    Late,
    Scalar,
    array,
    end,
    fitting,
    is_row_major,
    operand,
    result,
    tensor_of,
    view,
)

Function = Callable[..., Any]


def _array(a: Any) -> Array:
    return a if isinstance(a, Array) and not isinstance(a, Scalar) else end()


def _whole(*numbers: Any) -> None:
    for number in numbers:
        if not isinstance(number, int) or isinstance(number, bool):
            end()


def _axis(axis: Any, a: Array) -> int:
    _whole(axis)
    if not -a.ndim <= axis < a.ndim:
        end()
    return axis if axis >= 0 else axis + a.ndim


# ---- views


def flip(m: Any, axis: Any = None) -> Any:
    a = _array(m)
    axes = range(a.ndim) if axis is None else (axis if isinstance(axis, tuple) else (axis,))
    turned = [_axis(one, a) for one in axes]
    places = [slice(None, None, -1) if k in turned else slice(None) for k in range(a.ndim)]
    return a[tuple(places)]


def fliplr(m: Any) -> Any:
    return flip(m, 1) if _array(m).ndim >= 2 else end()


def flipud(m: Any) -> Any:
    return flip(m, 0)


def rot90(m: Any, k: Any = 1, axes: Any = (0, 1)) -> Any:
    a = _array(m)
    if a.ndim != 2 or axes != (0, 1) or k not in (1, 2, 3):
        return end()
    if k == 2:
        return flip(flip(a, 0), 1)
    return METHODS["transpose"](flip(a, 1)) if k == 1 else flip(METHODS["transpose"](a), 1)


def moveaxis(a: Any, source: Any, destination: Any) -> Any:
    a = _array(a)
    start, to = _axis(source, a), _axis(destination, a)
    order = [k for k in range(a.ndim) if k != start]
    return METHODS["transpose"](a, (*order[:to], start, *order[to:]))


def rollaxis(a: Any, axis: Any, start: Any = 0) -> Any:
    a = _array(a)
    _whole(start)
    moved = _axis(axis, a)
    if not 0 <= start <= a.ndim:
        end()
    return moveaxis(a, moved, start - 1 if moved < start else start)


def broadcast_to(a: Any, shape: Any) -> Any:
    """Nobody may write there."""
    a = _array(a)
    sizes = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    _whole(*sizes)
    return Late(a, lambda tensor: tensor.expand(sizes), (np.broadcast_to, a, sizes))


def diagonal(a: Any, offset: Any = 0, axis1: Any = 0, axis2: Any = 1) -> Any:
    """Likewise."""
    a = _array(a)
    _whole(offset, axis1, axis2)
    return Late(a, lambda tensor: tensor.diagonal(offset, axis1, axis2), (np.diagonal, a, offset, axis1, axis2))


def diag(v: Any, k: Any = 0) -> Any:
    a = _array(v)
    _whole(k)
    if a.ndim == 2:
        return diagonal(a, k)
    return array(torch.diag(a._tensor, k)) if a.ndim == 1 else end()


def atleast_1d(*arrays: Any) -> Any:
    return _array(arrays[0]) if len(arrays) == 1 and _array(arrays[0]).ndim > 0 else end()


def atleast_2d(*arrays: Any) -> Any:
    a = _array(arrays[0]) if len(arrays) == 1 else end()
    return a if a.ndim >= 2 else (a[None, :] if a.ndim == 1 else end())


def atleast_3d(*arrays: Any) -> Any:
    a = _array(arrays[0]) if len(arrays) == 1 else end()
    if a.ndim >= 3:
        return a
    return a[:, :, None] if a.ndim == 2 else (a[None, :, None] if a.ndim == 1 else end())


def expand_dims(a: Any, axis: Any) -> Any:
    a = _array(a)
    axes = axis if isinstance(axis, (tuple, list)) else (axis,)
    _whole(*axes)
    dims = a.ndim + len(axes)
    new = [one if one >= 0 else one + dims for one in axes]
    if len(set(new)) != len(new) or [one for one in new if not 0 <= one < dims]:
        end()

    def turn(tensor: torch.Tensor) -> torch.Tensor:
        return tensor[tuple([None if k in new else slice(None) for k in range(dims)])]

    return view(a, turn, (np.expand_dims, a, tuple(axes)), True)


def split(ary: Any, indices_or_sections: Any, axis: Any = 0) -> Any:
    a = _array(ary)
    if isinstance(indices_or_sections, int):
        size = a.shape[_axis(axis, a)]
        if indices_or_sections < 1 or size % indices_or_sections != 0:
            end()
    return array_split(a, indices_or_sections, axis)


def array_split(ary: Any, indices_or_sections: Any, axis: Any = 0) -> Any:
    a = _array(ary)
    dim = _axis(axis, a)
    size = a.shape[dim]
    if isinstance(indices_or_sections, (list, tuple)):
        _whole(*indices_or_sections)
        ends = [*indices_or_sections, size]
    else:
        _whole(indices_or_sections)
        count = indices_or_sections
        if count < 1:
            end()
        each, more = size // count, size % count
        ends = [(k + 1) * each + (k + 1 if k < more else more) for k in range(count)]
    starts = [0, *ends[:-1]]
    before = (slice(None),) * dim
    return [a[(*before, slice(starts[k], ends[k]))] for k in range(len(ends))]


def hsplit(ary: Any, indices_or_sections: Any) -> Any:
    return split(ary, indices_or_sections, 1 if _array(ary).ndim > 1 else 0)


def vsplit(ary: Any, indices_or_sections: Any) -> Any:
    return split(ary, indices_or_sections, 0) if _array(ary).ndim > 1 else end()


# ---- copies


def roll(a: Any, shift: Any, axis: Any = None) -> Any:
    x = _array(a)._tensor
    if not x.is_contiguous():
        end()
    shifts = shift if isinstance(shift, tuple) else (shift,)
    _whole(*shifts)
    if axis is None:
        return array(torch.roll(x.reshape(-1), shifts[0]).reshape(x.shape)) if len(shifts) == 1 else end()
    axes = axis if isinstance(axis, tuple) else (axis,)
    dims = [_axis(one, a) for one in axes]
    return array(torch.roll(x, shifts, dims)) if len(shifts) == len(dims) else end()


def tile(A: Any, reps: Any) -> Any:
    x = _array(A)._tensor
    counts = tuple(reps) if isinstance(reps, (tuple, list)) else (reps,)
    _whole(*counts)
    return array(x.contiguous().tile(counts))


def take(a: Any, indices: Any, axis: Any = None, *rest: Any, **named: Any) -> Any:
    if len(rest) > 0 or len(named) > 0:
        end()
    a = _array(a)
    if axis is None:
        a = METHODS["reshape"](a, -1)
        axis = 0
    if not a._tensor.is_contiguous():
        end()
    before = (slice(None),) * _axis(axis, a)
    if isinstance(indices, int):
        return METHODS["copy"](a[(*before, indices)]) if a.ndim > 1 else a[indices]
    places = tensor_of(indices)
    if places.is_floating_point() or places.is_complex() or places.dtype is torch.bool or places.dim() == 0:
        end()
    return array(a._tensor[(*before, places.long())].contiguous())


def _places_along(a: Array, indices: Any, axis: Any) -> tuple[torch.Tensor, int]:
    """For gather and scatter, which do not count from the end."""
    places, dim = tensor_of(indices), _axis(axis, a)
    if places.dtype is not torch.int64 or places.dim() != a.ndim:
        end()
    for k in range(a.ndim):
        if k != dim and places.shape[k] != a.shape[k]:
            end()
    return torch.where(places < 0, places + a.shape[dim], places), dim


def take_along_axis(arr: Any, indices: Any, axis: Any = -1) -> Any:
    a = _array(arr)
    places, dim = _places_along(a, indices, axis)
    return array(torch.gather(a._tensor, dim, places)) if a._tensor.is_contiguous() else end()


def put_along_axis(arr: Any, indices: Any, values: Any, axis: Any) -> None:
    """Of places that occur once at most: which one is written last could not be told."""
    a = _array(arr)
    places, dim = _places_along(a, indices, axis)
    value = operand(values)
    if isinstance(a, Late) or places.shape[dim] != 1 or (isinstance(value, torch.Tensor) and value.is_complex()):
        end()
    kind = a._tensor.dtype
    if isinstance(value, int) and not isinstance(value, bool):
        value = fitting(value, kind)
    if isinstance(value, torch.Tensor):
        a._tensor.scatter_(dim, places, value.to(kind).expand(places.shape))
    elif isinstance(value, complex) or (isinstance(value, float) and not kind.is_floating_point):
        end()
    else:
        a._tensor.scatter_(dim, places, value)


def meshgrid(*xi: Any, indexing: Any = "xy", sparse: Any = False, copy: Any = True) -> Any:
    if indexing not in ("xy", "ij") or sparse is not False or copy is not True or len(xi) < 2:
        end()
    tensors = [tensor_of(one) for one in xi]
    for tensor in tensors:
        if tensor.dim() != 1:
            end()
    places = list(range(len(xi)))
    if indexing == "xy":
        places[0], places[1] = 1, 0
    shape = [0] * len(xi)
    for k in range(len(xi)):
        shape[places[k]] = tensors[k].shape[0]
    made = []
    for k in range(len(xi)):
        along = [-1 if dim == places[k] else 1 for dim in range(len(xi))]
        made.append(array(tensors[k].reshape(along).expand(shape).clone(memory_format=torch.contiguous_format)))
    return tuple(made)


def diff(a: Any, n: Any = 1, axis: Any = -1) -> Any:
    a = _array(a)
    dim = _axis(axis, a)
    if n != 1 or a.dtype == np.bool_:
        end()
    before = (slice(None),) * dim
    return BINARY["subtract"](a[(*before, slice(1, None))], a[(*before, slice(None, -1))])


def triu(m: Any, k: Any = 0) -> Any:
    x = _array(m)._tensor
    _whole(k)
    return array(torch.triu(x.contiguous(), k)) if x.dim() >= 2 else end()


def tril(m: Any, k: Any = 0) -> Any:
    x = _array(m)._tensor
    _whole(k)
    return array(torch.tril(x.contiguous(), k)) if x.dim() >= 2 else end()


def pad(a: Any, pad_width: Any, mode: Any = "constant", **named: Any) -> Any:
    x = _array(a)._tensor
    if mode != "constant":
        return call("pad", (a,), {"pad_width": pad_width, "mode": mode, **named}) if len(named) == 0 else end()
    value = named.pop("constant_values", 0)
    if len(named) > 0 or type(value) not in (int, float) or not x.is_contiguous():
        end()
    if type(value) is float and not x.is_floating_point():
        end()
    widths = _widths(pad_width, x.dim())
    kind = x.dtype
    fill = fitting(value, kind) if type(value) is int else value
    sizes = [x.shape[k] + widths[k][0] + widths[k][1] for k in range(x.dim())]
    made = torch.full(sizes, fill, dtype=kind, device="cpu")
    made[tuple([slice(widths[k][0], widths[k][0] + x.shape[k]) for k in range(x.dim())])] = x
    return array(made)


def _widths(given: Any, dims: int) -> list[tuple[int, int]]:
    if isinstance(given, int):
        widths = [(given, given)] * dims
    elif len(given) == 2 and isinstance(given[0], int):
        widths = [(given[0], given[1])] * dims
    elif len(given) == 1 and dims != 1:
        widths = [tuple(given[0])] * dims
    else:
        widths = [tuple(one) for one in given]
    for one in widths:
        if len(one) != 2 or len(widths) != dims:
            end()
        _whole(*one)
        if one[0] < 0 or one[1] < 0:
            end()
    return widths


def column_stack(tup: Any) -> Any:
    columns = [_array(one) for one in tup] if isinstance(tup, (tuple, list)) else end()
    return METHODS["concatenate"]([one[:, None] if one.ndim == 1 else one for one in columns], 1)


def dstack(tup: Any) -> Any:
    parts = [atleast_3d(one) for one in tup] if isinstance(tup, (tuple, list)) else end()
    return METHODS["concatenate"](parts, 2)


def append(arr: Any, values: Any, axis: Any = None) -> Any:
    if axis is not None:
        return METHODS["concatenate"]((arr, values), axis)
    parts = [array(tensor_of(one).reshape(-1)) for one in (arr, values)]
    return METHODS["concatenate"](parts, 0)


def broadcast_arrays(*args: Any) -> Any:
    arrays = [_array(one) for one in args]
    shape = tuple(torch.broadcast_shapes(*[one._tensor.shape for one in arrays]))
    for one in arrays:
        if one.shape == shape:
            end()  # It is a view that may be written, with a warning.
    return tuple([broadcast_to(one, shape) for one in arrays])


def ascontiguousarray(a: Any, dtype: Any = None) -> Any:
    a = _array(a)
    if a.ndim == 0 or (dtype is not None and type_named(dtype) is not a._tensor.dtype):
        end()
    is_kept = not isinstance(a, Late) and a._tensor.is_contiguous()
    return a if is_kept else array(a._tensor.clone(memory_format=torch.contiguous_format))


def view_as(a: Any, dtype: Any = None) -> Any:
    """Other numbers of the same size."""
    a = _array(a)
    kind = type_named(dtype) if dtype is not None else None
    if kind is None or isinstance(a, Late) or kind.itemsize != a._tensor.element_size() or kind is torch.bool:
        return end()
    return array(a._tensor.view(kind), a._begins)


# ---- what others are filled with


def full(shape: Any, fill_value: Any, dtype: Any = None) -> Any:
    if not isinstance(fill_value, Scalar):
        return end()
    sizes = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    _whole(*sizes)
    value = fill_value._tensor
    kind = value.dtype if dtype is None else type_named(dtype)
    if kind is None or (value.is_complex() and not kind.is_complex):
        return end()
    return array(value.to(kind).expand(sizes).clone())


def full_like(a: Any, fill_value: Any, dtype: Any = None) -> Any:
    x = _array(a)._tensor
    kind = x.dtype if dtype is None else type_named(dtype)
    if kind is None or not x.is_contiguous():
        return end()
    if isinstance(fill_value, Array):
        return full(tuple(x.shape), fill_value, numpy_type(kind)) if isinstance(fill_value, Scalar) else end()
    if isinstance(fill_value, int) and not isinstance(fill_value, bool):
        fill_value = fitting(fill_value, kind)
    elif not isinstance(fill_value, (bool, float)) or (
        isinstance(fill_value, float) and not kind.is_floating_point
    ):
        return end()
    return array(torch.full(x.shape, fill_value, dtype=kind, device="cpu"))


def select(condlist: Any, choicelist: Any, default: Any = 0) -> Any:
    """The first choice whose condition holds."""
    if not isinstance(condlist, list) or not isinstance(choicelist, list) or len(condlist) != len(choicelist):
        return end()
    kinds = []
    for one in (*choicelist, default):
        value = operand(one)
        kinds.append(value.dtype if isinstance(value, torch.Tensor) else value * 0)
    kind = common_type(tuple(kinds))
    conditions = [tensor_of(one) for one in condlist]
    shape = conditions[0].shape if len(conditions) > 0 else end()
    chosen = torch.full(shape, default, dtype=kind, device="cpu") if type(default) in (int, float) else end()
    for k in range(len(condlist) - 1, -1, -1):
        value = tensor_of(choicelist[k]).to(kind)
        is_plain = value.is_contiguous() and conditions[k].is_contiguous() and conditions[k].shape == shape
        if not is_plain or value.shape != shape or conditions[k].dtype is not torch.bool:
            end()
        chosen = torch.where(conditions[k], value, chosen)
    return array(chosen)


# ---- products


def _of_one_kind(*given: Any) -> list[torch.Tensor]:
    tensors = [tensor_of(one) for one in given]
    kind = common_type(tuple([tensor.dtype for tensor in tensors]))
    if kind is None or not kind.is_floating_point or kind is torch.float16:
        return end()
    return [tensor.to(kind) for tensor in tensors]


def _product(made: torch.Tensor, kind: torch.dtype) -> Any:
    return result(made.contiguous()) if made.dtype is kind else end()  # Not as autocast has it.


def inner(a: Any, b: Any) -> Any:
    x, y = _of_one_kind(a, b)
    return _product(torch.inner(x, y), x.dtype) if x.dim() in (1, 2) and y.dim() in (1, 2) else end()


def vdot(a: Any, b: Any) -> Any:
    x, y = _of_one_kind(a, b)
    return _product(torch.dot(x.reshape(-1), y.reshape(-1)), x.dtype)


def kron(a: Any, b: Any) -> Any:
    x, y = _of_one_kind(a, b)
    return _product(torch.kron(x, y), x.dtype) if x.dim() == y.dim() and x.dim() > 0 else end()


def tensordot(a: Any, b: Any, axes: Any = 2) -> Any:
    x, y = _of_one_kind(a, b)
    if isinstance(axes, int):
        over = [list(range(x.dim() - axes, x.dim())), list(range(axes))]
    elif isinstance(axes, (tuple, list)) and len(axes) == 2:
        over = [list(one) if isinstance(one, (tuple, list)) else [one] for one in axes]
    else:
        return end()
    _whole(*over[0], *over[1])
    made = torch.tensordot(x, y, over)
    return array(made.contiguous()) if made.dtype is x.dtype else end()  # Not as autocast has it.


def layout_of_einsum(subscripts: str, dims: tuple[int, ...]) -> bool:
    """Whether NumPy's result is new and lies in the order of its dimensions, whatever the sizes."""
    inputs, _, output = subscripts.replace(" ", "").partition("->")
    terms = inputs.split(",")
    if not output.isalpha() and output != "" or not all(term.isalpha() for term in terms):
        return False
    if "->" not in subscripts or len(terms) != len(dims) or [len(term) for term in terms] != list(dims):
        return False
    letters = sorted(set(inputs) - {","})
    if not set(output) <= set(letters) or any(len(set(term)) != len(term) for term in [*terms, output]):
        return False
    sizes = {letter: k + 2 for k, letter in enumerate(letters)}
    made = np.einsum(subscripts, *[np.zeros([sizes[letter] for letter in term]) for term in terms])
    return made.ndim == 0 or (made.base is None and made.flags.c_contiguous)


def einsum(subscripts: Any, *operands: Any, **named: Any) -> Any:
    if not isinstance(subscripts, str) or len(named) > 0 or math.prod([len(operands)]) not in (1, 2):
        return end()
    tensors = _of_one_kind(*operands)
    for tensor in tensors:
        if not is_row_major(tensor):
            end()
    if not layout_of_einsum(subscripts, tuple([tensor.dim() for tensor in tensors])):
        end()
    return _product(torch.einsum(subscripts, *tensors), tensors[0].dtype)


# ---- small reductions


def trace(a: Any, offset: Any = 0) -> Any:
    a = _array(a)
    return METHODS["sum"](array(diagonal(a, offset)._tensor.contiguous())) if a.ndim == 2 else end()


def ptp(a: Any, axis: Any = None) -> Any:
    return BINARY["subtract"](METHODS["max"](a, axis), METHODS["min"](a, axis))


def count_nonzero(a: Any, axis: Any = None) -> Any:
    a = _array(a)
    return METHODS["sum"](array(a._tensor != 0), axis)


def nan_to_num(x: Any, copy: Any = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None) -> Any:
    tensor = _array(x)._tensor
    is_plain = copy is True and type(nan) is float and posinf is None and neginf is None
    return array(torch.nan_to_num(tensor, nan)) if is_plain and tensor.is_floating_point() else end()


def isclose(a: Any, b: Any, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: Any = False) -> Any:
    x, y = _of_one_kind(a, b)
    if x.shape != y.shape or type(rtol) is not float or type(atol) is not float or equal_nan is not False:
        end()
    is_near = (x - y).abs() <= atol + rtol * y.abs()
    return array((is_near & torch.isfinite(y)) | (x == y)) if x.is_contiguous() and y.is_contiguous() else end()


def real(val: Any) -> Any:
    return _array(val).real


def imag(val: Any) -> Any:
    return _array(val).imag


def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: Any = False) -> Any:
    """The common ones as NumPy has them; others are asked of it."""
    a = _array(x)
    is_of_rows = isinstance(axis, int) or (axis is None and (ord is None or a.ndim == 1))
    if not is_of_rows or not a._tensor.is_floating_point():
        return call("linalg.norm", (a,), {"ord": ord, "axis": axis, "keepdims": keepdims})
    if ord is None or ord == 2:
        return torch_sqrt(METHODS["sum"](BINARY["multiply"](a, a), axis, keepdims=keepdims))
    if ord == 1:
        return METHODS["sum"](array(a._tensor.abs()), axis, keepdims=keepdims)
    if ord == math.inf:
        return METHODS["max"](array(a._tensor.abs()), axis, keepdims=keepdims)
    return call("linalg.norm", (a,), {"ord": ord, "axis": axis, "keepdims": keepdims})


def torch_sqrt(a: Any) -> Any:
    return result(torch.sqrt(a._tensor))


def average(a: Any, axis: Any = None, weights: Any = None) -> Any:
    return METHODS["mean"](a, axis) if weights is None else call("average", (a, weights), {"axis": axis})


def sort_in_place(a: Any, axis: Any = -1, kind: Any = None) -> None:
    a = _array(a)
    a._store(call("sort", (a,), {"axis": axis, "kind": kind}))


FUNCTIONS: dict[str, Function] = {
    one.__name__: one
    for one in (
        append, array_split, ascontiguousarray, atleast_1d, atleast_2d, atleast_3d, average, broadcast_arrays,
        broadcast_to, column_stack, count_nonzero, diag, diagonal, diff, dstack, einsum, expand_dims, flip, fliplr,
        flipud, full, full_like, hsplit, imag, inner, isclose, kron, meshgrid, moveaxis, nan_to_num, pad, ptp,
        put_along_axis, real, roll, rollaxis, rot90, select, split, take, take_along_axis, tensordot, tile, trace,
        tril, triu, vdot, vsplit,
    )
}  # fmt: skip
IN_NAMESPACES: dict[str, Function] = {"linalg.norm": norm}
OF_METHODS: dict[str, Function] = {
    "diagonal": diagonal,
    "ptp": ptp,
    "sort": sort_in_place,
    "take": take,
    "trace": trace,
    "view": view_as,
}
