"""PyTorch's samples of every operator (OpInfo) in every layout: strides are eager's, in results and as the function
itself sees them.

    python tests/python/layout_sweep.py --ops 'pad|conv' --dtypes float32 --samples 3
    python tests/python/layout_sweep.py --dtypes all --samples 0 --jobs 16 --shard 0/4 --done done.txt
"""

import argparse
import dataclasses
import random
import re
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import opinfo_sweep
import oracle
import processes
import torch
from layouts import LAYOUTS, laid_out
from opinfo_skips import NO_VALUES, SHAPE_IN_PLACE, SKIPPED
from torch.utils import _pytree as pytree

import braze
from braze._check import _Copies

DTYPES = (torch.float32, torch.bfloat16, torch.complex64, torch.int64)
TOLERANCE = {torch.float32: 2e-3, torch.bfloat16: 6e-2, torch.complex64: 2e-3, torch.float64: 1e-8}

FACTS = ("shape", "strides", "dtype", "storage offset", "conj", "neg")  # of a tensor, as facts() tells them

# Operators that write beyond the end of such out= tensors in eager.
CRASHES_IN_EAGER = {"narrow_copy", "triu", "tril", "nn.functional.avg_pool3d", "linalg.lu", "lu_unpack"}

# Operator and layout -> why differences are known.
KNOWN = {
    **dict.fromkeys(
        (("native_group_norm", "expanded"), ("masked.median", "expanded"), ("nanmedian", "expanded")),
        "eager reads an expanded tensor as if it were dense, whatever lies behind it",
    ),
    **dict.fromkeys(
        (("pca_lowrank", "expanded"), ("svd_lowrank", "expanded")),
        "of a matrix of rank 1 all singular vectors but the first are what rounding makes them",
    ),
    ("_segment_reduce.lengths", "one_row"): "segments that end beyond the tensor, not checked",
}


@dataclasses.dataclass
class Report:
    """What came of calls."""

    counts: Counter[str] = dataclasses.field(default_factory=Counter)

    def lines(self) -> list[str]:
        return [f"{count:8d} {what}" for what, count in sorted(self.counts.items())]


def forms(op) -> Iterator[tuple[str, Callable]]:
    """(name, call) of every way to call an operator on a sample."""
    yield "", lambda sample: op.op(sample.input, *sample.args, **sample.kwargs)
    if op.inplace_variant is not None and opinfo_sweep.name_of(op) not in SHAPE_IN_PLACE:
        yield "_", lambda sample: op.inplace_variant(sample.input, *sample.args, **sample.kwargs)


def out_form(op, sample, layout: str) -> Callable | None:
    """The operator with out= tensors of that layout. None if it has no such form."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected = op.op(sample.input, *sample.args, **sample.kwargs)
    except Exception:
        return None
    if not op.supports_out:
        return None
    leaves, spec = pytree.tree_flatten(expected)
    if not all(isinstance(leaf, torch.Tensor) and leaf.layout == torch.strided for leaf in leaves):
        return None
    unwritten = [torch.ones_like(leaf) for leaf in leaves]
    sample.kwargs = {**sample.kwargs, "out": laid_out(layout, pytree.tree_unflatten(unwritten, spec))}
    return lambda sample: op.op(sample.input, *sample.args, **sample.kwargs)


def facts(tree: Any) -> list[tuple]:
    """Geometry of the tensors in it."""
    return [
        (
            tuple(leaf.shape),
            leaf.stride() if leaf.numel() else (),
            str(leaf.dtype),
            leaf.storage_offset(),
            leaf.is_conj(),
            leaf.is_neg(),
        )
        for leaf in pytree.tree_leaves(tree)
        if isinstance(leaf, torch.Tensor) and leaf.layout == torch.strided
    ]


def close(one: Any, other: Any) -> bool:
    for a, b in zip(pytree.tree_leaves(one), pytree.tree_leaves(other), strict=True):
        if isinstance(b, torch.Tensor) and b.layout == torch.strided and b.numel():
            tolerance = TOLERANCE.get(b.dtype, 0)
            if b.dtype in TOLERANCE or b.is_floating_point() or b.is_complex():
                if not torch.allclose(a, b, rtol=tolerance, atol=tolerance, equal_nan=True):
                    return False
            elif not torch.equal(a, b):
                return False
    return True


def compare(call: Callable, sample, layout: str, inside: bool, values: bool, report: Report) -> str | None:
    """The difference between a program and eager on this call, None if there is none. With `inside`, tensors are
    laid out by the function itself."""
    seen: list = []
    spec = (sample.input, sample.args, sample.kwargs)

    def run(input, args, kwargs):
        if inside:
            input, args, kwargs = laid_out(layout, (input, args, kwargs))
        result = call(dataclasses.replace(holder, input=input, args=args, kwargs=kwargs))
        seen[:] = facts(result)
        return result

    holder = Sample(None, (), {})
    if not inside:
        spec = laid_out(layout, spec)
    theirs = _Copies().of(spec)
    torch.manual_seed(0)
    try:
        expected = run(*theirs)
    except Exception as error:
        expected = error
    wanted = list(seen)
    seen.clear()
    program = None
    try:
        program = braze.trace(run, _Copies().of(spec), check=False)
        told = list(seen)
        mine = _Copies().of(spec)
        torch.manual_seed(0)
        got = program(*mine)
    except Exception as error:
        got = error
    if isinstance(expected, Exception) or isinstance(got, Exception):
        report.counts["raise in eager"] += isinstance(expected, Exception)
        if isinstance(got, Exception) and str(got).startswith("braze: "):
            report.counts["cannot be traced"] += 1
            return None
        if type(expected).__name__ == type(got).__name__ or isinstance(expected, type(got)):
            return None
        if isinstance(expected, Exception) and isinstance(got, type(expected)):
            return None
        return f"{told_of(got)}, in eager {told_of(expected)}"
    report.counts["with ATen calls" if oracle.library_calls(program) else "kernels alone"] += 1
    if told != wanted:
        return f"inside {difference(told, wanted)}"
    if facts(got) != wanted:
        return f"result {difference(facts(got), wanted)}"
    if facts(mine) != facts(theirs):
        return f"argument {difference(facts(mine), facts(theirs))}"
    if values and not (close(got, expected) and close(mine, theirs)):
        return "other values"
    return None


def told_of(outcome: Any) -> str:
    return f"{type(outcome).__name__}: {str(outcome)[:150]}" if isinstance(outcome, Exception) else "no exception"


@dataclasses.dataclass
class Sample:
    input: Any
    args: tuple
    kwargs: dict


def difference(got: list, wanted: list) -> str:
    for one, other in zip(got, wanted, strict=False):
        for what, a, b in zip(FACTS, one, other, strict=True):
            if a != b:
                return f"{what} {a}, in eager {b} (shape {other[0]})"
    return f"{len(got)} tensors, in eager {len(wanted)}"


def sweep(
    op, dtype: torch.dtype, samples: int, report: Report, begin: Callable[[str], None] = lambda where: None,
    chosen: Callable[[str], bool] = lambda where: True, seconds: float = float("inf"),
) -> list[str]:  # fmt: skip
    """Differences on at most `samples` samples (0: all), in all layouts and forms that are `chosen`."""
    name, short = opinfo_sweep.name_of(op), str(dtype).removeprefix("torch.")
    if name in SKIPPED:
        return []
    until = time.monotonic() + seconds
    failures = []

    def one(suffix: str, call: Callable, number: int, sample, layout: str, inside: bool) -> None:
        where = f"{name}{suffix} {short} {number} {layout}{' inside' if inside else ''}"
        if not chosen(where):
            return
        begin(where)
        report.counts["calls"] += 1
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            failure = compare(call, sample, layout, inside, name not in NO_VALUES, report)
        if failure and (name, layout) in KNOWN:
            report.counts[f"known: {KNOWN[name, layout]}"] += 1
        elif failure:
            failures.append(f"{where}: {failure}")

    for number, sample in enumerate(opinfo_sweep.samples_of(op, dtype, samples)):
        if not opinfo_sweep.is_there(sample, ("cpu",)):
            continue
        for layout in LAYOUTS:
            plain = Sample(sample.input, sample.args, sample.kwargs)
            if time.monotonic() > until:
                report.counts["not run"] += 1
                continue
            if not LAYOUTS[layout].changes(plain):
                continue
            for suffix, call in forms(op):
                for inside in (False, True):
                    one(suffix, call, number, plain, layout, inside)
            with_out = Sample(sample.input, sample.args, dict(sample.kwargs))
            call = out_form(op, with_out, layout) if name not in CRASHES_IN_EAGER else None
            if call:
                one(".out", call, number, with_out, layout, False)
    return failures


def compact(failures: list[str]) -> list[str]:
    """The first of those that differ only in sample, layout and numbers, with their number."""
    kinds: dict[tuple, list[str]] = {}
    for line in failures:
        where, _, what = line.partition(": ")
        kinds.setdefault((where.split()[0], re.sub(r"\d+|\W", "", what)[:30]), []).append(line)
    return [f"{len(lines)}x {lines[0]}" for lines in kinds.values()]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ops", default="", help="a regular expression")
    parser.add_argument("--dtypes", default="float32", help="'all', or names with commas")
    parser.add_argument("--samples", type=int, default=2, help="of each operator; 0: all")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seconds", type=int, default=300, help="for one operator in one dtype")
    parser.add_argument("--fraction", type=float, default=1, help="of the calls, the same ones each time")
    parser.add_argument("--shard", default="0/1", help="K/N: the K-th of N parts")
    parser.add_argument("--each", action="store_true", help="a line for each difference, not for each kind")
    parser.add_argument("--done", help="a file of what is done, which is not done again")
    options = parser.parse_args()
    units = opinfo_sweep.units(options.ops, options.dtypes, DTYPES)
    shard, shards = map(int, options.shard.split("/"))
    done = set()
    if options.done:
        with open(options.done, "a+") as file:
            file.seek(0)
            done = set(file.read().splitlines())
    key = lambda unit: f"{opinfo_sweep.name_of(unit[0])} {unit[1]}"  # noqa: E731
    units = [unit for unit in units[shard::shards] if key(unit) not in done]

    def task(unit: tuple, say: Callable[[str], None]) -> tuple[list[str], Report]:
        report = Report()
        try:
            picked = picker(options.fraction)
            return sweep(*unit, options.samples, report, say, picked, options.seconds), report
        except Exception as error:
            return [f"{key(unit)}: the sweep itself failed: {type(error).__name__}: {error}"], report

    total, bad = Report(), 0
    for unit, result in processes.results(units, task, jobs=options.jobs, seconds=2 * options.seconds):
        if isinstance(result, processes.Crash):
            result = [f"{result.last or key(unit)}: {result}"], Report()
        failures, report = result
        total.counts += report.counts
        bad += len(failures)
        for line in failures if options.each else compact(failures):
            print(line, flush=True)
        if options.done:
            with open(options.done, "a") as file:
                file.write(f"{key(unit)}\n")
    print(*total.lines(), f"{len(units)} pairs of operator and dtype, {bad} differences", sep="\n")
    return bool(bad)


def picker(fraction: float) -> Callable[[str], bool]:
    """Chooses that part of the calls, by their names."""
    return lambda where: random.Random(where).random() < fraction


if __name__ == "__main__":
    sys.exit(main())
