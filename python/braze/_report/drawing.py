"""Pictures of a plan: the steps with the values that pass between them, and memory over time. Numbers only: the
templates make SVG of them."""

from dataclasses import dataclass
from typing import Any

ROW = 26  # Pixels from step to step,
LANE = 11  # and from value to value beside them.


@dataclass(frozen=True)
class Wire:
    """A value from the step that writes it (-1: an argument) to the last one that reads it."""

    buffer: int
    lane: int
    first: int
    last: int
    readers: tuple[int, ...]
    is_result: bool


def _root(buffers: list[dict[str, Any]], number: int) -> int:
    while buffers[number]["part_of"] >= 0:
        number = buffers[number]["part_of"]
    return number


def wires(plan: dict[str, Any]) -> list[Wire]:
    """The values of a plan, each in a lane of its own for as long as it is needed. Parameters are left out: what is
    read by one step only, and written by none, would only cross the picture."""
    buffers = plan["buffers"]
    written: dict[int, int] = {}
    readers: dict[int, list[int]] = {}
    for number, step in enumerate(plan["steps"]):
        for each in step["reads"]:
            readers.setdefault(_root(buffers, each), []).append(number)
        for each in step["writes"]:
            written.setdefault(_root(buffers, each), number)
    results = {_root(buffers, each) for each in plan["outputs"]}
    spans = []
    for buffer in sorted({*written, *readers}):
        first, reads = written.get(buffer, -1), sorted(set(readers.get(buffer, [])))
        if first < 0 and len(reads) < 2:
            continue
        last = len(plan["steps"]) if buffer in results else max(reads, default=first)
        if last > first:
            spans.append((first, last, buffer, tuple(r for r in reads if r > first)))
    free: list[int] = []  # By lane: the row from which it is free.
    found = []
    for first, last, buffer, reads in sorted(spans):
        lane = next((number for number, until in enumerate(free) if until <= first), len(free))
        free[lane:] = [last, *free[lane + 1 :]]
        found.append(Wire(buffer, lane, first, last, reads, buffer in results))
    return found


def drawing(plan: dict[str, Any]) -> dict[str, Any]:
    """Of the steps, from top to bottom: {"width", "height", "left", "wires", "steps"}."""
    found = wires(plan)
    left = LANE * (1 + max((wire.lane for wire in found), default=0)) + 14
    rows = [{"y": ROW * (number + 1), "step": step} for number, step in enumerate(plan["steps"])]
    lines = []
    for wire in found:
        buffer = plan["buffers"][wire.buffer]
        lines.append(
            {
                "x": left - LANE * (wire.lane + 1),
                "y1": ROW * (wire.first + 1),
                "y2": ROW * (wire.last + 1),
                "readers": [ROW * (reader + 1) for reader in wire.readers],
                "is_result": wire.is_result,
                "is_argument": wire.first < 0,
                "text": f"{buffer['type']}, {buffer['kind']}, {buffer['bytes']:,} bytes",
            }
        )
    return {"width": left + 640, "height": ROW * (len(rows) + 2), "left": left, "wires": lines, "steps": rows}


def memory(plan: dict[str, Any]) -> dict[str, Any] | None:
    """The arena over time: a box for each temporary, from its first to its last step. None if there is no arena."""
    if plan["arena_bytes"] == 0 or not plan["steps"]:
        return None
    lives: dict[int, list[int]] = {}
    for number, step in enumerate(plan["steps"]):
        for each in (*step["reads"], *step["writes"]):
            if plan["buffers"][each]["kind"] == "temporary":
                lives.setdefault(each, []).append(number)
    steps, height, width = len(plan["steps"]), 180.0, 900.0
    boxes = []
    for buffer, used in sorted(lives.items()):
        facts = plan["buffers"][buffer]
        boxes.append(
            {
                "x": width * used[0] / steps,
                "width": max(1.0, width * (used[-1] + 1 - used[0]) / steps),
                "y": height * facts["offset"] / plan["arena_bytes"],
                "height": max(1.0, height * facts["bytes"] / plan["arena_bytes"]),
                "text": f"{facts['type']}, {facts['bytes']:,} bytes from {facts['offset']:,}, "
                f"steps {used[0]} to {used[-1]}",
                "shade": buffer % 6,
            }
        )
    return {"width": width, "height": height, "boxes": boxes}
