"""What a function would read when it runs later: the backward of an autograd.Function, which captures run early."""

from __future__ import annotations

import contextlib
import dis
import enum
import inspect
import sys
import types
import weakref
from collections.abc import Iterator
from typing import Any

import torch

_DEEPEST = 4  # Functions that call functions.
# What a name stands for, for good or nearly so: whether it still does is seen by which object that is.
_STABLE = (
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodDescriptorType,
    types.ModuleType,
    type,
    enum.Enum,
    torch.dtype,
    torch.layout,
    torch.memory_format,
    torch._ops.OpOverload,
    torch._ops.OpOverloadPacket,
    torch.jit.ScriptFunction,
)
# What can be told from another by what it says.
_NUMBERS = (int, float, bool, complex, str, bytes, type(None))
_PARTS = ("__defaults__", "__kwdefaults__", "__code__")
_MISSING = object()
_changing: set[str] = set()  # Names that were found changed: what reads them runs natively from now on.
_WRITES = {"STORE_GLOBAL", "DELETE_GLOBAL", "STORE_ATTR", "DELETE_ATTR"}
# A function, for its globals and what it closes over, a module or a class; the name there; and the value. A program
# keeps none of them alive.
Read = tuple[weakref.ref, str, Any]


class _MayReadAnother(Exception):
    """A list, a tensor, an object, or a name that the program assigns to in more than one place."""


def reads_of(function: Any) -> list[Read] | None:
    """The numbers and texts that it, or what it calls by name, reads as globals, closed-over values or attributes
    of classes and modules: they must be the same when it runs. None: it may read something of which that cannot be
    told, or which is likely to change. PyTorch's own, such as custom_bwd's, read none that anybody changes."""
    try:
        return list(_reads(function, 0))
    except _MayReadAnother:
        return None


def values_of(reads: list[Read]) -> list[Any]:
    """What they are now, which is not what they were in the capture where a number varies from call to call."""
    return [_now(holder(), name) for holder, name, _ in reads]


def changed(reads: list[Read], values: list[Any]) -> str:
    """The name of the first one that is another now; empty: none is."""
    for (reference, name, _), value in zip(reads, values, strict=True):
        holder = reference()
        if holder is not None and not _is_same(_now(holder, name), value):
            told = _told(holder, name)
            _changing.add(told)
            return told
    return ""


def _told(holder: Any, name: str) -> str:
    return f"{holder.__qualname__}.{name}" if name in _PARTS else name


def _reads(function: Any, depth: int) -> Iterator[Read]:
    function = getattr(function, "__func__", function)
    if not isinstance(function, types.FunctionType) or depth > _DEEPEST:
        return
    is_torchs = _is_torchs(function.__globals__.get("__name__", ""))
    if not is_torchs:
        yield from _own_parts(function)
    for holder, name, value in _closed_over(function) if is_torchs else _read_by_name(function):
        if _answers_for_itself(value):
            raise _MayReadAnother
        if not isinstance(value, _STABLE) and not is_torchs:
            if not _is_number(value) or _is_assigned(function, holder, name):
                raise _MayReadAnother
            yield weakref.ref(holder), name, value
        elif isinstance(holder, types.FunctionType) and not is_torchs:
            if name in _changing:
                raise _MayReadAnother
            yield weakref.ref(holder), name, None  # Which one it is now is asked of it then.
        if value is not function:
            yield from _reads(value, depth + 1)


def _own_parts(function: types.FunctionType) -> Iterator[Read]:
    """What it takes where an argument is not given, and what it does."""
    for value in [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]:
        if not isinstance(value, _STABLE) and not _is_number(value):
            raise _MayReadAnother
    for name in _PARTS:
        if _told(function, name) in _changing:
            raise _MayReadAnother
        yield weakref.ref(function), name, None


def _answers_for_itself(value: Any) -> bool:
    """A class whose class is the user's: functions that nothing here looks into say what is done with it."""
    return isinstance(value, type) and any(
        not _is_of_libraries(one.__module__) for one in type(value).__mro__ if isinstance(one, type)
    )


def _is_of_libraries(module: Any) -> bool:
    return _is_torchs(module) or (isinstance(module, str) and module.split(".")[0] in sys.stdlib_module_names)


def _is_torchs(module: Any) -> bool:
    return isinstance(module, str) and module.split(".")[0] == "torch"


def _is_number(value: Any) -> bool:
    return type(value) in _NUMBERS or (type(value) is tuple and all(type(one) in _NUMBERS for one in value))


def _is_same(now: Any, then: Any) -> bool:
    return now is then or (type(now) is type(then) and repr(now) == repr(then))


def _now(holder: Any, name: str) -> Any:
    if not isinstance(holder, types.FunctionType):
        return inspect.getattr_static(holder, name, _MISSING)
    if name in _PARTS:
        value = getattr(holder, name)
        return dict(value) if isinstance(value, dict) else value
    if name not in holder.__code__.co_freevars:
        return holder.__globals__.get(name, holder.__builtins__.get(name, _MISSING))
    with contextlib.suppress(ValueError):  # It is empty.
        return (holder.__closure__ or ())[holder.__code__.co_freevars.index(name)].cell_contents
    return _MISSING


def _closed_over(function: types.FunctionType) -> Iterator[tuple[Any, str, Any]]:
    for name in function.__code__.co_freevars:
        value = _now(function, name)
        if value is not _MISSING:
            yield function, name, value


def _read_by_name(function: types.FunctionType) -> Iterator[tuple[Any, str, Any]]:
    yield from _closed_over(function)
    for code in _codes(function.__code__):
        value = _MISSING
        for instruction in dis.get_instructions(code):
            name = instruction.argval
            if instruction.opname == "LOAD_GLOBAL":
                value = _now(function, name)
                if value is not _MISSING:
                    yield function, name, value
            elif instruction.opname in ("LOAD_ATTR", "LOAD_METHOD") and _has_attributes_of_users(value):
                holder, value = value, inspect.getattr_static(value, name, _MISSING)
                value = getattr(value, "__func__", value)
                if value is not _MISSING:
                    yield holder, name, value
            else:
                value = _MISSING


def _has_attributes_of_users(value: Any) -> bool:
    """A class or module of the user's: those of libraries in C, and of PyTorch, have attributes for good."""
    if isinstance(value, types.ModuleType):
        return hasattr(value, "__file__") and not _is_torchs(value.__name__)
    return isinstance(value, type) and not _is_torchs(value.__module__) and value.__module__ != "builtins"


def _is_assigned(function: types.FunctionType, holder: Any, name: str) -> bool:
    """Whether the program around it says so, but for the place where the name is made."""
    if name in _changing:
        return True
    everywhere = list(_codes_of(function.__globals__))
    if holder is function and name in function.__code__.co_freevars:
        makers = [code for code in everywhere if name in code.co_cellvars and function.__code__ in _codes(code)]
        return not makers or any(
            sum(_writes(code, name, {"STORE_DEREF", "DELETE_DEREF"}) for code in _codes(maker)) > 1
            for maker in makers
        )
    if isinstance(holder, types.ModuleType):
        everywhere.extend(_codes_of(vars(holder)))
    return any(_writes(code, name, _WRITES) for code in everywhere)


def _writes(code: types.CodeType, name: str, kinds: set[str]) -> int:
    if name not in code.co_names and name not in code.co_cellvars and name not in code.co_freevars:
        return 0
    return sum(one.opname in kinds and one.argval == name for one in dis.get_instructions(code))


def _codes_of(module: dict[str, Any]) -> Iterator[types.CodeType]:
    """Of the functions that it defines, and of its classes'."""
    name = module.get("__name__")
    for value in list(module.values()):
        is_its = isinstance(value, type) and value.__module__ == name
        for one in list(vars(value).values()) if is_its else [value]:
            for part in (getattr(one, "fget", one), getattr(one, "fset", None)):
                code = getattr(getattr(part, "__func__", part), "__code__", None)
                if isinstance(code, types.CodeType):
                    yield from _codes(code)


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)
