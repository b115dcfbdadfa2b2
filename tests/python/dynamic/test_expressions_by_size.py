"""Expressions of sizes, at sizes among which are 0, 1 and 2: results, errors and gradients are those of eager."""

import pytest
from expressions_by_size import BY_SIZE, FOR_ALL
from test_programs_of_sizes import compare

from braze._load import C

pytestmark = [
    pytest.mark.skipif(not hasattr(C, "CompiledFunction"), reason="no evaluator for this Python"),
    pytest.mark.filterwarnings("ignore"),
]

# Their gradients of one row are views in eager, with another stride of that dimension.
VIEWS = {"transpose of dim", "fft", "rfft", "irfft", "rot90"}
# Eager's gradient of no rows reads where nothing is.
WITHOUT_GRADIENTS = {*VIEWS, "pdist"}


def check(name, function):
    compare(function, (8, 5, 2, 0, 1, 7, 11), None)
    compare(function, (5, 2, 0, 1), False)
    if name not in WITHOUT_GRADIENTS:
        compare(function, (8, 5, 2, 0, 1), True, wants_gradients=True)


@pytest.mark.parametrize("name", FOR_ALL)
def test_one_program_for_all_sizes(name):
    counts = compare(FOR_ALL[name], (8, 5, 2, 0, 1, 7, 11, 3), True)
    assert counts["captured"] <= 3, "more than one for 0, one for 1, and one for all others"
    assert counts["native"] == 0
    check(name, FOR_ALL[name])


@pytest.mark.parametrize("name", BY_SIZE)
def test_by_size(name):
    compare(BY_SIZE[name], (8, 5, 2, 0, 1, 7, 8), True)
    check(name, BY_SIZE[name])
