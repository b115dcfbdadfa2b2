"""Two reports side by side."""

from typing import Any

_TOTALS = (
    ("operators compiled", lambda facts: facts["operators"].get("compiled", 0)),
    ("operators run natively", lambda facts: facts["operators"].get("native", 0)),
    ("graph breaks", lambda facts: len(facts["breaks"])),
    ("programs", lambda facts: len(facts["programs"])),
    ("recompilations", lambda facts: len(facts["recompiles"])),
    ("kernels", lambda facts: len(facts["kernels"])),
    ("kernel launches", lambda facts: sum(kernel["launches"] for kernel in facts["kernels"].values())),
    ("library calls", lambda facts: sum(step["kind"] == "call" for step in _steps(facts))),
    (
        "bytes moved by kernels",
        lambda facts: sum(_moved(step) for step in _steps(facts) if step["kind"] == "kernel"),
    ),
    ("nanoseconds of all steps", lambda facts: sum(step["nanoseconds"] for step in _steps(facts))),
    ("nanoseconds of compilation", lambda facts: sum(each["compile_nanoseconds"] for each in facts["programs"])),
    ("bytes of arenas", lambda facts: sum(part["plan"]["arena_bytes"] for part in _parts(facts))),
)


def _parts(facts: dict[str, Any]) -> list[dict[str, Any]]:
    return [part for program in facts["programs"] for part in program["parts"]]


def _steps(facts: dict[str, Any]) -> list[dict[str, Any]]:
    return [step for part in _parts(facts) for step in part["plan"]["steps"]]


def _moved(step: dict[str, Any]) -> int:
    return step["bytes_read"] + step["bytes_written"]


def _stem(name: str) -> str:
    """A kernel's name without the digits of its hash: what it computes."""
    stem, _, digits = name.rpartition("_")
    return stem if digits and all(each in "0123456789abcdef" for each in digits) else name


def _row(name: str, before: float, after: float) -> dict[str, Any]:
    return {"name": name, "before": before, "after": after, "ratio": after / before if before else None}


def _by_stem(kernels: dict[str, dict[str, Any]]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for name, kernel in kernels.items():
        row = found.setdefault(_stem(name), {"launches": 0, "bytes": 0, "nanoseconds": 0})
        for key in row:
            row[key] += kernel[key]
    return found


def compare(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """{"titles", "versions", "totals", "kernels", "breaks", "programs"}; rows have "before" and "after"."""
    kernels = (_by_stem(before["kernels"]), _by_stem(after["kernels"]))
    empty = {"launches": 0, "bytes": 0, "nanoseconds": 0}
    rows = []
    for name in sorted({*kernels[0], *kernels[1]}):
        old, new = (side.get(name, empty) for side in kernels)
        rows.append(
            {
                "name": name,
                "state": "new" if name not in kernels[0] else "gone" if name not in kernels[1] else "",
                "launches": _row("launches", old["launches"], new["launches"]),
                "bytes": _row("bytes", old["bytes"], new["bytes"]),
                "nanoseconds": _row("nanoseconds", old["nanoseconds"], new["nanoseconds"]),
            }
        )
    places = [{(each["file"], each["line"], each["reason"]) for each in side["breaks"]} for side in (before, after)]
    return {
        "titles": (before["title"], after["title"]),
        "versions": (before["version"], after["version"]),
        "totals": [_row(name, count(before), count(after)) for name, count in _TOTALS],
        "kernels": rows,
        "breaks": {
            "gone": sorted(places[0] - places[1]),
            "new": sorted(places[1] - places[0]),
            "both": sorted(places[0] & places[1]),
        },
    }
