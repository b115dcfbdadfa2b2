"""Whole architectures in train mode: outputs, gradients and random numbers are eager's, and few calls are left."""

import pytest
import trained_architectures
from architectures import ARCHITECTURES


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_trains_as_eager(name):
    fast = trained_architectures.check(name)
    if name in trained_architectures.NATIVE:
        return
    assert fast.counts()["native"] == 0, fast.reasons()
    operators = fast.operators()
    assert operators["compiled"] >= 9 * operators["native"], operators
