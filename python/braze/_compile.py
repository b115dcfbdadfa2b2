"""braze.compile: functions and modules that braze captures on their first call, guards, and replays later."""

import copyreg
import functools
import inspect
import types
import weakref
from collections.abc import Callable
from typing import Any, TypeVar, overload

import torch

from braze import _modes, config
from braze._backends import lookup_backend
from braze._load import C
from braze._module import CompiledModule
from braze._settings import CAPTURE_SETTINGS, SEGMENT_SETTINGS
from braze._weights import watch_optimizers

Function = Callable[..., Any]
_T = TypeVar("_T")

#: Every compiled function that is alive, for braze.compiler.reset().
compiled_functions: weakref.WeakSet = weakref.WeakSet()

#: What settings_of() adds to settings that have a name in braze.config.
_CHOICES = ("fullgraph", "dynamic", "branches_on_values")


@overload
def compile(model: torch.nn.Module, **choices: Any) -> CompiledModule: ...
@overload
def compile(model: type[_T], **choices: Any) -> type[_T]: ...
@overload
def compile(model: Function, **choices: Any) -> "C.CompiledFunction": ...
@overload
def compile(model: None = None, **choices: Any) -> Callable[[Any], Any]: ...
def compile(
    model: Function | None = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: str | Function = "braze",
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    disable: bool = False,
) -> Any:
    """Returns a callable that does what `model` does, faster where it could be captured. docs/compile.md tells how.

    Args:
        model: a function, method, module or another callable. None gives a decorator.
        fullgraph: a call that cannot be one graph raises, naming the line, the reason and a remedy.
        dynamic: whether sizes of tensors may be symbolic. None: those that have varied from one capture to the
            next, and those that are marked (braze.compiler.mark_dynamic). True: all, from the first capture on.
            False: none. Sizes of 0 and 1 never are.
        backend: "braze"; "eager" (the captured operators, run by ATen); another name of list_backends(); or a
            callable that takes a torch.fx.GraphModule and example inputs and returns a callable.
        mode: one of list_modes(). On a CPU all mean the same.
        options: values of list_options() for this function alone. Not together with mode.
        disable: give back `model` as it is.

    Raises:
        braze.Error: for a backend, mode or option that does not exist, and on Pythons without capture.

    >>> @braze.compile
    ... def f(x, scale=2.0):
    ...     return torch.softmax(x * scale, -1)
    """
    settings = settings_of(fullgraph=fullgraph, dynamic=dynamic, backend=backend, mode=mode, options=options)
    return compile_by(model, settings, disable)


def settings_of(
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: str | Function = "braze",
    mode: str | None = None,
    options: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """compile()'s arguments, checked, with every setting that they leave to braze.config."""
    settings = _modes.resolve(mode, options)
    if not isinstance(fullgraph, bool):
        raise C.ArgumentTypeError(f"fullgraph is True or False, not {fullgraph!r}")
    if dynamic not in (None, True, False):
        raise C.ArgumentTypeError(f"dynamic is None, True or False, not {dynamic!r}")
    lookup_backend(backend)
    choices = {"fullgraph": fullgraph, "dynamic": dynamic, "branches_on_values": True}
    return settings | choices | {"backend": backend}


def compile_by(model: Function | None, settings: dict[str, Any], disable: bool) -> Any:
    """What compile() gives for a model, or for none, by what settings_of() gives."""
    if not isinstance(disable, bool):
        raise C.ArgumentTypeError(f"disable is True or False, not {disable!r}")
    if model is None:
        return functools.partial(_compile, settings=settings, disable=disable)
    return _compile(model, settings, disable)


def _compile(model: Function, settings: dict[str, Any], disable: bool) -> Any:
    if not callable(model):
        raise C.ArgumentTypeError(_why_not(model))
    if disable:
        return model
    model = innermost(model)
    make = functools.partial(compile_callable, settings=settings)
    if isinstance(model, torch.jit.ScriptModule):
        raise C.ArgumentTypeError("braze.compile takes the module itself, not the one that torch.jit made of it")
    if isinstance(model, torch.nn.Module):
        return CompiledModule(model, make)
    if inspect.isclass(model):
        model.__call__ = make(model.__call__)
        return model
    return make(model)


def compile_callable(function: Function, settings: dict[str, Any]) -> Function:
    """The compiled form of anything that can be called; settings are those of compile()."""
    if not hasattr(C, "CompiledFunction"):
        raise C.Error("braze.compile captures Python on CPython 3.11 and 3.12 only; braze.trace works here.")
    compiled = C.CompiledFunction(
        _caller_of(function) if C.is_called_specially(_bare(function)) else function,
        {
            "backend": _runner(settings),
            **{name: settings[name] for name in (*_CHOICES, *CAPTURE_SETTINGS)},
        },
    )
    for name in functools.WRAPPER_ASSIGNMENTS:
        if hasattr(function, name) and not isinstance(function, torch.nn.Module):
            setattr(compiled, name, getattr(function, name))
    compiled_functions.add(compiled)
    if config.report:
        from braze._report.at_exit import keep

        keep(config.report, compiled)
    return compiled


def _bare(function: Function) -> Function:
    """Without what is filled in: arguments, or the object that it is a method of."""
    while isinstance(function, (functools.partial, types.MethodType)):
        function = function.func if isinstance(function, functools.partial) else function.__func__
    return function


def _caller_of(function: Function) -> Function:
    """Captures look for what stands in for a function of PyTorch's where that is called; this one calls it."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return call


def innermost(model: Function) -> Function:
    """What compile() was given, if it was given what compile() returned."""
    while True:
        if isinstance(model, CompiledModule):
            model = model._orig_mod
        elif hasattr(C, "CompiledFunction") and isinstance(model, C.CompiledFunction):
            model = model.__wrapped__
        else:
            return model


def _runner(settings: dict[str, Any]) -> str | dict[str, Any] | Function:
    """What the compiled part makes a segment runnable by (python/compile/backend.h)."""
    found = lookup_backend(settings["backend"])
    if found is None:
        if settings["prepack_weights"]:
            watch_optimizers()
        chosen = {"cudagraphs": True} if settings["backend"] == "cudagraphs" else {}
        return {name: settings[name] for name in SEGMENT_SETTINGS} | chosen
    if isinstance(found, str):
        return found
    from braze._fx import GraphBuilder  # Only those who want a torch.fx graph pay for the import.

    return functools.partial(GraphBuilder, found)


@functools.cache
def forced_runner(backend: str | Function) -> str | dict[str, Any] | Function:
    """The same object for the same backend: the programs that it made are found by it."""
    return _runner(settings_of(backend=backend))


def _why_not(model: Any) -> str:
    if model is None:
        return "braze.compile was given None in the place of a function or module"
    if isinstance(model, classmethod):
        return "put @classmethod above @braze.compile: a classmethod object itself cannot be called"
    if isinstance(model, property):
        return "put @property above @braze.compile: a property object itself cannot be called"
    return f"braze.compile takes a function, a module or another callable, not {model!r}"


if hasattr(C, "CompiledFunction"):
    # Like functions: by name in a pickle, and a deep copy is the function itself.
    copyreg.pickle(C.CompiledFunction, lambda compiled: compiled.__qualname__)
