"""Whole architectures in train mode: outputs, gradients and random numbers are eager's, and few calls are left."""

import pytest
import trained_architectures
from architectures import ARCHITECTURES

# Their backward is Python code, or an operator of transformers' own.
NATIVE = {"mixtral"}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_trains_as_eager(name):
    fast = trained_architectures.check(name)
    if name in NATIVE:
        return
    assert fast.counts()["native"] == 0, fast.reasons()
    operators = fast.operators()
    assert operators["compiled"] >= 9 * operators["native"], operators
