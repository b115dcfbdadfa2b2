"""NumPy's functions of arrays that a graph computes (_arrays.py), in operators of PyTorch."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from braze import _array_made, _array_moves, _array_operator, _array_tensors, _array_ufuncs
from braze._array_numbers import Number, rounded
from braze._array_operator import call
from braze._array_types import common_type, loop_of, may_cast, numpy_type, only_warns, scalar_class, type_named
from braze._array_ufuncs import given_in, keep_order, put
from braze._arrays import (
    BINARY,
    METHODS,
    UNARY,
    Array,
    Late,
    Scalar,
    array,
    end,
    is_row_major,
    numpy,
    operand,
    result,
    tensor_of,
    view,
)
from braze._load import C

Function = Callable[..., Any]

# ---- reductions


def _axes(axis: Any) -> tuple[int, ...]:
    axes = axis if isinstance(axis, tuple) else (axis,)
    for one in axes:
        if not isinstance(one, int) or isinstance(one, bool):
            end()
    return axes


def _refuse(*unusual: Any) -> None:
    """Arguments that nothing here knows, by place or by name, end the graph."""
    for given in unusual:
        if len(given) > 0:
            end()


def _rest(x: torch.Tensor, axis: Any) -> int:
    """How many dimensions are left: the order of several is NumPy's choice."""
    return x.dim() - len(_axes(axis))


def _reduced(
    a: Any, axis: Any, keepdims: Any, dtype: Any, out: Any, rest: tuple[Any, ...], named: dict[str, Any]
) -> Any:
    """What a reduction is given, as a tensor; the unusual ends the graph."""
    _refuse(rest, named)
    if out is not None or not isinstance(a, Array) or (keepdims is not True and keepdims is not False):
        end()
    x = a._tensor
    if x.numel() == 0 or x.is_complex() or x.dtype is torch.float16 or not only_warns():
        end()
    if axis is not None and not x.is_contiguous() and _rest(x, axis) > (0 if keepdims else 1):
        end()
    if dtype is None:
        return x
    kind = type_named(dtype)
    return x.to(kind) if kind is not None and (kind.is_floating_point or not x.is_floating_point()) else end()


def _wide(x: torch.Tensor) -> torch.Tensor:
    """In what sums of integers are computed. Those of unsigned ones have no type here."""
    if x.is_floating_point():
        return x
    return end() if x.dtype is torch.uint8 else x.to(torch.int64)


def _over(axis: Any, x: torch.Tensor) -> tuple[int, ...]:
    return tuple(range(x.dim())) if axis is None else _axes(axis)


def sum_(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, *rest: Any, **named: Any
):
    x = _wide(_reduced(a, axis, keepdims, dtype, out, rest, named))
    return result(torch.sum(x, _over(axis, x), keepdim=keepdims) if x.dim() > 0 else x.clone())


def mean(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, *rest: Any, **named: Any
):
    x = _reduced(a, axis, keepdims, dtype, out, rest, named)
    if not x.is_floating_point():
        x = x.to(torch.float64)
    return result(torch.mean(x, _over(axis, x), keepdim=keepdims) if x.dim() > 0 else x.clone())


def prod(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, *rest: Any, **named: Any
):
    x = _wide(_reduced(a, axis, keepdims, dtype, out, rest, named))
    if axis is None:
        return result(torch.prod(x)) if keepdims is False else end()
    axes = _axes(axis)
    return result(torch.prod(x, axes[0], keepdim=keepdims)) if len(axes) == 1 else end()


def _spread(function: Function) -> Function:
    def spread(
        a: Any,
        axis: Any = None,
        dtype: Any = None,
        out: Any = None,
        ddof: Any = 0,
        keepdims: Any = False,
        *rest: Any,
        **named: Any,
    ) -> Any:
        x = _reduced(a, axis, keepdims, dtype, out, rest, named)
        if not isinstance(ddof, int) or x.dim() == 0:
            end()
        axes = _over(axis, x)
        count = 1
        for one in axes:
            count = count * x.shape[one]
        if count - ddof <= 0:
            end()
        x = x if x.is_floating_point() else x.to(torch.float64)
        return result(function(x, axes, correction=ddof, keepdim=keepdims))

    return spread


def _extreme(function: Function) -> Function:
    def extreme(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, *rest: Any, **named: Any) -> Any:
        x = _reduced(a, axis, keepdims, None, out, rest, named)
        if x.dim() == 0:
            end()
        return result(function(x, _over(axis, x), keepdim=keepdims))

    return extreme


def _place_of_extreme(function: Function) -> Function:
    def place(a: Any, axis: Any = None, out: Any = None, *rest: Any, keepdims: Any = False, **named: Any) -> Any:
        x = _reduced(a, axis, keepdims, None, out, rest, named)
        if x.dim() == 0 or isinstance(axis, tuple):
            end()
        if x.dtype is torch.bool:
            x = x.to(torch.uint8)
        if axis is None:
            return result(function(x)) if keepdims is False else end()
        return result(function(x, _axes(axis)[0], keepdim=keepdims))

    return place


def _truth(function: Function) -> Function:
    def truth(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, *rest: Any, **named: Any) -> Any:
        x = _reduced(a, axis, keepdims, None, out, rest, named)
        x = x.to(torch.bool)
        if x.dim() == 0:
            end()
        return result(function(x, _over(axis, x), keepdim=keepdims))

    return truth


def cumsum(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, *rest: Any, **named: Any) -> Any:
    x = _wide(_reduced(a, axis, False, dtype, out, rest, named))
    if x.is_floating_point():  # PyTorch's sums begin with zero, which takes the sign of another one.
        return call("cumsum", (array(x),), {"axis": axis})
    if isinstance(axis, tuple) or not x.is_contiguous():
        end()
    return array(torch.cumsum(x.reshape(-1), 0) if axis is None else torch.cumsum(x, _axes(axis)[0]))


def _into(function: Function) -> Function:
    """With `out=`, in whose type NumPy computes then."""

    def reduce(a: Any, *rest: Any, out: Any = None, **named: Any) -> Any:
        made = function(a, *rest, **named)
        if out is None:
            return made
        is_alike = isinstance(out, Array) and out._tensor.dtype is made._tensor.dtype
        return put(out, made) if is_alike else end()

    return reduce


# ---- what moves items


def _tensor_of_array(a: Any, *refused: Any) -> torch.Tensor:
    _refuse(*refused)
    return a._tensor if isinstance(a, Array) and not isinstance(a, Scalar) else end()


def _numbers(given: tuple[Any, ...]) -> tuple[int, ...]:
    """`(2, 3)` or `2, 3`."""
    numbers = given[0] if len(given) == 1 and isinstance(given[0], (tuple, list)) else given
    for one in numbers:
        if not isinstance(one, int):
            end()
    return tuple(numbers)


def _in_memory(a: Any) -> Any:
    """Of what no tensor lies over, it could not be told whether NumPy copies."""
    return end() if isinstance(a, Late) else a


def reshape(a: Any, *shape: Any, **named: Any) -> Any:
    _in_memory(a)
    return array(_tensor_of_array(a, named).reshape(_numbers(shape)), a._begins)


def ravel(a: Any, *rest: Any, **named: Any) -> Any:
    _in_memory(a)
    return array(_tensor_of_array(a, rest, named).reshape(-1), a._begins)


def flatten(a: Any, *rest: Any, **named: Any) -> Any:
    return array(_tensor_of_array(a, rest, named).reshape(-1).clone())


def transpose(a: Any, *axes: Any, **named: Any) -> Any:
    x = _tensor_of_array(a, named)
    if len(axes) == 0 or (len(axes) == 1 and axes[0] is None):
        return turned(a, tuple(range(x.dim() - 1, -1, -1)))
    return turned(a, _numbers(axes))


def turned(a: Array, order: tuple[int, ...]) -> Any:
    return view(a, lambda tensor: tensor.permute(order), (np.transpose, a, order), True)


def swapaxes(a: Any, axis1: Any, axis2: Any) -> Any:
    _tensor_of_array(a)
    return view(a, lambda tensor: tensor.transpose(axis1, axis2), (np.swapaxes, a, axis1, axis2), True)


def squeeze(a: Any, axis: Any = None) -> Any:
    x = _tensor_of_array(a)
    if axis is None:
        return view(a, lambda tensor: tensor.squeeze(), (np.squeeze, a), True)
    axes = _axes(axis)
    for one in axes:
        if x.shape[one] != 1:
            end()
    return view(a, lambda tensor: tensor.squeeze(axes), (np.squeeze, a, axis), True)


def astype(a: Any, dtype: Any, *rest: Any, copy: Any = True, **named: Any) -> Any:
    _refuse(rest, named)
    x = tensor_of(a)
    kind = type_named(dtype)
    if kind is None or (x.is_complex() and not kind.is_complex):
        return end()
    if copy is not True and x.dtype is kind:
        return a if copy is False else end()
    cast = x.to(kind, copy=True)
    return result(cast) if isinstance(a, Scalar) else array(cast)


def copy(a: Any, *rest: Any, **named: Any) -> Any:
    _refuse(rest, named)
    if isinstance(a, Scalar):
        return result(a._tensor)
    return array(_tensor_of_array(a).clone(memory_format=torch.contiguous_format))


def fill(a: Any, value: Any) -> None:
    a[...] = value


def item(a: Any, *places: Any) -> Any:
    return a._tensor.item() if len(places) == 0 and a._tensor.numel() == 1 else end()


def tolist(a: Any) -> Any:
    return a._tensor.tolist()


def repeat(a: Any, repeats: Any, axis: Any = None) -> Any:
    x = _tensor_of_array(a)
    if not isinstance(repeats, int) or (axis is not None and not x.is_contiguous()):
        end()
    return array(x.reshape(-1).repeat_interleave(repeats) if axis is None else x.repeat_interleave(repeats, axis))


def clip(a: Any, a_min: Any = None, a_max: Any = None, *rest: Any, **named: Any) -> Any:
    low, high = named.pop("min", a_min), named.pop("max", a_max)
    _refuse(rest, named)
    if low is None and high is None:
        end()
    clipped = a if low is None else BINARY["maximum"](a, low)
    return clipped if high is None else BINARY["minimum"](clipped, high)


def round_(a: Any, decimals: Any = 0, out: Any = None) -> Any:
    if not isinstance(decimals, int) or out is not None or not isinstance(a, Array) or a._tensor.is_complex():
        end()
    if not a._tensor.is_floating_point():
        return result(a._tensor.clone()) if decimals >= 0 and a._tensor.dtype is not torch.bool else end()
    return UNARY["rint"](a) if decimals == 0 else call("round", (a,), {"decimals": decimals})


def dot(a: Any, b: Any, *rest: Any, **named: Any) -> Any:
    _refuse(rest, named)
    x, y = tensor_of(a), tensor_of(b)
    kind = common_type((x.dtype, y.dtype))
    has_product = kind is not None and (kind.is_floating_point or kind.is_complex)
    if not has_product or kind is torch.float16 or not only_warns():
        return end()
    if x.dim() not in (1, 2) or y.dim() not in (1, 2):
        end()
    product = torch.matmul(x.to(kind), y.to(kind))
    return result(product) if product.dtype is kind else end()  # Not as autocast has it.


def matmul(a: Any, b: Any, *rest: Any, **named: Any) -> Any:
    product = _product(a, b, *rest, **named)
    # As of every ufunc (_array_ufuncs.py): a tensor among its operands makes a tensor of what it gives.
    is_wrapped = isinstance(a, torch.Tensor) or isinstance(b, torch.Tensor)
    return product._tensor if is_wrapped else product


def _product(a: Any, b: Any, *rest: Any, **named: Any) -> Any:
    _refuse(rest, named)
    x, y = tensor_of(a), tensor_of(b)
    if x.dim() <= 2 and y.dim() <= 2:
        return dot(a, b)
    kind = common_type((x.dtype, y.dtype))
    if kind not in (torch.float32, torch.float64) or x.dim() < 2 or y.dim() < 2 or not only_warns():
        return end()
    product = torch.matmul(x.to(kind), y.to(kind))
    return array(product.contiguous()) if product.dtype is kind else end()


# ---- what joins arrays


def _joined(arrays: Any) -> list[torch.Tensor]:
    if not isinstance(arrays, (list, tuple)) or len(arrays) == 0:
        end()
    tensors = [tensor_of(one) for one in arrays]
    kind = common_type(tuple([tensor.dtype for tensor in tensors]))
    if kind is None:
        end()
    for tensor in tensors:
        if not is_row_major(tensor):
            end()  # The result would lie as they do.
    return [tensor.to(kind).contiguous() for tensor in tensors]


def concatenate(arrays: Any, axis: Any = 0, *rest: Any, **named: Any) -> Any:
    _refuse(rest, named)
    tensors = _joined(arrays)
    if axis is None:
        return array(torch.cat([tensor.reshape(-1) for tensor in tensors]))
    for tensor in tensors:
        if tensor.dim() != tensors[0].dim() or tensor.dim() == 0:
            end()
    return array(torch.cat(tensors, axis) if isinstance(axis, int) else end())


def stack(arrays: Any, axis: Any = 0, *rest: Any, **named: Any) -> Any:
    _refuse(rest, named)
    tensors = _joined(arrays)
    for tensor in tensors:
        if tensor.shape != tensors[0].shape:
            end()
    return array(torch.stack(tensors, axis) if isinstance(axis, int) else end())


def vstack(arrays: Any, *rest: Any, **named: Any) -> Any:
    if _dims(arrays) == (1,):
        return stack(arrays, 0, *rest, **named)
    rows = [one[None, :] if tensor_of(one).dim() == 1 else one for one in arrays]
    return concatenate(rows, 0, *rest, **named)


def hstack(arrays: Any, *rest: Any, **named: Any) -> Any:
    dims = _dims(arrays)
    return concatenate(arrays, 0 if dims == (1,) else 1, *rest, **named) if len(dims) == 1 else end()


def _dims(arrays: Any) -> tuple[int, ...]:
    """1 or 2, or both."""
    found = [tensor_of(one).dim() for one in arrays] if isinstance(arrays, (list, tuple)) else end()
    for dims in found:
        if dims not in (1, 2):
            end()
    return tuple([dims for dims in (1, 2) if dims in found])


def outer(a: Any, b: Any, *rest: Any, **named: Any) -> Any:
    _refuse(rest, named)
    return BINARY["multiply"](array(tensor_of(a).reshape(-1, 1)), array(tensor_of(b).reshape(1, -1)))


def where(condition: Any, *choices: Any) -> Any:
    if len(choices) != 2:
        end()
    test, x, y = tensor_of(condition), operand(choices[0]), operand(choices[1])
    kinds = tuple([one.dtype if isinstance(one, torch.Tensor) else one * 0 for one in (x, y)])
    kind = common_type(kinds)
    if kind is None:
        return end()
    keep_order([one for one in (test, x, y) if isinstance(one, torch.Tensor)])
    return array(torch.where(test.to(torch.bool), given_in(x, kind, False), given_in(y, kind, False)))


# ---- what makes arrays of others


def _to_become(a: Any, dtype: Any) -> tuple[torch.Tensor, torch.dtype]:
    """What an array is made of, and the type that it is to have."""
    if isinstance(a, Scalar):
        end()
    x = tensor_of(a)
    kind = x.dtype if dtype is None else type_named(dtype)
    return (x, kind) if kind is not None and (kind.is_complex or not x.is_complex()) else end()


def asarray(a: Any, dtype: Any = None, *rest: Any, copy: Any = None, **named: Any) -> Any:
    _refuse(rest, named)
    if copy is not None:
        return array_(a, dtype) if copy is True else end()
    x, kind = _to_become(a, dtype)
    if isinstance(a, Array) and kind is x.dtype:
        return a
    return array(x, False) if kind is x.dtype else array(x.to(kind))


def array_(a: Any, dtype: Any = None, *rest: Any, copy: Any = True, **named: Any) -> Any:
    _refuse(rest, named)
    if copy is not True:
        end()
    x, kind = _to_become(a, dtype)
    return array(x.to(kind, copy=True))


def _like(function: Function) -> Function:
    def like(a: Any, dtype: Any = None, *rest: Any, **named: Any) -> Any:
        x = _tensor_of_array(a, rest, named)
        kind = x.dtype if dtype is None else type_named(dtype)
        return array(function(x, dtype=kind)) if kind is not None else end()

    return like


def interp(x: Any, xp: Any, fp: Any, *rest: Any, **named: Any) -> Any:
    """A line from each point to the next; what lies outside has the first value, or the last."""
    _refuse(rest, named)
    if not only_warns():
        end()
    at, points, values = [tensor_of(one).to(torch.float64) for one in (x, xp, fp)]
    if points.dim() != 1 or values.dim() != 1 or points.shape != values.shape or points.shape[0] < 2:
        end()
    last = points.shape[0] - 1
    right = torch.searchsorted(points, at.contiguous(), right=True)
    left = (right - 1).clamp(0, last - 1)
    from_point, from_value = points[left], values[left]
    slope = (values[left + 1] - from_value) / (points[left + 1] - from_point)
    between = torch.where(at == from_point, from_value, slope * (at - from_point) + from_value)
    inside = torch.where(right > last, values[last], torch.where(right == 0, values[0], between))
    return result(torch.where(torch.isnan(at), at, inside))


FUNCTIONS: dict[str, Function] = {
    "all": _into(_truth(torch.all)),
    "amax": _into(_extreme(torch.amax)),
    "amin": _into(_extreme(torch.amin)),
    "any": _into(_truth(torch.any)),
    "around": round_,
    "argmax": _into(_place_of_extreme(torch.argmax)),
    "argmin": _into(_place_of_extreme(torch.argmin)),
    "array": array_,
    "asarray": asarray,
    "clip": clip,
    "concatenate": concatenate,
    "cumsum": _into(cumsum),
    "dot": dot,
    "hstack": hstack,
    "empty_like": _like(torch.zeros_like),
    "interp": interp,
    "matmul": matmul,
    "max": _into(_extreme(torch.amax)),
    "mean": _into(mean),
    "min": _into(_extreme(torch.amin)),
    "ones_like": _like(torch.ones_like),
    "outer": outer,
    "prod": _into(prod),
    "ravel": ravel,
    "repeat": repeat,
    "reshape": reshape,
    "round": round_,
    "squeeze": squeeze,
    "stack": stack,
    "std": _into(_spread(torch.std)),
    "sum": _into(sum_),
    "swapaxes": swapaxes,
    "transpose": transpose,
    "var": _into(_spread(torch.var)),
    "vstack": vstack,
    "where": where,
    "zeros_like": _like(torch.zeros_like),
}

OF_METHODS = {
    "all": "all",
    "any": "any",
    "argmax": "argmax",
    "argmin": "argmin",
    "clip": "clip",
    "cumsum": "cumsum",
    "dot": "dot",
    "max": "max",
    "mean": "mean",
    "min": "min",
    "prod": "prod",
    "ravel": "ravel",
    "repeat": "repeat",
    "reshape": "reshape",
    "round": "round",
    "squeeze": "squeeze",
    "std": "std",
    "sum": "sum",
    "swapaxes": "swapaxes",
    "transpose": "transpose",
    "var": "var",
}


def _named(name: str) -> Any:
    found = np
    for part in name.split("."):
        found = getattr(found, part)
    return found


def divmod_(x: Any, y: Any, *rest: Any, **named: Any) -> Any:
    _refuse(rest, named)
    return BINARY["floor_divide"](x, y), BINARY["remainder"](x, y)


def install() -> None:
    """When a capture meets the first array."""
    _array_ufuncs.install()
    BINARY["matmul"] = matmul
    of_numpy = _array_operator.install()
    METHODS.update({name: FUNCTIONS[of] for name, of in OF_METHODS.items()})
    METHODS.update(astype=astype, copy=copy, fill=fill, flatten=flatten, item=item, tolist=tolist)
    METHODS.update(concatenate=concatenate, argsort=of_numpy["argsort"], cumprod=of_numpy["cumprod"])
    METHODS.update(_array_moves.OF_METHODS)
    own = {**UNARY, **BINARY, **FUNCTIONS, "divmod": divmod_, "fix": UNARY["trunc"]}
    own |= {**_array_moves.FUNCTIONS, **_array_moves.IN_NAMESPACES, **_array_made.install(of_numpy)}
    for name, function in {**of_numpy, **own}.items():
        if hasattr(np, name.split(".")[0]):  # Some are of later versions.
            C.set_stand_in(_named(name), function)
    C.set_stand_in(torch.Tensor.numpy, numpy)
    _array_tensors.install()
    C.set_traced_arrays(Array, Scalar, Number)
    for answer in (loop_of, common_type, type_named, numpy_type, scalar_class, may_cast, only_warns):
        C.assume_constant_result(answer)
    C.assume_constant_result(_array_moves.layout_of_einsum)
    C.assume_constant_result(rounded)
