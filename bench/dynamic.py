"""Sizes that vary: cold time, compilations and warm speed by size, braze beside torch.compile and static braze.

    python bench/dynamic.py                       # every case: braze (dynamic=True), braze static, torch.compile
    python bench/dynamic.py --only encoder gru    # cases whose names contain one of the words
    python bench/dynamic.py --no-compare          # without torch.compile
    python bench/dynamic.py --plot dynamic.png    # warm time by size
    python bench/dynamic.py --json                # one JSON object instead of the table

Each side of a case runs in a process of its own, with empty caches, and is called with random sizes, then timed at
a few. Exit status 1 if a limit is passed, which is then named:
  compilations   captures over all calls: 1 with dynamic=True; with dynamic=None one more for each call at which a
                 dimension is another one for the first time, mostly 2 in all; none natively
  cold           at most 1.5 times static braze's; at least 200 times less than torch.compile(dynamic=True)
  warm           at no size slower than 0.97 of torch.compile's speed, or 1/1.1 of static braze's
  next shape     a second shape of a family costs no code: 5 ms at most
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import measure

BRAZE, AUTOMATIC, STATIC, INDUCTOR = "braze", "braze, dynamic=None", "braze, static", "torch.compile"
COLD_LIMIT, TIMES_LESS, NOT_SLOWER, STATIC_SPEED, NEXT_SHAPE_MS = 1.5, 200, 0.97, 1 / 1.1, 5
SIZES_CALLED = 50


class DynamicCase(NamedTuple):
    """`make` gives the function; `arguments(size)` its arguments; `draw` a size at random."""

    make: Callable[[], Callable[..., Any]]
    arguments: Callable[[Any], tuple]
    draw: Callable[[random.Random], Any]
    measured: tuple  # sizes that are timed, from small to large


def _pointwise():
    import torch

    return lambda x, y: torch.tanh(x * y + 1) * torch.sigmoid(x) - y


def _scores():
    import torch

    def scores(features):
        p = torch.softmax(features, dim=-1)
        return -(p * torch.log(p + 1e-9)).sum(dim=-1)

    return scores


def _encoder():
    import torch
    from torch import nn

    class Encoder(nn.Module):
        def __init__(self, width=128, heads=4):
            super().__init__()
            self.embedding, self.positions = nn.Embedding(1000, width), nn.Embedding(512, width)
            layer = nn.TransformerEncoderLayer(width, heads, 4 * width, batch_first=True)
            self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

        def forward(self, ids):
            x = self.embedding(ids) + self.positions(torch.arange(ids.shape[1]))[None]
            return self.layers(x).mean(1)

    return Encoder().eval()


def _convnet():
    from torch import nn

    return nn.Sequential(
        *(nn.Conv2d(3, 16, 3, stride=2, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(3, 2, 1)),
        *(nn.Conv2d(16, 32, 3, groups=2), nn.BatchNorm2d(32), nn.GELU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()),
        nn.Linear(32, 10),
    ).eval()


def _gru():
    from torch import nn

    return nn.GRU(32, 64, num_layers=2, batch_first=True).eval()


def _floats(*sizes):
    import torch

    return torch.randn(sizes)


def _ids(size):
    import torch

    return (torch.randint(0, 1000, size),)


CASES = {
    "pointwise": DynamicCase(
        _pointwise,
        lambda n: (_floats(n), _floats(n)),
        lambda r: r.randint(2, 100_000),
        (100, 2_000, 20_000, 200_000, 2_000_000),
    ),
    "scores": DynamicCase(
        _scores,
        lambda size: (_floats(*size),),
        lambda r: (r.randint(2, 64), r.randint(2, 1000)),
        ((8, 64), (32, 196), (64, 768), (256, 3000)),
    ),
    "encoder": DynamicCase(
        _encoder, _ids, lambda r: (r.randint(2, 16), r.randint(2, 128)), ((2, 16), (4, 64), (8, 128), (16, 256))
    ),
    "convnet": DynamicCase(
        _convnet,
        lambda size: (_floats(size[0], 3, size[1], size[1]),),
        lambda r: (r.randint(2, 8), r.randint(24, 128)),
        ((2, 32), (4, 64), (8, 128), (8, 224)),
    ),
    "gru": DynamicCase(
        _gru,
        lambda size: (_floats(size[0], size[1], 32),),
        lambda r: (4, r.randint(2, 100)),
        ((4, 8), (4, 32), (4, 128)),
    ),
}


def _compiled(side: str, function):
    if side == INDUCTOR:
        import torch

        return torch.compile(function, dynamic=True)
    import braze

    return braze.compile(function, dynamic={BRAZE: True, AUTOMATIC: None, STATIC: False}[side])


def fewest_captures(examples: list[tuple]) -> int:
    """With dynamic=None: static first, then a symbol for each dimension that has varied."""
    captures, varied, last = 0, set(), None
    for arguments in examples:
        sizes = {(i, k): size for i, one in enumerate(arguments) for k, size in enumerate(one.shape)}
        new = {at for at, size in sizes.items() if last and last[at] != size} - varied
        if last is None or new:
            captures, last, varied = captures + 1, sizes, varied | new
    return captures


def work(name: str, side: str) -> dict[str, Any]:
    """In a fresh process: one side of a case."""
    import torch

    torch.manual_seed(0)
    case, rng = CASES[name], random.Random(0)
    function = case.make()
    sizes = [case.draw(rng) for _ in range(SIZES_CALLED)]
    facts: dict[str, Any] = {}
    with torch.no_grad():
        examples = [case.arguments(size) for size in (sizes[:3] if side == STATIC else sizes)]
        eager = statistics.median(measure.timed_ms(lambda: function(*examples[0])) for _ in range(5))
        compiled = _compiled(side, function)
        facts["fewest_captures"] = fewest_captures(examples)
        facts["cold_ms"] = measure.timed_ms(lambda: compiled(*examples[0])) - eager
        later = []
        for arguments in examples[1:]:
            expected = function(*arguments)
            start = time.perf_counter_ns()
            got = compiled(*arguments)
            first = (time.perf_counter_ns() - start) / 1e6
            later.append(first - measure.timed_ms(lambda a=arguments: compiled(*a)))
            one, other = (got[0], expected[0]) if isinstance(got, tuple) else (got, expected)
            torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-3)
        facts["later_ms"] = later
        if side == INDUCTOR:
            import torch._dynamo.utils as utils

            facts["captures"] = utils.counters["stats"]["unique_graphs"]
        else:
            counts = measure.compiled_function(compiled).counts()
            facts["captures"], facts["native"] = counts["captured"], counts["native"]
        if side == STATIC:
            compiled = None
        warm = {}
        for size in case.measured:
            one = _compiled(STATIC, function) if compiled is None else compiled
            arguments = case.arguments(size)
            warm[str(size)] = measure.median_ms(lambda c=one, a=arguments: c(*a))
        facts["warm_ms"] = warm
    return facts


def fresh(name: str, side: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="braze-dynamic-") as cache:
        done = subprocess.run(
            [sys.executable, __file__, "--work", name, side],
            env={**os.environ, "BRAZE_CACHE_DIR": f"{cache}/braze", "TORCHINDUCTOR_CACHE_DIR": f"{cache}/inductor"},
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        return {"failure": (done.stderr.strip() or f"exit status {done.returncode}").splitlines()[-1]}
    return json.loads(done.stdout.splitlines()[-1])


def broken_limits(name: str, sides: dict[str, dict[str, Any]]) -> list[str]:
    failed = [f"{name}: {side} failed: {facts['failure']}" for side, facts in sides.items() if "failure" in facts]
    if failed:
        return failed
    braze, automatic, static = sides[BRAZE], sides[AUTOMATIC], sides[STATIC]
    checks = [
        (braze["captures"], 1, "captures with dynamic=True"),
        (automatic["captures"], automatic["fewest_captures"], "captures with dynamic=None"),
        (braze["native"] + automatic["native"], 0, "calls run natively"),
        (braze["cold_ms"] / static["cold_ms"], COLD_LIMIT, "times static braze's cold time"),
        (statistics.median(braze["later_ms"]), NEXT_SHAPE_MS, "ms for another shape"),
    ]
    for size, ms in braze["warm_ms"].items():
        checks.append((STATIC_SPEED, static["warm_ms"][size] / ms, f"of static braze's speed wanted at {size}"))
    if INDUCTOR in sides:
        other = sides[INDUCTOR]
        checks.append((TIMES_LESS, other["cold_ms"] / braze["cold_ms"], "times less cold time wanted"))
        for size, ms in braze["warm_ms"].items():
            checks.append((NOT_SLOWER, other["warm_ms"][size] / ms, f"of torch.compile's speed wanted at {size}"))
    return [f"{name}: {what}: {value:.3g}, limit {limit:.3g}" for value, limit, what in checks if value > limit]


def row(sides: dict[str, dict[str, Any]]) -> str:
    return ", ".join(
        f"{side} failed" if "failure" in facts else f"{side} {facts['cold_ms']:,.1f} ms cold"
        for side, facts in sides.items()
    )


def show(results: dict[str, dict[str, dict[str, Any]]], console) -> None:
    from rich.table import Table

    table = Table(title=f"{SIZES_CALLED} random sizes, then warm milliseconds by size", title_justify="left")
    for heading in ("case", "side", "cold ms", "another shape, ms", "captures", "native", "warm ms by size"):
        table.add_column(heading)
    for name, sides in results.items():
        for side, facts in sides.items():
            if "failure" in facts:
                table.add_row(name, side, "[red]failed[/red]")
                continue
            warm = "  ".join(f"{size}: {ms:.3g}" for size, ms in facts["warm_ms"].items())
            later = f"{statistics.median(facts['later_ms']):.2f}"
            counts = str(facts["captures"]), str(facts.get("native", ""))
            table.add_row(name, side, f"{facts['cold_ms']:,.1f}", later, *counts, warm)
    console.print(table)


def plot(results: dict[str, dict[str, dict[str, Any]]], path: str) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(results), figsize=(4 * len(results), 3.5), squeeze=False)
    for axis, (name, sides) in zip(axes[0], results.items(), strict=True):
        for side, facts in sides.items():
            if side != AUTOMATIC and "failure" not in facts:
                axis.plot(list(facts["warm_ms"]), list(facts["warm_ms"].values()), marker="o", label=side)
        axis.set_title(name)
        axis.set_yscale("log")
        axis.set_ylabel("warm ms")
        axis.tick_params(axis="x", rotation=30)
    axes[0][0].legend()
    figure.tight_layout()
    figure.savefig(path)
    print(f"drawn: {Path(path).resolve().name}", file=sys.stderr)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="WORD", help="cases whose names contain one of these")
    parser.add_argument("--no-compare", action="store_true", help="leave out torch.compile")
    parser.add_argument("--plot", metavar="FILE", help="draw warm time by size")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--work", nargs=2, metavar=("CASE", "SIDE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        print(json.dumps(work(*options.work)))
        return 0
    results: dict[str, dict[str, dict[str, Any]]] = {}
    failed: list[str] = []
    sides = (BRAZE, AUTOMATIC, STATIC) if options.no_compare else (BRAZE, AUTOMATIC, STATIC, INDUCTOR)
    names = measure.named_like(CASES, options.only)
    for name, found in measure.as_measured(names, lambda name: {side: fresh(name, side) for side in sides}, row):
        results[name] = found
        failed += broken_limits(name, found)
    if options.plot:
        plot(results, options.plot)
    return measure.conclude(results, failed, show, options.json, width=200)


if __name__ == "__main__":
    sys.exit(main())
