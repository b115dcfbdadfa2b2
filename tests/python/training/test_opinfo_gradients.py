"""Gradients of every differentiable operator that PyTorch has samples for, in f32 and c64: compiled against eager.

Two samples of each; with BRAZE_OPINFO=all every sample.
"""

import os

import gradient_sweep
import pytest
import torch

SAMPLES = 0 if os.environ.get("BRAZE_OPINFO") == "all" else 2
PARTS = 16


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("part", range(PARTS))
def test_gradients(operators, part):
    failures, report = [], {False: 0, True: 0}
    for op in operators[part::PARTS]:
        failures += gradient_sweep.sweep(op, SAMPLES, report)
    print(f"{report[False]} compiled, {report[True]} native")
    assert not failures, "\n".join(failures)
    assert report[False] > 3 * report[True]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("part", range(4))
def test_complex_gradients(part):
    failures, report = [], {False: 0, True: 0}
    for op in gradient_sweep.operators(dtype=torch.complex64)[part::4]:
        failures += gradient_sweep.sweep(op, SAMPLES, report, dtype=torch.complex64)
    print(f"{report[False]} compiled, {report[True]} native")
    assert not failures, "\n".join(failures)
    assert report[False] > 6 * report[True]
