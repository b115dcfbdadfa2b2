"""Models of other people's libraries: correct, safe after native calls, replayed, graphs beside torch.compile's.

    pip install --no-deps --target zoo-site -r bench/zoo-requirements.txt
    PYTHONPATH=zoo-site python bench/zoo.py                # all; goes on where the last run stopped
    PYTHONPATH=zoo-site python bench/zoo.py --only kornia  # cases whose names contain one of the words
    python bench/zoo.py --results out/zoo.jsonl --limit 120 --no-compare
    python bench/zoo.py --jobs 16                          # so many models at once; their times mean nothing then
    python bench/zoo.py --train rows channels_last         # training instead, in these layouts (zoo_training.py)

Each model (zoo_cases.py and its kin: small configurations, no downloaded weights) runs in a process of its own, for
a limited time: 16 calls in eager first, so that CPython has specialised its code, then four compiled ones with new
values, each beside eager's. The third is to be replayed. torch.compile (with its backend "eager") has a process of
its own as well. Results are appended to a file, one JSON object a line; a line of text
tells of each model when it is measured.

A break is where a graph ends before the function does, once for each graph: what torch.compile's log of graph
breaks tells (its counter of the same name leaves out branches on tensors in frames of their own). At how many lines
of the source that is stands behind, and it is these that are compared: braze has a graph for the first iteration
of a loop, one for those that follow and one for other sizes, which end at the same line. A frame whose loop holds a
break torch.compile leaves to Python, so that it has neither graphs nor further breaks: lines of such frames (but
for the one that torch.compile tells of) are not compared, and how many operators run natively stands beside.

Exit status 1 if a model is wrong, crashes, is not replayed, or breaks at more lines than with torch.compile, or has
more graphs than with it although it leaves no frame to Python.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import functools
import io
import itertools
import json
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from torch.utils._pytree import tree_leaves, tree_map

import measure
import zoo_graphs  # noqa: F401  (each of these registers its cases)
import zoo_libraries  # noqa: F401
import zoo_programs  # noqa: F401
import zoo_programs_compared  # noqa: F401
import zoo_programs_decoding  # noqa: F401
import zoo_programs_generative  # noqa: F401
import zoo_programs_layers  # noqa: F401
import zoo_programs_learning  # noqa: F401
import zoo_programs_physics  # noqa: F401
import zoo_programs_seen  # noqa: F401
import zoo_programs_sequences  # noqa: F401
import zoo_samplers  # noqa: F401
import zoo_tensordict  # noqa: F401
import zoo_transformers  # noqa: F401
import zoo_transformers_seen  # noqa: F401
from zoo_cases import CASES
from zoo_training import run_training, seed

WARM_UP = 16
TOLERANCE = 1e-3


def difference(ours: Any, theirs: Any) -> float:
    """The largest, beside the largest element. Infinite where the results are not even alike."""
    worst = 0.0
    mine, other = tree_leaves(ours), tree_leaves(theirs)
    if len(mine) != len(other):
        return float("inf")
    for a, b in zip(mine, other, strict=True):
        if not isinstance(b, torch.Tensor):
            continue
        if not isinstance(a, torch.Tensor) or a.shape != b.shape or a.dtype != b.dtype or a.stride() != b.stride():
            return float("inf")
        if b.numel() == 0 or not b.is_floating_point():
            worst = max(worst, 0.0 if torch.equal(a, b) else float("inf"))
            continue
        both_nan = a.isnan() & b.isnan()
        gap = (a.double() - b.double()).masked_fill(both_nan | (a == b), 0).abs().max().item()
        worst = max(worst, gap / max(b.double().nan_to_num(0, 0, 0).abs().max().item(), 1e-6))
    return worst


def rounding(module: torch.nn.Module, arguments: Any, theirs: Any) -> float:
    """How far eager is from what it computes with twice the digits, also of inputs moved by one in the last place:
    random deep networks lose most digits, and how many is chance."""
    try:
        exact = copy.deepcopy(module).double()(*tree_map(widened, arguments))
        moved = copy.deepcopy(module)(*tree_map(next_number, arguments))
        return max(difference(tree_map(widened, one), exact) for one in (theirs, moved))
    except Exception:  # Not all models run with float64.
        return 0.0


def allowed(rounded: float) -> float:
    return max(TOLERANCE, 4 * rounded)


def widened(value: Any) -> Any:
    is_number = isinstance(value, torch.Tensor) and value.is_floating_point()
    return value.double() if is_number else value


def next_number(value: Any) -> Any:
    is_number = isinstance(value, torch.Tensor) and value.is_floating_point()
    return value * (1 + torch.finfo(value.dtype).eps) if is_number else value


def run_braze(name: str) -> dict[str, Any]:
    import braze

    torch.manual_seed(0)
    function, inputs = CASES[name]()
    facts: dict[str, Any] = {}
    with torch.no_grad():
        for number in range(WARM_UP):
            function(*inputs(number))
        compiled = braze.compile(function)
        facts |= {"difference": 0.0, "rounding": 0.0, "ms": []}
        worst = 0.0
        for number in range(4):
            before = compiled.counts()
            arguments = inputs(100 + number)
            again = copy.deepcopy(arguments)
            seed(number)
            started = time.perf_counter()
            ours = compiled(*arguments)
            facts["ms"].append(round(1e3 * (time.perf_counter() - started), 2))
            seed(number)
            theirs = function(*again)
            gap, rounded = difference(ours, theirs), 0.0
            if gap > TOLERANCE and isinstance(function, torch.nn.Module):
                seed(number)
                rounded = rounding(function, again, theirs)
            # Of all calls the one that is worst beside its own rounding.
            if (excess := gap / allowed(rounded)) > worst:
                worst = excess
                facts |= {"difference": gap, "rounding": rounded}
            after = compiled.counts()
            if number == 2:
                facts["replayed"] = (
                    after["replayed"] > before["replayed"] and after["captured"] == before["captured"]
                )
    return facts | shape_of(compiled.report())


def shape_of(report: dict[str, Any]) -> dict[str, Any]:
    """Graphs, breaks and reasons."""
    facts: dict[str, Any] = {}
    segments = [segment for segment in report["segments"] if segment["op_count"]]
    facts["graphs"] = len(segments)
    ends = [segment["break"] for segment in report["segments"] if segment["break"]]
    facts["breaks"], facts["places"] = len(ends), places_of((end["file"], end["line"]) for end in ends)
    facts["operators"] = {kind: report["operators"][kind] for kind in ("compiled", "native")}
    breaks = [segment["break"] for segment in report["segments"]] + [report["first_break"]]
    facts["reasons"] = sorted({each["reason"] for each in breaks if each}) + sorted(report["reasons"])
    return facts


def places_of(lines: Iterable[tuple[str, int]]) -> list[str]:
    return sorted({f"{Path(file).name}:{line}" for file, line in lines})


def lines_left_out(code: Any) -> list[Any]:
    """File, first and last line of a frame."""
    lines = [number for _, _, number in code.co_lines() if number]
    return [Path(code.co_filename).name, min(lines), max(lines)]


def compared_places(row: dict[str, Any]) -> list[str]:
    """Where braze breaks, but for lines of frames that torch.compile leaves to Python and does not tell of."""
    theirs = row.get("torch", {})
    told, left_out = theirs.get("places", ()), theirs.get("left_out", ())

    def is_left_out(place: str) -> bool:
        name, number = place.rsplit(":", 1)
        return any(name == file and first <= int(number) <= last for file, first, last in left_out)

    return [place for place in row["braze"].get("places", ()) if place in told or not is_left_out(place)]


def run_torch(name: str) -> dict[str, Any]:
    from torch._dynamo.symbolic_convert import InstructionTranslatorBase
    from torch._dynamo.utils import counters
    from torch._guards import TracingContext

    ends: list[tuple[str, int]] = []
    log_graph_break = InstructionTranslatorBase.log_graph_break

    def note(translator: Any, code_options: Any, reason: str, exc: Any) -> None:
        if not exc.logged:
            stack = getattr(exc, "real_stack", None) or TracingContext.extract_stack()
            ends.append((stack[-1].filename, stack[-1].lineno) if stack else (code_options["co_filename"], 0))
        log_graph_break(translator, code_options, reason=reason, exc=exc)

    InstructionTranslatorBase.log_graph_break = note

    left_out: list[list[Any]] = []
    maybe_has_backedge = InstructionTranslatorBase.maybe_has_backedge

    def note_loop(translator: Any) -> bool:  # Asked where a frame breaks; what is true leaves it out.
        if maybe_has_backedge(translator):
            left_out.append(lines_left_out(translator.f_code))
            return True
        return False

    InstructionTranslatorBase.maybe_has_backedge = note_loop

    def backend(graph: torch.fx.GraphModule, _: Any) -> Callable[..., Any]:
        def run(*arguments: Any) -> Any:
            with torch.profiler.record_function(COMPILED):
                return graph.forward(*arguments)

        return run

    torch.manual_seed(0)
    function, inputs = CASES[name]()
    compiled = torch.compile(function, backend=backend, dynamic=False)
    with torch.no_grad(), contextlib.redirect_stderr(io.StringIO()):
        compiled(*inputs(100))
        facts = {"graphs": counters["stats"]["unique_graphs"], "breaks": len(ends), "places": places_of(ends)}
        facts["left_out"] = left_out
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiled:
            compiled(*inputs(100))
    return facts | {"operators": operators_of(profiled.events())}


COMPILED = "compiled graph"


def operators_of(events: Any) -> dict[str, int]:
    """How many of those that Python called were in compiled graphs, and how many were not."""
    counts = {"compiled": 0, "native": 0}
    for event in events:
        callers, parent = [], event.cpu_parent
        while parent is not None:
            callers.append(parent.name)
            parent = parent.cpu_parent
        if event.name.startswith("aten::") and not any(caller.startswith("aten::") for caller in callers):
            counts["compiled" if COMPILED in callers else "native"] += 1
    return counts


def left_out(facts: dict[str, Any]) -> float:
    """The share of operators that run natively."""
    counts = facts.get("operators", {})
    return counts.get("native", 0) / max(sum(counts.values()), 1)


def train(name: str, channels_last: bool) -> dict[str, Any]:
    facts = run_training(name, channels_last)
    return facts | shape_of(facts.pop("report")) if "report" in facts else facts


RUNS = {
    "braze": run_braze,
    "torch": run_torch,
    "train rows": functools.partial(train, channels_last=False),
    "train channels_last": functools.partial(train, channels_last=True),
}


def run_apart(kind: str, name: str, limit: float) -> dict[str, Any]:
    command = [sys.executable, sys.argv[0], "--one", kind, name]  # torchbench.py, too, runs this.
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=False)
    except subprocess.TimeoutExpired:
        return {"error": f"longer than {limit:.0f} s"}
    for line in reversed(done.stdout.splitlines()):
        if line.startswith("{"):
            return json.loads(line)
    last = (done.stderr.strip().splitlines() or [""])[-1]
    return {"error": f"crash (signal {-done.returncode})" if done.returncode < 0 else last[:200]}


def verdict(row: dict[str, Any]) -> str:
    ours, theirs = row["braze"], row.get("torch", {})
    if "error" in ours:
        return ours["error"]
    said = []
    if ours["difference"] > ours.get("tolerance", allowed(ours.get("rounding", 0.0))):
        said.append(f"differs by {ours['difference']:.1e}" + (f" ({ours['where']})" if "where" in ours else ""))
    if not ours["replayed"]:
        said.append("third call not replayed")
    if theirs.get("graphs"):  # Where torch.compile fails or captures nothing, there is nothing to be measured by.
        if not theirs.get("left_out") and ours["graphs"] > theirs["graphs"]:
            said.append("more graphs than torch.compile")
        if len(compared_places(row)) > len(theirs["places"]):
            said.append("more breaks than torch.compile")
    return ", ".join(said)


def line(row: dict[str, Any]) -> str:
    """One model as plain text, for those who wait."""
    ours, theirs = row["braze"], row.get("torch", {})
    counted = "; ".join(
        f"{who} {facts['graphs']} graphs, {facts['breaks']} breaks at {len(facts.get('places', ()))} places, "
        f"{left_out(facts):.0%} native"
        for who, facts in (("braze", ours), ("torch.compile", theirs))
        if "graphs" in facts
    )
    return ": ".join(part for part in (row["name"], counted, verdict(row) or "ok") if part)


def show(rows: dict[str, dict[str, Any]], console: Console) -> None:
    table = Table(title="The zoo: graphs and breaks, braze beside torch.compile", title_justify="left")
    for heading in (
        "model",
        "graphs",
        "breaks",
        "torch: graphs",
        "breaks",
        "operators",
        "native",
        "torch: operators",
        "native",
        "third, ms",
        "",
    ):
        table.add_column(heading, justify="left" if heading in ("model", "") else "right", overflow="fold")
    for name, row in rows.items():
        ours, theirs = row["braze"], row.get("torch", {})
        operators = ours.get("operators", {})
        table.add_row(
            name,
            *(str(ours.get(key, "")) for key in ("graphs", "breaks")),
            *(str(theirs.get(key, "")) for key in ("graphs", "breaks")),
            *(str(operators.get(key, "")) for key in ("compiled", "native")),
            *(str(theirs.get("operators", {}).get(key, "")) for key in ("compiled", "native")),
            str(ours["ms"][2]) if "ms" in ours else "",
            verdict(row) or "[green]ok[/green]",
        )
    console.print(table)
    for name, row in rows.items():
        for reason in row["braze"].get("reasons", []):
            console.print(f"{name}: {reason}", markup=False)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="WORD", help="models whose names contain one of these")
    parser.add_argument("--no-compare", action="store_true", help="leave out torch.compile")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--train", nargs="+", choices=["rows", "channels_last"], help="training, in f64, of tensors that lie so"
    )
    parser.add_argument("--limit", type=float, default=120, help="seconds a model may take")
    parser.add_argument("--results", type=Path, default=Path("out/zoo.jsonl"), help="where results are kept")
    parser.add_argument("--jobs", type=int, default=1, help="models at once")
    parser.add_argument("--anew", action="store_true", help="run again what is there")
    parser.add_argument("--one", nargs=2, metavar=("KIND", "NAME"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        kind, name = options.one
        torch.set_num_threads(1)
        warnings.simplefilter("ignore")
        print(json.dumps(RUNS[kind](name)))
        return 0

    options.results.parent.mkdir(parents=True, exist_ok=True)
    kept: dict[str, dict[str, Any]] = {}
    if options.results.exists() and not options.anew:
        kept = {row["name"]: row for row in map(json.loads, options.results.read_text().splitlines())}
    wanted = {"braze": "braze"} if options.no_compare else {"braze": "braze", "torch": "torch"}
    ways = {f", training, {layout}": {"braze": f"train {layout}"} for layout in options.train or ()} or {"": wanted}

    def run(case: tuple[str, str]) -> tuple[str, dict[str, Any]]:
        name = "".join(case)
        row = kept.get(name, {"name": name})
        missing = {who: kind for who, kind in ways[case[1]].items() if who not in row}
        for who, kind in missing.items():
            row[who] = run_apart(kind, case[0], options.limit)
        if missing:
            with options.results.open("a") as file:  # One write a line: lines of several threads stay whole.
                file.write(json.dumps(row) + "\n")
            print(line(row), file=sys.stderr, flush=True)
        return name, row

    with ThreadPoolExecutor(options.jobs) as pool:
        rows = dict(pool.map(run, itertools.product(measure.named_like(list(CASES), options.only), ways)))
    failed = [f"{name}: {verdict(row)}" for name, row in rows.items() if verdict(row)]
    return measure.conclude(rows, failed, show, options.json, width=180)


if __name__ == "__main__":
    sys.exit(main())
