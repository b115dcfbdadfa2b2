"""Eager PyTorch as the oracle: one call of a function against its traced program.

Compared are the results (type, dtype, shape, strides, value, shared memory), the arguments after the call, the
random state and exceptions. Integers and bools must be equal bit for bit. Floating results must equal eager's
within 2 ulp, or lie within twice eager's own error of the same function computed in float64. Where larger values
cancel on the way, a result may be off by a few ulp of those, but no more than 8 of its own largest number.
"""

import contextlib
import functools
import warnings
from collections.abc import Callable
from typing import Any

import conditioning
import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

import braze
from braze._check import _Copies

# Below this, relative to the largest magnitude in the result, two orders of a float64 sum cannot be told apart.
_SUM_NOISE = {torch.float64: 4e-15, torch.float32: 2e-6, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}
_WIDER = {torch.float32: torch.float64, torch.float16: torch.float64, torch.bfloat16: torch.float64}
_REAL = {torch.complex64: torch.float32, torch.complex128: torch.float64, torch.complex32: torch.float16}


class Mismatch(AssertionError):
    """The program and eager disagree; the text says in what."""


class Unsuitable(Exception):
    """Eager itself cannot serve as an oracle for this call."""


def check(
    fn: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    **demands: Any,
) -> braze.Program | None:
    """Raises Mismatch unless a fresh program of fn does what eager does. None if both raise alike.

    Of what may be demanded (_compared), values=False compares no values (uninitialised memory); strides=False no
    strides. `slack` is how many times eager's own error is allowed. `wider` is fn for float64 arguments, if fn
    itself names narrower types. With `amplified`, what goes beyond may lie as far from eager as one-ulp changes of
    the values on the way move it.
    """
    kwargs = kwargs or {}
    made: list[braze.Program] = []

    def traced(copies: _Copies) -> Callable[..., Any]:
        example = copies.of((args, kwargs))
        torch.manual_seed(0)
        made.append(braze.trace(fn, *example, check=False))
        return made[0]

    raised = _compared(traced, fn, args, kwargs, **demands)
    return None if raised else made[0]


def check_kernels(fn: Callable[..., Any], *args: Any, **demands: Any) -> braze.Program:
    """As check(), of a function that becomes kernels alone, without a call of ATen."""
    program = check(fn, args, **demands)
    assert program is not None, "eager raises"
    assert library_calls(program) == []
    return program


def library_calls(program: braze.Program) -> list[str]:
    return [step.name for step in program.steps if step.kind != "kernel"]


def check_call(
    replay: Callable[..., Any],
    fn: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    **demands: Any,
) -> bool:
    """As check(), of a function that was compiled before. False if both raise alike."""
    return not _compared(lambda _: replay, fn, args, kwargs or {}, **demands)


def _compared(
    make: Callable[[_Copies], Callable[..., Any]],
    fn: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    *,
    values: bool = True,
    strides: bool = True,
    slack: float = 2,
    wider: Callable[..., Any] | None = None,
    amplified: bool = False,
) -> bool:
    """Whether both raise."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = _Copies().of((args, kwargs))
        expected, eager_error, eager_state = _called(fn, *theirs)
        try:
            program = make(_Copies())
            mine = _Copies().of((args, kwargs))
            got, error, state = _called(program, *mine)
        except Exception as raised:
            got, error, state, mine = None, raised, eager_state, theirs
        if eager_error is not None or error is not None:
            _compare_errors(error, eager_error)
            return True
        _compare_trees("result", got, expected, strides=strides)
        _compare_trees("argument after the call", mine, theirs, strides=True)
        if _shared(got, mine) != _shared(expected, theirs):
            raise Mismatch(f"memory shared as {_shared(got, mine)}, in eager as {_shared(expected, theirs)}")
        if not torch.equal(state, eager_state):
            raise Mismatch("another random state after the call")
        if values:
            reference = _Reference(wider or fn, args, kwargs)
            spread = conditioning.Spread(_called, fn, args, kwargs) if amplified else None
            _compare_values("result", got, expected, reference, slack, spread)
            _compare_values("argument after the call", mine, theirs, reference, slack, spread)
    return False


def _called(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any, torch.Tensor]:
    torch.manual_seed(0)
    with torch.no_grad():
        try:
            return fn(*args, **kwargs), None, _random_state()
        except Exception as error:
            return None, error, _random_state()


def _random_state() -> torch.Tensor:
    """Of the CPU's generator and, where there is one in use, the GPU's."""
    state = torch.get_rng_state()
    return torch.cat([state, torch.cuda.get_rng_state()]) if torch.cuda.is_initialized() else state


def _compare_errors(error: Exception | None, eager: Exception | None) -> None:
    if error is None:
        raise Mismatch(f"eager raises {_named(eager)}, the program does not")
    if eager is None:
        raise Mismatch(f"raises {_named(error)}") from error
    # braze's own errors for wrong arguments derive from the built-in ones.
    if not isinstance(error, type(eager)):
        raise Mismatch(f"raises {_named(error)}, eager {_named(eager)}") from error


def _named(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error)[:300]}"


def _compare_trees(name: str, got: Any, expected: Any, *, strides: bool) -> None:
    got_leaves, got_spec = pytree.tree_flatten(got)
    expected_leaves, expected_spec = pytree.tree_flatten(expected)
    if got_spec != expected_spec:
        raise Mismatch(f"{name}: built as {got_spec}, in eager {expected_spec}")
    for number, (one, other) in enumerate(zip(got_leaves, expected_leaves, strict=True)):
        place = name if len(got_leaves) == 1 else f"{name} {number}"
        if type(one) is not type(other):
            raise Mismatch(f"{place}: a {type(one).__name__}, in eager {type(other).__name__}")
        if isinstance(other, torch.Tensor):
            _compare_types(place, one, other, strides)


def _compare_types(place: str, one: torch.Tensor, other: torch.Tensor, strides: bool) -> None:
    for what in ("dtype", "shape", "device", "layout"):
        if getattr(one, what) != getattr(other, what):
            raise Mismatch(f"{place}: {what} {getattr(one, what)}, in eager {getattr(other, what)}")
    if not strides or other.layout != torch.strided or not other.numel():
        return
    pairs = [(a, b) for n, a, b in zip(other.shape, one.stride(), other.stride(), strict=True) if n > 1]
    if any(a != b for a, b in pairs):
        raise Mismatch(f"{place}: strides {one.stride()}, in eager {other.stride()} (shape {tuple(other.shape)})")


def _shared(results: Any, arguments: Any) -> list[Any]:
    """For each result: the argument that it is or views (with the offset), or the first result on its memory."""
    owners: dict[int, Any] = {}
    objects: dict[int, int] = {}
    for number, leaf in enumerate(pytree.tree_leaves(arguments)):
        if isinstance(leaf, torch.Tensor) and leaf.layout == torch.strided and leaf.untyped_storage().nbytes():
            owners.setdefault(leaf.untyped_storage()._cdata, ("argument", number))
            objects.setdefault(id(leaf), number)
    found = []
    for number, leaf in enumerate(pytree.tree_leaves(results)):
        if not isinstance(leaf, torch.Tensor) or leaf.layout != torch.strided or not leaf.numel():
            continue
        owner = owners.setdefault(leaf.untyped_storage()._cdata, ("result", number))
        offset = leaf.storage_offset() if owner != ("result", number) else 0
        found.append((*owner, offset, objects.get(id(leaf))))
    return found


class _Largest(TorchDispatchMode):
    """The largest magnitude of any finite result of the operators that run under it."""

    value = 0.0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        results = function(*args, **(kwargs or {}))
        for leaf in pytree.tree_leaves(results):
            if isinstance(leaf, torch.Tensor) and leaf.is_floating_point() and leaf.numel():
                finite = leaf.detach()[leaf.isfinite()]
                self.value = max(self.value, finite.abs().max().item() if finite.numel() else 0.0)
        return results


class _Reference:
    """The same call with float64 for floating tensors; made when asked for the first time, None if impossible."""

    def __init__(self, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._call = (fn, args, kwargs)
        self._done = False
        self._result = self._arguments = None
        self.largest = 0.0  # magnitude of any value on the way; known once the result is

    def tree(self, name: str) -> Any:
        self._run()
        return self._result if name == "result" else self._arguments

    def _run(self) -> None:
        if self._done:
            return
        self._done = True
        fn, args, kwargs = self._call

        def widen(leaf):
            if isinstance(leaf, torch.Tensor):
                return leaf.to(_WIDER.get(leaf.dtype, leaf.dtype)) if leaf.layout == torch.strided else leaf
            return _WIDER.get(leaf, leaf) if isinstance(leaf, torch.dtype) else leaf

        wide = pytree.tree_map(widen, _Copies().of((args, kwargs)))
        with contextlib.suppress(Exception):
            torch.set_default_dtype(torch.float64)
            try:
                with _Largest() as seen:
                    result, error, _ = _called(fn, *wide)
            finally:
                torch.set_default_dtype(torch.float32)
            if error is None:
                self._result, self._arguments, self.largest = result, wide, seen.value


def _compare_values(
    name: str,
    got: Any,
    expected: Any,
    reference: _Reference,
    slack: float,
    spread: conditioning.Spread | None,
) -> None:
    got_leaves, expected_leaves = pytree.tree_leaves(got), pytree.tree_leaves(expected)
    for number, (one, other) in enumerate(zip(got_leaves, expected_leaves, strict=True)):
        place = name if len(got_leaves) == 1 else f"{name} {number}"
        if isinstance(other, torch.Tensor):
            leaves = functools.partial(_leaf, reference, name, number)
            explained = functools.partial(spread.of, other, name, number) if spread else None
            _compare_tensors(place, one, other, leaves, slack, explained)
        elif one is not other and one != other and not (other != other and one != one):
            raise Mismatch(f"{place}: {one!r}, in eager {other!r}")


def _leaf(reference: _Reference, name: str, number: int) -> tuple[Any, float]:
    """What the leaf is in float64 (None if not known), and the largest magnitude on the way."""
    leaves = pytree.tree_leaves(reference.tree(name))
    leaf = leaves[number] if number < len(leaves) else None
    return leaf.cpu() if isinstance(leaf, torch.Tensor) else leaf, reference.largest


def _compare_tensors(
    place: str,
    one: torch.Tensor,
    other: torch.Tensor,
    reference: Callable[[], tuple[Any, float]],
    slack: float,
    explained: Callable[[], torch.Tensor] | None,
) -> None:
    if other.layout != torch.strided:
        one, other = one.to_dense(), other.to_dense()
    if not other.numel():
        return
    one, other = one.cpu(), other.cpu()
    if other.is_complex():
        one, other = torch.view_as_real(one.resolve_conj()), torch.view_as_real(other.resolve_conj())
    one, other = one.detach().resolve_neg(), other.detach().resolve_neg()
    if not other.is_floating_point() or other.dtype not in _SUM_NOISE:
        if not torch.equal(_integers(one), _integers(other)):
            raise Mismatch(_difference(place, one, other, _integers(one) != _integers(other)))
        return
    wide, wide_other = one.double(), other.double()
    bad = ~_within(wide, wide_other, 2 * _ulp(wide_other, other.dtype))
    if not bad.any():
        return
    true, intermediate = reference()
    if isinstance(true, torch.Tensor) and true.layout == torch.strided and true.is_complex():
        true = torch.view_as_real(true.resolve_conj())
    scale = wide_other[wide_other.isfinite()].abs().max().item() if wide_other.isfinite().any() else 0.0
    noise = _SUM_NOISE[other.dtype] * max(scale, 1.0)
    # A reference of the same type, because the function itself names it, is no better than eager.
    no_better = other.dtype in _WIDER and isinstance(true, torch.Tensor) and true.dtype == other.dtype
    if not isinstance(true, torch.Tensor) or true.shape != other.shape or no_better:
        bad &= ~_within(wide, wide_other, torch.tensor(noise * slack, device="cpu"))
    else:
        true = true.double()
        eager_error = torch.where(wide_other == true, 0.0, (wide_other - true).abs())
        # A half-precision value that overflows on the way leaves NaN in eager; here it may never be rounded.
        lost = torch.inf if explained is not None else 0.0
        eager_error = torch.where(wide_other.isnan() & true.isfinite(), lost, eager_error)
        eager_error = eager_error.nan_to_num(0.0, posinf=torch.inf)
        allowed = torch.maximum(slack * eager_error, slack * _ulp(true, other.dtype))
        # A sum in another order errs in other places, but no more in the whole.
        largest = eager_error[eager_error.isfinite()]
        allowed = torch.maximum(allowed, largest.max() * slack / 2 if largest.numel() else allowed)
        # What large values on the way leave behind when they cancel, as far as it is a few ulp of the result.
        info = torch.finfo(other.dtype)
        allowed = torch.maximum(
            allowed, torch.tensor(info.eps * min(2 * slack * intermediate, 8 * scale), device="cpu")
        )
        if other.dtype == torch.float64:  # The reference itself is no better.
            allowed = torch.maximum(allowed, torch.tensor(noise * slack, device="cpu"))
        bad &= ~_within(wide, true, allowed)
    if bad.any() and explained is not None:
        bad &= ~((wide - wide_other).abs().nan_to_num(torch.inf, posinf=torch.inf) <= 4 * explained().cpu())
    if bad.any():
        raise Mismatch(_difference(place, one, other, bad))


def _integers(tensor: torch.Tensor) -> torch.Tensor:
    return tensor if not tensor.is_floating_point() else tensor.double().nan_to_num(nan=1e300)


def _within(one: torch.Tensor, other: torch.Tensor, allowed: torch.Tensor) -> torch.Tensor:
    return (one == other) | ((one - other).abs() <= allowed) | (one.isnan() & other.isnan())


def _ulp(value: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The distance of neighbours in `dtype` at `value` (float64)."""
    info = torch.finfo(dtype)
    exponent = torch.frexp(value.abs().clamp(info.tiny, info.max))[1] - 1
    return torch.ldexp(torch.tensor(info.eps, dtype=torch.float64, device=exponent.device), exponent)


def _difference(place: str, one: torch.Tensor, other: torch.Tensor, bad: torch.Tensor) -> str:
    index = tuple(bad.nonzero()[0].tolist())
    return (
        f"{place}: {int(bad.sum())} of {bad.numel()} elements differ; at {index} {one[index].item()!r}, "
        f"in eager {other[index].item()!r} ({other.dtype}, shape {tuple(other.shape)})"
    )
