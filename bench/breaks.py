"""Graphs and graph breaks of whole architectures, braze beside torch.compile, and how calls are run.

    python bench/breaks.py                    # all architectures of tests/python, decoders with a cache too
    python bench/breaks.py --only bert gpt2   # those whose names contain one of the words
    python bench/breaks.py --no-compare       # braze alone
    python bench/breaks.py --json             # one JSON object instead of the table

Columns: graphs and breaks of braze.explain and of torch._dynamo.explain; whether the third call was replayed (its
inputs have other values); Python instructions of a call in eager; how many of them braze's evaluator ran in the
first call, which captures, and in the third, in percent of eager's.

Exit status 1 if torch.compile has one graph where braze has more, if results differ from eager's, or if less than
90 % of the third calls were replayed.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import functools
import io
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from torch.utils._pytree import tree_leaves

import braze
import measure
from braze._load import C

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests" / "python"))
from architectures import ARCHITECTURES

REPLAYED_SHARE = 0.9
CACHED = ("gpt2", "opt", "gpt-neox", "bloom", "falcon", "llama", "mistral", "qwen2", "phi", "gemma", "cohere")
Inputs = Callable[[bool], dict[str, Any]]


def changed(inputs: dict[str, Any]) -> dict[str, Any]:
    """Other values in the same places; masks stay what they are for."""
    other = {}
    for name, value in inputs.items():
        is_number = value.is_floating_point()
        other[name] = value * 0.5 + 0.25 if is_number else value.clone() if "mask" in name else value.flip(-1)
    return other


def build(name: str) -> tuple[torch.nn.Module, Inputs]:
    """The module, and what gives the keyword arguments of a call: the first ones, or changed ones."""
    from transformers import DynamicCache, StaticCache

    architecture, _, kind = name.partition(" with a ")
    torch.manual_seed(7)
    module, inputs = ARCHITECTURES[architecture](random.Random(f"{architecture} breaks"))
    module = module.requires_grad_(False).eval()

    def call_inputs(other: bool) -> dict[str, Any]:
        arguments = changed(inputs) if other else dict(inputs)
        if kind:
            arguments.pop("attention_mask", None)
            arguments["use_cache"] = True
            static = kind.startswith("static")
            arguments["past_key_values"] = (
                StaticCache(config=module.config, max_cache_len=24)
                if static
                else DynamicCache(config=module.config)
            )
        return arguments

    return module, call_inputs


def instructions(call: Callable[..., Any], arguments: dict[str, Any]) -> tuple[Any, int]:
    """The result, and how many instructions braze's evaluator ran for it."""
    before = C.interpreter_statistics()["instructions"]
    result = call(**arguments)
    return result, C.interpreter_statistics()["instructions"] - before


def agree(ours: Any, theirs: Any) -> bool:
    pairs = zip(tree_leaves(ours), tree_leaves(theirs), strict=True)
    return all(
        torch.allclose(a, b, rtol=2e-3, atol=2e-4, equal_nan=True) for a, b in pairs if isinstance(a, torch.Tensor)
    )


def run_case(name: str) -> dict[str, Any]:
    module, inputs = build(name)
    reference = copy.deepcopy(module)
    facts: dict[str, Any] = {}
    compiled = C.CompiledFunction(module)
    with torch.no_grad():
        _, facts["eager"] = instructions(functools.partial(C.interpret, reference), inputs(False))
        facts["agrees"] = True
        for number in range(3):
            before = compiled.counts()["replayed"]
            result, count = instructions(compiled, inputs(number > 0))
            facts[("first", "second", "third")[number]] = count
            facts["replayed"] = compiled.counts()["replayed"] > before
            facts["agrees"] &= agree(result, reference(**inputs(number > 0)))
        facts["native"] = compiled.reasons()
        found = braze.explain(module)(**inputs(False))
        facts["graphs"], facts["breaks"] = found.graph_count, found.graph_break_count
        facts["reasons"] = sorted({f"{Path(r.file).name}:{r.line}: {r.reason}" for r in found.break_reasons})
    return facts


def explain_by_torch(name: str) -> dict[str, int]:
    """After all of braze's: Dynamo changes nn.Module.__init__ and more when it is first used."""
    module, inputs = build(name)
    torch._dynamo.reset()
    with torch.no_grad(), contextlib.redirect_stderr(io.StringIO()):
        found = torch._dynamo.explain(module)(**inputs(False))
    return {"graphs": found.graph_count, "breaks": found.graph_break_count}


def row(facts: dict[str, Any]) -> str:
    replayed = "replayed" if facts["replayed"] else "not replayed"
    return f"{facts['graphs']} graphs, {facts['breaks']} breaks, third call {replayed}"


def show(results: dict[str, dict[str, Any]], console: Console) -> None:
    table = Table(title="Graphs, graph breaks, and how calls are run", title_justify="left")
    table.add_column("architecture")
    for heading in (
        *("graphs", "breaks", "torch: graphs", "breaks", "third call", "instructions", "first, %", "third, %"),
    ):
        table.add_column(heading, justify="right")
    for name, facts in results.items():
        other = facts.get("dynamo")
        table.add_row(
            name,
            str(facts["graphs"]),
            str(facts["breaks"]),
            *((str(other["graphs"]), str(other["breaks"])) if other else ("", "")),
            "replayed" if facts["replayed"] else "[red]not replayed[/red]",
            f"{facts['eager']:,}",
            f"{100 * facts['first'] / facts['eager']:.0f}",
            f"{100 * facts['third'] / facts['eager']:.1f}",
        )
    total = {key: sum(facts[key] for facts in results.values()) for key in ("graphs", "breaks", "eager", "third")}
    others = [facts["dynamo"] for facts in results.values() if "dynamo" in facts]
    table.add_section()
    table.add_row(
        f"all {len(results)}",
        str(total["graphs"]),
        str(total["breaks"]),
        *(str(sum(other[key] for other in others)) if others else "" for key in ("graphs", "breaks")),
        f"{replayed_share(results):.0%} replayed",
        f"{total['eager']:,}",
        "",
        f"{100 * total['third'] / total['eager']:.1f}",
    )
    console.print(table)
    for name, facts in results.items():
        for reason in facts["reasons"]:
            console.print(f"{name}: {reason}", markup=False)


def replayed_share(results: dict[str, dict[str, Any]]) -> float:
    return sum(facts["replayed"] for facts in results.values()) / len(results)


def broken_limits(name: str, facts: dict[str, Any]) -> list[str]:
    failed = []
    if not facts["agrees"]:
        failed.append(f"{name}: results differ from eager's")
    if facts.get("dynamo", {}).get("graphs") == 1 and facts["graphs"] > 1:
        failed.append(f"{name}: {facts['graphs']} graphs, torch.compile has one")
    return failed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="WORD", help="architectures whose names contain one of these")
    parser.add_argument("--no-compare", action="store_true", help="leave out torch.compile")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()

    console = Console(stderr=True, width=160)
    names = [*ARCHITECTURES, *(f"{name} with a {kind} cache" for name in CACHED for kind in ("dynamic", "static"))]
    results: dict[str, dict[str, Any]] = {}
    failed: list[str] = []
    for name, facts in measure.as_measured(measure.named_like(names, options.only), run_case, row):
        results[name] = facts
    for name, facts in results.items():
        if not options.no_compare:
            with console.status(f"{name}, torch.compile"):
                facts["dynamo"] = explain_by_torch(name)
        failed += broken_limits(name, facts)
    if replayed_share(results) < REPLAYED_SHARE:
        failed.append(f"{replayed_share(results):.0%} of the third calls were replayed, not {REPLAYED_SHARE:.0%}")
    return measure.conclude(results, failed, show, options.json, width=160)


if __name__ == "__main__":
    sys.exit(main())
