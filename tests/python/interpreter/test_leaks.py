"""Nothing that the evaluator runs may lose or keep a reference."""

import contextlib
import gc
import sys
import tracemalloc

import pytest
from programs import PROGRAMS

from braze._load import C

pytestmark = pytest.mark.skipif(not hasattr(C, "interpret"), reason="the evaluator is not built for this Python")


RUNS = 60


def growth(call, programs, capsys) -> int:
    """Bytes that RUNS runs leave behind."""

    def run(times):
        for _ in range(times):
            for program in programs:
                with contextlib.suppress(Exception):
                    call(program)
        capsys.readouterr()
        gc.collect()

    run(10)
    tracemalloc.start()
    try:
        run(10)
        before = tracemalloc.get_traced_memory()[0]
        run(RUNS)
        return tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("start", range(0, len(PROGRAMS), 10))
def test_memory_does_not_grow(start, capsys):
    """CPython's own caches grow with classes that are made anew, in leaps; what grows every time is ours."""
    programs = PROGRAMS[start : start + 10]
    natively, smallest_object = 0, 16
    for _ in range(8):
        natively = max(natively, growth(lambda f: f(), programs, capsys))
        beyond = growth(C.interpret, programs, capsys) - natively
        if beyond < RUNS * smallest_object:
            return
    pytest.fail(f"{beyond} bytes grown in {RUNS} runs")


def test_reference_counts_stay():
    class Thing:
        pass

    thing, none = Thing(), None

    def use(x, *rest, key=none, **more):
        y, (z, *w) = x, rest
        cell = [y, z, w, key, more]

        def inner():
            return cell, x

        try:
            raise ValueError(x)
        except ValueError as error:
            kept = error.args[0]
        for item in inner()[0]:
            del item
        return f"{kept is y}", {x: y}, {x, y}, (x, *rest), [*rest, x], {**more, "x": x}

    before = sys.getrefcount(thing)
    for _ in range(1000):
        C.interpret(use, thing, thing, thing, key=thing, other=thing)
    gc.collect()
    assert sys.getrefcount(thing) == before
