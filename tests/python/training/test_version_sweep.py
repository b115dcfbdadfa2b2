"""Operators of OpInfo: where eager's nodes have saved what is written to before the backward, compiled ones raise
the same, and nowhere else. One sample of each; with BRAZE_OPINFO=all three."""

import os

import pytest
import version_sweep

SAMPLES = 3 if os.environ.get("BRAZE_OPINFO") == "all" else 1
PARTS = 8


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("part", range(PARTS))
def test_raises_as_eager(operators, part):
    compared, differing = 0, []
    for op in operators[part::PARTS]:
        count, wrong = version_sweep.sweep(op, SAMPLES)
        compared += count
        differing += wrong
    assert compared > 100
    assert not differing, "\n".join(str(one) for one in differing[:40])
