"""Views and writes, whatever their types: results, inputs, versions and bases as eager's."""

import sys
from pathlib import Path

import pytest
import torch

import braze

sys.path.insert(0, str(Path(__file__).parents[1]))

from random_views import Program, observed


def compiled_and_eager(program):
    names = {"torch": torch}
    exec(program.source(), names)
    function, x, y = names["f"], program.make(), program.make()
    compiled = braze.compile(function)
    for _ in range(2):  # captured, then replayed
        yield observed(compiled(x), x), observed(function(y), y)


@pytest.mark.parametrize("first", range(0, 400, 50))
def test_random_programs_of_views(first):
    for seed in range(first, first + 50):
        program = Program(seed)
        for got, expected in compiled_and_eager(program):
            assert got == expected, f"seed {seed}\n{program.source()}"


def test_most_random_programs_are_captured():
    counts = []
    for seed in range(60):
        program = Program(seed)
        names = {"torch": torch}
        exec(program.source(), names)
        compiled = braze.compile(names["f"])
        compiled(program.make())
        counts.append(compiled.counts()["captured"])
    assert sum(counts) > 40
