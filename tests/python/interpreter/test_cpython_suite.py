"""CPython's own regression tests, through braze's evaluator and compiled: each must come out as it does natively.

A batch of modules runs once a mode, each time in a fresh process. The last test says how much of it braze
evaluated itself.
"""

import functools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import braze
from braze._load import C

pytestmark = pytest.mark.skipif(not hasattr(C, "interpret"), reason="the evaluator is not built for this Python")

MODULES = [
    "augassign",
    "bool",
    "call",
    "class",
    "collections",
    "compare",
    "contains",
    "contextlib",
    "dataclasses",
    "decorators",
    "descr",
    "dict",
    "dictcomps",
    "dynamic",
    "enum",
    "except_star",
    "exception_group",
    "exceptions",
    "extcall",
    "float",
    "fstring",
    "funcattrs",
    "functools",
    "generator_stop",
    "generators",
    "genexps",
    "global",
    "grammar",
    "index",
    "int",
    "iter",
    "itertools",
    "keywordonlyarg",
    "list",
    "listcomps",
    "named_expressions",
    "patma",
    "positional_only_arg",
    "property",
    "raise",
    "range",
    "scope",
    "set",
    "setcomps",
    "slice",
    "string_literals",
    "super",
    "tuple",
    "typechecks",
    "unary",
    "unpack",
    "unpack_ex",
    "with",
    "yield_from",
]

BATCH = 14  # Modules a process: each imports torch.

# Test id -> why it may come out otherwise than natively.
EXCEPTIONS: dict[str, str] = {
    # From 3.12 on. CPython evaluates functions that call each other in one C function.
    "test.test_call.TestRecursion.test_super_deep": "90,000 nested calls, which take some of the C stack each",
}

_statistics: list[dict] = []


@functools.cache
def run_batch(mode: str, first: int) -> list[dict]:
    names = [f"test.test_{name}" for name in MODULES[first : first + BATCH]]
    command = [sys.executable, str(Path(__file__).with_name("run_cpython_tests.py")), "braze._C", mode, *names]
    package = str(Path(braze.__file__).absolute().parents[1])
    path = os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": "0"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"outcomes"')]


def run(mode: str, name: str) -> dict:
    at = MODULES.index(name)
    return run_batch(mode, at - at % BATCH)[at % BATCH]


def agree(native: str, ours: str | None) -> bool:
    """The same outcome. What fails natively too (it needs a network, a locale, ...) only has to fail here."""
    passes = ("ok", "skipped", "expected failure")
    return native == ours or (native not in passes and ours is not None and ours not in passes)


def differences(name: str, mode: str) -> dict:
    native, ours = run("native", name), run(mode, name)
    assert native["outcomes"]
    assert native["statistics"]["instructions"] == 0
    return {
        test: (outcome, ours["outcomes"].get(test))
        for test, outcome in native["outcomes"].items()
        if not agree(outcome, ours["outcomes"].get(test)) and test not in EXCEPTIONS
    }


@pytest.mark.parametrize("name", MODULES)
def test_module(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert differences(name, "braze") == {}
    statistics = run("braze", name)["statistics"]
    assert statistics["instructions"] > 0
    _statistics.append(statistics)


@pytest.mark.parametrize("name", MODULES)
def test_compiled_module(name, tmp_path, monkeypatch):
    """Each method is a compiled function: captures are begun and given up all over Python."""
    monkeypatch.chdir(tmp_path)
    assert differences(name, "compiled") == {}


def test_braze_evaluated_nearly_all_of_it(record_property):
    """At least 95 % of the frames, those apart that trace, are coroutines, or only create a generator."""
    if not _statistics:
        pytest.skip("the tests above did not run")
    frames = sum(facts["frames"] for facts in _statistics)
    left = {
        reason: count
        for reason in _statistics[0]["handovers"]
        if (count := sum(facts["handovers"][reason] for facts in _statistics))
    }
    allowed = ("generator", "coroutine", "sys.settrace")
    others = sum(count for reason, count in left.items() if not any(word in reason for word in allowed))
    record_property("frames", frames)
    record_property("left to CPython", left)
    assert others <= 0.05 * frames
