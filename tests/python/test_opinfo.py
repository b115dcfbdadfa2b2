"""Every operator that PyTorch has samples for, against eager.

Three samples of each in f32; with BRAZE_OPINFO=all all dtypes, more samples, in-place forms and wrong inputs.
"""

import os

import opinfo_sweep
import pytest
import torch

EVERYTHING = os.environ.get("BRAZE_OPINFO") == "all"
DTYPES = opinfo_sweep.DTYPES if EVERYTHING else (torch.float32,)
PARTS = 16


@pytest.fixture(scope="module")
def operators():
    return opinfo_sweep.operators()


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: str(dtype).removeprefix("torch."))
@pytest.mark.parametrize("part", range(PARTS))
def test_operators(operators, part, dtype, opinfo_report):
    failures = []
    for op in operators[part::PARTS]:
        failures += opinfo_sweep.sweep(op, dtype, 8 if EVERYTHING else 3, opinfo_report, every=EVERYTHING)
    assert not failures, "\n".join(failures)
