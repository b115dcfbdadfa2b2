"""torch._dynamo as scripts use it."""

import functools
import types
from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any

import torch

import braze
from braze import compiler
from braze._backends import lookup_backend as braze_lookup_backend
from braze._compile import compiled_functions
from braze._explain import Explanation
from braze._torch_face import real
from braze._torch_face.counters import Counters
from braze._torch_face.modules import module
from braze._torch_face.options import Options


class TorchExplanation(Explanation):
    """With the names that torch._dynamo.explain()'s result has for the same things."""

    @property
    def ops_per_graph(self) -> list[list[str]]:
        return self.ops

    @property
    def out_guards(self) -> list[str]:
        return [guard for guards in self.guards for guard in guards]


def explain(function: Callable[..., Any], *given: Any, **choices: Any) -> Any:
    """explain(f)(*args); also the older explain(f, *args)."""

    def explained(*args: Any, **kwargs: Any) -> TorchExplanation:
        found = braze.explain(function)(*args, **kwargs)
        return TorchExplanation(**{field.name: getattr(found, field.name) for field in fields(found)})

    return explained(*given, **choices) if given or choices else explained


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None, wrapping: bool = True) -> Any:
    """torch itself disables its own functions with wrapping=False: they stay as they are."""
    return fn if fn is not None and not wrapping else compiler.disable(fn, recursive, reason=reason)


def optimize(backend: Any = "inductor", *, nopython: bool = False, disable: bool = False, **choices: Any) -> Any:
    """The decorator that torch.compile is made of."""
    if real.is_asked_by_torch():
        return real.attribute("torch._dynamo", "optimize")(
            backend=backend, nopython=nopython, disable=disable, **choices
        )
    import torch

    return torch.compile(backend=backend, fullgraph=nopython, disable=disable, dynamic=choices.get("dynamic"))


def lookup_backend(backend: Any) -> Any:
    if real.is_asked_by_torch():
        return real.attribute("torch._dynamo.backends.registry", "lookup_backend")(backend)
    return braze_lookup_backend(backend)


def register_backend(compiler_fn: Any = None, name: str | None = None, tags: Sequence[str] = ()) -> Any:
    """PyTorch's own modules register theirs when something imports them: braze's of that name stay."""
    if compiler_fn is None:
        return functools.partial(register_backend, name=name, tags=tags)
    home = getattr(compiler_fn, "__module__", None) or type(compiler_fn).__module__
    if home.startswith("torch.") and (name or getattr(compiler_fn, "__name__", "")) in braze.list_backends(None):
        return compiler_fn
    return braze.register_backend(compiler_fn, name, tags)


def graph_break(msg: str = "") -> None:
    """Ends the graph where a compiled function calls it."""


def mark_static(t: Any, index: Any = None) -> None:
    """As braze.compiler.mark_static(); classes of modules are static anyway."""
    if isinstance(t, torch.Tensor):
        compiler.mark_static(t, index)


def compile_times(repr: str = "str", aggregate: bool = False) -> Any:
    """Seconds by phase, of everything that was compiled and is alive: a table, or (names, values) for "csv"."""
    totals: dict[str, int] = {}
    for compiled in list(compiled_functions):
        for segment in compiled.report()["segments"]:
            for phase, time in segment["compile_times"].items():
                totals[phase] = totals.get(phase, 0) + time
    if repr == "csv":
        return list(totals), [f"{time / 1e9:.6f}" for time in totals.values()]
    width = max(map(len, totals), default=0)
    return "\n".join(f"{phase:{width}}  {time / 1e9:.6f}" for phase, time in totals.items())


def make() -> list[types.ModuleType]:
    """The modules, parent first."""
    registry = module(
        "torch._dynamo.backends.registry",
        list_backends=braze.list_backends,
        lookup_backend=lookup_backend,
        register_backend=register_backend,
    )
    utils = module("torch._dynamo.utils", counters=Counters(), compile_times=compile_times)
    config = Options("torch._dynamo.config", "_dynamo/config.py")
    exceptions = module("torch._dynamo.exc", Unsupported=braze.Error, TorchDynamoException=braze.Error)
    frames = module(
        "torch._dynamo.eval_frame", OptimizedModule=braze.CompiledModule, set_stance=compiler.set_stance
    )
    parent = module(
        "torch._dynamo",
        allow_in_graph=compiler.allow_in_graph,
        assume_constant_result=compiler.assume_constant_result,
        config=config,
        disable=disable,
        eval_frame=frames,
        exc=exceptions,
        explain=explain,
        graph_break=braze.compiler.disable(graph_break),
        is_compiling=compiler.is_compiling,
        list_backends=braze.list_backends,
        lookup_backend=lookup_backend,
        mark_dynamic=compiler.mark_dynamic,
        maybe_mark_dynamic=compiler.maybe_mark_dynamic,
        mark_static=mark_static,
        mark_unbacked=compiler.mark_unbacked,
        OptimizedModule=braze.CompiledModule,
        optimize=optimize,
        register_backend=register_backend,
        reset=compiler.reset,
        set_stance=compiler.set_stance,
        utils=utils,
    )
    backends = module("torch._dynamo.backends", registry=registry)
    parent.backends = backends
    return [parent, config, utils, exceptions, frames, backends, registry]
