"""Random programs against eager. BRAZE_RANDOM_PROGRAMS: how many. `python random_programs.py` looks for more."""

import os

import pytest
import random_programs

COUNT = int(os.environ.get("BRAZE_RANDOM_PROGRAMS", "300"))
BATCH = 25


@pytest.mark.parametrize("first", range(0, COUNT, BATCH))
def test_random_programs(first):
    for seed in range(first, min(first + BATCH, COUNT)):
        program = random_programs.program(seed)
        if program.failure():
            small = random_programs.shrunk(program)
            pytest.fail(f"{small.failure()}\n{small.repro()}")


def test_programs_are_reproducible():
    assert random_programs.program(7).repro() == random_programs.program(7).repro()


def test_shrinking_keeps_only_what_fails():
    """A made-up failure: any program with a cumsum in it."""
    seed = next(s for s in range(200) if "cumsum" in random_programs.program(s).text())
    small = random_programs.shrunk(
        random_programs.program(seed), lambda p: "made up" if "cumsum" in p.text() else None
    )
    assert small.is_valid()
    assert sum("cumsum" in line for line in small.lines) == 1
    assert len(small.lines) <= 4
