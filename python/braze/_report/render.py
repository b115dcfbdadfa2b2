"""Templates to text."""

import functools
from pathlib import Path
from typing import Any

import jinja2

from braze._report import drawing

_FOLDER = Path(__file__).parent / "templates"


def _scaled(number: float, units: tuple[str, ...]) -> str:
    """Three digits, in the first unit that leaves a number below a thousand: each is a thousand times the last."""
    power = 0
    while number >= 1000 and power < len(units) - 1:
        number, power = number / 1000, power + 1
    return f"{number:,.0f} {units[power]}" if number >= 100 else f"{number:.3g} {units[power]}"


def amount_of_bytes(number: float) -> str:
    """ "1.5 MB" """
    return _scaled(number, ("bytes", "kB", "MB", "GB"))


def amount_of_operations(number: float) -> str:
    """ "1.5 MFLOP" ; empty where there are none."""
    return _scaled(number, ("FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP")) if number else ""


def amount_of_time(nanoseconds: float) -> str:
    """ "12.3 us" ; empty where nothing was measured."""
    return _scaled(nanoseconds, ("ns", "us", "ms", "s")) if nanoseconds else ""


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
