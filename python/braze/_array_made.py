"""NumPy's arrays of numbers that vary from call to call (_arrays.py): `np.arange(n)`, `np.zeros(shape)`.

Of numbers that do not, NumPy makes them itself while a graph is captured, and they are constants.
"""

from collections.abc import Callable
from typing import Any

import torch

from braze._array_types import type_named
from braze._arrays import Array, array
from braze._load import C

WHY = "NumPy is given a number that varies from call to call"
LARGEST = {torch.float32: 2**24, torch.float64: 2**53}  # Whole numbers up to here are floats of the type.


def _end() -> Any:
    return C.end_graph(WHY)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _shape(given: Any) -> tuple[int, ...]:
    sizes = tuple(given) if isinstance(given, (tuple, list)) else (given,)
    for one in sizes:
        if not _is_whole(one) or one < 0:
            _end()
    return sizes


def _kind(dtype: Any, rest: tuple[Any, ...], named: dict[str, Any]) -> torch.dtype:
    """The type that is asked for; an order, a device and the like end the graph."""
    if len(rest) > 0 or len(named) > 0 or isinstance(dtype, Array):
        _end()
    kind = torch.float64 if dtype is None else type_named(dtype)
    return kind if kind is not None else _end()


def _filled(make: Callable[..., torch.Tensor]) -> Callable[..., Any]:
    def call(shape: Any, dtype: Any = None, *rest: Any, **named: Any) -> Any:
        kind = _kind(dtype, rest, named)
        return array(make(_shape(shape), dtype=kind, device="cpu"))

    return call


def full(shape: Any, fill_value: Any, dtype: Any = None, *rest: Any, **named: Any) -> Any:
    kind = _kind(dtype, rest, named)
    if isinstance(fill_value, bool):
        own = torch.bool
    elif isinstance(fill_value, int):
        own = torch.int64
    elif type(fill_value) is float:
        own = torch.float64
    else:
        return _end()
    if dtype is not None and kind is not own and not (own is not torch.bool and kind in LARGEST):
        _end()  # NumPy raises where an integer is none of the type.
    return array(torch.full(_shape(shape), fill_value, dtype=own if dtype is None else kind, device="cpu"))


def eye(N: Any, M: Any = None, k: Any = 0, dtype: Any = None, *rest: Any, **named: Any) -> Any:
    kind = _kind(dtype, rest, named)
    if not _is_whole(k) or k != 0:
        _end()
    rows, columns = _shape((N, N if M is None else M))
    return array(torch.eye(rows, columns, dtype=kind, device="cpu"))


def identity(n: Any, dtype: Any = None, *rest: Any, **named: Any) -> Any:
    return eye(n, None, 0, dtype, *rest, **named)


def arange(start: Any, stop: Any = None, step: Any = 1, dtype: Any = None, *rest: Any, **named: Any) -> Any:
    """Of whole numbers; of floats NumPy adds multiples of what the step comes to."""
    kind = torch.int64 if dtype is None else _kind(dtype, rest, named)
    if len(rest) > 0 or len(named) > 0 or kind not in (torch.int64, *LARGEST):
        _end()
    first, behind = (0, start) if stop is None else (start, stop)
    for one in (first, behind, step):
        if not _is_whole(one):
            _end()
        if kind in LARGEST and not -LARGEST[kind] < one < LARGEST[kind]:
            _end()
    if step == 0:
        _end()
    if behind <= first if step > 0 else behind >= first:
        return array(torch.zeros(0, dtype=kind, device="cpu"))
    return array(torch.arange(first, behind, step, dtype=torch.int64, device="cpu").to(kind))


def linspace_beside(of_arrays: Callable[..., Any]) -> Callable[..., Any]:
    def linspace(start: Any, stop: Any, num: Any = 50, endpoint: Any = True, *rest: Any, **named: Any) -> Any:
        """As NumPy computes it: multiples of the step, and the very end."""
        if isinstance(start, Array) or isinstance(stop, Array):
            return of_arrays(start, stop, num, endpoint, *rest, **named)
        dtype = named.pop("dtype", None)
        kind = _kind(dtype, rest, named)
        if kind not in LARGEST or not _is_whole(num) or (endpoint is not True and endpoint is not False):
            _end()
        for one in (start, stop):
            if type(one) not in (int, float):
                _end()
        spaces = num - 1 if endpoint else num
        if num < 0 or spaces < 1:
            _end()
        step = (float(stop) - float(start)) / spaces
        if step == 0:
            _end()
        made = torch.arange(num, dtype=torch.int64, device="cpu").to(torch.float64) * step + float(start)
        if endpoint:
            made[-1] = float(stop)
        return array(made.to(kind))

    return linspace


def install(of_numpy: dict[str, Callable[..., Any]]) -> dict[str, Callable[..., Any]]:
    """By the names that NumPy has for them."""
    zeros = _filled(torch.zeros)
    made: dict[str, Callable[..., Any]] = {"arange": arange, "empty": zeros, "eye": eye, "full": full}
    made |= {"identity": identity, "ones": _filled(torch.ones), "zeros": zeros}
    return made | {"linspace": linspace_beside(of_numpy["linspace"])}
