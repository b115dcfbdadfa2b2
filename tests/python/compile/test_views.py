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


def another_view_of_rows(x):
    y = x[1:]
    y.unsqueeze_(0)
    return y


def computed_from_another_view(x):
    y = x.detach()
    y.t_()
    y.transpose_(0, 1)
    return y * 2


def another_view_written(x):
    y = x[0]
    y.unsqueeze_(0).add_(1)
    return y


def another_view_of_what_is_written(x):
    y = x.view(4, 3)
    y.t_()
    x.mul_(2)
    return y + 1


@pytest.mark.parametrize(
    "function",
    [another_view_of_rows, computed_from_another_view, another_view_written, another_view_of_what_is_written],
)
def test_views_in_place_of_an_arguments_memory_move_its_version(function):
    compiled = braze.compile(function)
    for _ in range(3):
        x, again = torch.arange(12.0).view(3, 4), torch.arange(12.0).view(3, 4)
        assert observed((compiled(x),), x) == observed((function(again),), again)
        assert x._version == again._version > 0
    assert compiled.counts() == {"captured": 1, "replayed": 2, "native": 0}
    assert not compiled.reasons()
