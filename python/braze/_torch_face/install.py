"""Puts braze in the place of torch.compile, torch.compiler, torch._dynamo and torch._inductor."""

import sys
from collections.abc import Callable
from typing import Any

import torch
import torch._logging
import torch.compiler

import braze
from braze import compiler
from braze._torch_face import dynamo, inductor, logs
from braze._torch_face.options import checked_options

#: Names of torch.compiler that braze.compiler has too.
_COMPILER = tuple(name for name in compiler.__all__ if name not in ("compile", "mark_dynamic"))


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
    if mode is not None and options is not None:
        raise RuntimeError("Either mode or options can be specified, but both can't be specified at the same time.")
    options = checked_options(options, lambda: sys.modules["torch._inductor.config"])
    if recompile_limit is not None:
        options = {**(options or {}), "recompile_limit": recompile_limit}
        mode = None  # Which sets nothing.
    return braze.compile(
        model,
        fullgraph=fullgraph,
        dynamic=dynamic,
        backend="braze" if backend in (None, "inductor") else backend,
        mode=mode,
        options=options,
        disable=disable,
    )


def install() -> None:
    """Once, before the script begins. Refuses when the real modules are there already."""
    for name in ("torch._dynamo", "torch._inductor"):
        if name in sys.modules:
            raise braze.Error(f"{name} is imported already; braze cannot take its place")
    for made in (dynamo.make(), inductor.make()):
        for one in made:
            sys.modules[one.__name__] = one
        setattr(torch, made[0].__name__.removeprefix("torch."), made[0])
    torch.compile = compile
    torch.compiler.compile = compile
    for name in _COMPILER:
        setattr(torch.compiler, name, getattr(compiler, name))
    torch._logging.set_logs = logs.set_logs
    logs.from_environment()
