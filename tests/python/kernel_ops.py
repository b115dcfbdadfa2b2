"""Which operators run without an ATen call: tests/kernel_ops.toml, and how a sample of one is judged.

As a script it prints, for operators and dtypes, how many of OpInfo's samples become kernels alone:
    python tests/python/kernel_ops.py --ops 'pool|pad' --dtypes float32,int64 --samples 0 --calls
"""

import argparse
import contextlib
import dataclasses
import re
import sys
import tomllib
import warnings
from collections import Counter
from pathlib import Path

import opinfo_sweep
import oracle
import torch
from compare import copies
from opinfo_skips import ANY_STRIDES, KNOWN, NO_VALUES, SKIPPED

import braze

TABLE = Path(__file__).resolve().parents[1] / "kernel_ops.toml"


def table() -> dict[str, tuple[torch.dtype, ...]]:
    """OpInfo name -> the dtypes in which it is kernels alone."""
    with TABLE.open("rb") as file:
        sections = tomllib.load(file)
    words = sections.pop("dtypes")
    rows: dict[str, tuple[torch.dtype, ...]] = {}
    for section, entries in sections.items():
        for name, given in entries.items():
            assert name not in rows, f"{name} stands twice in kernel_ops.toml, the second time in [{section}]"
            named = words.get(given, [given]) if isinstance(given, str) else given
            rows[name] = tuple(getattr(torch, word) for word in named)
    return rows


@dataclasses.dataclass
class Share:
    kernels: int = 0
    samples: int = 0  # but for those on which eager raises
    calls: Counter[str] = dataclasses.field(default_factory=Counter)  # ATen steps, by operator
    failures: list[str] = dataclasses.field(default_factory=list)


def chosen(op, dtype: torch.dtype, samples: int) -> list:
    """At most `samples` of OpInfo's samples (0: all), spread over its list."""
    if opinfo_sweep.name_of(op) in SKIPPED:
        return []
    return [s for s in opinfo_sweep.samples_of(op, dtype, samples) if opinfo_sweep.is_there(s, ("cpu",))]


def warns(call, args, kwargs) -> bool:
    """Eager says something about this sample: left to ATen, which says it at every call."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        with contextlib.suppress(Exception):
            call(*args, **kwargs)
    return bool(said)


def judge(op, dtype: torch.dtype, samples: int, compare: bool = True) -> Share:
    """Runs the samples; with `compare` against eager, else they are only traced."""
    share, name = Share(), opinfo_sweep.name_of(op)
    short = str(dtype).removeprefix("torch.")

    for number, sample in enumerate(chosen(op, dtype, samples)):

        def call(*args, **kwargs):
            return op.op(*args, **kwargs)

        args = (sample.input, *sample.args)
        where = f"{name} {short} sample {number}"
        if any(where.startswith(f"{start} ") for start in KNOWN):
            continue
        if warns(call, copies(args), copies(sample.kwargs)):
            continue
        if torch.is_tensor(sample.input) and sample.input.numel() == 0:
            continue  # Some kernels of ATen give nothing the strides that its operand has.
        try:
            if compare:
                given = {"values": name not in NO_VALUES, "strides": name not in ANY_STRIDES}
                program = oracle.check(call, args, sample.kwargs, **given)
            else:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    program = braze.trace(call, args, sample.kwargs, check=False)
        except oracle.Mismatch as mismatch:
            share.samples += 1
            share.failures.append(f"{where}: {mismatch}")
            continue
        except Exception as error:
            share.failures.append(f"{where}: {type(error).__name__}: {error}")
            continue
        if program is None:
            continue
        share.samples += 1
        calls = oracle.library_calls(program)
        share.calls.update(calls)
        share.kernels += not calls
    return share


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ops", default="")
    parser.add_argument("--dtypes", default="float32")
    parser.add_argument("--samples", type=int, default=6)
    parser.add_argument("--calls", action="store_true", help="name the ATen calls and failures")
    parser.add_argument("--trace-only", action="store_true", help="do not compare with eager")
    options = parser.parse_args()
    dtypes = [getattr(torch, word) for word in options.dtypes.split(",")]
    for op in opinfo_sweep.operators():
        name = opinfo_sweep.name_of(op)
        if not re.search(options.ops, name):
            continue
        for dtype in dtypes:
            share = judge(op, dtype, options.samples, compare=not options.trace_only)
            if not share.samples and not share.failures:
                continue
            line = f"{name} {str(dtype).removeprefix('torch.')} {share.kernels}/{share.samples}"
            if options.calls:
                line += "".join(f" {call}:{count}" for call, count in share.calls.most_common())
            print(line, flush=True)
            if options.calls:
                for failure in share.failures:
                    print(f"    {failure}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
