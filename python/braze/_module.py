"""What braze.compile returns for a module: the module itself, with a compiled way of calling it."""

import warnings
from collections.abc import Callable, Sized
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.modules import module as _torch_module

#: Attributes of the wrapper; all others are the module's.
_OWN = frozenset({"_orig_mod", "_compile", "_is_made", "forward", "__dict__"})

#: What is told of the compiled function, where the module has nothing of that name.
_REPORTS = frozenset({"counts", "guards", "operators", "programs", "reasons", "report", "steps"})

_HOOKS = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")


class CompiledModule(torch.nn.Module):
    """Wraps a module. Reading, setting and deleting attributes reaches through to it, except for what nn.Module
    itself has: hooks registered on the wrapper run when the wrapper is called, around those of the module.

    `counts()`, `operators()`, `reasons()`, `guards()`, `programs()` and `steps()` tell of the calls, as those of a
    compiled function do. `_orig_mod` is the module; the names in state_dict() begin with it, as they do with
    torch.compile.
    """

    def __init__(self, module: torch.nn.Module, compile: Callable[[torch.nn.Module], Callable[..., Any]]) -> None:
        # Module.__init__ sets attributes, which reach through to the module.
        object.__setattr__(self, "_orig_mod", module)
        self._is_made = False
        super().__init__()
        self._is_made = True
        self._orig_mod = module
        self._compile = compile
        self.forward = compile(module)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        own = self.__dict__
        # Without hooks of its own the wrapper is no module that is called: hooks registered for all modules run for
        # the module alone.
        if not any(own[name] for name in _HOOKS):
            return own["forward"](*args, **kwargs)
        if _torch_module._has_any_global_hook():
            warnings.warn(
                "hooks registered for all modules run once more for the wrapper that braze.compile(module) returns",
                stacklevel=2,
            )
        return super().__call__(*args, **kwargs)

    def __len__(self) -> int:
        if isinstance(self._orig_mod, Sized):
            return len(self._orig_mod)
        raise TypeError(f"object of type {type(self._orig_mod).__name__!r} has no len()")

    def __bool__(self) -> bool:
        return bool(self._orig_mod)

    def __getitem__(self, index: Any) -> Any:
        return self._orig_mod[index]

    def __iter__(self) -> Any:
        return iter(self._orig_mod)

    def __reduce__(self) -> tuple[Any, ...]:
        return CompiledModule, (self._orig_mod, self._compile)

    @property
    def training(self) -> bool:
        """The module's own."""
        return self._orig_mod.training

    @training.setter
    def training(self, value: bool) -> None:
        if self._is_made:  # Module.__init__ sets its own default.
            self._orig_mod.training = value

    def __getattr__(self, name: str) -> Any:
        if name == "_orig_mod":
            return self._modules["_orig_mod"]
        try:
            return getattr(self._orig_mod, name)
        except AttributeError:
            if name not in _REPORTS or "forward" not in self.__dict__:
                raise
            return getattr(self.__dict__["forward"], name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _OWN or hasattr(type(self), name):
            super().__setattr__(name, value)
        else:
            setattr(self._orig_mod, name, value)

    def __delattr__(self, name: str) -> None:
        if name in _OWN or hasattr(type(self), name):
            super().__delattr__(name)
        else:
            delattr(self._orig_mod, name)

    def __dir__(self) -> list[str]:
        names = list(self._orig_mod.__dir__())
        return names + [name for name in (*super().__dir__(), *sorted(_REPORTS)) if name not in names]

    if TYPE_CHECKING:

        def counts(self) -> dict[str, int]: ...
        def guards(self) -> list[list[str]]: ...
        def operators(self) -> dict[str, Any]: ...
        def programs(self) -> list[Any]: ...
        def reasons(self) -> dict[str, int]: ...
        def report(self) -> dict[str, Any]: ...
        def steps(self) -> list[Any]: ...
