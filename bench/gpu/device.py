"""What the GPU benchmarks share: the device, times on it, and what was recorded of torch.compile there.

torch.compile takes minutes for all cases, and device time is short: its figures are recorded once per device and
version (`--record`), in baselines/<device>.json, and put beside braze's afterwards.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # measure, cases

BASELINES = Path(__file__).resolve().parent / "baselines"


def require() -> str:
    """The device's name. Ends the program, with 0, where there is no GPU: nothing is wrong then."""
    if not torch.cuda.is_available():
        print("skipped: no NVIDIA GPU that PyTorch can use")
        raise SystemExit(0)
    return torch.cuda.get_device_name()


def baselines_file() -> Path:
    return BASELINES / (re.sub(r"\W+", "-", torch.cuda.get_device_name()).strip("-").lower() + ".json")


def baselines(benchmark: str) -> dict[str, Any]:
    """What was recorded for one benchmark, by case; empty if nothing was, or with another torch."""
    path = baselines_file()
    kept = json.loads(path.read_text()) if path.exists() else {}
    return kept.get(benchmark, {}) if kept.get("torch") == torch.__version__ else {}


def record(benchmark: str, figures: dict[str, Any]) -> Path:
    path = baselines_file()
    kept = json.loads(path.read_text()) if path.exists() else {}
    if kept.get("torch") != torch.__version__:
        kept = {"torch": torch.__version__}
    kept[benchmark] = kept.get(benchmark, {}) | figures
    path.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")
    return path


def apart(script: str, *arguments: str, cache: str) -> dict[str, Any]:
    """What `script --one arguments...` prints as its last line of JSON, in a fresh process whose caches lie below
    `cache`; {"failure": text} if it fails."""
    environment = dict(
        os.environ,
        BRAZE_CACHE_DIR=f"{cache}/braze",
        TORCHINDUCTOR_CACHE_DIR=f"{cache}/inductor",
        TRITON_CACHE_DIR=f"{cache}/triton",
        CUDA_CACHE_DISABLE="1",
        HF_HUB_OFFLINE="1",
    )
    command = [sys.executable, script, "--one", *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=400, check=False)
    for line in reversed(done.stdout.splitlines()):
        if line.startswith("{"):
            return json.loads(line)
    return {"failure": (done.stderr.strip().splitlines() or [f"exit {done.returncode}"])[-1][:300]}


@contextmanager
def alone() -> Iterator[None]:
    """Inside, no other process of these benchmarks measures."""
    with open(Path(tempfile.gettempdir()) / "braze-gpu-bench.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def kernel_ms(call: Callable[[], Any], samples: int = 15) -> float:
    """Of the device, the launches not counted: the median over samples of at least two milliseconds."""
    call()
    torch.cuda.synchronize()
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)

    def sample(repeats: int) -> float:
        start.record()
        for _ in range(repeats):
            call()
        end.record()
        end.synchronize()
        return start.elapsed_time(end) / repeats

    repeats = max(1, min(200, round(2 / max(sample(3), 1e-3))))
    return statistics.median(sample(repeats) for _ in range(samples))


def call_ms(call: Callable[[], Any], repeats: int) -> float:
    """A measure.Timer: by the clock, until the device has done all of it."""
    torch.cuda.synchronize()
    begin = time.perf_counter_ns()
    for _ in range(repeats):
        call()
    torch.cuda.synchronize()
    return (time.perf_counter_ns() - begin) / repeats / 1e6
