"""Cold and warm time of the cases of cases.py on a GPU, each in a fresh process.

    python bench/gpu/models.py                    # braze and eager; torch.compile as recorded
    python bench/gpu/models.py --record           # torch.compile (default and reduce-overhead); keeps its figures
    python bench/gpu/models.py --only bert mlp    # cases whose names contain one of the words
    python bench/gpu/models.py --json             # one JSON object instead of the table

Cold: the first call until the device is done, less eager's median. "again" is a second process that finds the
first one's disk cache. Warm: medians of interleaved calls beside eager, by the clock, the device waited for.

Exit status 1 if a result is wrong, a call ran natively, or a limit is passed: cold 100 times less than
torch.compile's and below the case's own limit, 30 ms in the second process, warm not slower than eager and
torch.compile.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import device
import torch
from rich.console import Console
from rich.table import Table
from torch.utils._pytree import tree_map

import measure

#: Cold limits in ms.
LIMITS = {
    "x+1": 40,
    "mlp": 40,
    "scorers": 90,
    "bert-1x8": 120,
    "bert-4x256": 120,
    "gpt2-1x8": 120,
    "gpt2-4x256": 120,
}
OTHER_LIMIT = 90
AGAIN_LIMIT_MS = 30
TIMES_LESS = 100
NOT_SLOWER = 0.97
MODES = ("default", "reduce-overhead")


def moved(value: Any) -> Any:
    return value.cuda() if torch.is_tensor(value) else value


def one(name: str, side: str, mode: str) -> dict[str, Any]:
    """Measures in this process. `side`: "braze" or "torch.compile"."""
    import gc

    if side == "braze":
        import braze

        compile_ = braze.compile
    else:
        compile_ = torch.compile
    from cases import CASES

    torch.set_grad_enabled(False)
    built = CASES[name].build()
    function = built.fn.cuda() if isinstance(built.fn, torch.nn.Module) else built.fn
    args, kwargs = tree_map(moved, built.args), tree_map(moved, built.kwargs)

    def eager() -> Any:
        return function(*args, **kwargs)

    for _ in range(3):
        wanted = eager()
    eager_ms = statistics.median(device.call_ms(eager, 3) for _ in range(5))
    gc.collect()
    compiled = compile_(function, mode=mode)
    first = device.call_ms(lambda: compiled(*args, **kwargs), 1)
    facts: dict[str, Any] = {"cold_ms": first - eager_ms, "eager_ms": eager_ms}
    for _ in range(4):
        got = compiled(*args, **kwargs)
    facts["difference"] = measure.largest_error(got, wanted)
    largest = max(float(each.abs().max()) for each in measure.tensors(wanted))
    facts["correct"] = facts["difference"] <= 2e-3 * max(1.0, largest)
    if side == "braze":
        counted = measure.compiled_function(compiled)
        facts["counts"], facts["reasons"] = counted.counts(), list(counted.reasons())
        facts["phases_ms"] = {}
        for program in counted.programs():
            for phase, ns in program.compile_times().items():
                facts["phases_ms"][phase] = facts["phases_ms"].get(phase, 0) + ns / 1e6
    with device.alone():
        samples = measure.interleaved(
            {"eager": eager, side: lambda: compiled(*args, **kwargs)}, timed=device.call_ms
        )
    facts["warm_ms"] = {who: statistics.median(values) for who, values in samples.items()}
    facts["speed"] = measure.speed(samples, side, "eager")
    return facts


def apart(name: str, side: str, mode: str, cache: str) -> dict[str, Any]:
    return device.apart(__file__, name, side, mode, cache=cache)


def recorded(name: str) -> dict[str, Any]:
    """torch.compile's figures in each mode: cold times of processes that run side by side count for a little more
    than alone; warm ones are measured one after the other."""
    kept = {}
    for mode in MODES:
        with tempfile.TemporaryDirectory() as cache:
            facts = apart(name, "torch.compile", mode, cache)
        kept[mode] = facts if "failure" in facts else {key: facts[key] for key in ("cold_ms", "warm_ms")}
    return kept


def run_case(name: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as cache:
        sides = {"braze": apart(name, "braze", "default", cache), "again": apart(name, "braze", "default", cache)}
        sides["reduce-overhead"] = apart(name, "braze", "reduce-overhead", cache)
    return sides


def in_words(facts: dict[str, Any]) -> str:
    return facts.get("failure") or f"cold {facts['cold_ms']:.1f} ms, {facts['speed']:.2f}x"


def beside(facts: dict[str, Any], known: dict[str, Any]) -> float | None:
    """How many times torch.compile's speed, where that is known. Not by way of eager's times: those were taken
    while others ran."""
    return known["warm_ms"]["torch.compile"] / facts["warm_ms"]["braze"] if "warm_ms" in known else None


def in_times(speed: float | None) -> str:
    return "" if speed is None else f"{speed:.2f}x"


def broken_limits(name: str, sides: dict[str, Any], known: dict[str, Any]) -> list[str]:
    failed = [f"{name}: {side}: {facts['failure']}" for side, facts in sides.items() if "failure" in facts]
    if failed:
        return failed
    braze, again = sides["braze"], sides["again"]
    for side, facts in sides.items():
        if not facts["correct"]:
            failed.append(f"{name}: {side}: differs from eager by {facts['difference']:.2g}")
        if facts["counts"]["native"]:
            failed.append(f"{name}: {side}: ran natively: {'; '.join(facts['reasons'])}")
    if braze["cold_ms"] > LIMITS.get(name, OTHER_LIMIT):
        failed.append(f"{name}: cold {braze['cold_ms']:.0f} ms, limit {LIMITS.get(name, OTHER_LIMIT)}")
    if again["cold_ms"] > AGAIN_LIMIT_MS:
        failed.append(f"{name}: cold again {again['cold_ms']:.0f} ms, limit {AGAIN_LIMIT_MS}")
    for side, mode in (("braze", "default"), ("reduce-overhead", "reduce-overhead")):
        facts, other = sides[side], known.get(mode, {})
        if facts["speed"] < NOT_SLOWER:
            failed.append(f"{name}: {side}: {facts['speed']:.2f} of eager's speed")
        if (speed := beside(facts, other)) is not None and speed < NOT_SLOWER:
            failed.append(f"{name}: {side}: {speed:.2f} of torch.compile's speed")
        if "cold_ms" in other and TIMES_LESS * facts["cold_ms"] > other["cold_ms"]:
            failed.append(f"{name}: {side}: {other['cold_ms'] / facts['cold_ms']:.0f} times less cold time")
    return failed


def show(results: dict[str, Any], console: Console) -> None:
    table = Table(
        title="On the GPU: cold in ms, warm as times the speed of eager and of torch.compile in the same mode",
        title_justify="left",
    )
    table.add_column("case")
    for heading in (
        *("eager, ms", "cold", "again", "torch.compile", "times less"),
        *("speed", "beside torch.compile", "reduce-overhead", "beside torch.compile", "native"),
    ):
        table.add_column(heading, justify="right")
    for name, (sides, known) in results.items():
        braze, again, graphs = sides["braze"], sides["again"], sides["reduce-overhead"]
        if any("failure" in each for each in (braze, again, graphs)):
            table.add_row(name, "[red]failed[/red]")
            continue
        default, reduced = (known.get(mode, {}) for mode in MODES)
        cold = default.get("cold_ms")
        table.add_row(
            name,
            f"{braze['eager_ms']:.3g}",
            f"{braze['cold_ms']:.1f}",
            f"{again['cold_ms']:.1f}",
            f"{cold:,.0f}" if cold else "",
            f"{cold / braze['cold_ms']:,.0f}x" if cold else "",
            in_times(braze["speed"]),
            in_times(beside(braze, default)),
            in_times(graphs["speed"]),
            in_times(beside(graphs, reduced)),
            str(braze["counts"]["native"]),
        )
    console.print(table)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="WORD", help="cases whose names contain one of these")
    parser.add_argument("--record", action="store_true", help="measure torch.compile and keep its figures")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--one", nargs=3, metavar=("CASE", "SIDE", "MODE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(one(*options.one)))
        return 0

    console = Console(stderr=True, width=150)
    console.print(device.require())
    from cases import select

    names = [case.name for case in select(("micro", "model", "scorer"), options.only)]
    if options.record:
        with ThreadPoolExecutor(4) as pool:
            kept = dict(zip(names, pool.map(recorded, names), strict=True))
        console.print(kept, f"kept in {device.record('models', kept)}")
        return 0
    known = device.baselines("models")
    results, failed = {}, []
    for name in names:
        results[name] = (run_case(name), known.get(name, {}))
        console.print(name, *(f"{side}: {in_words(facts)}" for side, facts in results[name][0].items()), sep="  ")
        failed += broken_limits(name, *results[name])
    return measure.conclude(results, failed, show, options.json, width=150)


if __name__ == "__main__":
    sys.exit(main())
