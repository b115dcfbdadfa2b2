"""PyTorch's own samples of every operator (OpInfo), each through a fresh program against eager.

As a script it runs one process an operator, so that a crash is one line of the report:
    python tests/python/opinfo_sweep.py --ops 'softmax|sum$' --dtypes float32,int64 --samples 0
"""

import argparse
import dataclasses
import itertools
import os
import re
import signal
import sys
import warnings
from collections import Counter
from collections.abc import Iterator

import oracle
import torch
from opinfo_skips import ANY_STRIDES, KNOWN, NO_VALUES, SHAPE_IN_PLACE, SKIPPED

DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.bool)


@dataclasses.dataclass
class Report:
    """Counts over many calls of `sweep`."""

    operators: set[str] = dataclasses.field(default_factory=set)
    samples: int = 0
    without_calls: int = 0  # samples whose program has no ATen call step
    raising: int = 0  # samples on which eager raises, and the program too
    skipped: Counter[str] = dataclasses.field(default_factory=Counter)
    known: Counter[str] = dataclasses.field(default_factory=Counter)  # failures that opinfo_skips.py explains

    def lines(self) -> list[str]:
        traced = self.samples - self.raising
        share = 100 * self.without_calls / max(traced, 1)
        text = [
            f"{len(self.operators)} operators, {self.samples} samples: {traced} traced, of these {share:.1f} % "
            f"without an ATen call; {self.raising} raise as in eager"
        ]
        text += [f"skipped: {reason} ({count} operators)" for reason, count in sorted(self.skipped.items())]
        return text + [f"known: {reason} ({count} samples)" for reason, count in sorted(self.known.items())]

    def add(self, other: "Report") -> None:
        self.operators |= other.operators
        self.samples += other.samples
        self.without_calls += other.without_calls
        self.raising += other.raising
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


def sweep(op, dtype: torch.dtype, samples: int, report: Report, every: bool = False) -> list[str]:
    """Failures on at most `samples` samples (0: all), spread over OpInfo's list, but for known ones; `every` adds
    in-place variants and OpInfo's wrong inputs."""
    name = name_of(op)
    if reason := SKIPPED.get(name):
        report.skipped[reason] += 1
        return []
    if dtype not in op.supported_dtypes("cpu"):
        return []
    torch.manual_seed(0)
    found = list(op.sample_inputs("cpu", dtype, requires_grad=False))
    if samples and len(found) > samples:
        found = [found[k * (len(found) - 1) // max(samples - 1, 1)] for k in range(samples)]
    failures = []
    calls = [(f"sample {k}", sample) for k, sample in enumerate(found)]
    if every and op.error_inputs_func is not None and dtype == torch.float32:
        calls += [(f"error {k}", e.sample_input) for k, e in enumerate(op.error_inputs("cpu"))]
    for suffix, variant in _variants(op, every):
        if suffix and name in SHAPE_IN_PLACE:
            report.skipped[SHAPE_IN_PLACE[name]] += 1
            continue
        for label, sample in calls:
            failure = _one(variant, name, sample, report)
            if not failure:
                continue
            where = f"{name}{suffix} {str(dtype).removeprefix('torch.')} {label}"
            reason = next((r for start, r in KNOWN.items() if where.startswith(f"{start} ")), None)
            if reason:
                report.known[f"{name}: {reason}"] += 1
            else:
                failures.append(f"{where}: {failure}")
    return failures


def _one(variant, name: str, sample, report: Report) -> str | None:
    def call(*args, **kwargs):
        return variant(*args, **kwargs)

    report.operators.add(name)
    report.samples += 1
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
        report.raising += 1
    elif all(step.kind == "kernel" for step in program.steps):
        report.without_calls += 1
    return None


def _isolated(op, dtypes, samples: int, every: bool, seconds: int) -> tuple[list[str], Report]:
    """sweep() in a child process."""
    import pickle

    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        signal.alarm(seconds)
        report, failures = Report(), []
        try:
            for dtype in dtypes:
                failures += sweep(op, dtype, samples, report, every)
        except BaseException as error:
            failures.append(f"{name_of(op)}: the sweep itself failed: {type(error).__name__}: {error}")
        with os.fdopen(writing, "wb") as pipe:
            pipe.write(pickle.dumps((failures, report)))
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        data = pipe.read()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status) or not data:
        return [f"{name_of(op)}: CRASH, signal {os.WTERMSIG(status)}"], Report()
    return pickle.loads(data)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ops", default="")
    parser.add_argument("--dtypes", default="float32")
    parser.add_argument("--samples", type=int, default=3)
    parser.add_argument("--every", action="store_true", help="in-place variants and wrong inputs too")
    parser.add_argument("--shard", default="0/1")
    parser.add_argument("--seconds", type=int, default=120)
    options = parser.parse_args()
    part, parts = map(int, options.shard.split("/"))
    dtypes = [getattr(torch, word) for word in options.dtypes.split(",")]
    total, bad = Report(), 0
    chosen = [op for op in operators() if re.search(options.ops, name_of(op))]
    for op in itertools.islice(chosen, part, None, parts):
        failures, report = _isolated(op, dtypes, options.samples, options.every, options.seconds)
        total.add(report)
        bad += len(failures)
        for line in failures:
            print(line, flush=True)
    print(f"{bad} failures", *total.lines(), sep="\n")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
