"""What a call costs when there is next to nothing to compute: nanoseconds a call, on ten floats.

    python bench/overhead.py                    # eager and braze
    python bench/overhead.py --compare          # torch.compile too
    python bench/overhead.py --only breaks      # cases whose names contain one of the words
    python bench/overhead.py --json             # one JSON object instead of the table

The cases, and what each is held to:
  x + 1         braze.compile, and braze.trace, not slower than eager; a call costs at least 5 times less than
                torch.compile's
  three breaks  a branch on a value, `item()` and NumPy between operators: braze.compile not slower than eager
  guards        what the guards of BERT-base add to a call of x + 1, all modules and parameters of it: 10 us

The sides take turns, 10,000 calls each; medians. Not slower: at least 0.97 of eager's speed, the median over the
turns. Calls of braze.compile must be replayed: one that runs natively fails the case. Exit status 1 if a limit is
passed, which is then named.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import timeit
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

import measure

NOT_SLOWER = 0.97
TIMES_LESS = 5
GUARDS_NS = 10_000
EAGER, COMPILE, TRACE, INDUCTOR = "eager", "braze.compile", "braze.trace", "torch.compile"


@dataclass(frozen=True)
class Case:
    """`fn` is called with `arguments`; `compared` says what braze.compile is held to: eager's time, or an addition
    to a call of `plus_one` in nanoseconds."""

    fn: Callable[..., Any]
    arguments: tuple
    calls: int
    sides: tuple[str, ...] = (EAGER, COMPILE, INDUCTOR)
    beside_plus_one: bool = False


def plus_one(x):
    return x + 1


def with_breaks(x):
    x = torch.relu(x) + 1
    if x.sum() > 0:
        x = x * 2
    x = x / x.max().item()
    norm = np.linalg.norm(x.numpy())
    return torch.exp(x) * 0.5 - float(norm)


def guards_alone(model, tokens, x):
    """The results of the model are not used, so that the program is x + 1; its guards are the model's."""
    model(tokens)
    return x + 1


def ten_floats() -> torch.Tensor:
    return torch.arange(10, dtype=torch.float32)


def breaks_case() -> Case:
    return Case(with_breaks, (ten_floats(),), 2_000)


def plus_one_case() -> Case:
    return Case(plus_one, (ten_floats(),), 10_000, (EAGER, COMPILE, TRACE, INDUCTOR))


def bert_case() -> Case:
    """Every module and parameter of BERT-base; only narrower, since guards do not look at the data."""
    from transformers import BertConfig, BertModel

    model = BertModel(BertConfig(hidden_size=24, intermediate_size=48, vocab_size=64)).eval()
    tokens = torch.ones(1, 8, dtype=torch.int64)
    return Case(guards_alone, (model, tokens, ten_floats()), 2_000, (COMPILE,), beside_plus_one=True)


CASES = {"x + 1": plus_one_case, "three breaks": breaks_case, "guards of BERT-base": bert_case}


def compiled(side: str, case: Case) -> Callable[..., Any]:
    if side == EAGER:
        return case.fn
    if side == INDUCTOR:
        return torch.compile(case.fn)
    import braze

    return braze.compile(case.fn) if side == COMPILE else braze.trace(case.fn, case.arguments)


def take_turns(
    calls: dict[str, tuple[Callable[..., Any], tuple]], times: int, rounds: int
) -> dict[str, list[float]]:
    """Nanoseconds a call, by name, a sample a round. Other than measure.interleaved, without a Python function
    between: it would cost as much as what is measured."""
    timers = {name: timeit.Timer("f(*a)", globals={"f": call, "a": args}) for name, (call, args) in calls.items()}
    for timer in timers.values():
        timer.timeit(times)
    samples: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, timer in timers.items():
            samples[name].append(timer.timeit(times) / times * 1e9)
    return samples


def run_case(case: Case, compare: bool, rounds: int) -> dict[str, Any]:
    sides = {side: compiled(side, case) for side in case.sides if compare or side != INDUCTOR}
    calls = {side: (call, case.arguments) for side, call in sides.items()}
    if case.beside_plus_one:
        import braze

        calls["x + 1"] = (braze.compile(plus_one), (ten_floats(),))
    samples = take_turns(calls, case.calls, rounds)
    medians = {side: statistics.median(times) for side, times in samples.items()}
    counts = measure.compiled_function(sides[COMPILE]).counts()
    result: dict[str, Any] = {"ns": medians, "counts": counts}
    if counts["native"]:
        result["reasons"] = measure.compiled_function(sides[COMPILE]).reasons()
    if EAGER in samples:
        result["speed"] = {side: measure.speed(samples, side, EAGER) for side in samples if side != EAGER}
    if case.beside_plus_one:
        result["added_ns"] = medians[COMPILE] - medians["x + 1"]
    return result


def broken_limits(name: str, result: dict[str, Any]) -> list[str]:
    """A line for each limit that this case passes."""
    failed = []
    if result["counts"]["native"]:
        failed.append(f"{name}: {result['counts']['native']} calls ran natively: {'; '.join(result['reasons'])}")
    failed += [
        f"{name}: {side} at {result['speed'][side]:.2f} of eager's speed"
        for side in (COMPILE, TRACE)
        if result.get("speed", {}).get(side, 1.0) < NOT_SLOWER
    ]
    nanoseconds = result["ns"]
    if name == "x + 1" and nanoseconds.get(INDUCTOR, float("inf")) < TIMES_LESS * nanoseconds[COMPILE]:
        times = nanoseconds[INDUCTOR] / nanoseconds[COMPILE]
        failed.append(f"{name}: only {times:.1f} times less than torch.compile")
    if result.get("added_ns", 0.0) > GUARDS_NS:
        failed.append(f"{name}: {result['added_ns']:.0f} ns, limit {GUARDS_NS}")
    return failed


def row(result: dict[str, Any]) -> str:
    return ", ".join(f"{side} {ns:,.0f}" for side, ns in result["ns"].items()) + " ns"


def show(results: dict[str, dict[str, Any]], console: Any) -> None:
    from rich.table import Table

    table = Table(title="Nanoseconds a call", title_justify="left")
    sides = (EAGER, COMPILE, TRACE, INDUCTOR)
    table.add_column("case")
    for heading in (*sides, "times eager's speed", "guards"):
        table.add_column(heading, justify="right")
    for name, result in results.items():
        table.add_row(
            name,
            *(f"{result['ns'][side]:,.0f}" if side in result["ns"] else "" for side in sides),
            f"{result['speed'][COMPILE]:.2f}" if "speed" in result else "",
            f"{result['added_ns']:,.0f}" if "added_ns" in result else "",
        )
    console.print(table)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="WORD", help="cases whose names contain one of these")
    parser.add_argument("--compare", action="store_true", help="put torch.compile beside")
    parser.add_argument("--rounds", type=int, default=30, help="turns of each side (30)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    results: dict[str, dict[str, Any]] = {}
    failed: list[str] = []
    with torch.no_grad():
        names = measure.named_like(CASES, options.only)
        for name, found in measure.as_measured(
            names, lambda name: run_case(CASES[name](), options.compare, options.rounds), row
        ):
            results[name] = found
            failed += broken_limits(name, found)
    return measure.conclude(results, failed, show, options.json, width=120)


if __name__ == "__main__":
    sys.exit(main())
