"""The check after tracing: the program and the function, once each, on copies of the example inputs."""

import contextlib
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils import _pytree as pytree

from braze._load import C
from braze._reading import TraceWarning

# Largest |program - eager| allowed, relative to the largest magnitude in the result (and absolutely below 1).
_TOLERANCES = {torch.float64: 1e-8, torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 4e-2}
_TOLERANCES |= {torch.complex128: 1e-8, torch.complex64: 1e-4}


def compare(program: C.Program, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Raises braze.Error if the results have another structure, warns if they have other values."""
    written = program._written_tensors()
    expected_inputs = _Copies().of((args, kwargs))
    with _restored(written):
        try:
            expected = fn(*expected_inputs[0], **expected_inputs[1])
        except Exception as error:
            _warn(f"the function could not be run again to check its program: {type(error).__name__}: {error}")
            return
        expected = _frozen((expected, expected_inputs, written, _random_state()))
    inputs = _Copies().of((args, kwargs))
    with _restored(written), torch.no_grad():
        got = _frozen((program(*inputs[0], **inputs[1]), inputs, written, _random_state()))
    names = ("result", "input after the call", "buffer after the call", "random state after the call")
    for name, one, other in zip(names, got, expected, strict=True):
        _compare(name, one, other)


def _random_state() -> torch.Tensor | None:
    """None while other threads may draw numbers too."""
    return torch.get_rng_state() if threading.active_count() == 1 else None


class _Copies:
    """Copies trees of tensors so that those which share memory still do."""

    def __init__(self) -> None:
        self._tensors: dict[int, torch.Tensor] = {}
        self._storages: dict[int, torch.UntypedStorage] = {}

    def of(self, tree: Any) -> Any:
        return pytree.tree_map_only(torch.Tensor, self._copy, tree)

    def _copy(self, tensor: torch.Tensor) -> torch.Tensor:
        if id(tensor) not in self._tensors:
            with torch.no_grad():
                copy = self._on_copied_storage(tensor).requires_grad_(tensor.requires_grad)
            self._tensors[id(tensor)] = copy
        return self._tensors[id(tensor)]

    def _on_copied_storage(self, tensor: torch.Tensor) -> torch.Tensor:
        if tensor.layout != torch.strided:
            return tensor.detach().clone()
        storage = tensor.untyped_storage()
        if storage._cdata not in self._storages:
            self._storages[storage._cdata] = storage.clone()
        empty = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
        return empty.set_(self._storages[storage._cdata], tensor.storage_offset(), tensor.size(), tensor.stride())


@contextlib.contextmanager
def _restored(written: list[torch.Tensor]) -> Iterator[None]:
    """Puts the random state and the given tensors back as they were."""
    state = torch.get_rng_state()
    saved = [tensor.detach().clone() for tensor in written]
    try:
        yield
    finally:
        torch.set_rng_state(state)
        with torch.no_grad():
            for tensor, value in zip(written, saved, strict=True):
                tensor.copy_(value)


class _Frozen:
    """A tensor's value and layout at one moment."""

    def __init__(self, tensor: torch.Tensor, storage: int) -> None:
        self.value = tensor.detach().clone()
        self.layout = (tensor.dtype, tensor.device, tuple(tensor.shape))
        self.stride = tensor.stride() if tensor.layout == torch.strided else ()
        self.storage = storage  # Equal for tensors of one tree that share memory.


def _frozen(tree: Any) -> Any:
    storages: dict[int, int] = {}

    def freeze(tensor: torch.Tensor) -> _Frozen:
        key = tensor.untyped_storage()._cdata if tensor.layout == torch.strided else id(tensor)
        return _Frozen(tensor, storages.setdefault(key, len(storages)))

    return pytree.tree_map_only(torch.Tensor, freeze, tree)


def _compare(name: str, got: Any, expected: Any) -> None:
    got_leaves, got_spec = pytree.tree_flatten(got)
    expected_leaves, expected_spec = pytree.tree_flatten(expected)
    if got_spec != expected_spec:
        raise C.Error(f"the {name} of the program is built as {got_spec}, that of the function as {expected_spec}")
    for number, (one, other) in enumerate(zip(got_leaves, expected_leaves, strict=True)):
        place = name if len(got_leaves) == 1 else f"{name} {number}"
        if isinstance(other, _Frozen):
            _compare_tensors(place, one, other)
        elif type(one) is not type(other):
            raise C.Error(f"the {place} of the program is {one!r}, that of the function {other!r}")


def _compare_tensors(place: str, one: Any, other: _Frozen) -> None:
    if not isinstance(one, _Frozen) or one.layout != other.layout:
        got = one.layout if isinstance(one, _Frozen) else one
        raise C.Error(f"the {place} of the program is {got}, that of the function {other.layout}")
    seen = [(length, *strides) for length, *strides in zip(other.layout[2], one.stride, other.stride, strict=False)]
    if other.value.numel() and any(length > 1 and a != b for length, a, b in seen):
        _warn(f"the {place} of the program has strides {one.stride}, that of the function {other.stride}")
    if one.storage != other.storage:
        _warn(f"the {place} of the program shares memory with other results than that of the function does")
    error, allowed = _error(one.value, other.value)
    if not error <= allowed:
        _warn(
            f"the {place} of the program differs from that of the function by up to {error:.3g} "
            f"(allowed {allowed:.3g}). The function may depend on something that tracing cannot see, such as a "
            "counter or the time."
        )


def _error(one: torch.Tensor, other: torch.Tensor) -> tuple[float, float]:
    if other.layout != torch.strided or other.numel() == 0:
        return 0.0, 0.0
    if other.dtype not in _TOLERANCES:
        return (0.0, 0.0) if torch.equal(one, other) else (float((one.double() - other.double()).abs().max()), 0.0)
    tolerance = _TOLERANCES[other.dtype]
    wide = torch.complex128 if other.is_complex() else torch.float64
    one, other = one.to(wide), other.to(wide)
    same = (one == other) | (one.isnan() & other.isnan())
    finite = other.abs()[other.isfinite()]
    scale = max(1.0, float(finite.max())) if finite.numel() else 1.0
    error = float(torch.where(same, 0.0, (one - other).abs()).max())
    return error, tolerance * scale


def _warn(text: str) -> None:
    warnings.warn(text, TraceWarning, stacklevel=4)
