"""NumPy's functions that a graph calls as they are: where PyTorch has no operator of the very values.

Each is a row: the function, and what it gives of arrays of which forms. In a graph it is an operator, which NumPy
computes when a program runs, and which raises and warns as natively.
"""

import ast
import functools
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from braze._array_types import common_type, loop_of, only_warns
from braze._arrays import Array, array, end, is_row_major, scalar, tensor_of
from braze._load import C

Form = tuple[tuple[Any, ...], torch.dtype]
Forms = Callable[..., list[Form]]

OPERATOR = "braze_numpy::call"


def _namespace(name: str) -> Any:
    return functools.reduce(getattr, name.split("."), np)


@functools.lru_cache(maxsize=1024)
def _settings_of(text: str) -> dict[str, Any]:
    return ast.literal_eval(text)


def text_of(settings: tuple[tuple[str, Any], ...]) -> str:
    return repr(dict(settings))


def _real(given: list[torch.Tensor], name: str, settings: str) -> list[torch.Tensor]:
    function = ADAPTED.get(name) or _namespace(name)
    # An argument of the graph may stand for itself without its history.
    found = function(*[one.detach().numpy() for one in given], **_settings_of(settings))
    made = [torch.from_numpy(_owned(part)) for part in (found if isinstance(found, tuple) else (found,))]
    forms = ROWS[name](*given, **_settings_of(settings))
    for one, (shape, kind) in zip(made, forms, strict=True):
        if one.dtype is not kind or tuple(one.shape) != shape:
            raise RuntimeError(f"numpy.{name} gave a {one.dtype} of {tuple(one.shape)}, not a {kind} of {shape}")
    return made


def _owned(part: Any) -> Any:
    is_own = isinstance(part, np.ndarray) and part.base is None and part.flags.c_contiguous
    return part if is_own else np.array(part, order="C")


def _average(x: Any, weights: Any, axis: Any = None) -> Any:
    return np.average(x, axis=axis, weights=weights)


ADAPTED = {"average": _average}


def _form(given: list[torch.Tensor], name: str, settings: str) -> list[torch.Tensor]:
    forms = ROWS[name](*given, **_settings_of(settings))
    return [torch.empty(shape, dtype=kind, device="meta") for shape, kind in forms]


def call(
    name: str, given: tuple[Any, ...], settings: dict[str, Any], makes: Callable[..., Any] | None = None
) -> Any:
    """Of arrays, with settings that no tensor decides. `makes` puts several results together."""
    if not only_warns() or not [one for one in given if isinstance(one, Array)]:
        end()
    for value in settings.values():
        if not is_setting(value):
            end()
    tensors = [tensor_of(one) for one in given]
    for tensor in tensors:
        if not is_row_major(tensor) or tensor.dtype is torch.float16 or tensor.numel() == 0:
            end()
    forms = ROWS[name](*tensors, **settings)
    text = text_of(tuple(settings.items()))
    found = torch.ops.braze_numpy.call(tensors, name, text)
    parts = [array(found[k]) if len(forms[k][0]) > 0 else scalar(found[k]) for k in range(len(forms))]
    return parts[0] if makes is None else makes(*parts)


def is_setting(value: Any) -> bool:
    if isinstance(value, (tuple, list)):
        return all([is_setting(one) for one in value])
    return value is None or type(value) in (bool, int, float, str)


# ---- forms


def _axis_of(axis: Any, x: torch.Tensor) -> int:
    """Counted from the front."""
    if not isinstance(axis, int) or isinstance(axis, bool) or not -x.dim() <= axis < x.dim():
        return end()
    return axis if axis >= 0 else axis + x.dim()


def _float_of(*tensors: torch.Tensor) -> Any:
    """Of linear algebra and the like: whole numbers are computed in float64."""
    kind = common_type(tuple([tensor.dtype for tensor in tensors]))
    are_whole = [tensor.dtype in (torch.int32, torch.int64) for tensor in tensors]
    if any(are_whole):
        kind = torch.float64
    for k in range(len(tensors)):
        if not are_whole[k] and tensors[k].dtype not in (torch.float32, torch.float64):
            end()
    return kind


def _complex_of(x: torch.Tensor) -> torch.dtype:
    return torch.complex64 if x.dtype in (torch.float32, torch.complex64) else torch.complex128


def _same(x: torch.Tensor, axis: Any = -1, kind: Any = None) -> list[Form]:
    return [(tuple(x.shape) if axis is not None else (x.numel(),), x.dtype)]


def _places(x: torch.Tensor, axis: Any = -1, kind: Any = None) -> list[Form]:
    return [(tuple(x.shape) if axis is not None else (x.numel(),), torch.int64)]


def _parted(x: torch.Tensor, kth: Any, axis: Any = -1) -> list[Form]:
    return _same(x, axis)


def _parted_places(x: torch.Tensor, kth: Any, axis: Any = -1) -> list[Form]:
    return _places(x, axis)


def _floats_alike(x: torch.Tensor) -> list[Form]:
    return [(tuple(x.shape), _float_of(x))]


def _shape_without(x: torch.Tensor, axis: Any, keepdims: bool) -> tuple[Any, ...]:
    axes = list(range(x.dim())) if axis is None else [_axis_of(one, x) for one in _as_tuple(axis)]
    kept = [(1 if k in axes else x.shape[k], k in axes) for k in range(x.dim())]
    return tuple([size for size, is_gone in kept if keepdims or not is_gone])


def _as_tuple(axis: Any) -> tuple[Any, ...]:
    return tuple(axis) if isinstance(axis, (tuple, list)) else (axis,)


def _reduced(x: torch.Tensor, axis: Any = None, keepdims: bool = False) -> list[Form]:
    return [(_shape_without(x, axis, keepdims), _float_of(x))]


def _scattered(x: torch.Tensor, axis: Any = None, ddof: int = 0, keepdims: bool = False) -> list[Form]:
    return _reduced(x, axis, keepdims)


def _of_items(x: torch.Tensor, axis: Any = None, keepdims: bool = False) -> list[Form]:
    return [(_shape_without(x, axis, keepdims), x.dtype if x.is_floating_point() else end())]


def _quantiles(x: torch.Tensor, q: Any, axis: Any = None, keepdims: bool = False, method: str = "linear"):
    if isinstance(q, (tuple, list)):
        return [((len(q), *_shape_without(x, axis, keepdims)), torch.float64)]
    return [(_shape_without(x, axis, keepdims), _float_of(x))]


def _weighted(x: torch.Tensor, weights: torch.Tensor, axis: Any = None) -> list[Form]:
    return [(_shape_without(x, axis, False), _float_of(x, weights))]


def _square(x: torch.Tensor) -> torch.Tensor:
    return x if x.dim() >= 2 and x.shape[-1] == x.shape[-2] else end()


def _like_square(x: torch.Tensor) -> list[Form]:
    return [(tuple(_square(x).shape), _float_of(x))]


def _of_square(x: torch.Tensor) -> list[Form]:
    return [(tuple(_square(x).shape[:-2]), _float_of(x))]


def _two_of_square(x: torch.Tensor) -> list[Form]:
    return _of_square(x) * 2


def _values_of_square(x: torch.Tensor, UPLO: str = "L") -> list[Form]:
    return [(tuple(_square(x).shape[:-1]), _float_of(x))]


def _vectors_of_square(x: torch.Tensor, UPLO: str = "L") -> list[Form]:
    return _values_of_square(x) + _like_square(x)


def _turned(x: torch.Tensor, rcond: Any = None) -> list[Form]:
    return [((*x.shape[:-2], x.shape[-1], x.shape[-2]), _float_of(x))] if x.dim() >= 2 else end()


def _solved(x: torch.Tensor, y: torch.Tensor) -> list[Form]:
    if x.dim() != 2 or y.dim() not in (1, 2) or _square(x).shape[0] != y.shape[0]:
        end()
    return [(tuple(y.shape), _float_of(x, y))]


def _powered(x: torch.Tensor, n: Any) -> list[Form]:
    return [(tuple(_square(x).shape), x.dtype if x.is_floating_point() else end())]


def _parts(x: torch.Tensor, full_matrices: bool = True, compute_uv: bool = True) -> list[Form]:
    if x.dim() != 2:
        end()
    rows, columns, kind = x.shape[0], x.shape[1], _float_of(x)
    least = rows if rows <= columns else columns
    singular: Form = ((least,), kind)
    if not compute_uv:
        return [singular]
    if full_matrices:
        return [((rows, rows), kind), singular, ((columns, columns), kind)]
    return [((rows, least), kind), singular, ((least, columns), kind)]


def _factors(x: torch.Tensor) -> list[Form]:
    if x.dim() != 2:
        end()
    rows, columns, kind = x.shape[0], x.shape[1], _float_of(x)
    least = rows if rows <= columns else columns
    return [((rows, least), kind), ((least, columns), kind)]


def _norm(x: torch.Tensor, ord: Any = None, axis: Any = None, keepdims: bool = False) -> list[Form]:
    return [(_shape_without(x, axis, keepdims), _float_of(x))]


def _spectrum(x: torch.Tensor, norm: Any = None, axis: int = -1) -> list[Form]:
    if axis not in (-1, x.dim() - 1):
        end()  # NumPy leaves what it has turned round.
    return [(tuple(x.shape), _complex_of(x))]


def _plane(x: torch.Tensor, norm: Any = None) -> list[Form]:
    return [(tuple(x.shape), _complex_of(x))]


def _half_spectrum(x: torch.Tensor, norm: Any = None, axis: int = -1) -> list[Form]:
    if axis not in (-1, x.dim() - 1):
        end()
    return [((*x.shape[:-1], x.shape[-1] // 2 + 1), _complex_of(x))]


def _from_half(x: torch.Tensor, n: Any = None, norm: Any = None) -> list[Form]:
    size = 2 * (x.shape[-1] - 1) if n is None else n
    return [((*x.shape[:-1], size), torch.float32 if _complex_of(x) is torch.complex64 else torch.float64)]


def _found(x: torch.Tensor, v: torch.Tensor, side: str = "left") -> list[Form]:
    return [(tuple(v.shape), torch.int64)]


def _binned(x: torch.Tensor, bins: torch.Tensor, right: bool = False) -> list[Form]:
    return [(tuple(x.shape), torch.int64)]


def _counted(x: torch.Tensor, bins: int = 10, range: Any = None, density: Any = None) -> list[Form]:
    if type(bins) is not int or x.dtype not in (torch.float32, torch.float64):
        return end()
    return [((bins,), torch.float64 if density else torch.int64), ((bins + 1,), x.dtype)]


def _convolved(x: torch.Tensor, v: torch.Tensor, mode: str = "full") -> list[Form]:
    kind = common_type((x.dtype, v.dtype))
    if x.dim() != 1 or v.dim() != 1 or kind is None or not kind.is_floating_point:
        return end()
    longer, shorter = (x.shape[0], v.shape[0]) if x.shape[0] >= v.shape[0] else (v.shape[0], x.shape[0])
    size = {"full": longer + shorter - 1, "same": longer, "valid": longer - shorter + 1}.get(mode)
    return [((size,), kind)] if size is not None else end()


def _crossed(x: torch.Tensor, y: torch.Tensor) -> list[Form]:
    kind = common_type((x.dtype, y.dtype))
    if x.shape != y.shape or x.dim() < 1 or x.shape[-1] != 3 or kind in (None, torch.bool):
        return end()
    return [(tuple(x.shape), kind)]


def _spread(x: torch.Tensor, rowvar: bool = True, bias: bool = False, ddof: Any = None) -> list[Form]:
    if x.dim() != 2:
        end()
    size = x.shape[0] if rowvar else x.shape[1]
    return [((size, size), torch.float64)]


def _spaced(start: torch.Tensor, stop: torch.Tensor, num: int = 50, endpoint: bool = True) -> list[Form]:
    if start.dim() != 0 or stop.dim() != 0 or type(num) is not int:
        return end()
    return [((num,), _float_of(start, stop))]


def _slope(x: torch.Tensor) -> list[Form]:
    return [(tuple(x.shape), _float_of(x))] if x.dim() == 1 else end()


def _area(y: torch.Tensor, dx: Any = 1.0, axis: int = -1) -> list[Form]:
    return [(_shape_without(y, axis, False), _float_of(y))] if type(dx) in (int, float) else end()


def _padded(x: torch.Tensor, pad_width: Any, mode: str = "constant", constant_values: Any = 0) -> list[Form]:
    widths = np.broadcast_to(pad_width, (x.dim(), 2)).tolist()
    return [(tuple([x.shape[k] + widths[k][0] + widths[k][1] for k in range(x.dim())]), x.dtype)]


def _rounded(x: torch.Tensor, decimals: int = 0) -> list[Form]:
    return [(tuple(x.shape), x.dtype)] if x.is_floating_point() and type(decimals) is int else end()


def _summed(x: torch.Tensor, axis: Any = None) -> list[Form]:
    if not x.is_floating_point():
        return end()
    return [((x.numel(),) if axis is None else tuple(x.shape), x.dtype)]


ROWS: dict[str, Forms] = {
    "argpartition": _parted_places,
    "argsort": _places,
    "average": _weighted,
    "cbrt": _floats_alike,
    "convolve": _convolved,
    "corrcoef": _spread,
    "correlate": _convolved,
    "cov": _spread,
    "cross": _crossed,
    "cumprod": _summed,
    "cumsum": _summed,
    "digitize": _binned,
    "fft.fft": _spectrum,
    "fft.fft2": _plane,
    "fft.ifft": _spectrum,
    "fft.ifft2": _plane,
    "fft.irfft": _from_half,
    "fft.rfft": _half_spectrum,
    "gradient": _slope,
    "histogram": _counted,
    "linalg.cholesky": _like_square,
    "linalg.det": _of_square,
    "linalg.eigh": _vectors_of_square,
    "linalg.eigvalsh": _values_of_square,
    "linalg.inv": _like_square,
    "linalg.matrix_power": _powered,
    "linalg.norm": _norm,
    "linalg.pinv": _turned,
    "linalg.qr": _factors,
    "linalg.slogdet": _two_of_square,
    "linalg.solve": _solved,
    "linalg.svd": _parts,
    "linspace": _spaced,
    "median": _reduced,
    "nanmax": _of_items,
    "nanmean": _reduced,
    "nanmin": _of_items,
    "nanstd": _scattered,
    "nansum": _of_items,
    "nanvar": _scattered,
    "pad": _padded,
    "partition": _parted,
    "percentile": _quantiles,
    "quantile": _quantiles,
    "round": _rounded,
    "searchsorted": _found,
    "sinc": _floats_alike,
    "sort": _same,
    "trapezoid": _area,
}

OF_COMPLEX = (
    *("absolute", "add", "conjugate", "cos", "divide", "equal", "exp", "log", "multiply", "negative", "not_equal"),
    *("power", "sin", "sqrt", "square", "subtract"),
)


def _of_ufunc(name: str) -> Forms:
    ufunc = getattr(np, name)

    def forms(*tensors: torch.Tensor) -> list[Form]:
        loop = loop_of(ufunc, tuple([tensor.dtype for tensor in tensors]))
        if loop is None:
            return end()
        return [(tuple(torch.broadcast_shapes(*[tensor.shape for tensor in tensors])), loop[-1])]

    return forms


ROWS |= {name: _of_ufunc(name) for name in OF_COMPLEX}

# How many arrays come first, and the names of what follows by place.
OPERANDS: dict[str, tuple[int, tuple[str, ...]]] = {
    "argpartition": (1, ("kth", "axis")),
    "argsort": (1, ("axis", "kind")),
    "average": (1, ("axis",)),
    "convolve": (2, ("mode",)),
    "correlate": (2, ("mode",)),
    "cross": (2, ()),
    "digitize": (2, ("right",)),
    "histogram": (1, ("bins", "range")),
    "linalg.matrix_power": (1, ("n",)),
    "linalg.norm": (1, ("ord", "axis", "keepdims")),
    "linalg.solve": (2, ()),
    "linspace": (2, ("num", "endpoint")),
    "median": (1, ("axis",)),
    "nanmax": (1, ("axis",)),
    "nanmean": (1, ("axis",)),
    "nanmin": (1, ("axis",)),
    "nanstd": (1, ("axis",)),
    "nansum": (1, ("axis",)),
    "nanvar": (1, ("axis",)),
    "pad": (1, ("pad_width", "mode")),
    "partition": (1, ("kth", "axis")),
    "percentile": (1, ("q", "axis")),
    "quantile": (1, ("q", "axis")),
    "searchsorted": (2, ("side",)),
    "sort": (1, ("axis", "kind")),
}
CLASSES = {
    "linalg.eigh": "EighResult",
    "linalg.qr": "QRResult",
    "linalg.slogdet": "SlogdetResult",
    "linalg.svd": "SVDResult",
}


def function_of(name: str) -> Callable[..., Any]:
    count, names = OPERANDS.get(name, (1, ()))
    known = frozenset(inspect.signature(ROWS[name]).parameters)
    makes: Any = getattr(np.linalg._linalg, CLASSES[name]) if name in CLASSES else None
    if name == "histogram":
        makes = _pair

    def compute(*given: Any, **named: Any) -> Any:
        if len(given) < count or len(given) > count + len(names):
            end()
        for one in named:
            if one not in known:
                end()
        settings = dict(named)
        for k in range(len(given) - count):
            settings[names[k]] = given[count + k]
        is_one = name == "linalg.svd" and settings.get("compute_uv", True) is False
        return call(name, given[:count], settings, None if is_one else makes)

    return compute


def _pair(one: Any, other: Any) -> tuple[Any, Any]:
    return one, other


def install() -> dict[str, Callable[..., Any]]:
    """The rows that are what NumPy's function of the name is."""
    library = torch.library.Library("braze_numpy", "DEF")
    library.define("call(Tensor[] given, str name, str settings) -> Tensor[]")
    library.impl("call", _real, "CPU")
    library.impl("call", _form, "Meta")
    KEPT.append(library)
    C.assume_constant_result(text_of)
    # Versions of NumPy differ in where these classes are.
    unknown = () if hasattr(np.linalg, "_linalg") else tuple(CLASSES)
    return {name: function_of(name) for name in ROWS if name not in (*OF_COMPLEX, *unknown)}


KEPT: list[Any] = []  # An operator is there as long as its library.
