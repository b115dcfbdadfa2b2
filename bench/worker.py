"""Measures one case on one side in this (fresh) process and prints a JSON object. Started by measure.fresh().

Cold time = first call - median eager call. Side "braze.compile" and torch.compile: the call that compiles. Side
"braze": braze.trace(..., check=False) and then the program's first run. JAX: the first call of the jitted function,
less its warm median. Where braze's program runs faster than eager's median, that is not counted as time won while
compiling: its own run is taken off then.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import measure


def since_ms(start_ns: int) -> float:
    return (time.perf_counter_ns() - start_ns) / 1e6


def tell(programs: list, facts: dict[str, Any]) -> None:
    """What braze says of all programs of a function together."""
    phases: Counter = Counter()
    memory: Counter = Counter()
    for program in programs:
        phases.update(program.compile_times())
        memory.update(program.memory())
    kernels = [kernel for program in programs for kernel in program.kernels]
    facts["phases_ms"] = {name: ns / 1e6 for name, ns in phases.items()}
    facts["memory"] = dict(memory)
    facts["kernels"] = len(kernels)
    facts["call_names"] = dict(
        Counter(step.name for program in programs for step in program.steps if step.kind == "call")
    )
    facts["calls"] = sum(facts["call_names"].values())
    facts["program_bytes"] = sum(k.launches * (k.bytes_read + k.bytes_written) for k in kernels)


class Cold:
    """Tells the milliseconds since its block began; at its end, `facts` are given the child processes and the
    memory that the process grew by."""

    def __init__(self, facts: dict[str, Any]):
        self.facts = facts

    def __enter__(self) -> Cold:
        self.children = measure.ChildProcesses()
        self.before = measure.resident_bytes()
        self.start = time.perf_counter_ns()
        return self

    def ms(self) -> float:
        return since_ms(self.start)

    def __exit__(self, *exception: object) -> None:
        self.facts["children"] = self.children.count()
        self.facts["memory_bytes"] = measure.resident_bytes() - self.before


def cold_compile(built, eager_ms: float, facts: dict[str, Any], backend: str = "braze"):
    import braze

    with Cold(facts) as cold:
        compiled = braze.compile(built.fn, backend=backend)
        built.once(compiled)
        first_ms = cold.ms()
    second = time.perf_counter_ns()
    built.once(compiled)
    facts["cold_ms"] = first_ms - min(eager_ms, since_ms(second))
    function = measure.compiled_function(compiled)
    tell(function.programs(), facts)
    facts["programs"] = len(function.programs())
    facts["counts"] = function.counts()
    facts["reasons"] = list(function.reasons())
    return compiled


def cold_trace(built, eager_ms: float, facts: dict[str, Any]):
    import braze

    with Cold(facts) as cold:
        program = braze.trace(built.fn, built.args, built.kwargs, check=False)
        facts["trace_ms"] = cold.ms()
        program(*built.args, **built.kwargs)
        facts["first_run_ms"] = cold.ms() - facts["trace_ms"]
    facts["cold_ms"] = facts["trace_ms"] + max(facts["first_run_ms"] - eager_ms, 0.0)
    tell([program], facts)
    return program


def cold_torch_compile(built, eager_ms: float, facts: dict[str, Any]):
    import torch

    with Cold(facts) as cold:
        compiled = torch.compile(built.fn)
        built.once(compiled)
        facts["cold_ms"] = cold.ms() - eager_ms
    return compiled


def cold_capture(built, eager_ms: float, facts: dict[str, Any]):
    """Capture alone: the operators are replayed by ATen."""
    return cold_compile(built, eager_ms, facts, backend="eager")


COLD = {
    "braze": cold_trace,
    "braze.compile": cold_compile,
    "braze.compile, eager": cold_capture,
    "torch.compile": cold_torch_compile,
}


def write_code(programs: list, directory: Path) -> None:
    """graph.txt, loops.txt, llvm.txt and asm.txt."""
    directory.mkdir(parents=True, exist_ok=True)
    for stage in ("graph", "loops", "llvm", "asm"):
        (directory / f"{stage}.txt").write_text("".join(program.code(stage) for program in programs))


def errors(case, result, eager) -> dict[str, Any]:
    built = case.build().doubled()
    exact = built.fn(*built.args, **built.kwargs)
    error, eager_error = measure.largest_error(result, exact), measure.largest_error(eager, exact)
    return {
        "error_to_eager": measure.largest_error(result, eager),
        "error": error,
        "eager_error": eager_error,
        "correct": measure.is_correct(error, eager_error, exact),
    }


def run_torch(request: dict[str, Any]) -> dict[str, Any]:
    import torch

    facts: dict[str, Any] = {"case": request["case"], "side": request["side"], "threads": torch.get_num_threads()}
    if request["side"].startswith("braze"):
        start = time.perf_counter_ns()
        import braze  # Its import time is a figure of its own.

        facts["import_ms"] = since_ms(start)

    from cases import CASES, Trained
    from model_cases import MODELS

    case = (CASES | MODELS)[request["case"]]
    if case.group == "kernel":
        measure.keep_freed_memory()
    trains = bool(request.get("train"))
    with torch.set_grad_enabled(trains):
        built = Trained.of(case.build()) if trains else case.build()

        def eager():
            return built.once(built.fn)

        facts["eager_ms"] = measure.median_ms(eager, request.get("eager_samples", 7))
        compiled = COLD[request["side"]](built, facts["eager_ms"], facts)
        if request.get("code"):
            is_traced = request["side"] == "braze"
            programs = [compiled] if is_traced else measure.compiled_function(compiled).programs()
            write_code(programs, Path(request["code"]))
        if request.get("errors"):
            facts |= errors(case, built.once(compiled), eager())
        if request.get("pairs"):
            calls = {"eager": eager, request["side"]: lambda: built.once(compiled)}
            if request.get("beside"):
                beside = COLD[request["beside"]](built, facts["eager_ms"], {})
                calls[request["beside"]] = lambda: built.once(beside)
            if case.group == "kernel":
                calls["memcpy"] = measure.Memcpy(bytes_moved(case, built))
            samples = measure.interleaved(calls, request["pairs"])
            facts["warm_ms"] = {name: statistics.median(values) for name, values in samples.items()}
            facts["speed"] = {
                than: measure.speed(samples, request["side"], than) for than in calls if than != request["side"]
            }
    if request.get("code"):  # Now that there are calls to tell of.
        braze.report(compiled, Path(request["code"]) / "report.html", title=request["case"])
    return facts


def bytes_moved(case, built) -> int:
    """The bytes that a kernel case must read and write: its inputs and its outputs, once each."""
    moved = [*measure.tensors(built.args), *measure.tensors(built.fn(*built.args, **built.kwargs))]
    return sum(tensor.numel() * tensor.element_size() for tensor in moved)


def run_jax(request: dict[str, Any]) -> dict[str, Any]:
    import jax

    from jax_cases import CASES

    fn, make_inputs = CASES[request["case"]]
    inputs = jax.block_until_ready(make_inputs())
    jitted = jax.jit(fn)
    start = time.perf_counter_ns()
    jax.block_until_ready(jitted(*inputs))
    first = since_ms(start)
    warm = measure.median_ms(lambda: jax.block_until_ready(jitted(*inputs)))
    return {"case": request["case"], "side": "jax", "cold_ms": first - warm, "warm_ms": {"jax": warm}}


def main() -> None:
    request = json.loads(sys.argv[1])
    facts = run_jax(request) if request["side"] == "jax" else run_torch(request)
    print(json.dumps(facts))


if __name__ == "__main__":
    main()
