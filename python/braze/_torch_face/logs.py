"""TORCH_LOGS and torch._logging.set_logs as braze's logs."""

import os
from typing import Any

from torch._logging import _internal

import braze

#: What is logged under another name, or by several of PyTorch's components together. A name of PyTorch's that is
#: neither here nor braze's own has no counterpart, and logs nothing.
_SAME = {
    "dynamo": ("graph_breaks", "recompiles"),
    "graph": ("graph_code",),
    "inductor": ("output_code", "fusion"),
    "kernel_code": ("output_code",),
    "perf_hints": ("perf",),
    "recompiles_verbose": ("recompiles",),
    "schedule": ("fusion",),
}


def _names(name: str) -> tuple[str, ...]:
    if name in braze._logs.NAMES:
        return (name,)
    if name in _SAME:
        return _SAME[name]
    registry = _internal.log_registry
    if name != "modules" and not (registry.is_log(name) or registry.is_artifact(name)):
        raise ValueError(f"Invalid log or artifact name: {name}; braze has {', '.join(braze._logs.NAMES)}")
    return ()


def set_logs(*, all: Any = None, **wanted: Any) -> None:
    """torch._logging.set_logs: levels and booleans by name."""
    names = {own for name, value in wanted.items() for own in _names(name) if value}
    braze.set_logs(all=bool(all), **dict.fromkeys(names, True))


def from_environment() -> None:
    text = os.environ.get("TORCH_LOGS", "")
    asked = [name.strip() for name in text.split(",") if name.strip()]
    names = [name.lstrip("+-") for name in asked if not name.startswith("-")]
    if names:
        set_logs(**{name: True for name in names})
