"""Random programs on a GPU against eager there."""

import os

import pytest
import random_programs
import torch
from on_gpu import needs_gpu

pytestmark = needs_gpu

COUNT = int(os.environ.get("BRAZE_RANDOM_PROGRAMS", "1000"))
BATCH = 25


@pytest.fixture(autouse=True)
def on_the_gpu():
    torch.set_default_device("cuda")
    yield
    torch.set_default_device(None)


@pytest.mark.parametrize("first", range(0, COUNT, BATCH))
def test_random_programs(first):
    random_programs.check(range(first, min(first + BATCH, COUNT)))
