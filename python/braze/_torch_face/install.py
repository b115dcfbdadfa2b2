"""Puts braze in the place of torch.compile, torch.compiler, torch._dynamo and torch._inductor."""

import functools
import os
import sys
from collections.abc import Callable
from typing import Any

import torch
import torch._logging
import torch.compiler
import torch.fx
from torch.fx._lazy_graph_module import _use_lazy_graph_module

import braze
from braze import compiler
from braze._compile import compile_by, settings_of
from braze._modes import options_of
from braze._torch_face import dynamo, inductor, logs, real
from braze._torch_face.options import checked_options

#: Names of torch.compiler that braze.compiler has too. Captures read the flag of torch's own is_compiling(), which
#: torch.export sets as well.
_OWN = (
    *("compile", "mark_dynamic", "maybe_mark_dynamic", "mark_static", "mark_unbacked"),
    *("is_exporting", "is_compiling"),
)
_COMPILER = tuple(name for name in compiler.__all__ if name not in _OWN)

#: What torch.compile(fullgraph=True) turns on, whatever its settings say. A branch on a tensor is still an error.
_READS = {"capture_scalar_outputs": True, "capture_dynamic_output_shape_ops": True, "branches_on_values": False}

_torch_compile = torch.compile


def compile(
    model: Callable[..., Any] | None = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: str | Callable[..., Any] | None = None,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    disable: bool = False,
    name: str | None = None,
    recompile_limit: int | None = None,
    isolate_recompiles: bool = False,
    shapes_spec: Any = None,
) -> Any:
    """torch.compile: "inductor" means braze, options of PyTorch are accepted."""
    if real.is_asked_by_torch():
        return _torch_compile(
            model, fullgraph=fullgraph, dynamic=dynamic, backend=backend or "inductor", mode=mode, options=options
        )
    if mode is not None and options is not None:
        raise RuntimeError("Either mode or options can be specified, but both can't be specified at the same time.")
    options = checked_options(options, lambda: sys.modules["torch._inductor.config"])
    if dynamic is None:
        dynamic = _dynamic_by_settings(sys.modules["torch._dynamo.config"])
    if recompile_limit is not None:
        options, mode = options_of(mode) | (options or {}) | {"recompile_limit": recompile_limit}, None
    settings = settings_of(
        fullgraph=fullgraph,
        dynamic=dynamic,
        backend="braze" if backend in (None, "inductor") else backend,
        mode=mode,
        options=options,
    )
    settings |= _READS if fullgraph else {}
    return compile_by(model, settings, disable)


def _dynamic_by_settings(config: Any) -> bool | None:
    """What PyTorch's settings make of dynamic=None: sizes are symbols from the start, once they have varied, or
    never."""
    if config.is_asked_for() and not config.assume_static_by_default:
        return True
    automatic = config.automatic_dynamic_shapes if config.is_asked_for() else None
    if automatic is None:  # The settings' file asks the environment.
        automatic = os.environ.get("TORCH_DYNAMO_AUTOMATIC_DYNAMIC_SHAPES", "1") == "1"
    return None if automatic else False


_torch_symbolic_trace = torch.fx.symbolic_trace


@functools.wraps(_torch_symbolic_trace)
def symbolic_trace(*args: Any, **kwargs: Any) -> torch.fx.GraphModule:
    """PyTorch's own. The code of the module is generated when it is first called or read: compiling 1,000 lines of
    Python takes three times the memory that the graph does."""
    with _use_lazy_graph_module(True):
        return _torch_symbolic_trace(*args, **kwargs)


def install() -> None:
    """Once, before the script begins. Refuses when the real modules are there already."""
    for name in ("torch._dynamo", "torch._inductor"):
        if name in sys.modules:
            raise braze.Error(f"{name} is imported already; braze cannot take its place")
    real.put_in_front([*dynamo.make(), *inductor.make()])
    torch.compile = compile
    torch.compiler.compile = compile
    for name in _COMPILER:
        setattr(torch.compiler, name, getattr(compiler, name))
    torch._logging.set_logs = logs.set_logs
    torch.fx.symbolic_trace = symbolic_trace
    logs.from_environment()
