"""Whole architectures on a GPU against eager there, in random small configurations; also as CUDA graphs."""

import copy
import random

import oracle
import pytest
import torch
from architectures import ARCHITECTURES
from on_gpu import needs_gpu, on_device
from test_architectures import randomised

import braze

pytestmark = needs_gpu


def example(name):
    torch.manual_seed(0)
    module, inputs = ARCHITECTURES[name](random.Random(f"{name} 0"))
    return randomised(module).cuda(), on_device(inputs)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_agrees_with_eager(name):
    module, inputs = example(name)
    with torch.no_grad():
        module(**inputs)
    program = oracle.check(module, (), inputs, wider=copy.deepcopy(module).double(), slack=16)
    assert program.kernels


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_every_call_of_a_recording_agrees(name):
    module, inputs = example(name)
    fast = braze.compile(module, mode="reduce-overhead")
    with torch.no_grad():
        wanted = torch.utils._pytree.tree_leaves(module(**inputs))
        for _ in range(4):
            got = torch.utils._pytree.tree_leaves(fast(**inputs))
            for one, other in zip(got, wanted, strict=True):
                if isinstance(other, torch.Tensor):
                    torch.testing.assert_close(one, other, rtol=2e-3, atol=2e-3, equal_nan=True)
    assert fast.counts()["native"] == 0, fast.reasons()
