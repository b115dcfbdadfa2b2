"""How a stale-result program is written, run and observed.

A case is a generator. It yields the function to compile and the arguments of a call; the call is made twice, and
both must come out alike. Then the case changes something that the function depends on and ends, or yields other
arguments; the call is made again. What is observed of every call - value, identities, printed output, exception,
the state of the arguments and of whatever is watched - must be what plain Python shows.

    @case
    def global_rebound():
        m = module("SCALE = 2\\ndef f(x): return x * SCALE")
        yield m.f, tensor()
        m.SCALE = 3
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import enum
import io
import math
import numbers
import types
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from seeds import seed
from specialised import specialise, widen

CASES: dict[str, Case] = {}


@dataclasses.dataclass
class Case:
    name: str
    make: Callable[[], Iterator]
    evolves: bool = False  # the state goes on changing, so that two unchanged calls differ


def case(make=None, *, evolves=False, name=None):
    """Registers a generator as a case, under its topic's name and its own."""

    def register(make):
        topic = make.__module__.rpartition("_")[2]
        own = f"{topic}/{name or make.__name__}"
        assert own not in CASES, own
        CASES[own] = Case(own, make, evolves)
        return make

    return register(make) if make else register


class call:
    """Arguments with keywords, and what else to observe: `yield call(f, x, scale=2).watch(log)`."""

    def __init__(self, *args, **kwargs):
        self.args, self.kwargs, self.watched = args, kwargs, ()

    def watch(self, *things):
        self.watched = things
        return self


def tensor(*sizes):
    """The same numbers every time: 1, 2, 3, ..."""
    sizes = sizes or (4,)
    count = 1
    for size in sizes:
        count *= size
    return torch.arange(1.0, count + 1).reshape(sizes)


def module(source, **names):
    """A fresh module that runs `source`, with `names` in its globals."""
    made = types.ModuleType(__name__)  # the name of a module that there is: dataclasses look it up
    made.__dict__.update(torch=torch, **names)
    exec(_code(source), made.__dict__)
    return made


def _code(source):
    if not _is_specialised:
        return compile(source, "<stale>", "exec")
    if source not in _codes:
        _codes[source] = specialise(compile(widen(source), "<stale>", "exec"))
    return _codes[source]


_codes = {}  # the code of modules, by source, while it is to be specialised
_is_specialised = False


@contextlib.contextmanager
def specialising(one):
    """Inside, the code of this case has run natively, so that CPython has specialised it."""
    global _is_specialised
    _is_specialised = True
    try:
        specialise(one.make.__code__)
        for _ in range(2):
            run(one, lambda function: function)
        yield
    finally:
        _is_specialised = False
        _codes.clear()


# ------------------------------------------------------------------------------------------------------ observation

_OPAQUE = (types.FunctionType, types.BuiltinFunctionType, type, torch.dtype, torch.Generator, io.IOBase)


class Freezer:
    """Turns values into what can be compared: exact types and bits, tensors with strides, and who is who: the
    second time that an object is met it becomes its number."""

    def __init__(self, versions=None):
        self.versions = versions or {}  # of tensors before the call: what counts is by how much they move
        self.met = {}
        self.numbers = {}
        self.memories = {}
        self.kept = []  # so that no address is used twice

    def freeze(self, value):
        if value is None or isinstance(value, (bool, str, bytes, enum.Enum)):
            return (type(value).__name__, value)
        if isinstance(value, numbers.Number) and not isinstance(value, float):
            return (type(value).__name__, repr(value))
        if isinstance(value, float):
            return (type(value).__name__, value.hex() if value == value else "nan")
        if id(value) in self.numbers:
            return ("again", self.numbers[id(value)])
        self.numbers[id(value)] = len(self.numbers)
        self.kept.append(value)
        return self.freeze_object(value)

    def freeze_object(self, value):
        kind = type(value).__name__
        if isinstance(value, torch.Tensor):
            return self.freeze_tensor(value)
        if isinstance(value, _OPAQUE):
            return (kind, getattr(value, "__qualname__", str(value)))
        if isinstance(value, types.ModuleType):
            names = {k: v for k, v in vars(value).items() if not k.startswith("__") and not isinstance(v, _OPAQUE)}
            names.pop("torch", None)
            return (kind, [(k, self.freeze(v)) for k, v in names.items() if not isinstance(v, types.ModuleType)])
        if isinstance(value, (list, tuple, collections.deque)):
            return (kind, [self.freeze(item) for item in value])
        if isinstance(value, dict):
            return (kind, [(self.freeze(k), self.freeze(v)) for k, v in value.items()])
        if isinstance(value, (set, frozenset)):
            return (kind, sorted(repr(Freezer().freeze(item)) for item in value))
        if isinstance(value, BaseException):
            return (kind, str(value), type(value.__cause__).__name__, type(value.__context__).__name__)
        state = getattr(value, "__dict__", None)
        if state is None:
            return (kind, repr(value) if kind in ("device", "range", "slice", "Size") else "")
        return (kind, [(k, self.freeze(v)) for k, v in state.items() if not k.startswith("_backward")])

    def freeze_tensor(self, value):
        facts = (type(value).__name__, str(value.dtype), tuple(value.shape), value.requires_grad)
        if value.layout != torch.strided:
            return (*facts, repr(value.to_dense().tolist()))
        facts += (value.stride(), value.is_inference(), value.is_conj(), value.is_neg())
        facts += (self.number_memory(value), self.freeze_history(value))
        return facts if value.is_meta else (*facts, Elements(value.tolist()))

    def number_memory(self, value):
        """Tensors over one memory have one number."""
        address = 0 if value.is_meta else value.untyped_storage().data_ptr()
        return self.memories.setdefault(address, len(self.memories)) if address else None

    def freeze_history(self, value):
        """What autograd counts and knows of a tensor."""
        if value.is_inference():
            return None
        base = value._base
        known = None if base is None else (self.numbers.get(id(base)), tuple(base.shape), base.stride())
        self.met[id(value)] = value._version
        return value._version - self.versions.get(id(value), 0), value._is_view(), known


class Elements:
    """Of a tensor, as nested lists. Equal to others that differ in the last bits, as compiled code may: by 1e-5 of
    the number, or where terms cancelled by 1e-6 of the largest one. Signs of zero count."""

    def __init__(self, nested):
        self.nested = nested

    def __repr__(self):
        return repr([f"{x:.5g}" if isinstance(x, float) else x for x in flat(self.nested)])

    def __eq__(self, other):
        mine, others = list(flat(self.nested)), list(flat(other.nested))
        finite = [abs(x) for x in mine if isinstance(x, float) and math.isfinite(x)]
        slack = 1e-6 * max(finite, default=0)
        return len(mine) == len(others) and all(is_near(a, b, slack) for a, b in zip(mine, others, strict=True))

    __hash__ = None


def flat(nested):
    if not isinstance(nested, list):
        yield nested
        return
    for item in nested:
        yield from flat(item)


def is_near(a, b, slack):
    if not isinstance(a, float) or not isinstance(b, float):
        return type(a) is type(b) and (a == b or a != a and b != b)
    if a == b or math.isnan(a) or math.isnan(b):
        return math.copysign(1, a) == math.copysign(1, b) if a == b else a != a and b != b
    return math.isclose(a, b, rel_tol=1e-5, abs_tol=slack)


@contextlib.contextmanager
def unobserved():
    """Inside, no mode and no subclass notices what is done with tensors."""
    from torch.utils._python_dispatch import _disable_current_modes

    with torch._C.DisableTorchFunction(), _disable_current_modes():
        yield


@dataclasses.dataclass
class Seen:
    """One call."""

    value: Any = None
    error: Any = None
    printed: str = ""
    state: Any = None


def observe(function, request) -> Seen:
    with unobserved():
        before = Freezer()
        before.freeze([list(request.args), request.kwargs, list(request.watched)])
    seen, freezer = Seen(), Freezer(before.met)
    with unobserved():
        for argument in request.args:
            freezer.freeze(argument)  # so that a result which is an argument is told by its number
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", ResourceWarning)  # The collector's, at any time: no program's.
        try:
            value = function(*request.args, **request.kwargs)
            with unobserved():
                now = Freezer()  # Memory of an argument may be gone, and be a result's.
                now.freeze(list(request.args))
                freezer.memories = now.memories
                seen.value = freezer.freeze(value)
        except Exception as error:
            seen.error = (type(error).__name__, str(error), type(error.__cause__).__name__)
    seen.printed = printed.getvalue() + "".join(f"{w.category.__name__}: {w.message}\n" for w in warned)
    with unobserved():
        seen.state = Freezer(before.met).freeze([list(request.args), request.kwargs, list(request.watched)])
    return seen


def as_call(request, before=None) -> call:
    """What a case yields, as a call. Later ones leave the function out."""
    made = request
    if not isinstance(request, call):
        made = call(*request) if isinstance(request, tuple) else call(request)
    if before and not made.watched:
        made.watched = before.watched
    return made


def run(one: Case, compile: Callable, unchanged: Callable | None = None) -> list[Seen]:
    """Runs a case with what `compile` makes of its function. The first two observations are of unchanged calls;
    `unchanged(compiled)` is called between them and the change."""
    seed()
    program = one.make()
    first = as_call(next(program))
    function, first.args = first.args[0], first.args[1:]
    compiled = compile(function)
    seen = [observe(compiled, first), observe(compiled, first)]
    if unchanged:
        unchanged(compiled)
    request, last = None, first
    try:
        request = program.send(compiled)
        while True:
            last = as_call(request, first)
            seen.append(observe(compiled, last))
            request = next(program)
    except StopIteration:
        if request is None:
            seen.append(observe(compiled, first))
    return seen
