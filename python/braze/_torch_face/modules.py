"""Modules that stand for torch's."""

import types
from typing import Any

from braze._torch_face import real


class _Module(types.ModuleType):
    """What a script asks for and braze does not have is the real module's."""

    def __getattr__(self, name: str) -> Any:
        found = real.loaded(self.__name__)
        if found is not None and hasattr(found, name):
            return getattr(found, name)
        if name.startswith("__"):
            raise AttributeError(name)
        return real.attribute(self.__name__, name)

    def __dir__(self) -> list[str]:
        found = real.loaded(self.__name__)
        return sorted({*vars(self), *(dir(found) if found else ())})


def module(name: str, **contents: Any) -> types.ModuleType:
    """A module of the name that holds `contents`, and in which other modules can be found."""
    made = _Module(name, "Answered by braze.")
    made.__path__ = []  # A package, whose further parts real.py finds.
    vars(made).update(contents)
    return made
