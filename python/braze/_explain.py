"""braze.explain: what became of a function."""

import linecache
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from braze._compile import compile_callable, innermost, settings_of


@dataclass(frozen=True)
class BreakReason:
    """Where a graph ended, and why."""

    id: str  #: The same for all breaks of one kind: "boolean_mask".
    reason: str
    remedy: str  #: What to change.
    file: str
    line: int
    source: str  #: The user's line.

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.reason}\n      {self.source}\n      {self.remedy}"


@dataclass(frozen=True)
class Explanation:
    """What braze.explain(f)(*args) gives. print() shows all of it."""

    result: Any  #: What the call returned.
    graph_count: int
    graph_break_count: int
    break_reasons: list[BreakReason]
    #: Where elements of tensors are read and the graph goes on (capture_scalar_outputs).
    reads: list[BreakReason]
    ops: list[list[str]]  #: By graph.
    guards: list[list[str]]  #: By graph.
    compile_times: dict[str, int]  #: Nanoseconds by phase, of all graphs together.
    shares: dict[str, float]  #: Of the calls: "interpreted" (captured), "replayed", "native".
    graphs: list[str] = field(default_factory=list)  #: As text.
    reasons: dict[str, int] = field(default_factory=dict)  #: Why calls ran natively, and how many.
    #: How many operators ran "compiled" and how many "native", and "reasons": why those did.
    operators: dict[str, Any] = field(default_factory=dict)
    compiled: Any = field(default=None, repr=False)  #: What was called.

    def report(self, path: str = "report.html") -> Path:
        """Writes all of this, the kernels and their code as a page (braze.report)."""
        from braze import report

        return report(self.compiled, path)

    @property
    def op_count(self) -> int:
        """Operators of all graphs together."""
        return sum(len(ops) for ops in self.ops)

    def __str__(self) -> str:
        lines = [f"{self.graph_count} graphs, {self.graph_break_count} graph breaks, {self.op_count} operators"]
        lines += [f"  break {k}: {reason}" for k, reason in enumerate(self.break_reasons, 1)]
        lines += [f"  read {k}: {reason}" for k, reason in enumerate(self.reads, 1)]
        for k, (ops, guards) in enumerate(zip(self.ops, self.guards, strict=True), 1):
            lines.append(f"graph {k}: {', '.join(ops) or 'no operators'}")
            lines += [f"  guard: {guard}" for guard in guards]
        total = sum(time for phase, time in self.compile_times.items() if "/" not in phase)
        lines.append(f"compiled in {total / 1e6:.2f} ms")
        lines += [f"  {phase}: {time / 1e6:.2f} ms" for phase, time in self.compile_times.items()]
        if self.operators:
            lines.append("operators: {compiled} compiled, {native} native".format(**self.operators))
            lines += [f"  {count} native: {reason}" for reason, count in self.operators["reasons"].items()]
        lines += [f"native: {reason}" for reason in self.reasons]
        lines.append("calls: " + ", ".join(f"{share:.0%} {kind}" for kind, share in self.shares.items()))
        return "\n".join(lines)


def explain(function: Callable[..., Any], **choices: Any) -> Callable[..., Explanation]:
    """braze.explain(f)(*args) compiles f anew, calls it once, and tells what became of it.

    Args:
        function: what braze.compile takes; a compiled function is explained by what it was made of.
        choices: keyword arguments of braze.compile.

    >>> print(braze.explain(f)(x))
    """
    function = innermost(function)
    settings = settings_of(**choices)

    def explained(*args: Any, **kwargs: Any) -> Explanation:
        compiled = compile_callable(function, settings)
        result = compiled(*args, **kwargs)
        return _explanation(result, compiled)

    return explained


def _explanation(result: Any, compiled: Any) -> Explanation:
    report = compiled.report()
    segments = sorted(report["segments"], key=lambda segment: (segment["file"], segment["line"]))
    graphs = [segment for segment in segments if segment["op_count"] > 0]
    breaks = [_break_reason(segment["break"]) for segment in segments if segment["break"]]
    reads = [_break_reason(segment["read"]) for segment in segments if segment["read"]]
    if not breaks and report["first_break"]:  # Before the first operator.
        breaks = [_break_reason(report["first_break"])]
    if not reads and report["first_read"]:  # Before the first operator.
        reads = [_break_reason(report["first_read"])]
    times: dict[str, int] = {}
    for segment in segments:
        for phase, time in segment["compile_times"].items():
            times[phase] = times.get(phase, 0) + time
    counts = report["counts"]
    calls = sum(counts.values()) or 1
    names = {"captured": "interpreted", "replayed": "replayed", "native": "native"}
    return Explanation(
        result=result,
        graph_count=count_graphs(graphs),
        graph_break_count=len(breaks),
        break_reasons=breaks,
        reads=reads,
        ops=[_operators(graph["graph"]) for graph in graphs],
        guards=[list(graph["guards"]) for graph in graphs],
        compile_times=times,
        shares={names[kind]: counts[kind] / calls for kind in names},
        graphs=[graph["graph"] for graph in graphs],
        reasons=dict(report["reasons"]),
        operators=dict(report["operators"]),
        compiled=compiled,
    )


def count_graphs(segments: list[dict[str, Any]]) -> int:
    """Segments that go on with the next one after a read are one graph with it."""
    return max(sum(segment["read"] is None for segment in segments), min(len(segments), 1))


def _break_reason(found: dict[str, Any]) -> BreakReason:
    source = linecache.getline(found["file"], found["line"]).strip()
    return BreakReason(**found, source=source)


def _operators(graph: str) -> list[str]:
    """The operators of a printed graph, in order: "%3 = softmax %2, dim=-1 : f32[4]" is one. Numbers are none."""
    names = re.findall(r"^\s+%\S+(?:, %\S+)* = (\w+)", graph, flags=re.MULTILINE)
    return [name for name in names if name != "scalar"]
