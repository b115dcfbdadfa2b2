"""The real torch._dynamo and torch._inductor, behind the modules that stand for them.

Most scripts ask for what braze answers itself, and the real packages take seconds to import. So they are imported
when something else is asked for: an attribute, or a submodule. The modules of braze stay in front and give what
they do not have from the real ones, which know nothing of that.
"""

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
import threading
import types
from collections.abc import Sequence
from typing import Any

PACKAGES = ("torch._dynamo", "torch._inductor")

#: Of torch: who compiles for purposes of its own (torch.cond, flex_attention, torch.export) means the real thing.
_USERS = (
    "torch._dynamo",
    "torch._inductor",
    "torch._higher_order_ops",
    "torch._export",
    "torch._functorch",
    "torch.export",
    "torch.nn.attention",
)

_fronts: dict[str, types.ModuleType] = {}
_real: dict[str, types.ModuleType] = {}
_lock = threading.RLock()
_is_loading = False


def put_in_front(modules: Sequence[types.ModuleType]) -> None:
    """Once, of each package: what is imported by these names from now on."""
    _fronts.update({one.__name__: one for one in modules})
    _show_fronts()
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


def is_asked_by_torch(depth: int = 2) -> bool:
    """Whether the caller's caller is one of those parts of torch."""
    name = sys._getframe(depth).f_globals.get("__name__", "")
    return name == "torch" or name.startswith(_USERS)


def attribute(module: str, name: str) -> Any:
    """An attribute of the real module. Raises AttributeError."""
    load()
    found = _real_module(module)
    if not hasattr(found, name):
        own = sorted(vars(_fronts[module])) if module in _fronts else []
        raise AttributeError(
            f"{module}.{name}: `python -m braze run` answers {own} of it, and torch has no such name"
        )
    return getattr(found, name)


def loaded(module: str) -> types.ModuleType | None:
    """The real module, if it was needed for something."""
    return _real.get(module)


def load() -> None:
    """Imports the real packages, if they are not there yet."""
    global _is_loading
    with _lock:
        if _is_loading or "torch._dynamo" in _real:
            return
        _is_loading = True
        try:
            _hide_fronts()
            for package in PACKAGES:
                importlib.import_module(package)
        finally:
            _is_loading = False
            _keep_real()
            _show_fronts()


def _real_module(name: str) -> types.ModuleType:
    if name in _real:
        return _real[name]
    if _is_loading:
        return sys.modules[name]
    with _lock:
        _hide_fronts()
        try:
            importlib.import_module(name)
        finally:
            _keep_real()
            _show_fronts()
    return _real[name]


def _hide_fronts() -> None:
    for name in _fronts:
        sys.modules.pop(name, None)
        if name in _real:
            _bind(name, _real[name])


def _keep_real() -> None:
    for name in _fronts:
        found = sys.modules.get(name)
        if found is not None and found is not _fronts[name]:
            _real[name] = found


def _show_fronts() -> None:
    for name, front in _fronts.items():
        _bind(name, front)


def _bind(name: str, module: types.ModuleType) -> None:
    sys.modules[name] = module
    parent, _, own = name.rpartition(".")
    if parent == "torch":
        setattr(sys.modules[parent], own, module)


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the submodules that braze has not."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        package = ".".join(name.split(".")[:2])
        if package not in PACKAGES or _is_loading or name in _fronts:
            return None
        load()
        if (there := sys.modules.get(name)) is not None:
            spec = importlib.util.spec_from_loader(name, self, origin=there.__file__)
            # The import system takes the spec of a module that came to be while it looked for one, and so would run
            # the file once more.
            spec.loader_state, there.__spec__ = there.__spec__, spec
            return spec
        parent = _real.get(name.rpartition(".")[0]) or sys.modules.get(name.rpartition(".")[0])
        return importlib.machinery.PathFinder.find_spec(name, getattr(parent, "__path__", None))

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return sys.modules[spec.name]

    def exec_module(self, module: types.ModuleType) -> None:
        module.__spec__ = module.__spec__.loader_state
