"""Every operator that PyTorch has samples for, on a GPU: a program against eager there.

BRAZE_OPINFO=all: sixteen samples of each instead of three.
"""

import os

import opinfo_sweep
import pytest
import torch
from on_gpu import needs_gpu

pytestmark = needs_gpu

SAMPLES = 16 if os.environ.get("BRAZE_OPINFO") == "all" else 3
PARTS = 40


@pytest.fixture(scope="module")
def operators():
    return opinfo_sweep.operators()


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.bfloat16, torch.float16, torch.int64], ids=lambda d: str(d)[6:]
)
@pytest.mark.parametrize("part", range(PARTS))
def test_operators(operators, part, dtype, opinfo_report):
    failures = []
    for op in operators[part::PARTS]:
        failures += opinfo_sweep.sweep(op, dtype, SAMPLES, opinfo_report, seconds=20, device="cuda")
    assert not failures, "\n".join(failures)
