"""Programs of plain Python around tensors, and how a run of one is observed.

    row("walrus", '''
        def f(x):
            return x * n if (n := 3) > 2 else x
    ''')

Each has a function `f(x)` in a module of its own, so that what it changes there can be compared too.
"""

import contextlib
import dataclasses
import io
import sys
import textwrap
import traceback
import types
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "stale"))
from specialised import specialise, widen
from staleness import Freezer

FILE = "<row>"


@dataclasses.dataclass
class Row:
    source: str
    breaks: int = 0  # in CPython 3.11
    replays: bool = True  # the third call is replayed


ROWS: dict[str, Row] = {}


def row(name, source, breaks=0, replays=True):
    assert name not in ROWS, name
    ROWS[name] = Row(textwrap.dedent(source), breaks, replays)


def expressions(topic, head, *sources, breaks=0):
    """One row an expression, whose value is given beside a tensor that is computed."""
    for source in sources:
        row(f"{topic}: {source}", f"{head}\ndef f(x):\n    return x + 1, {source}\n", breaks)


def statements(topic, head, prepare, result, *sources, breaks=0, replays=True):
    """One row a statement, between a tensor that is computed and a result that shows what it did."""
    for source in sources:
        body = textwrap.indent("\n".join((prepare, "y = x * 2", source, f"return y + 1, {result}")), "    ")
        row(f"{topic}: {source}", f"{head}\ndef f(x):\n{body}\n", breaks, replays)


def make(source):
    """A module that has run `source`, or its code."""
    made = types.ModuleType("staleness")  # the name of a module that there is: dataclasses look it up
    made.torch = torch
    exec(compile(source, FILE, "exec") if isinstance(source, str) else source, made.__dict__)
    return made


def make_specialised(source, x):
    """The code of such a module, with wide arguments and after native runs."""
    code = specialise(compile(widen(source), FILE, "exec"))
    warm = make(code)
    for _ in range(3):
        observe(warm.f, x)
    return code


def tell(error):
    """Type, message, the user's lines, and what led to it."""
    if error is None:
        return None
    lines = [(f.f_code.co_name, line) for f, line in traceback.walk_tb(error.__traceback__)]
    own = [
        (f.f_code.co_name, line)
        for f, line in traceback.walk_tb(error.__traceback__)
        if f.f_code.co_filename == FILE
    ]
    assert lines
    return type(error), str(error), own, error.__suppress_context__, tell(error.__cause__), tell(error.__context__)


def observe(function, x):
    printed, value, error = io.StringIO(), None, None
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        try:
            value = Freezer().freeze(function(x))
        except Exception as raised:
            error = tell(raised)
    return value, error, printed.getvalue()
