"""Whole architectures against eager, in random small configurations, and what of them is left to ATen.

BRAZE_ARCHITECTURE_SEEDS=n runs n configurations of each instead of one.
"""

import copy
import os
import random

import oracle
import pytest
import torch
from architectures import ARCHITECTURES, other_calls

SEEDS = range(int(os.environ.get("BRAZE_ARCHITECTURE_SEEDS", "1")))
# What else ATen still does, and why. A row goes when the operator is lowered.
NOT_LOWERED = {
    "aten::_weight_norm_interface": "weight normalisation (wav2vec 2, Hubert)",
    "aten::_grouped_mm": "a matmul for each expert (Mixtral)",
    "aten::histc": "counts of the tokens of each expert (Mixtral)",
}


def randomised(module: torch.nn.Module) -> torch.nn.Module:
    """The module in eval mode, with biases, scales and running statistics that are not all alike."""
    for name, tensor in [*module.named_parameters(), *module.named_buffers()]:
        tensor.requires_grad_(False)
        if tensor.is_floating_point() and tensor.dim() == 1 and "inv_freq" not in name:
            tensor += 0.1 * torch.rand_like(tensor)
    return module.eval()


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_agrees_with_eager(name, seed):
    torch.manual_seed(seed)
    module, inputs = ARCHITECTURES[name](random.Random(f"{name} {seed}"))
    module = randomised(module)
    with torch.no_grad():
        module(**inputs)
    # Errors grow through the layers by chance: among few results, one can lie at many times eager's largest error.
    program = oracle.check(module, (), inputs, wider=copy.deepcopy(module).double(), slack=16)
    assert program.kernels
    assert [call for call in other_calls(program) if call not in NOT_LOWERED] == []
