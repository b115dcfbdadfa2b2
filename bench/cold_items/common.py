"""What the items share: an item is a figure of braze with its limit, and the same figure of torch.compile.

Both sides run in fresh processes with empty caches. Each item is a script:

    python bench/cold_items/item_1_1.py --compare

A side is a function without arguments. It returns {"figure": number, "detail": text, "failed": [text]}; the last
two may be missing. Or {"skipped": text}, where this machine has nothing to measure. The least figure of --runs
processes counts, since whatever disturbs a process adds to its time.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parent.parent))
import measure

Side = Callable[[], dict[str, Any]]


@dataclass(frozen=True)
class Item:
    """`limit`: braze's figure may be at most that."""

    number: str
    title: str
    unit: str
    limit: float
    braze: Side
    torch_compile: Side


def milliseconds(call: Callable[[], Any]) -> float:
    """How long one call takes. The first one counts here, so nothing is warmed up."""
    return measure.timed_ms(call)


def compiled(fn: Callable[..., Any], *args: Any, backend: Any = "inductor") -> Callable[..., Any]:
    """fn after torch.compile and its first call."""
    import torch

    result = torch.compile(fn, backend=backend)
    with torch.no_grad():
        result(*args)
    return result


def captured_graph(fn: Callable[..., Any], *args: Any) -> Any:
    """The FX graph that torch.compile captures of fn; nothing is generated from it."""
    graphs = []

    def keep(module, inputs):
        graphs.append(module.graph)
        return module.forward

    compiled(fn, *args, backend=keep)
    return graphs[0]


def reachable(roots: Iterable[Any], kind: type) -> list[Any]:
    """The objects of a kind in `roots` and in the tuples, lists, sets and dicts below them, each object once."""
    seen: set[int] = set()
    found, waiting = [], list(roots)
    while waiting:
        item = waiting.pop()
        if id(item) in seen:
            continue
        seen.add(id(item))
        if isinstance(item, kind):
            found.append(item)
        elif isinstance(item, dict):
            waiting += [*item.keys(), *item.values()]
        elif isinstance(item, (tuple, list, set, frozenset)):
            waiting += item
    return found


def traced(fn: Callable[..., Any], *args: Any) -> Any:
    """fn as a program, without the check that runs it a second time."""
    import braze

    return braze.trace(fn, args, check=False)


def run_item(item: Item, script: Path, runs: int, compare: bool) -> dict[str, Any]:
    """Both sides in processes of their own, and the broken limits by name."""
    found = [measure.run_fresh(script, "--side", "braze") for _ in range(runs)]
    result: dict[str, Any] = {"title": item.title, "unit": item.unit, "limit": item.limit}
    worked = [facts for facts in found if "figure" in facts]
    failed = [facts["failure"] for facts in found if "failure" in facts]
    failed += [text for facts in worked for text in facts.get("failed", [])]
    if worked:
        result["braze"] = min(worked, key=lambda facts: facts["figure"])
        if result["braze"]["figure"] > item.limit:
            failed.append(f"{result['braze']['figure']:.3g} {item.unit}, limit {item.limit:g}")
    skipped = [facts["skipped"] for facts in found if "skipped" in facts]
    if skipped:
        return {**result, "braze": {"detail": skipped[0]}, "failed": failed}
    if compare:
        result["torch.compile"] = measure.run_fresh(script, "--side", "torch.compile")
        if "failure" in result["torch.compile"]:
            failed.append(f"torch.compile: {result['torch.compile']['failure']}")
    result["failed"] = [f"item {item.number}: {text}" for text in dict.fromkeys(failed)]
    return result


def show(results: dict[str, dict[str, Any]], console: Any) -> None:
    from rich.table import Table

    table = Table(title="Items of the plan for cold compilation", title_justify="left")
    for heading, justify in (
        *(("item", "left"), ("figure", "left"), ("braze", "right"), ("limit", "right")),
        *(("torch.compile", "right"), ("unit", "left"), ("", "left")),
    ):
        table.add_column(heading, justify=justify)
    for number, result in results.items():
        ours, theirs = result.get("braze", {}), result.get("torch.compile", {})
        table.add_row(
            number,
            result["title"],
            f"{ours['figure']:.3g}" if "figure" in ours else "" if ours else "[red]failed[/red]",
            f"{result['limit']:g}",
            f"{theirs['figure']:.3g}" if "figure" in theirs else "",
            result["unit"],
            "; ".join(filter(None, (ours.get("detail"), theirs.get("detail")))),
        )
    console.print(table)


def parser_for(text: str | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compare", action="store_true", help="torch.compile's figure too (seconds to minutes)")
    parser.add_argument("--runs", type=int, default=3, help="processes of braze's side, the best counts (3)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


def main(item: Item, script: str, text: str | None) -> int:
    """The command line of one item's script."""
    parser = parser_for(text)
    parser.add_argument("--side", choices=["braze", "torch.compile"], help="measure one side in this process")
    options = parser.parse_args()
    if options.side:
        facts = item.braze() if options.side == "braze" else item.torch_compile()
        print(json.dumps(facts))
        return 0
    start = time.monotonic()
    result = run_item(item, Path(script), options.runs, options.compare)
    result["seconds"] = time.monotonic() - start
    return measure.conclude({item.number: result}, result["failed"], show, options.json, width=150)
