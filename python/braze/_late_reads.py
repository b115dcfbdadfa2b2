"""What a function would read when it runs later: the backward of an autograd.Function, which captures run early."""

from __future__ import annotations

import contextlib
import dis
import types
from collections.abc import Iterator
from typing import Any

import torch

_DEEPEST = 4  # Functions that call functions.
# What a name stands for, for good or nearly so. Another function or class in its place is another program's.
_STABLE = (
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodDescriptorType,
    types.ModuleType,
    type,
    torch.dtype,
    torch.layout,
    torch.memory_format,
    torch._ops.OpOverload,
    torch._ops.OpOverloadPacket,
    torch.jit.ScriptFunction,
)


def may_read_another(function: Any, depth: int = 0) -> bool:
    """Whether it, or what it calls by name, reads a global or closed-over number, tensor or object, which may be
    another one by the time that it runs. PyTorch's own, such as custom_bwd's, read none that anybody changes."""
    function = getattr(function, "__func__", function)
    if not isinstance(function, types.FunctionType) or depth > _DEEPEST:
        return False
    is_torchs = function.__globals__.get("__name__", "").split(".")[0] == "torch"
    for value in _closed_over(function) if is_torchs else _values_by_name(function):
        if not isinstance(value, _STABLE) and not is_torchs:
            return True
        if value is not function and may_read_another(value, depth + 1):
            return True
    return False


def _closed_over(function: types.FunctionType) -> Iterator[Any]:
    for cell in function.__closure__ or ():
        with contextlib.suppress(ValueError):  # It is empty: reading it raises.
            yield cell.cell_contents


def _values_by_name(function: types.FunctionType) -> Iterator[Any]:
    yield from _closed_over(function)
    for code in _codes(function.__code__):
        for instruction in dis.get_instructions(code):
            if instruction.opname == "LOAD_GLOBAL" and instruction.argval in function.__globals__:
                yield function.__globals__[instruction.argval]


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)
