"""The demo: relevance scorers, an MLP, BERT-base and GPT-2, eager PyTorch and braze side by side.

    ./demo                # eager and braze
    ./demo --compare      # torch.compile too (it takes minutes: that is what braze is about)
    ./demo --only bert    # cases whose names contain one of the words

Every case runs in a fresh process with empty caches. Prints a table, draws out/demo.png, and writes what was
generated to out/<case>/{graph,loops,llvm,asm}.txt, and a page about it to out/<case>/report.html.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

import measure
from cases import CASES, Case

NAMES = ["information", "salience", "query-content", "mlp", "bert-4x256", "bert-1x8", "gpt2-4x256", "gpt2-1x8"]
OUT = Path(__file__).resolve().parent.parent / "out"
EAGER, BRAZE, INDUCTOR = "eager", "braze.compile", "torch.compile"
COLORS = {EAGER: "#9aa5b1", BRAZE: "#e4572e", INDUCTOR: "#4c6ef5"}


def pairs_for(case: Case) -> int:
    """A quick look, not a benchmark: big inputs take a second a call."""
    return 3 if "4x256" in case.name else 10


def run_case(case: Case, compare: bool) -> dict[str, dict[str, Any]]:
    options = {"pairs": pairs_for(case), "errors": True, "eager_samples": 3}
    sides = {BRAZE: measure.fresh(case.name, BRAZE, code=str(OUT / case.name), **options)}
    if compare:
        sides[INDUCTOR] = measure.fresh(case.name, INDUCTOR, **{**options, "errors": False})
    return sides


def row(sides: dict[str, dict[str, Any]]) -> str:
    cold = {side: facts["cold_ms"] for side, facts in sides.items() if "cold_ms" in facts}
    return ", ".join(f"{side} cold {ms:,.1f} ms" for side, ms in cold.items()) or "failed"


def show(results: dict[str, dict[str, dict[str, Any]]], compare: bool, console: Console) -> None:
    table = Table(title="\nWhat it takes: cold and warm", title_justify="left", title_style="bold")
    table.add_column("case", style="bold")
    headings = [
        "cold ms\nbraze",
        "of it\ncompiling",
        *(["cold ms\ntorch.compile", "times\nless"] if compare else []),
    ]
    headings += [
        "warm ms\neager",
        "warm ms\nbraze",
        *(["warm ms\ntorch.compile"] if compare else []),
        "eager /\nbraze",
    ]
    headings += [
        "memory\ngrown, MB",
        "kernels",
        "ATen\ncalls",
        "error to\neager",
        "error to f64\nbraze",
        "error to f64\neager",
    ]
    for heading in headings:
        table.add_column(heading, justify="right")
    for name, sides in results.items():
        braze, other = sides[BRAZE], sides.get(INDUCTOR, {})
        if "cold_ms" not in braze:
            table.add_row(name, "[red]failed[/red]")
            continue
        cells = [f"{braze['cold_ms']:.1f}", f"{braze['phases_ms']['total']:.1f}"]
        if compare:
            cold = other.get("cold_ms")
            cells += [f"{cold:,.0f}", f"{cold / braze['cold_ms']:,.0f}x"] if cold else ["failed", ""]
        cells += [f"{braze['warm_ms'][EAGER]:.4g}", f"{braze['warm_ms'][BRAZE]:.4g}"]
        if compare:
            cells.append(f"{other['warm_ms'][INDUCTOR]:.4g}" if "warm_ms" in other else "")
        correct = "[green]✓[/green]" if braze["correct"] else "[red]✗[/red]"
        cells += [
            f"{braze['speed'][EAGER]:.2f}x",
            f"{braze['memory_bytes'] / 1e6:.0f}",
            str(braze["kernels"]),
            str(braze["calls"]),
            f"{braze['error_to_eager']:.1e}",
            f"{braze['error']:.1e} {correct}",
            f"{braze['eager_error']:.1e}",
        ]
        table.add_row(name, *cells)
    console.print(table)


def milliseconds(ms: float) -> str:
    """A time for a label: two or three digits and a unit."""
    if ms >= 1e3:
        return f"{ms / 1e3:.1f} s" if ms < 1e4 else f"{ms / 1e3:.0f} s"
    return f"{ms:.0f} ms" if ms >= 10 else f"{ms:.2g} ms"


def draw(results: dict[str, dict[str, dict[str, Any]]], compare: bool, path: Path) -> None:
    """Two panels of grouped bars: cold times on a logarithmic axis, warm times relative to eager."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.ticker import FuncFormatter, NullLocator

    muted = "#5b6670"
    plt.rcParams.update(
        {
            **{f"axes.spines.{side}": False for side in ("top", "right", "left")},
            **{key: muted for key in ("axes.labelcolor", "xtick.color", "ytick.color", "axes.edgecolor")},
            "font.size": 11,
        }
    )
    names = list(results)
    figure, (cold, warm) = plt.subplots(2, 1, figsize=(12.5, 8.5), layout="constrained")
    figure.get_layout_engine().set(hspace=0.08)

    def bars(axis, series: dict[str, list[float]], labels: dict[str, list[str]]) -> None:
        width = 0.84 / max(len(series), 2)
        for index, (side, values) in enumerate(series.items()):
            left = [place + width * (index - (len(series) - 1) / 2) for place in range(len(names))]
            drawn = axis.bar(left, values, width * 0.9, color=COLORS[side], label=side, zorder=2)
            axis.bar_label(drawn, labels[side], fontsize=9 - len(series) / 2, padding=2, color=muted)
        axis.grid(axis="y", color="#e6eaee", zorder=0)
        axis.tick_params(length=0)
        axis.set_xticks(range(len(names)), names, color="#1f2933")

    compared = [BRAZE, *([INDUCTOR] if compare else [])]
    waits = {side: [max(results[name][side].get("cold_ms", 0.0), 0.0) for name in names] for side in compared}
    cold.set_yscale("log")
    cold.set_ylim(1, 4 * max(250.0, *(ms for values in waits.values() for ms in values)))
    bars(cold, waits, {side: [milliseconds(ms) if ms else "" for ms in values] for side, values in waits.items()})
    cold.yaxis.set_major_formatter(FuncFormatter(lambda ms, _: f"{ms / 1e3:g} s" if ms >= 1e3 else f"{ms:g} ms"))
    cold.yaxis.set_minor_locator(NullLocator())
    cold.set_title("Cold: how much longer the first call takes", loc="left", fontweight="bold", pad=14)

    relative: dict[str, list[float]] = {}
    absolute: dict[str, list[str]] = {}
    for side in [EAGER, *compared]:
        found = [results[name].get(BRAZE if side == EAGER else side, {}).get("warm_ms", {}) for name in names]
        relative[side] = [times[side] / times[EAGER] if side in times else 0.0 for times in found]
        absolute[side] = [milliseconds(times[side]) if side in times else "" for times in found]
    bars(warm, relative, absolute)
    warm.margins(y=0.14)
    warm.set_ylabel("time of a call, eager = 1")
    warm.set_title("Warm: every call after it", loc="left", fontweight="bold", pad=14)
    figure.legend(*warm.get_legend_handles_labels(), frameon=False, ncols=3, loc="upper right")
    figure.savefig(path, dpi=150)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compare", action="store_true", help="put torch.compile beside")
    parser.add_argument("--only", nargs="+", metavar="WORD", help="cases whose names contain one of these")
    parser.add_argument("--json", action="store_true", help="print JSON instead of the tables")
    options = parser.parse_args()
    names = [name for name in NAMES if not options.only or any(word in name for word in options.only)]
    if not names:
        parser.error(f"no case is named like that; there are: {', '.join(NAMES)}")

    console = Console(width=None if sys.stdout.isatty() else 150)
    progress = Console(stderr=True)
    OUT.mkdir(exist_ok=True)
    results: dict[str, dict[str, dict[str, Any]]] = {}
    for name, sides in measure.as_measured(names, lambda name: run_case(CASES[name], options.compare), row):
        results[name] = sides
        for side, facts in sides.items():
            if "cold_ms" not in facts:
                progress.print(f"{name}: {side} failed:\n{facts['failure']}", style="red", markup=False)

    if options.json:
        print(json.dumps(results, indent=1))
    else:
        show(results, options.compare, console)
    worked = {name: sides for name, sides in results.items() if "cold_ms" in sides[BRAZE]}
    if worked:
        draw(worked, options.compare, OUT / "demo.png")
        console.print(f"picture:        {OUT / 'demo.png'}")
        console.print(f"generated code: {OUT}/<case>/{{graph,loops,llvm,asm}}.txt", markup=False)
        console.print(f"what happened: {OUT}/<case>/report.html", markup=False)
    right = len(worked) == len(results) and all(sides[BRAZE]["correct"] for sides in worked.values())
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
