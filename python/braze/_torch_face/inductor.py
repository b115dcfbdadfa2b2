"""torch._inductor as scripts use it."""

import contextlib
import os
import tempfile
import types
from collections.abc import Iterator
from typing import Any

import braze
from braze._torch_face import real
from braze._torch_face.modules import module
from braze._torch_face.options import Options


def list_mode_options(mode: str | None = None, dynamic: bool | None = None) -> dict[str, Any]:
    """What each mode sets: nothing on a CPU."""
    modes: dict[str, dict[str, Any]] = {name: {} for name in braze.list_modes()}
    if mode is None:
        return modes
    if mode not in modes:
        raise RuntimeError(f"Unrecognized mode={mode}, should be one of: {', '.join(modes)}")
    return modes[mode]


def cache_dir() -> str:
    """Where machine code is kept."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return braze.config.cache_dir or os.path.join(base, "braze")


@contextlib.contextmanager
def fresh_cache(*_: Any, **__: Any) -> Iterator[None]:
    """No program is known at the beginning, nor at the end; machine code goes to an empty folder."""
    braze.compiler.reset()
    with tempfile.TemporaryDirectory() as folder, braze.config.patch(cache_dir=folder):
        yield
    braze.compiler.reset()


class _FromReal(type):
    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(real.attribute("torch._inductor.codecache", cls.__name__), name)


class Cache(metaclass=_FromReal):
    """Clearing one forgets every program."""

    @staticmethod
    def clear() -> None:
        braze.compiler.reset()

    cache_clear = clear


class FxGraphCache(Cache):
    pass


class PyCodeCache(Cache):
    pass


def make() -> list[types.ModuleType]:
    """The modules, parent first."""
    config = Options("torch._inductor.config", "_inductor/config.py")
    codecache = module(
        "torch._inductor.codecache", FxGraphCache=FxGraphCache, PyCodeCache=PyCodeCache, cache_dir=cache_dir
    )
    utils = module("torch._inductor.utils", fresh_cache=fresh_cache, fresh_inductor_cache=fresh_cache)
    parent = module(
        "torch._inductor",
        codecache=codecache,
        config=config,
        cudagraph_mark_step_begin=braze.compiler.cudagraph_mark_step_begin,
        list_mode_options=list_mode_options,
        list_options=config.names,
        utils=utils,
    )
    return [parent, config, codecache, utils]
