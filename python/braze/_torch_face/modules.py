"""Modules that stand for torch's."""

import types
from typing import Any


class _Module(types.ModuleType):
    """Says what it is when a script asks for something that it does not have."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise AttributeError(f"{self.__name__}.{name}: `python -m braze run` answers {sorted(vars(self))} of it")


def module(name: str, **contents: Any) -> types.ModuleType:
    """A module of the name that holds `contents`, and in which other modules can be found."""
    made = _Module(name, "Answered by braze.")
    made.__path__ = []  # A package, whose further parts do not exist.
    vars(made).update(contents)
    return made
