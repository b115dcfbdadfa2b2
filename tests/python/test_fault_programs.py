"""Programs in bad circumstances (fault_programs.txt): no file can be opened, the cache is no directory, signals and
forks come in between, objects are nested or refuse. Each runs in a process of its own, and must end as in eager."""

from pathlib import Path

import pytest
from processes import fresh

PROGRAMS = {
    name: body
    for name, _, body in (
        program.partition("\n")
        for program in Path(__file__).with_name("fault_programs.txt").read_text().split("\n# ")[1:]
    )
}

PRELUDE = """
import os, resource, signal, sys, threading, time, types
import torch, braze

torch.set_grad_enabled(False)


def equal(a, b):
    if isinstance(a, torch.Tensor):
        alike = isinstance(b, torch.Tensor) and a.dtype == b.dtype and a.shape == b.shape
        return alike and torch.allclose(a, b, 1e-4, 1e-6)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(equal, a, b))
    return type(a) is type(b) and a == b


eq = equal


def see(f, *arguments, **keywords):
    try:
        return f(*arguments, **keywords)
    except Exception as error:
        return type(error).__name__, str(error)


def check(f, *arguments, times=3, c=None, **keywords):
    compiled = c or braze.compile(f)
    for _ in range(times):
        wanted, got = see(f, *arguments, **keywords), see(compiled, *arguments, **keywords)
        assert equal(wanted, got), (wanted, got)
    return compiled


"""


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name, tmp_path):
    code = PRELUDE + PROGRAMS[name] + "\nsys.stdout.flush()\nos.write(1, b'ended')\n"
    assert fresh(code, BRAZE_CACHE_DIR=str(tmp_path / "cache")).endswith("ended")
