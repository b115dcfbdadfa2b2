"""One step of training (forward, backward, SGD) of the models of model_cases.py on a GPU, each in a fresh process.

    python bench/gpu/training.py                        # braze beside eager, f32 with TF32 and autocast to bf16
    python bench/gpu/training.py --compare              # torch.compile too: a minute a model
    python bench/gpu/training.py --only resnet50 unet --jobs 3   # so many at once; cold times mean nothing then
    python bench/gpu/training.py --json

Batches are larger than on a CPU (BATCHES). Cold: the first step until the device is done, less eager's median.
Warm: medians of interleaved steps, by the clock, the device waited for, one process at a time. Peak: what a step
has allocated at most beside what was there before.

Exit status 1 if a step ran natively, is slower than eager's or torch.compile's, or has more memory than eager's.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import statistics
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import device
import torch
from rich.console import Console
from rich.table import Table
from torch.utils._pytree import tree_map

import measure

#: How many times the inputs of model_cases.py, along their first dimension.
BATCHES = {"mobilenet-v2": 4, "t5-encoder": 4, "unet": 4, "mlp": 1, "scorers": 1}
OTHER_BATCH = 8
TYPES = ("f32", "bf16")
BRAZE, INDUCTOR = "braze", "torch.compile"
NOT_SLOWER = 0.97
#: Of eager's peak: blocks of the allocator are rounded.
MOST_MEMORY = 1.02


def peak_mb(step: Callable[[], Any]) -> float:
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    step()
    torch.cuda.synchronize()
    return (torch.cuda.max_memory_allocated() - before) / 2**20


def one(name: str, side: str, dtype: str) -> dict[str, Any]:
    """Measures in this process."""
    from cases import Built, Trained
    from model_cases import MODELS

    torch.backends.cuda.matmul.allow_tf32 = True
    times = BATCHES.get(name, OTHER_BATCH)

    def moved(value: Any) -> Any:
        return torch.cat([value] * times).cuda() if torch.is_tensor(value) else value

    built = MODELS[name].build()
    args, kwargs = tree_map(moved, built.args), tree_map(moved, built.kwargs)
    trained = Trained.of(Built(built.fn.cuda(), args, kwargs))
    if side == BRAZE:
        import braze

        compiled = braze.compile(trained.fn)
    else:
        compiled = torch.compile(trained.fn)

    def step(function: Callable[..., Any]) -> None:
        def called(*args: Any, **kwargs: Any) -> Any:
            with torch.autocast("cuda", torch.bfloat16, enabled=dtype == "bf16"):
                return function(*args, **kwargs)

        trained.once(called)

    eager, ours = functools.partial(step, trained.fn), functools.partial(step, compiled)
    eager()
    eager_ms = statistics.median(device.call_ms(eager, 3) for _ in range(5))
    facts: dict[str, Any] = {"cold_ms": device.call_ms(ours, 1) - eager_ms}
    for _ in range(3):
        ours()
    if side == BRAZE:
        counted = measure.compiled_function(compiled)
        facts["native"], facts["reasons"] = counted.counts()["native"], list(counted.reasons())
    facts["peak_mb"] = {"eager": peak_mb(eager), side: peak_mb(ours)}
    with device.alone():
        samples = measure.interleaved({"eager": eager, side: ours}, budget=20, timed=device.call_ms)
    facts["warm_ms"] = {who: statistics.median(values) for who, values in samples.items()}
    facts["speed"] = measure.speed(samples, side, "eager")
    return facts


def apart(name: str, side: str, dtype: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as cache:
        return device.apart(__file__, name, side, dtype, cache=cache)


def broken_limits(case: str, sides: dict[str, Any]) -> list[str]:
    failed = [f"{case}: {side}: {facts['failure']}" for side, facts in sides.items() if "failure" in facts]
    if failed:
        return failed
    braze = sides[BRAZE]
    if braze["native"]:
        failed.append(f"{case}: ran natively: {'; '.join(braze['reasons'])}")
    if braze["speed"] < NOT_SLOWER:
        failed.append(f"{case}: {braze['speed']:.2f} of eager's speed")
    if INDUCTOR in sides and braze["speed"] < NOT_SLOWER * sides[INDUCTOR]["speed"]:
        failed.append(f"{case}: {braze['speed'] / sides[INDUCTOR]['speed']:.2f} of torch.compile's speed")
    peak = braze["peak_mb"]
    if peak[BRAZE] > MOST_MEMORY * peak["eager"] + 4:
        failed.append(f"{case}: peak {peak[BRAZE]:.0f} MB, eager's {peak['eager']:.0f}")
    return failed


def show(results: dict[str, Any], console: Console) -> None:
    table = Table(title="A training step on the GPU", title_justify="left")
    table.add_column("model")
    for heading in ("eager, ms", BRAZE, "speed", INDUCTOR, "cold, ms", INDUCTOR, "peak MB, eager", BRAZE, INDUCTOR):
        table.add_column(heading, justify="right")
    for case, sides in results.items():
        if any("failure" in facts for facts in sides.values()):
            table.add_row(case, "[red]failed[/red]")
            continue
        ours, theirs = sides[BRAZE], sides.get(INDUCTOR)
        table.add_row(
            case,
            f"{ours['warm_ms']['eager']:.3g}",
            f"{ours['warm_ms'][BRAZE]:.3g}",
            f"{ours['speed']:.2f}x",
            f"{theirs['speed']:.2f}x" if theirs else "",
            f"{ours['cold_ms']:.0f}",
            f"{theirs['cold_ms']:,.0f}" if theirs else "",
            f"{ours['peak_mb']['eager']:.0f}",
            f"{ours['peak_mb'][BRAZE]:.0f}",
            f"{theirs['peak_mb'][INDUCTOR]:.0f}" if theirs else "",
        )
    console.print(table)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="WORD", help="models whose names contain one of these")
    parser.add_argument("--compare", action="store_true", help="torch.compile beside")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--one", nargs=3, metavar=("MODEL", "SIDE", "TYPE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(one(*options.one)))
        return 0

    from model_cases import MODELS

    console = Console(stderr=True, width=150)
    console.print(device.require())
    names = measure.named_like(list(MODELS), options.only)
    sides = (BRAZE, INDUCTOR) if options.compare else (BRAZE,)
    todo = [(name, side, dtype) for name in names for dtype in TYPES for side in sides]
    with ThreadPoolExecutor(options.jobs) as pool:
        measured = dict(zip(todo, pool.map(lambda each: apart(*each), todo), strict=True))
    results = {}
    for name, dtype in itertools.product(names, TYPES):
        results[f"{name}, {dtype}"] = {side: measured[name, side, dtype] for side in sides}
    failed = [line for case, found in results.items() for line in broken_limits(case, found)]
    return measure.conclude(results, failed, show, options.json, width=150)


if __name__ == "__main__":
    sys.exit(main())
