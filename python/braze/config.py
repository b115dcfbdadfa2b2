"""braze.config: settings for every function compiled from now on. print(braze.config) lists them.

    braze.config.recompile_limit = 16
    with braze.config.patch(fusion=False):
        compiled = braze.compile(f)

Each can be set by the environment too, before braze is imported, and most by `braze.compile(options={...})`.
An unknown name is an AttributeError.
"""

import contextlib
import sys
import types
from collections.abc import Iterator
from typing import Any

from braze._settings import SETTINGS, apply, check, from_environment

_values: dict[str, Any] = {name: from_environment(setting) for name, setting in SETTINGS.items()}


def _unknown(name: str) -> AttributeError:
    return AttributeError(f"braze.config has no setting {name!r}; there are {', '.join(SETTINGS)}")


class _Config(types.ModuleType):
    """The module itself: its attributes are the settings."""

    def __getattr__(self, name: str) -> Any:
        if name not in _values:
            raise _unknown(name)
        return _values[name]

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("__"):
            super().__setattr__(name, value)  # The import system's own.
            return
        if name not in _values:
            raise _unknown(name)
        _values[name] = check(name, value, SETTINGS, "setting")
        apply(name, value)

    def __delattr__(self, name: str) -> None:
        raise AttributeError(
            f"settings are not deleted; braze.config.{name} = {SETTINGS[name].default!r} resets it"
        )

    def __dir__(self) -> list[str]:
        return sorted({*SETTINGS, "patch", "to_dict"})

    def __repr__(self) -> str:
        rows = (f"{name} = {value!r}  # {SETTINGS[name].meaning}" for name, value in _values.items())
        return "\n".join(rows)

    def to_dict(self) -> dict[str, Any]:
        """All settings and their present values."""
        return dict(_values)

    @contextlib.contextmanager
    def patch(self, changes: dict[str, Any] | None = None, /, **more: Any) -> Iterator[None]:
        """Other values within a `with` block or a decorated function."""
        changes = {**(changes or {}), **more}
        for name in changes:
            if name not in _values:
                raise _unknown(name)
        before = {name: _values[name] for name in changes}
        try:
            for name, value in changes.items():
                setattr(self, name, value)
            yield
        finally:
            for name, value in before.items():
                setattr(self, name, value)


sys.modules[__name__].__class__ = _Config
