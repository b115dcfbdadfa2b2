"""Warm time of every case: the medians of interleaved calls in one process, braze beside eager.

    python bench/warm.py                       # models, scorers and single kernels
    python bench/warm.py --compare             # torch.compile in the same interleaving
    python bench/warm.py --only softmax mlp    # cases whose names contain one of the words
    python bench/warm.py --json                # one JSON object instead of the table

Single kernels are held to a memcpy of the same bytes: glibc's, called through ctypes on as many threads as torch
uses. The bytes of a kernel are what it must read and write; a memcpy of n bytes reads and writes 2n. The process
keeps freed memory, so that neither side pays for page faults.

Exit status 1 if a limit is passed: no case below 0.97 of eager's speed, scorers not below 0.97 of torch.compile's,
kernels within 1.3 times of the memcpy.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from rich.console import Console
from rich.table import Table

import measure
from cases import Case, select

NOT_SLOWER = 0.97
MEMCPY_TIMES = 1.3


def broken_limits(case: Case, facts: dict[str, Any]) -> list[str]:
    """A line for each limit that this case passes."""
    if "failure" in facts:
        return [f"{case.name} failed: {facts['failure']}"]
    speed, failed = facts["speed"], []
    if speed["eager"] < NOT_SLOWER:
        failed.append(f"{case.name}: {speed['eager']:.2f} of eager's speed")
    if case.group == "scorer" and speed.get("torch.compile", 1.0) < NOT_SLOWER:
        failed.append(f"{case.name}: {speed['torch.compile']:.2f} of torch.compile's speed")
    if "memcpy" in speed and 1 / speed["memcpy"] > MEMCPY_TIMES:
        failed.append(f"{case.name}: {1 / speed['memcpy']:.2f} times the memcpy")
    return failed


def show(results: dict[str, dict[str, Any]], console: Console) -> None:
    sides = ("eager", "braze", "torch.compile", "memcpy")
    table = Table(title="Warm time in ms, median of interleaved calls", title_justify="left")
    table.add_column("case")
    for heading in (*sides, "eager / braze", "torch.compile / braze", "braze / memcpy"):
        table.add_column(heading, justify="right")
    for name, facts in results.items():
        if "failure" in facts:
            table.add_row(name, "[red]failed[/red]")
            continue
        warm, speed = facts["warm_ms"], facts["speed"]
        table.add_row(
            name,
            *(f"{warm[side]:.4g}" if side in warm else "" for side in sides),
            f"{speed['eager']:.2f}x",
            f"{speed['torch.compile']:.2f}x" if "torch.compile" in speed else "",
            f"{1 / speed['memcpy']:.2f}x" if "memcpy" in speed else "",
        )
    console.print(table)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="WORD", help="cases whose names contain one of these")
    parser.add_argument("--compare", action="store_true", help="put torch.compile beside")
    parser.add_argument("--pairs", type=int, default=30, help="interleaved samples of each side (30)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()

    beside = {"beside": "torch.compile"} if options.compare else {}

    def run(name: str) -> dict[str, Any]:
        return measure.fresh(name, "braze", pairs=options.pairs, **beside)

    cases = {case.name: case for case in select(("micro", "model", "scorer", "kernel"), options.only)}
    results: dict[str, dict[str, Any]] = {}
    failed: list[str] = []
    for name, facts in measure.as_measured(cases, run, measure.milliseconds):
        results[name] = facts
        failed += broken_limits(cases[name], facts)
    return measure.conclude(results, failed, show, options.json, width=140)


if __name__ == "__main__":
    sys.exit(main())
