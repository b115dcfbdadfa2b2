"""PyTorch's own samples of every operator (OpInfo), each through a fresh program against eager.

As a script it runs one process an operator and dtype, several at a time, so that a crash is one line of the report:
    python tests/python/opinfo_sweep.py --ops 'softmax|sum$' --dtypes float32,int64 --samples 0
    python tests/python/opinfo_sweep.py --dtypes all --samples 0 --every --jobs 16 --seconds 40 --table table.txt
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

import oracle
import processes
import torch
from opinfo_skips import ANY_STRIDES, KNOWN, NO_VALUES, SHAPE_IN_PLACE, SKIPPED
from torch.utils import _pytree as pytree

DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.bool)


@dataclasses.dataclass
class Counts:
    """What came of samples."""

    samples: int = 0
    kernels: int = 0  # the program has no ATen call step
    raising: int = 0  # eager raises, and the program too
    failing: int = 0
    known: int = 0  # failures that opinfo_skips.py explains
    elsewhere: int = 0  # tensors of the sample lie on a device that is not asked for
    unrun: int = 0  # no time left
    calls: Counter[str] = dataclasses.field(default_factory=Counter)  # samples with such an ATen step

    def add(self, other: "Counts") -> None:
        for field in dataclasses.fields(self):
            setattr(self, field.name, getattr(self, field.name) + getattr(other, field.name))

    @property
    def traced(self) -> int:
        return self.samples - self.raising - self.failing - self.known

    def __str__(self) -> str:
        share = f"{100 * self.kernels / self.traced:5.1f} %" if self.traced else "   -   "
        return (
            f"{self.samples:6d} samples: {self.traced + self.raising} agree, {self.raising} of them raising as in "
            f"eager; {self.failing} fail, {self.known} known; {share} of the traced ones without an ATen call"
            + (f"; {self.elsewhere} elsewhere" if self.elsewhere else "")
            + (f"; {self.unrun} NOT RUN" if self.unrun else "")
        )


@dataclasses.dataclass
class Report:
    """Counts over many calls of `sweep`."""

    units: dict[tuple[str, str], Counts] = dataclasses.field(default_factory=dict)  # (operator, dtype)
    skipped: Counter[str] = dataclasses.field(default_factory=Counter)
    known: Counter[str] = dataclasses.field(default_factory=Counter)  # failures that opinfo_skips.py explains

    def unit(self, name: str, dtype: str) -> Counts:
        return self.units.setdefault((name, dtype), Counts())

    def lines(self) -> list[str]:
        total, by_dtype = Counts(), {}
        for (_, dtype), counts in self.units.items():
            total.add(counts)
            by_dtype.setdefault(dtype, Counts()).add(counts)
        operators = {name for name, _ in self.units}
        text = [f"{dtype:9s}{counts}" for dtype, counts in by_dtype.items()]
        text.append(f"in all   {total}; {len(operators)} operators, in-place forms apart")
        text += [f"skipped: {reason} ({count} operators)" for reason, count in sorted(self.skipped.items())]
        return text + [f"known: {reason} ({count} samples)" for reason, count in sorted(self.known.items())]

    def table(self) -> Iterator[str]:
        """A line for each operator and dtype, with the ATen operators that its programs call."""
        for (name, dtype), counts in sorted(self.units.items()):
            calls = " ".join(f"{call}:{count}" for call, count in counts.calls.most_common())
            flags = "".join(
                f" {word}={getattr(counts, word)}"
                for word in ("raising", "failing", "known", "elsewhere", "unrun")
                if getattr(counts, word)
            )
            yield f"{name} {dtype} {counts.kernels}/{counts.traced}{flags} {calls}".rstrip()

    def add(self, other: "Report") -> None:
        for key, counts in other.units.items():
            self.unit(*key).add(counts)
        self.skipped += other.skipped
        self.known += other.known


def operators():
    """OpInfo's table. Importing it takes seconds, and imports half of PyTorch."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch.testing._internal import common_methods_invocations as table
    # It would set the random generator back after each call, which is not the operator's doing.
    table.wrapper_set_seed = lambda op, *args, **kwargs: op(*args, **kwargs)
    return table.op_db


def name_of(op) -> str:
    return op.name + (f".{op.variant_test_name}" if op.variant_test_name else "")


def _variants(op, every: bool) -> Iterator[tuple[str, object]]:
    yield "", op.op
    if every and op.inplace_variant is not None:
        yield "_", op.inplace_variant


def samples_of(op, dtype: torch.dtype, most: int, device: str = "cpu") -> list:
    """At most `most` of OpInfo's samples (0: all), spread over its list, the same ones each time."""
    if dtype not in op.supported_dtypes(device):
        return []
    torch.manual_seed(0)
    found = list(op.sample_inputs(device, dtype, requires_grad=False))
    if most and len(found) > most:
        found = [found[k * (len(found) - 1) // max(most - 1, 1)] for k in range(most)]
    return found


def units(pattern: str, words: str, every: tuple[torch.dtype, ...], device: str = "cpu") -> list[tuple]:
    """(operator, dtype) of the operators that the pattern finds, for dtypes named with commas, or 'all': `every`.
    Shuffled, as slow operators stand together."""
    dtypes = every if words == "all" else [getattr(torch, word) for word in words.split(",")]
    found = [
        (op, dtype)
        for op in operators()
        if re.search(pattern, name_of(op))
        for dtype in dtypes
        if dtype in op.supported_dtypes(device)
    ]
    random.Random(0).shuffle(found)
    return found


def is_there(sample, allowed: tuple[str, ...]) -> bool:
    leaves = pytree.tree_leaves((sample.input, sample.args, sample.kwargs))
    devices = [leaf.device if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
    return all(device.type in allowed for device in devices if isinstance(device, torch.device))


def sweep(
    op,
    dtype: torch.dtype,
    samples: int,
    report: Report,
    every: bool = False,
    seconds: float = float("inf"),
    begin: Callable[[str], None] = lambda where: None,
    device: str = "cpu",
) -> list[str]:
    """Failures on at most `samples` samples (0: all), spread over OpInfo's list, but for known ones; `every` adds
    in-place variants and OpInfo's wrong inputs. After `seconds` the rest is counted as not run. `begin` hears of
    each sample before it is run."""
    name, short = name_of(op), str(dtype).removeprefix("torch.")
    if reason := SKIPPED.get(name):
        report.skipped[reason] += 1
        return []
    if dtype not in op.supported_dtypes(device):
        return []
    until = time.monotonic() + seconds
    failures = []
    calls = [(f"sample {k}", sample) for k, sample in enumerate(samples_of(op, dtype, samples, device))]
    if every and op.error_inputs_func is not None and dtype == torch.float32:
        calls += [(f"error {k}", e.sample_input) for k, e in enumerate(op.error_inputs(device))]
    for suffix, variant in _variants(op, every):
        if suffix and name in SHAPE_IN_PLACE:
            report.skipped[SHAPE_IN_PLACE[name]] += 1
            continue
        counts = report.unit(name + suffix, short)
        for label, sample in calls:
            if not is_there(sample, ("cpu", device)):
                counts.elsewhere += 1
                continue
            if time.monotonic() > until:
                counts.unrun += 1
                continue
            where = f"{name}{suffix} {short} {label}"
            begin(where)
            failure = _one(variant, name, sample, counts)
            if not failure:
                continue
            reason = next((r for start, r in KNOWN.items() if where.startswith(f"{start} ")), None)
            if reason:
                counts.known += 1
                report.known[f"{name}: {reason}"] += 1
            else:
                counts.failing += 1
                failures.append(f"{where}: {failure}")
    return failures


def _one(variant, name: str, sample, counts: Counts) -> str | None:
    def call(*args, **kwargs):
        return variant(*args, **kwargs)

    counts.samples += 1
    try:
        program = oracle.check(
            call,
            (sample.input, *sample.args),
            sample.kwargs,
            values=name not in NO_VALUES,
            strides=name not in ANY_STRIDES,
        )
    except oracle.Mismatch as mismatch:
        return str(mismatch)
    if program is None:
        counts.raising += 1
        return None
    aten = set(oracle.library_calls(program))
    counts.calls.update(aten)
    counts.kernels += not aten
    return None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ops", default="", help="a regular expression")
    parser.add_argument("--dtypes", default="float32", help="'all', or names with commas")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--samples", type=int, default=3, help="of each operator; 0: all")
    parser.add_argument("--every", action="store_true", help="in-place variants and wrong inputs too")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seconds", type=int, default=120, help="for one operator in one dtype")
    parser.add_argument("--in-all", type=int, default=0, help="seconds after which no operator is begun")
    parser.add_argument("--table", help="a file for a line an operator and dtype")
    options = parser.parse_args()
    pairs = units(options.ops, options.dtypes, DTYPES, options.device)
    until = time.monotonic() + options.in_all if options.in_all else float("inf")
    begun = [0]

    def in_time() -> Iterator[tuple]:
        for unit in pairs:
            if time.monotonic() > until:
                return
            begun[0] += 1
            yield unit

    def task(unit: tuple, say: Callable[[str], None]) -> tuple[list[str], Report]:
        report = Report()
        try:
            return sweep(
                *unit, options.samples, report, options.every, options.seconds, say, options.device
            ), report
        except Exception as error:
            where = f"{name_of(unit[0])} {unit[1]}"
            return [f"{where}: the sweep itself failed: {type(error).__name__}: {error}"], report

    total, bad = Report(), 0
    # Twice the time: against a sample that hangs.
    for unit, result in processes.results(in_time(), task, jobs=options.jobs, seconds=2 * options.seconds):
        if isinstance(result, processes.Crash):
            result = [f"{result.last or name_of(unit[0])}: {result}"], Report()
        failures, report = result
        total.add(report)
        bad += len(failures)
        for line in failures:
            print(line, flush=True)
    if options.table:
        with open(options.table, "w") as file:
            file.writelines(f"{line}\n" for line in total.table())
    print(*total.lines(), f"{begun[0]} of {len(pairs)} pairs of operator and dtype, {bad} failures", sep="\n")
    return bool(bad or begun[0] < len(pairs))


if __name__ == "__main__":
    sys.exit(main())
