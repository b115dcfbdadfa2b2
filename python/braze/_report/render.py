"""Templates to text."""

import functools
from pathlib import Path
from typing import Any

import jinja2

from braze._report import drawing

_FOLDER = Path(__file__).parent / "templates"


def amount_of_bytes(number: float) -> str:
    """ "1.5 MB" """
    for unit in ("bytes", "kB", "MB", "GB"):
        if number < 1000 or unit == "GB":
            return f"{number:,.0f} {unit}" if unit == "bytes" or number >= 100 else f"{number:.3g} {unit}"
        number /= 1000
    raise AssertionError


def amount_of_operations(number: float) -> str:
    """ "1.5 MFLOP" ; empty where there are none."""
    if not number:
        return ""
    for unit in ("FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP"):
        if number < 1000 or unit == "TFLOP":
            return f"{number:.0f} {unit}" if unit == "FLOP" or number >= 100 else f"{number:.3g} {unit}"
        number /= 1000
    raise AssertionError


def amount_of_time(nanoseconds: float) -> str:
    """ "12.3 us" ; empty where nothing was measured."""
    if not nanoseconds:
        return ""
    for unit in ("ns", "us", "ms", "s"):
        if nanoseconds < 1000 or unit == "s":
            return f"{nanoseconds:.0f} {unit}" if nanoseconds >= 100 else f"{nanoseconds:.3g} {unit}"
        nanoseconds /= 1000
    raise AssertionError


def bandwidth(step: dict[str, Any]) -> str:
    """Bytes moved in a second."""
    if not step["nanoseconds"]:
        return ""
    return f"{(step['bytes_read'] + step['bytes_written']) / step['nanoseconds']:.3g} GB/s"


@functools.cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_FOLDER),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters |= {
        "bytes": amount_of_bytes,
        "time": amount_of_time,
        "count": amount_of_operations,
        "bandwidth": bandwidth,
    }
    environment.globals |= {
        "drawing": drawing.drawing,
        "memory": drawing.memory,
        "asset": lambda name: (_FOLDER / name).read_text(encoding="utf-8"),
    }
    return environment


def render(template: str, **values: Any) -> str:
    return _environment().get_template(template).render(**values)
