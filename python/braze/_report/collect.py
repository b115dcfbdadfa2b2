"""Everything that a page shows, as plain values."""

import linecache
import re
import sys
from typing import Any

import torch

from braze._load import C

#: Longer listings of machine code are cut: a page of a large model stays one that opens at once.
_MOST_LINES = 600


def collect(compiled: Any, title: str | None = None) -> dict[str, Any]:
    """The facts of a compiled function, a compiled module or a program. Raises ArgumentTypeError for others."""
    facts = {"version": _version(), "kernels": {}}
    if isinstance(compiled, C.Program):
        name = title or compiled.__name__
        segment = {
            "program": compiled,
            "code": compiled.__name__,
            "graph": compiled.graph,
            "break": None,
            "read": None,
        }
        report = {"segments": [segment], "counts": {}, "operators": {}, "reasons": {}, "first_break": {}}
    elif callable(getattr(compiled, "report", None)) and callable(getattr(compiled, "counts", None)):
        name = title or _name_of(compiled)
        report = compiled.report()
    else:
        raise C.ArgumentTypeError(
            f"braze.report takes what braze.compile or braze.trace returns, not an object of type "
            f"{type(compiled).__name__}"
        )
    segments = sorted(report["segments"], key=lambda segment: (segment.get("file", ""), segment.get("line", 0)))
    facts |= {
        "title": name,
        "counts": report["counts"],
        "operators": report["operators"],
        "reasons": report["reasons"],
        "breaks": _breaks(segments, report["first_break"]),
        "programs": [_program(segment, facts["kernels"]) for segment in segments],
    }
    facts["recompiles"] = [
        {"code": program["code"], "file": program["file"], "line": program["line"], "missed": program["missed"]}
        for program in facts["programs"]
        if program["missed"]
    ]
    return facts


def _version() -> dict[str, str]:
    import braze

    return {"braze": braze.__version__, "torch": torch.__version__, "python": sys.version.split()[0]}


def _name_of(compiled: Any) -> str:
    module = getattr(compiled, "_orig_mod", None)
    if module is not None:
        return type(module).__name__
    return getattr(compiled, "__qualname__", None) or type(getattr(compiled, "__wrapped__", compiled)).__name__


def _breaks(segments: list[dict[str, Any]], first: dict[str, Any]) -> list[dict[str, Any]]:
    """Each place once, with the user's line."""
    found = [segment["break"] for segment in segments if segment["break"]] or ([first] if first else [])
    places = {(each["file"], each["line"], each["id"]): each for each in found}
    return [each | {"source": linecache.getline(each["file"], each["line"]).strip()} for each in places.values()]


def _program(segment: dict[str, Any], kernels: dict[str, dict[str, Any]]) -> dict[str, Any]:
    times = dict(segment.get("compile_times", {}))
    facts = {
        "code": segment["code"],
        "file": segment.get("file", ""),
        "line": max(0, segment.get("line", 0)),  # Before the first line of a function there is none.
        "graph": segment["graph"],
        "lines": _sources(segment["graph"]),
        "op_count": segment.get("op_count", 0),
        "guards": list(segment.get("guards", [])),
        "guard_count": len(segment.get("guards", [])),
        "guard_nanoseconds": segment.get("guard_nanoseconds", 0),
        "missed": segment.get("missed", ""),
        "replays": segment.get("replays", 0),
        "ends": end["reason"] if (end := segment["break"] or segment["read"]) else "",
        "parts": [],
    }
    for role in ("program", "backward"):
        program = segment.get(role)
        if program is not None:
            part = _part(program, kernels)
            part["role"] = "backward" if role == "backward" else ""
            facts["parts"].append(part)
    if facts["parts"]:
        times = times or facts["parts"][0]["compile_times"]
    facts["phases"] = _phases(times)
    facts["compile_nanoseconds"] = sum(
        time for phase, time in times.items() if "/" not in phase and phase != "total"
    )
    return facts


def _part(program: Any, kernels: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """A compiled program: its plan with what each step took, and its kernels, which join those of the others."""
    plan, took = program.plan(), program.step_times()
    _add_kernels(program, kernels)
    for number, (step, nanoseconds) in enumerate(zip(plan["steps"], took, strict=True)):
        step["number"] = number
        step["nanoseconds"] = nanoseconds
        if step["kind"] == "call":  # A product reads its operands whole, more or less.
            step["bytes_read"] = sum(plan["buffers"][b]["bytes"] for b in set(step["reads"]))
            step["bytes_written"] = sum(plan["buffers"][b]["bytes"] for b in set(step["writes"]))
        else:
            kernel = kernels[step["name"]]
            kernel["launches"] += 1
            kernel["sources"] = sorted({*kernel["sources"], step["source"]} - {""})
            if nanoseconds and (not kernel["nanoseconds"] or nanoseconds < kernel["nanoseconds"]):
                kernel["nanoseconds"] = nanoseconds
                kernel["bytes"] = step["bytes_read"] + step["bytes_written"]
    return {
        "plan": plan,
        "memory": program.memory(),
        "cache": program.compile_stats(),
        "compile_times": {phase: time for phase, time in program.compile_times().items() if phase != "total"},
        "allocations": {phase: list(pair) for phase, pair in program.compile_allocations().items()},
    }


def _add_kernels(program: Any, kernels: dict[str, dict[str, Any]]) -> None:
    if all(kernel.name in kernels for kernel in program.kernels):
        return
    loops, assembly = _by_kernel(program.code("loops")), _listings(program.code("asm"))
    for number, kernel in enumerate(program.kernels):
        if kernel.name in kernels:
            continue
        kernels[kernel.name] = {
            "name": kernel.name,
            "fused": list(kernel.fused),
            "bytes": kernel.bytes_read + kernel.bytes_written,
            "code_bytes": kernel.code_bytes,
            "launches": 0,
            "nanoseconds": 0,
            "sources": [],
            "loops": loops.get(kernel.name, ""),
            "asm": _cut(assembly[number]) if number < len(assembly) else "",
        }


def _by_kernel(text: str) -> dict[str, str]:
    """The kernels of a printed plan by name (loops/text.h): each begins with "kernel @name(" and ends with "}"."""
    return {
        found[1]: found[0].rstrip()
        for found in re.finditer(r"^kernel @(\w+)\(.*?^}$", text, re.MULTILINE | re.DOTALL)
    }


def _listings(text: str) -> list[str]:
    """LLVM's listings of the kernels, in order: each begins as all of a target do."""
    starts = r"^(?=\t\.text\n\t\.file\t|//\n// Generated by LLVM)"
    return [part.rstrip() for part in re.split(starts, text, flags=re.MULTILINE) if part.strip()]


def _cut(listing: str) -> str:
    lines = listing.splitlines()
    if len(lines) <= _MOST_LINES:
        return listing
    return "\n".join([*lines[:_MOST_LINES], f"; {len(lines) - _MOST_LINES} more lines: program.code('asm')"])


def _phases(times: dict[str, int]) -> list[dict[str, Any]]:
    """Phases with their parts behind them, in order."""
    rows = [
        {"name": name, "nanoseconds": time} for name, time in times.items() if "/" not in name and name != "total"
    ]
    for row in rows:
        prefix = row["name"] + "/"
        row["parts"] = [
            {"name": name.removeprefix(prefix), "nanoseconds": time}
            for name, time in times.items()
            if name.startswith(prefix)
        ]
    return rows


def _sources(graph: str) -> dict[str, str]:
    """The user's lines that a printed graph names, by "file:line"."""
    found: dict[str, str] = {}
    for file, line in re.findall(r"  ; (.+):(\d+)$", graph, re.MULTILINE):
        place = f"{file}:{line}"
        if place not in found:
            found[place] = linecache.getline(file, int(line)).strip()
    return {place: text for place, text in found.items() if text}
