"""Small programs that do with a size what Python does with numbers, at sizes among which are 0, 1 and 2: results,
exceptions with their texts and gradients are those of eager."""

import inspect

import programs_by_size
import programs_for_all_sizes
import pytest
import torch
from any_size import same
from torch.utils import _pytree as pytree

import braze
from braze._load import C

pytestmark = [
    pytest.mark.skipif(not hasattr(C, "CompiledFunction"), reason="no evaluator for this Python"),
    pytest.mark.filterwarnings("ignore"),
]


def programs_in(module):
    return [one for _, one in inspect.getmembers(module, inspect.isfunction) if one.__module__ == module.__name__]


FOR_ALL, BY_SIZE = programs_in(programs_for_all_sizes), programs_in(programs_by_size)


def outcome(function, x):
    torch.manual_seed(1)
    try:
        return function(x)
    except Exception as error:
        return type(error), str(error)


def gradient(result, x):
    wanted = [one for one in pytree.tree_leaves(result) if isinstance(one, torch.Tensor) and one.requires_grad]
    if not wanted:
        return None
    # Dense, as what is accumulated is: a gradient that is a view of another has that one's strides in eager.
    try:
        found = torch.autograd.grad([one.abs().sum() for one in wanted], x, allow_unused=True)[0]
    except Exception as error:
        return type(error), str(error)
    return None if found is None else found.contiguous()


def compare(function, sizes, dynamic, wants_gradients=False):
    compiled = braze.compile(function, dynamic=dynamic)
    for n in sizes:
        torch.manual_seed(n)
        x = torch.randn(n, 3)
        one, other = (x.clone().requires_grad_(wants_gradients) for _ in range(2))
        expected, got = outcome(function, one), outcome(compiled, other)
        try:
            same(got, expected)
            if wants_gradients:
                same(gradient(got, other), gradient(expected, one))
        except AssertionError as error:
            raise AssertionError(f"{n} rows: {error}") from None
    return compiled.counts()


@pytest.mark.parametrize("function", FOR_ALL, ids=lambda one: one.__name__)
def test_one_program_for_all_sizes(function):
    counts = compare(function, (8, 5, 2, 0, 1, 7, 11, 3), True)
    assert counts["captured"] <= 3, "more than one for 0, one for 1, and one for all others"
    assert counts["native"] == 0
    compare(function, (8, 5, 2, 0, 1, 7), None)
    compare(function, (5, 2, 0, 1), False)
    compare(function, (8, 5, 2, 0, 1), True, wants_gradients=True)


@pytest.mark.parametrize("function", BY_SIZE, ids=lambda one: one.__name__)
def test_programs_by_size(function):
    compare(function, (8, 5, 2, 0, 1, 7, 8), True)
    compare(function, (8, 5, 2, 0, 1, 7), None)
    compare(function, (5, 2, 0, 1), False)
    compare(function, (8, 5, 2, 0, 1), True, wants_gradients=True)
