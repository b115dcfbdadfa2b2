"""TORCH_LOGS and torch._logging.set_logs as braze's logs."""

import datetime
import logging
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

#: Stands for TORCH_COMPILE_DEBUG while torch is imported.
DEBUG_FOLDER = "BRAZE_RUN_DEBUG_FOLDER"


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
    if os.environ.pop(DEBUG_FOLDER, "0") == "1":
        os.environ["TORCH_COMPILE_DEBUG"] = "1"  # For the script.
        _write_to_folder(chosen={own for name in names for own in _names(name)})


def _write_to_folder(chosen: set[str]) -> None:
    """Every log goes to a file of its own in torch_compile_debug/run_<time>-pid_<number>, and the chosen ones also
    where they go otherwise."""
    base = os.environ.get("TORCH_COMPILE_DEBUG_DIR") or os.getcwd()
    run = f"run_{datetime.datetime.now():%Y_%m_%d_%H_%M_%S_%f}-pid_{os.getpid()}"
    folder = os.path.join(base, "torch_compile_debug", run)
    os.makedirs(folder)
    for name in braze._logs.NAMES:
        logger = logging.getLogger(f"braze.{name}")
        logger.addHandler(logging.FileHandler(os.path.join(folder, f"{name}.txt"), encoding="utf-8", delay=True))
        logger.propagate = name in chosen
    braze.set_logs(all=True)
