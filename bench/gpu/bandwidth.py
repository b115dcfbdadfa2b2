"""Kernels of the GPU beside a copy of the same bytes: what part of the copy's bandwidth they reach.

    python bench/gpu/bandwidth.py                    # braze and eager; torch.compile as recorded
    python bench/gpu/bandwidth.py --record           # torch.compile, and keep its figures for this device
    python bench/gpu/bandwidth.py --only softmax     # kernels whose names contain one of the words
    python bench/gpu/bandwidth.py --tuned            # mode="max-autotune-no-cudagraphs" too, and what it chooses
    python bench/gpu/bandwidth.py --json             # one JSON object instead of the table

Each kernel on 2^26 elements, f32 and bf16, rows of 1,024, 4,096 and 65,536. A kernel's bytes are its inputs and its
outputs, once each. Results are held to float64 as everywhere (measure.is_correct, by the dtype's precision).

Exit status 1 if a kernel is wrong, ran natively, reaches less than 0.9 of the copy, or is behind eager or
torch.compile.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any

import device
import torch
from rich.console import Console
from rich.table import Table
from torch.nn import functional as F

import measure

ELEMENTS = 2**26
ROWS = (1024, 4096, 65536)
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}
OF_COPY = 0.9
NOT_SLOWER = 0.97
SIDES = ("eager", "torch.compile", "braze", "tuned")


def entropy(x: torch.Tensor) -> torch.Tensor:
    p = torch.softmax(x, -1)
    return -(p * torch.log(p + 1e-8)).sum(-1)


# name -> (function, whether it takes weight and bias of a row, as)
KERNELS: dict[str, tuple[Callable[..., Any], bool]] = {
    "gelu(x*w+b)": (lambda x, w, b: F.gelu(x * w + b), True),
    "softmax": (lambda x: torch.softmax(x, -1), False),
    "layer_norm": (lambda x, w, b: F.layer_norm(x, x.shape[-1:], w, b), True),
    "layer_norm(x+gelu(x))": (lambda x, w, b: F.layer_norm(x + F.gelu(x), x.shape[-1:], w, b), True),
    "entropy": (entropy, False),
    "column sum": (lambda x: x.sum(0), False),
    "transpose+1": (lambda x: x.t().contiguous() + 1, False),
}


def arguments(dtype: torch.dtype, row: int, with_weights: bool) -> tuple[torch.Tensor, ...]:
    torch.manual_seed(0)
    shape = (ELEMENTS // row, row)
    x = torch.randn(shape, device="cuda", dtype=dtype)
    return (x, *(torch.randn(row, device="cuda", dtype=dtype) for _ in range(2 * with_weights)))


def copy_bandwidth() -> float:
    """Bytes a millisecond, read and written."""
    source = torch.ones(ELEMENTS, device="cuda")
    target = torch.empty_like(source)
    return 2 * source.numel() * 4 / device.kernel_ms(lambda: target.copy_(source))


def is_correct(got: torch.Tensor, eager: torch.Tensor, exact: torch.Tensor, dtype: torch.dtype) -> bool:
    """At most twice eager's error, or 2 ulp of the dtype at the largest value."""
    error, eagers = ((each.double() - exact).abs().max().item() for each in (got, eager))
    return error <= max(2 * eagers, 2 * torch.finfo(dtype).eps * exact.abs().max().item())


def tuned(function: Callable[..., Any], given: tuple[torch.Tensor, ...], bytes_a_copy: float) -> dict[str, Any]:
    """With measured forms of the kernels; `forms` are all that differ, in microseconds, the chosen one first."""
    import braze

    compiled = braze.compile(function, mode="max-autotune-no-cudagraphs")
    for _ in range(2):
        compiled(*given)
    forms = []
    for kernel in compiled.programs()[0].kernel_tuning():
        times = {form: nanoseconds / 1000 for form, nanoseconds in kernel["measured"].items()}
        forms.append(sorted(times.items(), key=lambda each, chosen=kernel["chosen"]: each[0] != chosen))
    return {"tuned": bytes_a_copy / device.kernel_ms(lambda: compiled(*given)), "forms": forms}


def measured(
    name: str, dtype_name: str, row: int, copy: float, recording: bool, with_tuned: bool
) -> dict[str, Any]:
    function, with_weights = KERNELS[name]
    dtype = DTYPES[dtype_name]
    given = arguments(dtype, row, with_weights)
    eager = function(*given)
    moved = sum(each.numel() * each.element_size() for each in (*given, eager))
    facts: dict[str, Any] = {"eager": moved / device.kernel_ms(lambda: function(*given)) / copy}
    if recording:
        torch.compiler.reset()
        compiled = torch.compile(function, dynamic=False)
        compiled(*given)
        facts["torch.compile"] = moved / device.kernel_ms(lambda: compiled(*given)) / copy
        return facts
    import braze

    compiled = braze.compile(function)
    got = compiled(*given)
    compiled(*given)
    facts["native"] = compiled.counts()["native"]
    exact = function(*(each.double() for each in given))
    facts["correct"] = is_correct(got, eager, exact, dtype)
    facts["braze"] = moved / device.kernel_ms(lambda: compiled(*given)) / copy
    return facts | (tuned(function, given, moved / copy) if with_tuned else {})


def broken_limits(name: str, facts: dict[str, Any]) -> list[str]:
    if "failure" in facts:
        return [f"{name}: {facts['failure']}"]
    if "braze" not in facts:
        return []
    failed = []
    if not facts["correct"]:
        failed.append(f"{name}: wrong")
    if facts["native"]:
        failed.append(f"{name}: ran natively")
    if facts["braze"] < OF_COPY:
        failed.append(f"{name}: {facts['braze']:.2f} of the copy")
    for side in ("eager", "torch.compile"):
        if facts["braze"] < NOT_SLOWER * facts.get(side, 0.0):
            failed.append(f"{name}: {facts['braze'] / facts[side]:.2f} of {side}'s speed")
    return failed


def show(results: dict[str, dict[str, Any]], console: Console) -> None:
    table = Table(title="Part of a copy's bandwidth that kernels reach", title_justify="left")
    table.add_column("kernel")
    for heading in (*SIDES, "correct"):
        table.add_column(heading, justify="right")
    for name, facts in results.items():
        correct = {True: "yes", False: "[red]no[/red]"}.get(facts.get("correct"), facts.get("failure", ""))
        table.add_row(name, *(f"{facts[side]:.2f}" if side in facts else "" for side in SIDES), correct)
    console.print(table)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="WORD", help="kernels whose names contain one of these")
    parser.add_argument("--record", action="store_true", help="measure torch.compile and keep its figures")
    parser.add_argument("--tuned", action="store_true", help="measure mode max-autotune-no-cudagraphs, too")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()

    console = Console(stderr=True, width=120)
    console.print(device.require())
    copy = copy_bandwidth()
    console.print(f"a copy of {ELEMENTS} f32: {copy / 1e9:.2f} TB/s")
    known = device.baselines("bandwidth")
    results: dict[str, dict[str, Any]] = {}
    failed: list[str] = []
    names = [f"{name}, {dtype}, {row}" for name in KERNELS for dtype in DTYPES for row in ROWS]
    with torch.no_grad():
        for name in measure.named_like(names, options.only):
            kernel, dtype, row = name.rsplit(", ", 2)
            try:
                facts = measured(kernel, dtype, int(row), copy, options.record, options.tuned)
            except Exception as error:  # The others are still worth their time.
                facts = {"failure": f"{type(error).__name__}: {error}"[:200]}
            results[name] = known.get(name, {}) | facts
            console.print(name, {side: round(results[name][side], 2) for side in SIDES if side in results[name]})
            failed += broken_limits(name, results[name])
            torch.cuda.empty_cache()
    if options.record:
        kept = {
            name: {"torch.compile": facts["torch.compile"]}
            for name, facts in results.items()
            if "failure" not in facts
        }
        console.print(f"kept in {device.record('bandwidth', kept)}")
    return measure.conclude(results, failed, show, options.json, width=120)


if __name__ == "__main__":
    sys.exit(main())
