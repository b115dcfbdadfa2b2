"""Measuring: medians, interleaved pairs, memory, errors, and cases run in fresh processes.

Times are in milliseconds unless a name says otherwise. A fresh process is `worker.py`; it prints one JSON object.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

BENCH = Path(__file__).resolve().parent
MEASURED = 0.02  # seconds that one sample lasts at least, so that the clock and the scheduler do not matter


# ATen's operators that a program may call and still be called compiled: matmul, convolution, attention, what sorts,
# and random numbers, which stay eager's.
LIBRARY_CALLS = frozenset(
    f"aten::{name}"
    for name in (
        *("mm", "bmm", "addmm", "baddbmm", "addmv", "mv", "dot", "convolution", "scaled_dot_product_attention"),
        *("convolution_backward", "_scaled_dot_product_flash_attention_for_cpu"),
        "_scaled_dot_product_flash_attention_for_cpu_backward",
        *("sort", "topk", "argsort", "kthvalue", "searchsorted", "unique_dim", "_unique2", "nonzero"),
        *("bernoulli", "bernoulli_", "rand", "randn", "rand_like", "randn_like", "randint", "randperm"),
        *("uniform_", "normal_", "multinomial", "native_dropout"),
    )
)


def other_calls(program: Any) -> list[str]:
    """The operators that a program leaves to ATen and that are not in LIBRARY_CALLS, sorted."""
    return sorted({s.name for s in program.steps if s.kind == "call" and s.name not in LIBRARY_CALLS})


def compiled_function(compiled: Any) -> Any:
    """What counts calls and holds programs, of what braze.compile returned: for a module that is its wrapper's
    way of calling it."""
    return compiled if hasattr(compiled, "counts") else compiled.forward


def named_like(names: Iterable[str], words: list[str] | None) -> list[str]:
    """The names that contain one of the words, all if there are no words. Ends the program if that leaves none."""
    everything = list(names)
    chosen = [name for name in everything if not words or any(word in name for word in words)]
    if not chosen:
        raise SystemExit(f"nothing is named like {' or '.join(words or ())}; there are: {', '.join(everything)}")
    return chosen


def as_measured(
    names: Iterable[str], run: Callable[[str], Any], row: Callable[[Any], str]
) -> Iterator[tuple[str, Any]]:
    """(name, what run(name) gave) of each. Its row is on standard error before the next one runs, since all of them
    may take an hour; while one runs, its name stands there."""
    from rich.console import Console

    console = Console(stderr=True, soft_wrap=True)
    everything = list(names)
    for number, name in enumerate(everything, 1):
        with console.status(f"{name} ({number} of {len(everything)})"):
            found = run(name)
        console.print(f"{name}: {row(found)}", markup=False, highlight=False)
        yield name, found


def milliseconds(facts: dict[str, Any]) -> str:
    """A row's text, of what fresh() gives: "eager 2.94, braze 1.6 ms"."""
    if "failure" in facts:
        return "failed"
    return ", ".join(f"{side} {ms:.4g}" for side, ms in facts["warm_ms"].items()) + " ms"


def timed_ms(call: Callable[[], Any], repeats: int = 1) -> float:
    start = time.perf_counter_ns()
    for _ in range(repeats):
        call()
    return (time.perf_counter_ns() - start) / repeats / 1e6


#: Milliseconds a call, of so many calls.
Timer = Callable[[Callable[[], Any], int], float]


def repeats_for(call: Callable[[], Any], timed: Timer = timed_ms) -> int:
    """How often to call in one sample so that the sample lasts about MEASURED seconds. Warms up as well."""
    call()
    once = timed(call, 1)
    if once < MEASURED * 1e3:
        once = min(timed(call, 1) for _ in range(3))
    return max(1, min(10_000, round(MEASURED * 1e3 / max(once, 1e-4))))


def median_ms(call: Callable[[], Any], samples: int = 9) -> float:
    repeats = repeats_for(call)
    return statistics.median(timed_ms(call, repeats) for _ in range(samples))


def interleaved(
    calls: dict[str, Callable[[], Any]], pairs: int = 30, budget: float = float("inf"), timed: Timer = timed_ms
) -> dict[str, list[float]]:
    """One sample of each call in turn, `pairs` times over: what disturbs one side disturbs the others as much.
    The order turns round every time, because the first after another program finds colder caches.
    After `budget` seconds no further round begins, but there are at least three (or `pairs`)."""
    start = time.monotonic()
    repeats = {name: repeats_for(call, timed) for name, call in calls.items()}
    samples: dict[str, list[float]] = {name: [] for name in calls}
    order = list(calls)
    for done in range(pairs):
        if done >= 3 and time.monotonic() - start > budget:
            break
        for name in order:
            samples[name].append(timed(calls[name], repeats[name]))
        order.reverse()
    return samples


def speed(samples: dict[str, list[float]], side: str, than: str) -> float:
    """How many times faster `side` is than `than`: the median over the pairs."""
    return statistics.median(b / a for a, b in zip(samples[side], samples[than], strict=True))


def resident_bytes() -> int:
    """Memory of this process that is really there (RSS), without garbage and what malloc keeps of freed blocks."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class ChildProcesses:
    """Counts child processes from now on: make it after importing torch, whose CUDA builds run ldconfig."""

    def __init__(self) -> None:
        self.before, self.faults_before = self._alive(), self._faults()

    def count(self) -> int:
        """Those that are there now, plus one if any has come and gone."""
        return len(self._alive() - self.before) + (self._faults() > self.faults_before)

    @staticmethod
    def _alive() -> set[str]:
        return {pid for path in Path("/proc/self/task").glob("*/children") for pid in path.read_text().split()}

    @staticmethod
    def _faults() -> int:
        """Page faults of all children that have ended: there is no process without any."""
        return resource.getrusage(resource.RUSAGE_CHILDREN).ru_minflt


def keep_freed_memory() -> None:
    """Makes malloc reuse big blocks instead of returning them, so that a kernel's time holds no page faults.
    glibc: M_MMAP_MAX = 0 and M_TRIM_THRESHOLD as large as it goes."""
    mallopt = ctypes.CDLL(None).mallopt
    mallopt(-4, 0)
    mallopt(-1, 2**31 - 1)


class Memcpy:
    """glibc's memcpy of `bytes_moved` (read + written, half each) on as many threads as torch uses, or on one for
    less than a megabyte, where handing out the work would cost more than the work."""

    def __init__(self, bytes_moved: int):
        from concurrent.futures import ThreadPoolExecutor

        import torch

        size = bytes_moved // 2
        self.source = torch.ones(size, dtype=torch.uint8)
        self.target = torch.ones(size, dtype=torch.uint8)
        threads = torch.get_num_threads() if bytes_moved >= 2**20 else 1
        # ctypes.memmove keeps the GIL; the same function called through CDLL releases it.
        self.copy = ctypes.CDLL(None).memcpy
        self.copy.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
        self.copy.restype = ctypes.c_void_p
        bounds = [size * i // threads // 64 * 64 for i in range(threads)] + [size]
        self.parts = list(zip(bounds[:-1], bounds[1:], strict=True))
        self.pool = ThreadPoolExecutor(threads)

    def __call__(self) -> None:
        def run(part: tuple[int, int]) -> None:
            begin, end = part
            self.copy(self.target.data_ptr() + begin, self.source.data_ptr() + begin, end - begin)

        if len(self.parts) == 1:
            return run(self.parts[0])
        list(self.pool.map(run, self.parts))


def tensors(result: Any) -> list:
    """Every tensor of a nested result, in order."""
    import torch
    from torch.utils._pytree import tree_leaves

    return [leaf for leaf in tree_leaves(result) if torch.is_tensor(leaf)]


def largest_error(result: Any, reference: Any) -> float:
    """The largest absolute difference between two results of the same structure, taken in float64."""
    pairs = list(zip(tensors(result), tensors(reference), strict=True))
    return max((float((a.double() - b.double()).abs().max()) for a, b in pairs if a.numel()), default=0.0)


def is_correct(error: float, eager_error: float, reference: Any) -> bool:
    """Both errors against float64: at most twice eager's, or 2 ulp of f32 at the size of the largest value."""
    import torch

    largest = max((float(t.abs().max()) for t in tensors(reference) if t.numel()), default=0.0)
    return error <= max(2 * eager_error, 2 * torch.finfo(torch.float32).eps * largest)


def fresh(
    case: str, side: str, *, cache: str | None = None, timeout: float = 900, **options: Any
) -> dict[str, Any]:
    """Runs a case in a new process with empty caches and returns what it printed.
    `cache`: a directory for braze's disk cache that outlives the process."""
    request = json.dumps({"case": case, "side": side, **options})
    printed = run_fresh(BENCH / "worker.py", request, cache=cache, timeout=timeout)
    return printed if "failure" not in printed else {"case": case, "side": side, **printed}


def run_fresh(script: Path, *arguments: str, cache: str | None = None, timeout: float = 900) -> dict[str, Any]:
    """Runs a Python script in a new process with empty caches. The last line that it prints is a JSON object, which
    is returned; {"failure": text} if it fails."""
    with tempfile.TemporaryDirectory(prefix="braze-bench-") as scratch:
        environment = dict(
            os.environ,
            BRAZE_CACHE_DIR=cache or f"{scratch}/braze",
            TORCHINDUCTOR_CACHE_DIR=f"{scratch}/inductor",
            TRITON_CACHE_DIR=f"{scratch}/triton",
            HF_HUB_OFFLINE="1",
            TOKENIZERS_PARALLELISM="false",
        )
        command = [sys.executable, str(script), *arguments]
        try:
            done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=timeout)
        except subprocess.TimeoutExpired:
            return {"failure": f"not done after {timeout:.0f} s"}
    if done.returncode != 0:
        return {"failure": done.stderr.strip()[-4000:] or f"exit {done.returncode}"}
    return json.loads(done.stdout.strip().splitlines()[-1])


def conclude(
    results: dict[str, Any],
    failed: list[str],
    show: Callable[[dict[str, Any], Any], None],
    as_json: bool,
    width: int,
) -> int:
    """The end of a benchmark: the table (show(results, console)) or one JSON object on standard output, the broken
    limits by name on standard error. Returns the exit status."""
    from rich.console import Console

    if as_json:
        print(json.dumps({"cases": results, "failed": failed}, indent=1))
    else:
        show(results, Console(width=width))
    errors = Console(stderr=True, width=width)
    for line in failed:
        errors.print(f"over the limit: {line}", style="red", markup=False)
    return 1 if failed else 0
