"""braze.compiler: what torch.compiler has, for functions that braze compiles."""

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import torch

from braze._backends import list_backends
from braze._compile import compile, compiled_functions, forced_runner, innermost
from braze._load import C
from braze._module import CompiledModule

__all__ = [
    "allow_in_graph",
    "assume_constant_result",
    "compile",
    "cudagraph_mark_step_begin",
    "disable",
    "is_compiling",
    "is_dynamo_compiling",
    "is_exporting",
    "list_backends",
    "mark_dynamic",
    "mark_static",
    "mark_unbacked",
    "maybe_mark_dynamic",
    "packed_weight_bytes",
    "repack_weights",
    "reset",
    "set_stance",
]

Function = Callable[..., Any]


def __dir__() -> list[str]:
    return __all__


def reset() -> None:
    """Forgets every program of every compiled function, and why calls were not captured."""
    for compiled in list(compiled_functions):
        compiled.reset()


def repack_weights(weights: Iterable[torch.Tensor] | None = None) -> None:
    """The copies that `prepack_weights` keeps of these weights, or of all, are made anew when they are next used.

    To be called after weights were changed past PyTorch's operators: through `.data`, NumPy or a pointer.
    """
    if weights is None:
        C.forget_packed_weights()
    else:
        C.forget_packed_weights(weights)


def packed_weight_bytes() -> int:
    """Of all copies that `prepack_weights` keeps now in this process."""
    return C.packed_weight_bytes()


def disable(fn: Function | None = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """A callable that is run natively, and ends the graph where a compiled function calls it. Also a decorator.

    Args:
        fn: a function, module, or class (whose instances are called natively).
        recursive: compiled functions that it calls run natively too.
        reason: why, for readers, and for those of braze.explain().
    """
    if fn is None:
        return functools.partial(disable, recursive=recursive, reason=reason)
    if not callable(fn):
        raise C.ArgumentTypeError(f"disable takes a function, a module or a class, not {fn!r}")
    fn = innermost(fn)
    make = functools.partial(_disable_callable, recursive=recursive, reason=reason)
    if isinstance(fn, torch.nn.Module):
        return CompiledModule(fn, make)
    if isinstance(fn, type):
        fn.__call__ = make(fn.__call__)
        return fn
    return functools.update_wrapper(make(fn), fn)


def _disable_callable(fn: Function, recursive: bool, reason: str | None) -> Function:
    disabled = C.Disabled(fn, recursive)
    if reason is not None:
        disabled.reason = reason  # What explain() and the logs give for the break.
    return disabled


def allow_in_graph(fn: Any) -> Any:
    """Says that `fn` computes on its arguments alone: braze records the operators that it reaches without a look at
    its Python, so that nothing in it ends the graph. What it reads elsewhere, and changes, is not seen.

    Args:
        fn: a function, or a list or tuple of functions. Given back as it is; also a decorator.
    """
    if isinstance(fn, (list, tuple)):
        for one in fn:
            allow_in_graph(one)
    else:
        _promise("allow_in_graph", fn)
    return fn


def assume_constant_result(fn: Function) -> Function:
    """Says that `fn` gives the same for the same arguments for ever: what a call of it gives while a function is
    captured is what it gives in every replay. Gives back `fn`; also a decorator.

    >>> @braze.compiler.assume_constant_result
    ... def table_size():
    ...     return int(os.environ["TABLE_SIZE"])
    """
    _promise("assume_constant_result", fn)
    return fn


def _promise(name: str, fn: Any) -> None:
    if not callable(fn):
        raise C.ArgumentTypeError(f"{name} takes a function, not {fn!r}")
    if hasattr(C, name):
        getattr(C, name)(innermost(fn))


#: Whether this thread is capturing a function now. False in calls that run natively or replay.
is_compiling = C.is_compiling if hasattr(C, "is_compiling") else lambda: False
is_dynamo_compiling = is_compiling


def is_exporting() -> bool:
    """Whether a program is being exported: never by braze."""
    return False


def cudagraph_mark_step_begin() -> None:
    """Says that an iteration begins. It changes nothing: a CUDA graph whose results somebody still holds is not
    replayed, so that no step overwrites what an earlier one gave."""


class DimRange(NamedTuple):
    """What a marked dimension may be."""

    dim: int
    min: int
    max: int


def mark_dynamic(
    t: torch.Tensor,
    index: int | Sequence[int],
    *,
    hint_override: int | None = None,
    min: int | None = None,
    max: int | None = None,
    specialize_on: Sequence[Function] | None = None,
) -> None:
    """Says that sizes of dimension `index` will vary: they are symbols from the first capture on.

    Args:
        t: the tensor that a compiled function will be given.
        index: a dimension, or several.
        min, max: what the sizes are at least and at most; other ones are captured anew. 0 and 1 always are.
        hint_override, specialize_on: accepted. Forms of kernels follow the sizes of the first call, and programs
            for single sizes are no faster.
    """
    if min is not None and max is not None and min > max:
        raise C.ArgumentValueError(f"min is {min}, and max, {max}, is less")
    for dim in _dimensions(t, index, "mark_dynamic"):
        _mark(t, "_dynamo_dynamic_indices", dim)
        if min is not None or max is not None:
            highest = 2**63 - 1 if max is None else max
            _mark(t, "_dynamo_dynamic_range", DimRange(dim, 2 if min is None else min, highest))


def mark_unbacked(
    t: torch.Tensor,
    index: int | Sequence[int],
    hint_override: int | None = None,
    strict: bool = False,
    specialize_on: Sequence[Function] | None = None,
    shape_id: str | None = None,
    min: int | None = None,
    max: int | None = None,
) -> None:
    """As mark_dynamic(). For PyTorch such sizes are unknown, so that nothing may depend on them; here branches on
    them are guarded, and sizes that break a guard, 0 and 1 among them, are captured anew. The results are those of
    the uncompiled function for every size.

    Args:
        t, index, min, max: as for mark_dynamic().
        hint_override, strict, specialize_on, shape_id: accepted.
    """
    mark_dynamic(t, index, min=min, max=max)


def maybe_mark_dynamic(t: torch.Tensor, index: int | Sequence[int]) -> None:
    """Says that sizes of dimension `index` may vary: as mark_dynamic(), without a word where they cannot."""
    for dim in _dimensions(t, index, "maybe_mark_dynamic"):
        _mark(t, "_dynamo_weak_dynamic_indices", dim)


def mark_static(t: torch.Tensor, index: int | Sequence[int] | None = None) -> None:
    """Says that sizes of dimension `index`, or of all, are no symbols: another one is captured anew."""
    for dim in _dimensions(t, range(t.dim()) if index is None else index, "mark_static"):
        _mark(t, "_dynamo_static_indices", dim)


def _dimensions(t: torch.Tensor, index: int | Sequence[int], caller: str) -> list[int]:
    if not isinstance(t, torch.Tensor):
        raise C.ArgumentTypeError(f"{caller} takes a tensor, not {t!r}")
    dims = [index] if isinstance(index, int) else list(index)
    for one in dims:
        if not -t.dim() <= one < t.dim():
            raise C.ArgumentValueError(f"dimension {one} is out of range for a tensor of {t.dim()} dimensions")
    return [one % t.dim() for one in dims]


def _mark(t: torch.Tensor, name: str, value: object) -> None:
    """In PyTorch's own attributes, so that either's marks are understood."""
    marks = t.__dict__.setdefault(name, set())
    marks.add(value)


class set_stance:
    """How compiled functions treat their calls from now on: a call, a context manager, or a decorator.

        "default"              capture calls for which there is no program yet
        "force_eager"          run everything natively
        "eager_on_recompile"   replay what there is, run everything else natively
        "fail_on_recompile"    replay what there is, raise at everything else
        "eager_then_compile"   run a function's first call natively, capture from the second on

    Args:
        stance: one of these.
        skip_guard_eval_unsafe: accepted. Guards are evaluated all the same: they tell which program is for a call.
        force_backend: with "default" only: what all functions are compiled by in the place of their own backend, as
            compile() takes it. Their other programs are kept for later.

    >>> with braze.compiler.set_stance("force_eager"):
    ...     reference = compiled(x)
    """

    def __init__(
        self,
        stance: str = "default",
        *,
        skip_guard_eval_unsafe: bool = False,
        force_backend: str | Function | None = None,
    ) -> None:
        if is_compiling():
            raise C.Error("set_stance was called within a function that is being captured; call it outside")
        if force_backend is not None and stance != "default":
            raise C.ArgumentValueError(
                f'force_backend goes with the stance "default" only, not with {stance!r}, which runs natively'
            )
        self._stance = stance, None if force_backend is None else forced_runner(force_backend)
        self._before = C.set_stance(*self._stance)

    def __enter__(self) -> "set_stance":
        return self

    def __exit__(self, *exception: object) -> None:
        C.set_stance(*self._before)

    def __call__(self, fn: Function) -> Function:
        C.set_stance(*self._before)  # As a decorator it holds within the function's calls alone.

        @functools.wraps(fn)
        def with_stance(*args: Any, **kwargs: Any) -> Any:
            before = C.set_stance(*self._stance)
            try:
                return fn(*args, **kwargs)
            finally:
                C.set_stance(*before)

        return with_stance
