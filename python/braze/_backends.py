"""Backends by name: braze's own, those that were registered, and those that installed packages offer."""

import functools
import importlib.metadata
import importlib.util
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from braze._load import C

Compiler = Callable[..., Any]

#: The packages that offer backends declare them under this name, for torch.compile too.
_ENTRY_POINTS = "torch_dynamo_backends"

#: What runs a segment (python/compile/backend.h), by name. Without gradients the two eager ones are the same.
#: "cudagraphs" is braze with the option cudagraphs.
_BUILTIN: dict[str, str | None] = {"braze": None, "cudagraphs": None, "eager": "eager", "aot_eager": "eager"}
_BUILTIN_TAGS = {"braze": (), "cudagraphs": (), "eager": ("debug",), "aot_eager": ("debug",)}

#: torch.compile's backends that live in torch and need another package.
_NEEDS = {
    "onnxrt": "onnxruntime",
    "openxla": "torch_xla",
    "tensorrt": "torch_tensorrt",
    "torch_tensorrt": "torch_tensorrt",
    "tvm": "tvm",
}

_registered: dict[str, Compiler] = {}
_tags: dict[str, tuple[str, ...]] = {}


def register_backend(
    compiler_fn: Compiler | None = None, name: str | None = None, tags: Sequence[str] = ()
) -> Callable[..., Any]:
    """Gives a compiler a name for `braze.compile(backend=name)`. Also a decorator, with and without arguments.

    >>> @braze.register_backend
    ... def my_backend(gm: torch.fx.GraphModule, example_inputs):
    ...     return gm.forward
    """
    if compiler_fn is None:
        return functools.partial(register_backend, name=name, tags=tags)
    if not callable(compiler_fn):
        raise C.ArgumentTypeError(f"a backend is a callable, not {compiler_fn!r}")
    name = name or compiler_fn.__name__
    if name in _registered or name in _BUILTIN:
        raise C.ArgumentValueError(f"a backend named {name!r} exists already; register this one under another name")
    _registered[name] = compiler_fn
    _tags[name] = tuple(tags)
    return compiler_fn


def list_backends(exclude_tags: Iterable[str] | None = ("debug", "experimental")) -> list[str]:
    """Names for `braze.compile(backend=...)`, without those that have one of the tags."""
    excluded = set(exclude_tags or ())
    tags = {**dict.fromkeys(_entry_points(), ()), **_BUILTIN_TAGS, **_tags}
    return sorted(name for name, own in tags.items() if not excluded.intersection(own))


def lookup_backend(backend: str | Compiler) -> str | None | Compiler:
    """What a name stands for: None or "eager" (of the compiled part), or a compiler that takes a torch.fx graph."""
    if not isinstance(backend, str):
        if not callable(backend):
            raise C.ArgumentTypeError(f"backend is a name or a callable, not {backend!r}")
        return backend
    if backend in _BUILTIN:
        return _BUILTIN[backend]
    if backend not in _registered and (entry := _entry_points().get(backend)) is not None:
        register_backend(entry.load(), name=backend)
    if backend in _registered:
        return _registered[backend]
    raise C.ArgumentValueError(_why_not(backend))


def _why_not(name: str) -> str:
    known = ", ".join(list_backends(None))
    if name == "inductor":
        return 'backend "inductor" is torch.compile\'s code generator; leave out backend, and braze generates code'
    if name not in _NEEDS:
        return f"invalid backend {name!r}; there are {known}. Register yours with braze.register_backend"
    package = _NEEDS[name]
    if importlib.util.find_spec(package) is None:
        return f"backend {name!r} needs the package {package}, which is not installed; there are {known}"
    return (
        f"the package {package} does not declare backend {name!r} as an entry point of {_ENTRY_POINTS}; "
        "pass its compiler function as backend"
    )


@functools.cache
def _entry_points() -> dict[str, importlib.metadata.EntryPoint]:
    found = importlib.metadata.entry_points(group=_ENTRY_POINTS)
    return {entry.name: entry for entry in found if entry.name not in _BUILTIN}
