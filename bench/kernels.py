"""Some fifty kernels over sizes from 1 KB to 1 GB: braze, eager, torch.compile, and a memcpy of the same bytes.

    python bench/kernels.py                                 # every kernel and size; a quarter of an hour
    python bench/kernels.py --kernels softmax transpose     # kernels whose names contain one of the words
    python bench/kernels.py --sizes 64KB 64MB               # other sizes
    python bench/kernels.py --compare                       # torch.compile too: seconds more for each size
    python bench/kernels.py --json                          # one JSON object instead of the table

Draws out/kernels.png. The memcpy is glibc's on as many threads as torch uses; it moves the bytes that the kernel
must read and write (arguments and results, once each). Every kernel runs in a process of its own that keeps freed
memory, so that no side pays for page faults. The sides take turns, 30 rounds at most within --budget.

Exit status 1 if a limit is passed, which is then named: no kernel below 0.97 of eager's speed, nor of
torch.compile's; from 64 MB on, what memory bounds within 1.2 times of the memcpy.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

import measure
from kernel_cases import KERNELS

SIZES = ("1KB", "8KB", "64KB", "512KB", "4MB", "64MB", "512MB", "1GB")
UNITS = {"KB": 2**10, "MB": 2**20, "GB": 2**30}
NOT_SLOWER = 0.97
MEMCPY_TIMES = 1.2
MEMCPY_FROM = 64 * 2**20
COLORS = {"eager": "#9aa5b1", "braze": "#e4572e", "torch.compile": "#4c6ef5", "memcpy": "#c8d0d8"}
OUT = measure.BENCH.parent / "out"


def bytes_of(text: str) -> int:
    match = re.fullmatch(r"(\d+)\s*(KB|MB|GB)", text.upper())
    if not match:
        raise argparse.ArgumentTypeError(f"'{text}' is not a size; write 64KB, 4MB or 1GB")
    return int(match[1]) * UNITS[match[2]]


def name_of(size: int) -> str:
    unit = next(unit for unit in reversed(UNITS) if size >= UNITS[unit] or unit == "KB")
    return f"{size / UNITS[unit]:g}{unit}"


def broken_limits(name: str, facts: dict[str, Any]) -> list[str]:
    """A line for each limit that this kernel passes, at any size."""
    if "failure" in facts:
        return [f"{name} failed: {facts['failure']}"]
    failed = []
    for size, found in facts.items():
        if "skipped" in found:
            continue
        place, speed = f"{name} of {name_of(int(size))}", found["speed"]
        failed += [
            f"{place}: {speed[side]:.2f} of {side}'s speed"
            for side in ("eager", "torch.compile")
            if speed.get(side, 1.0) < NOT_SLOWER
        ]
        if KERNELS[name].streams and int(size) >= MEMCPY_FROM and 1 / speed["memcpy"] > MEMCPY_TIMES:
            failed.append(f"{place}: {1 / speed['memcpy']:.2f} times the memcpy")
    return failed


def row(facts: dict[str, Any]) -> str:
    """Speeds beside eager, by size: "64KB 3.10x, 1MB 2.05x"."""
    if "failure" in facts:
        return "failed"
    return ", ".join(
        f"{name_of(int(size))} " + (found.get("skipped") or f"{found['speed']['eager']:.2f}x")
        for size, found in facts.items()
    )


def show(results: dict[str, dict[str, Any]], console: Console) -> None:
    table = Table(title="Time in ms, median of interleaved calls", title_justify="left")
    table.add_column("kernel")
    for heading in (
        *("size", "eager", "braze", "torch.compile", "memcpy", "eager / braze", "torch.compile / braze"),
        *("braze / memcpy", "GB/s", "ATen calls"),
    ):
        table.add_column(heading, justify="right")
    for name, facts in results.items():
        if "failure" in facts:
            table.add_row(name, "[red]failed[/red]")
            continue
        for size, found in facts.items():
            if "skipped" in found:
                table.add_row(name, name_of(int(size)), found["skipped"])
                continue
            ms, speed = found["ms"], found["speed"]
            other = speed.get("torch.compile")
            table.add_row(
                name,
                name_of(int(size)),
                *(
                    f"{ms[side]:.4g}" if side in ms else ""
                    for side in ("eager", "braze", "torch.compile", "memcpy")
                ),
                f"{speed['eager']:.2f}x",
                f"{other:.2f}x" if other else "",
                f"{1 / speed['memcpy']:.2f}x",
                f"{found['moved_bytes'] / ms['braze'] / 1e6:.3g}",
                " ".join(found["calls"]),
            )
        table.add_section()
    console.print(table)


def draw(results: dict[str, dict[str, Any]], path: Path) -> None:
    """A small panel for each kernel: gigabytes a second over the size, both logarithmic."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    columns = min(6, len(results))
    rows = math.ceil(len(results) / columns)
    figure, panels = plt.subplots(
        rows, columns, figsize=(2.6 * columns, 2 * rows + 0.6), squeeze=False, layout="constrained", sharex=True
    )
    lines: dict[str, Any] = {}
    for panel, (name, facts) in zip(panels.flat, results.items(), strict=False):
        points = {int(size): found for size, found in facts.items() if "ms" in found}
        for side, color in COLORS.items():
            rates = [
                (size, f["moved_bytes"] / f["ms"][side] / 1e6) for size, f in points.items() if side in f["ms"]
            ]
            if rates:
                (lines[side],) = panel.loglog(*zip(*rates, strict=True), color=color, marker=".", label=side)
        panel.set_title(name, fontsize=9, loc="left")
        panel.tick_params(labelsize=7)
        panel.grid(color="#e6eaee")
        sizes = list(points)[:: max(1, len(points) // 3)]
        panel.set_xticks(sizes, [name_of(size) for size in sizes])
        panel.minorticks_off()
    for panel in list(panels.flat)[len(results) :]:
        panel.set_axis_off()
    figure.supylabel("GB/s read and written", fontsize=9)
    figure.legend(lines.values(), lines.keys(), loc="outside upper right", ncols=4, frameon=False)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernels", nargs="+", metavar="WORD", help="kernels whose names contain one of these")
    parser.add_argument(
        "--sizes", nargs="+", type=bytes_of, default=[bytes_of(text) for text in SIZES], metavar="SIZE"
    )
    parser.add_argument("--compare", action="store_true", help="put torch.compile beside")
    parser.add_argument("--pairs", type=int, default=30, help="interleaved samples of each side (30)")
    parser.add_argument("--budget", type=float, default=3.0, help="seconds for one kernel of one size (3)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    names = measure.named_like(KERNELS, options.kernels)
    console = Console(stderr=True)
    options.sizes = options.sizes or [bytes_of(text) for text in SIZES]
    request = {key: getattr(options, key) for key in ("sizes", "compare", "pairs", "budget")}
    results: dict[str, dict[str, Any]] = {}
    failed: list[str] = []

    def run(name: str) -> dict[str, Any]:
        asked = json.dumps({"kernel": name, **request})
        return measure.run_fresh(measure.BENCH / "kernel_worker.py", asked, timeout=3600)

    for name, facts in measure.as_measured(names, run, row):
        results[name] = facts
        failed += broken_limits(name, facts)
    measured = {name: facts for name, facts in results.items() if "failure" not in facts}
    if measured:
        OUT.mkdir(exist_ok=True)
        draw(measured, OUT / "kernels.png")
        console.print(f"picture: {OUT / 'kernels.png'}", markup=False)
    return measure.conclude(results, failed, show, options.json, width=170)


if __name__ == "__main__":
    sys.exit(main())
