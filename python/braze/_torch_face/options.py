"""Names of PyTorch's settings, and what braze makes of them.

The names and defaults are read from the files of the installed torch, which are parsed, not imported.
"""

import ast
import contextlib
import os
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch

import braze
from braze._torch_face import real

#: Settings of PyTorch that braze has too, by their names in torch._dynamo.config and torch._inductor.config. Every
#: other known name is accepted and changes nothing.
_SAME = {
    "accumulated_cache_size_limit": "cache_size_limit",
    "accumulated_recompile_limit": "cache_size_limit",
    "cache_size_limit": "recompile_limit",
    "capture_dynamic_output_shape_ops": "capture_dynamic_output_shape_ops",
    "capture_scalar_outputs": "capture_scalar_outputs",
    "compile_threads": "compile_threads",
    "emulate_precision_casts": "emulate_precision_casts",
    "freezing": "prepack_weights",
    "max_autotune": "max_autotune",
    "recompile_limit": "recompile_limit",
    "suppress_errors": "suppress_errors",
    "triton.cudagraphs": "cudagraphs",
    "verbose": "verbose",
}
#: Likewise, but they say when braze's is off.
_OPPOSITE = {"force_disable_caches": "disk_cache"}

_UNKNOWN_DEFAULT = None  # The file computes the default.


def _defaults(statements: list[ast.stmt], prefix: str = "") -> dict[str, Any]:
    """Names assigned by a settings file, with their defaults; those of its classes as "triton.cudagraphs"."""
    found: dict[str, Any] = {}
    for statement in statements:
        if isinstance(statement, ast.ClassDef):
            name = f"{prefix}{statement.name}."
            for base in statement.bases:
                if isinstance(base, ast.Name):
                    start = f"{prefix}{base.id}."
                    found |= {name + key.removeprefix(start): found[key] for key in found if key.startswith(start)}
            found |= _defaults(statement.body, name)
        elif isinstance(statement, ast.If | ast.Try):
            found |= _defaults(statement.body, prefix)
        elif isinstance(statement, ast.Assign | ast.AnnAssign):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            for target in targets:
                if isinstance(target, ast.Name) and not target.id.startswith("__"):
                    found[prefix + target.id] = _literal(statement.value)
    return found


def _literal(expression: ast.expr | None) -> Any:
    try:
        return ast.literal_eval(expression) if expression is not None else _UNKNOWN_DEFAULT
    except ValueError:
        return _UNKNOWN_DEFAULT


def _set_real(config: types.ModuleType, name: str, value: Any) -> None:
    *path, last = name.split(".")
    for part in path:
        config = getattr(config, part)
    setattr(config, last, value)


class Options(types.ModuleType):
    """torch._dynamo.config or torch._inductor.config: its names, values that can be set, patch()."""

    def __init__(self, name: str, parts: str) -> None:
        super().__init__(name)
        object.__setattr__(self, "_path", os.path.join(os.path.dirname(torch.__file__), *parts.split("/")))

    def __getattr__(self, name: str) -> Any:
        if name == "_values":  # Parsed when a name is first asked for: most scripts ask for none.
            with open(self._path, encoding="utf-8") as file:
                object.__setattr__(self, name, _defaults(ast.parse(file.read()).body))
            return self._values
        if name.startswith("__"):
            if (found := real.loaded(self.__name__)) is None:
                raise AttributeError(name)
            return getattr(found, name)
        return self._get(name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("__"):
            super().__setattr__(name, value)
        else:
            self._set(name, value)

    def _get(self, name: str) -> Any:
        if any(key.startswith(name + ".") for key in self._values):
            return _Group(self, name)
        if name not in self._values and "." not in name:  # Its functions.
            return real.attribute(self.__name__, name)
        self._check(name)
        if name in _SAME:
            return getattr(braze.config, _SAME[name])
        return self._values[name]

    def _set(self, name: str, value: Any) -> None:
        self._check(name)
        self._values[name] = value
        for own, given in to_braze({name: value}).items():
            setattr(braze.config, own, given)
        if (found := real.loaded(self.__name__)) is not None:
            _set_real(found, name, value)

    def _check(self, name: str) -> None:
        if name not in self._values:
            raise AttributeError(f"{self.__name__} has no setting {name!r}")

    def is_asked_for(self) -> bool:
        """Whether somebody has read or set one: else all are the defaults, and the file has not been parsed."""
        return "_values" in vars(self)

    def names(self) -> list[str]:
        return list(self._values)

    def get_config_copy(self) -> dict[str, Any]:
        return dict(self._values)

    def patch(self, first: str | dict[str, Any] | None = None, value: Any = None, **more: Any) -> Any:
        """patch("name", value), patch({...}) or patch(name=value): a context manager and decorator."""
        changes = {first: value} if isinstance(first, str) else {**(first or {}), **more}
        for name in changes:
            self._check(name)
        return self._patched(changes)

    @contextlib.contextmanager
    def _patched(self, changes: dict[str, Any]) -> Iterator[None]:
        before = {name: self._get(name) for name in changes}
        try:
            for name, value in changes.items():
                self._set(name, value)
            yield
        finally:
            for name, value in before.items():
                self._set(name, value)


class _Group:
    """A class of a settings file: config.triton.cudagraphs."""

    def __init__(self, options: Options, prefix: str) -> None:
        object.__setattr__(self, "_options", options)
        object.__setattr__(self, "_prefix", prefix)

    def __getattr__(self, name: str) -> Any:
        return self._options._get(f"{self._prefix}.{name}")

    def __setattr__(self, name: str, value: Any) -> None:
        self._options._set(f"{self._prefix}.{name}", value)


def to_braze(options: dict[str, Any]) -> dict[str, Any]:
    """braze's settings for those of PyTorch's that it has too."""
    same = {_SAME[name]: value for name, value in options.items() if name in _SAME and value is not None}
    return same | {_OPPOSITE[name]: not value for name, value in options.items() if name in _OPPOSITE}


def checked_options(options: dict[str, Any] | None, inductor: Callable[[], Options]) -> dict[str, Any] | None:
    """torch.compile's options= as braze's. Raises for names that neither has, as torch.compile does."""
    if options is None:
        return None
    own = set(braze.list_options())
    known = inductor().get_config_copy()
    for name in options:
        if name.replace("-", "_") not in known and name.replace("-", "_") not in own:
            raise RuntimeError(f"Unexpected optimization option {name}, known options are {[*known, *sorted(own)]}")
    plain = {name.replace("-", "_"): value for name, value in options.items()}
    return to_braze(plain) | {name: value for name, value in plain.items() if name in own}
