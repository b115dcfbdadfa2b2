"""The trainings of crossed_programs.py, of which each runs six steps: in eager, and compiled with sizes as numbers and
as expressions. BRAZE_CROSSED=300 runs so many."""

import os

import crossed_programs
import pytest
import torch

import braze

SEEDS = int(os.environ.get("BRAZE_CROSSED", "80"))


def difference(ours, theirs, where=""):
    """Empty: there is none."""
    if type(ours) is not type(theirs):
        return f"{where}: {ours} instead of {theirs}"
    if isinstance(theirs, torch.Tensor):
        try:
            torch.testing.assert_close(ours, theirs, equal_nan=True, rtol=1e-3, atol=2e-4)
        except AssertionError as error:
            return f"{where}: {error}"
        return ""
    if isinstance(theirs, dict):
        theirs, ours = list(theirs.items()), list(ours.items())
    if not isinstance(theirs, list | tuple):
        return "" if ours == theirs else f"{where}: {ours} instead of {theirs}"
    if len(ours) != len(theirs):
        return f"{where}: {ours} instead of {theirs}"
    found = (
        difference(a, b, f"{where}.{k}" + (f" of {theirs[0]}" if k and isinstance(theirs[0], str) else ""))
        for k, (a, b) in enumerate(zip(ours, theirs, strict=True))
    )
    return next(filter(None, found), "")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(SEEDS))
def test_as_eager(seed):
    expected = list(crossed_programs.program(seed, lambda function: function))
    for dynamic in (None, True):
        actual = crossed_programs.program(
            seed, lambda function, dynamic=dynamic: braze.compile(function, dynamic=dynamic)
        )
        for k, theirs in enumerate(expected):
            wrong = difference(next(actual), theirs, f"dynamic={dynamic}, step {k}")
            assert not wrong, wrong
