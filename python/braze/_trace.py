"""braze.trace: from a function and example inputs to a program."""

import contextlib
import functools
import importlib
import inspect
import itertools
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from braze import _check, config
from braze._load import C
from braze._reading import TraceWarning, freezing_reads
from braze._settings import CODE_SETTINGS
from braze._weights import watch_optimizers

# How the compiled part is told that a parameter was filled (python/trace_function.h, Passed).
_NOT_PASSED, _BY_POSITION, _BY_KEYWORD = range(3)


def trace(
    fn_or_module: Callable[..., Any],
    example_inputs: torch.Tensor | Sequence[Any] = (),
    example_kwargs: dict[str, Any] | None = None,
    *,
    check: bool = True,
    prepack_weights: bool | None = None,
    dynamic: dict[str, Any] | None = None,
) -> C.Program:
    """Traces one call of a function or module and compiles it.

    Operators on tensors are recorded; nothing is computed, the examples are not touched. Python control flow, and
    every value that is not a tensor, is fixed as it was in this call.

    Args:
        fn_or_module: what to call. Parameters and buffers of a module are bound: every call reads them anew.
        example_inputs: the positional arguments. One tensor alone is taken as the only one.
        example_kwargs: the keyword arguments.
        check: run both once on copies of the examples and compare. Differences in values are a TraceWarning.
        prepack_weights: keep copies of weights as they are multiplied fastest. Changes by PyTorch's operators are
            seen; after a write through .data or NumPy call braze.compiler.repack_weights(). None: as
            braze.config.prepack_weights says.
        dynamic: sizes that may vary, from 2 up: {"ids": [0, 1]} or {"ids": {0: "batch", 1: ("length", 2, 512)}}, by
            the names of arguments ("batch['ids']" within a dict), with a name, a name and bounds, or a
            torch.export.Dim. Dimensions of one name are of one size. What the function decides by such a size it
            decides as for the examples, and a call that it does not hold for is an error that says so. A size that
            the function needs as a number is an error at once, which names the line.

    Returns:
        A braze.Program, called as the function is, with tensors of the same shapes, dtypes, layouts and devices;
        but for what is dynamic.

    Raises:
        braze.Error: for what cannot be traced. What the function raises passes through.
    """
    if prepack_weights is None:
        prepack_weights = config.prepack_weights
    if prepack_weights:
        watch_optimizers()
    args = _positional(example_inputs)
    kwargs = dict(example_kwargs) if example_kwargs else {}
    settings = {name: getattr(config, name) for name in CODE_SETTINGS} | {"prepack_weights": prepack_weights}
    sizes = _varying_sizes(dynamic)
    if sizes:  # What makes torch.SymInt, which x.shape then has, a number to compute with.
        importlib.import_module("torch.fx.experimental.sym_node")
    with freezing_reads(), _sizes_that_vary() if sizes else contextlib.nullcontext():
        program, texts = C.trace(
            fn_or_module,
            _name(fn_or_module),
            _parameters(fn_or_module, args, kwargs),
            _tensors(fn_or_module),
            settings,
            sizes,
        )
    for text in texts:
        warnings.warn(text, TraceWarning, stacklevel=2)
    if check:
        _check.compare(program, fn_or_module, args, kwargs)
    return program


# Operators of which a plain number is computed with: PyTorch's parser takes a torch.SymInt for a tensor there.
_ARITHMETIC = {"add", "sub", "mul", "div", "true_divide", "eq", "ne", "lt", "le", "gt", "ge"}
_ARITHMETIC |= {f"__{name}__" for name in _ARITHMETIC} | {f"{name}_" for name in _ARITHMETIC}
_ARITHMETIC |= {"__radd__", "__rsub__", "__rmul__", "__rdiv__", "__rtruediv__", "__truediv__"}
_ARITHMETIC |= {"rsub", "subtract", "multiply", "divide"}
_ROUNDED = {torch.float16, torch.bfloat16, torch.complex64, torch.complex128}


_Sized = (torch.SymInt, torch.SymFloat)


def _number(size: torch.SymInt | torch.SymFloat, rounded: bool) -> Any:
    if isinstance(size, torch.SymFloat):
        return float(size)  # The program is one for the example's size.
    return int(size) if rounded else C.number_of(size)


class _SizesBesideTensors(TorchFunctionMode):
    """Gives operators that compute with a size what they can compute with. Beside half types eager's kernels take
    a number as f32, where a tensor would be rounded: there the size is what it is in the example."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if getattr(func, "__name__", None) in _ARITHMETIC and any(isinstance(a, _Sized) for a in args):
            rounded = any(isinstance(a, torch.Tensor) and a.dtype in _ROUNDED for a in args)
            args = tuple(_number(a, rounded) if isinstance(a, _Sized) else a for a in args)
        return func(*args, **(kwargs or {}))


@contextlib.contextmanager
def _sizes_that_vary() -> Iterator[None]:
    """PyTorch refuses to hash a torch.SymInt: what goes by keys needs the number, as `range` does. Within the
    function its TypeError is what code expects that does without (einops)."""
    try:
        with _SizesBesideTensors():
            yield
    except TypeError as error:
        if not str(error).startswith("unhashable type: non-nested SymInt"):
            raise
        lines = [one for one in traceback.extract_tb(error.__traceback__) if one.filename != torch.__file__]
        raise C.ArgumentValueError(
            f"dynamic: {lines[-1].filename}:{lines[-1].lineno} needs the value of a size that was to vary, as the "
            "key of a dict or set. Leave it out of what is dynamic, or make the function depend on the size there"
        ) from error


_LARGEST = 2**63 - 1


def _varying_sizes(dynamic: dict[str, Any] | None) -> dict[str, list[tuple[int, str, int, int]]]:
    """By argument (dim, name or "", smallest, largest) of each. Dimensions of one name have the bounds of all."""
    if dynamic is not None and not isinstance(dynamic, dict):
        raise C.ArgumentTypeError(f"dynamic is a {type(dynamic).__name__}; give dimensions by argument: {{'x': 0}}")
    if unnamed := [name for name in dynamic or () if not isinstance(name, str)]:
        raise C.ArgumentTypeError(f"dynamic: dimensions are given by names of arguments, not by {unnamed[0]!r}")
    sizes = {name: _varying(name, dims) for name, dims in (dynamic or {}).items()}
    bounds: dict[str, tuple[int, int]] = {}
    for _, word, low, high in itertools.chain.from_iterable(sizes.values()):
        known = bounds.get(word, (low, high))
        bounds[word] = max(known[0], low), min(known[1], high)
    for word, (low, high) in bounds.items():
        if word and low > high:
            raise C.ArgumentValueError(f"dynamic: {word!r} is at least {low} and at most {high}: it has no value")
    return {
        name: [(dim, word, *(bounds[word] if word else (low, high))) for dim, word, low, high in rows]
        for name, rows in sizes.items()
    }


def _varying(name: str, dims: Any) -> list[tuple[int, str, int, int]]:
    if _is_int(dims):
        dims = [dims]
    if not isinstance(dims, (dict, list, tuple, set)):
        raise C.ArgumentTypeError(
            f"dynamic: {name!r}: a dimension, a list of them or a name by dimension, not {dims!r}"
        )
    rows = dims.items() if isinstance(dims, dict) else ((dim, None) for dim in dims)
    made = []
    for dim, told in rows:
        word, low, high = (*(told if isinstance(told, tuple) else _of_export(told)), None, None, None)[:3]
        fits = _is_int(dim) and (word is None or (isinstance(word, str) and word.isidentifier()))
        if not fits or not all(bound is None or _is_int(bound) for bound in (low, high)):
            raise C.ArgumentTypeError(
                f"dynamic: {name!r}: a name or (name, min, max) by dimension, or a torch.export.Dim, "
                f"not {dim!r}: {told!r}"
            )
        low, high = max(2, low or 2), _LARGEST if high is None else high
        if low > high:
            raise C.ArgumentValueError(
                f"dynamic: {name!r}: size {dim} is at least {low} and at most {high}: it has no value"
            )
        made.append((dim, word or "", low, high))
    return made


def _of_export(told: Any) -> tuple[Any, ...]:
    """A torch.export.Dim as its name and bounds; anything else, also one derived of it (2 * dim), as it is."""
    kind = type(told)
    if kind.__module__ != "torch.export.dynamic_shapes" or kind.__name__ != "Dim":
        return (told,)
    return told.__name__, *(bound if _is_int(bound) else None for bound in (told.min, told.max))


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _positional(example_inputs: torch.Tensor | Sequence[Any]) -> tuple[Any, ...]:
    if isinstance(example_inputs, torch.Tensor):
        return (example_inputs,)
    if isinstance(example_inputs, (tuple, list)):
        return tuple(example_inputs)
    raise C.ArgumentTypeError(
        f"example_inputs is a {type(example_inputs).__name__}; give the positional arguments as a tuple, "
        "and keyword arguments as example_kwargs"
    )


def _name(fn: Callable[..., Any]) -> str:
    if isinstance(fn, functools.partial):
        return _name(fn.func)
    return getattr(fn, "__name__", None) or type(fn).__name__


def _tensors(fn: Callable[..., Any]) -> Iterable[tuple[str, torch.Tensor]]:
    owner = fn if isinstance(fn, torch.nn.Module) else getattr(fn, "__self__", None)
    if not isinstance(owner, torch.nn.Module):
        return []
    return itertools.chain(owner.named_parameters(), owner.named_buffers())


def _parameters(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[tuple]:
    """One row per argument: (label, name, position, has default, default, passed, value)."""
    target = fn.forward if isinstance(fn, torch.nn.Module) else fn
    try:
        signature = inspect.signature(target)
    except (TypeError, ValueError):  # Built-in functions may have none.
        return _unnamed(args, kwargs)
    bound = signature.bind(*args, **kwargs)
    by_position, by_keyword = [], []
    for parameter in signature.parameters.values():
        name, kind = parameter.name, parameter.kind
        if kind is parameter.VAR_POSITIONAL:
            for value in bound.arguments.get(name, ()):
                place = len(by_position)
                by_position.append((f"argument {place}", None, place, False, None, _BY_POSITION, value))
            continue
        if kind is parameter.VAR_KEYWORD:
            for key, value in bound.arguments.get(name, {}).items():
                by_keyword.append((f"argument {key}", key, -1, False, None, _BY_KEYWORD, value))
            continue
        has_default = parameter.default is not parameter.empty
        default = parameter.default if has_default else None
        value = bound.arguments.get(name, default)
        if kind is parameter.KEYWORD_ONLY:
            passed = _BY_KEYWORD if name in bound.arguments else _NOT_PASSED
            by_keyword.append((f"argument {name}", name, -1, has_default, default, passed, value))
            continue
        place = len(by_position)
        passed = _NOT_PASSED if name not in bound.arguments else _BY_KEYWORD if name in kwargs else _BY_POSITION
        visible = None if kind is parameter.POSITIONAL_ONLY else name
        by_position.append((f"argument {place}", visible, place, has_default, default, passed, value))
    return by_position + by_keyword


def _unnamed(args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[tuple]:
    rows = [(f"argument {i}", None, i, False, None, _BY_POSITION, value) for i, value in enumerate(args)]
    return rows + [(f"argument {key}", key, -1, False, None, _BY_KEYWORD, value) for key, value in kwargs.items()]
