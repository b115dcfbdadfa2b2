"""Twelve models: warm calls beside eager, torch.compile and JAX, cold in fresh processes, and what ATen still does.

    python bench/models.py                      # braze and eager
    python bench/models.py --compare            # torch.compile too, warm (interleaved) and cold (its own process)
    python bench/models.py --jax                # JAX (pip install jax) for the models that are written for it
    python bench/models.py --train              # forward, backward and an optimizer's step instead of inference
    python bench/models.py --only bert mlp      # models whose names contain one of the words
    python bench/models.py --json               # one JSON object instead of the table

Exit status 1 if a limit is passed, which is then named:
  warm   no model below 0.97 of the speed of eager, torch.compile or JAX; as the geometric mean over all models at
         least 1.15 times torch.compile's speed (1.5 times with --train)
  cold   at least 100 times less than torch.compile's, and below JAX's
  ATen   only matmul, convolution, attention, sorting and random numbers are left to it (measure.LIBRARY_CALLS)
"""

from __future__ import annotations

import argparse
import math
import sys
from typing import Any

from rich.console import Console
from rich.table import Table

import measure
from model_cases import MODELS

NOT_SLOWER = 0.97
MEAN_SPEED = 1.15
TRAINING_SPEED = 1.5
TIMES_LESS = 100
JAX_MODELS = ("mlp", "scorers")
BRAZE, COMPILED, INDUCTOR, JAX = "braze", "braze.compile", "torch.compile", "jax"
Sides = dict[str, dict[str, Any]]


def run_model(name: str, pairs: int, compare: bool, jax: bool, train: bool) -> Sides:
    beside = {"beside": INDUCTOR} if compare else {}
    side = COMPILED if train else BRAZE
    facts = measure.fresh(name, side, pairs=pairs, timeout=3600, train=train, **beside)
    if "warm_ms" in facts:
        facts["warm_ms"][BRAZE] = facts["warm_ms"].pop(side)
    sides = {BRAZE: facts}
    if compare:
        sides[INDUCTOR] = measure.fresh(name, INDUCTOR, train=train)
    if jax and name in JAX_MODELS:
        sides[JAX] = measure.fresh(name, JAX)
    return sides


def speeds(sides: Sides) -> dict[str, float]:
    """How many times braze's warm call is faster than the others'. JAX's runs in a process of its own."""
    found = dict(sides[BRAZE]["speed"])
    if JAX in sides:
        found[JAX] = sides[JAX]["warm_ms"]["jax"] / sides[BRAZE]["warm_ms"][BRAZE]
    return found


def geometric_mean(results: dict[str, Sides], than: str) -> float | None:
    """Of braze's speed over the models that ran on that side; None if none did."""
    found = [speeds(sides).get(than) for sides in results.values() if "speed" in sides[BRAZE]]
    logarithms = [math.log(speed) for speed in found if speed]
    return math.exp(sum(logarithms) / len(logarithms)) if logarithms else None


def others(facts: dict[str, Any]) -> list[str]:
    """ATen's operators in the program that are not in LIBRARY_CALLS."""
    return sorted(set(facts["call_names"]) - measure.LIBRARY_CALLS)


def broken_limits(name: str, sides: Sides) -> list[str]:
    """A line for each limit that this model passes."""
    failed = [f"{name}: {side} failed: {facts['failure']}" for side, facts in sides.items() if "failure" in facts]
    if failed:
        return failed
    braze = sides[BRAZE]
    failed = [f"{name}: {x:.2f} of {side}'s speed" for side, x in speeds(sides).items() if x < NOT_SLOWER]
    if INDUCTOR in sides and sides[INDUCTOR]["cold_ms"] < TIMES_LESS * braze["cold_ms"]:
        failed.append(f"{name}: cold time only {sides[INDUCTOR]['cold_ms'] / braze['cold_ms']:.0f} times less")
    if JAX in sides and sides[JAX]["cold_ms"] < braze["cold_ms"]:
        failed.append(f"{name}: cold {braze['cold_ms']:.1f} ms, JAX's {sides[JAX]['cold_ms']:.1f} ms")
    if others(braze):
        failed.append(f"{name}: left to ATen: {', '.join(others(braze))}")
    return failed


def show(results: dict[str, Sides], console: Console) -> None:
    table = Table(title="Warm and cold times in ms", title_justify="left")
    table.add_column("model")
    for heading in (
        *("warm\neager", "warm\nbraze", "warm\ntorch.compile", "warm\nJAX", "eager /\nbraze"),
        *("torch.compile /\nbraze", "cold\nbraze", "cold\ntorch.compile", "times\nless", "cold\nJAX", "kernels"),
    ):
        table.add_column(heading, justify="right")
    table.add_column("ATen calls")
    for name, sides in results.items():
        braze = sides[BRAZE]
        if "failure" in braze:
            table.add_row(name, "[red]failed[/red]")
            continue
        warm, speed, jax = braze["warm_ms"], speeds(sides), sides.get(JAX, {})
        cold = sides.get(INDUCTOR, {}).get("cold_ms")
        calls = braze["call_names"]
        short = {call: call.removeprefix("aten::") for call in calls}
        table.add_row(
            name,
            f"{warm['eager']:.4g}",
            f"{warm[BRAZE]:.4g}",
            f"{warm[INDUCTOR]:.4g}" if INDUCTOR in warm else "",
            f"{jax['warm_ms']['jax']:.4g}" if "warm_ms" in jax else "",
            f"{speed['eager']:.2f}x",
            f"{speed[INDUCTOR]:.2f}x" if INDUCTOR in speed else "",
            f"{braze['cold_ms']:.1f}",
            f"{cold:,.0f}" if cold else "",
            f"{cold / braze['cold_ms']:,.0f}x" if cold else "",
            f"{jax['cold_ms']:.0f}" if "cold_ms" in jax else "",
            str(braze["kernels"]),
            " ".join(
                f"{count} {short[call]}" if call in measure.LIBRARY_CALLS else f"[red]{count} {short[call]}[/red]"
                for call, count in calls.items()
            ),
        )
    console.print(table)
    for side in ("eager", INDUCTOR):
        mean = geometric_mean(results, side)
        if mean:
            console.print(f"geometric mean: {mean:.2f} times the speed of {side}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="WORD", help="models whose names contain one of these")
    parser.add_argument("--compare", action="store_true", help="put torch.compile beside")
    parser.add_argument("--train", action="store_true", help="forward, backward and an optimizer's step a call")
    parser.add_argument("--jax", action="store_true", help="put JAX beside")
    parser.add_argument("--pairs", type=int, default=30, help="interleaved samples of each side (30)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    if options.train and options.jax:
        parser.error("the models for JAX have no training")
    names = measure.named_like(MODELS, options.only)

    def run(name: str) -> Sides:
        return run_model(name, options.pairs, options.compare, options.jax, options.train)

    results: dict[str, Sides] = {}
    failed: list[str] = []
    for name, sides in measure.as_measured(names, run, lambda sides: measure.milliseconds(sides[BRAZE])):
        results[name] = sides
        failed += broken_limits(name, sides)
    mean = geometric_mean(results, INDUCTOR)
    wanted = TRAINING_SPEED if options.train else MEAN_SPEED
    if mean and len(names) == len(MODELS) and mean < wanted:
        failed.append(f"geometric mean: {mean:.2f} times torch.compile's speed, limit {wanted}")
    return measure.conclude(results, failed, show, options.json, width=170)


if __name__ == "__main__":
    sys.exit(main())
