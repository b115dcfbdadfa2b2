"""Measures one kernel at several sizes in this (fresh) process and prints a JSON object. Started by kernels.py.

The request: {"kernel": name, "sizes": [bytes], "compare": bool, "pairs": int, "budget": seconds a size}.
"""

from __future__ import annotations

import json
import statistics
import sys
import warnings
from pathlib import Path
from typing import Any

import torch

import braze
import measure
from kernel_cases import KERNELS, Kernel

CHECKED = 2**22  # Up to this size the result is compared with eager's as well.
COPIES = 10  # What a kernel may hold at once, in sizes of its input: arguments, temporaries of eager, the memcpy.


def available_bytes() -> int:
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))


def bytes_moved(fn, args: tuple) -> int:
    """What must be read and written: arguments and results, once each."""
    return sum(t.numel() * t.element_size() for t in [*measure.tensors(args), *measure.tensors(fn(*args))])


def measured(kernel: Kernel, size: int, request: dict[str, Any]) -> dict[str, Any]:
    torch.manual_seed(0)
    fn, args = kernel.build(size)
    with warnings.catch_warnings():
        warnings.simplefilter("error", braze.TraceWarning)  # another result than eager's is a failure
        program = braze.trace(fn, args, check=size <= CHECKED)
    moved = bytes_moved(fn, args)
    calls = {"eager": lambda: fn(*args), "braze": lambda: program(*args)}
    if request["compare"]:
        torch._dynamo.reset()
        compiled = torch.compile(fn, dynamic=False)
        calls["torch.compile"] = lambda: compiled(*args)
    calls["memcpy"] = measure.Memcpy(moved)
    samples = measure.interleaved(calls, request["pairs"], request["budget"])
    return {
        "moved_bytes": moved,
        "pairs": len(samples["braze"]),
        "ms": {side: statistics.median(times) for side, times in samples.items()},
        "speed": {side: measure.speed(samples, "braze", side) for side in calls if side != "braze"},
        "kernels": len(program.kernels),
        "calls": sorted(step.name for step in program.steps if step.kind == "call"),
    }


def main() -> None:
    request = json.loads(sys.argv[1])
    kernel = KERNELS[request["kernel"]]
    measure.keep_freed_memory()
    facts: dict[str, Any] = {}
    with torch.no_grad():
        for size in request["sizes"]:
            if COPIES * size > available_bytes():
                facts[str(size)] = {"skipped": f"needs {COPIES * size / 2**30:.0f} GiB of memory"}
            else:
                facts[str(size)] = measured(kernel, size, request)
    print(json.dumps(facts))


if __name__ == "__main__":
    main()
