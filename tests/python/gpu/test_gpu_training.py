"""Gradients on a GPU beside eager's: OpInfo's differentiable operators, and whole architectures in train mode."""

import os

import gradient_sweep
import pytest
import torch
import trained_architectures
from architectures import ARCHITECTURES
from on_gpu import needs_gpu

pytestmark = [needs_gpu, pytest.mark.filterwarnings("ignore")]

SAMPLES = 0 if os.environ.get("BRAZE_OPINFO") == "all" else 2
PARTS = 40


@pytest.fixture(scope="module")
def operators():
    return gradient_sweep.operators("cuda")


@pytest.mark.parametrize("part", range(PARTS))
def test_gradients(operators, part):
    failures, report = [], {False: 0, True: 0}
    for op in operators[part::PARTS]:
        failures += gradient_sweep.sweep(op, SAMPLES, report, "cuda")
    assert not failures, "\n".join(failures)
    assert report[False] > 2 * report[True]


@pytest.fixture
def exact_products():
    """Eager and compiled calls may take other kernels for a product: TF32 would tell them apart."""
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        yield


@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_architectures_train_as_eager(name, mode, exact_products):
    # The third call and later ones are replays of recordings.
    fast = trained_architectures.check(name, "cuda", calls=4, tolerance=1e-3, mode=mode)
    if name not in trained_architectures.NATIVE:
        assert fast.counts()["native"] == 0, fast.reasons()
