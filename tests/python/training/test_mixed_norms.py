"""Norms of a half type with parameters of f32, as under autocast: values, gradients and their types are eager's."""

import pytest
import torch
from torch import nn

import braze

NORMS = {
    "group": (lambda: nn.GroupNorm(2, 6), (4, 6, 5)),
    "group of images": (lambda: nn.GroupNorm(3, 6), (2, 6, 4, 4)),
    "group in channels_last": (lambda: nn.GroupNorm(3, 6), (2, 6, 4, 4)),
    "batch": (lambda: nn.BatchNorm1d(6), (8, 6)),
    "instance": (lambda: nn.InstanceNorm1d(6, affine=True), (3, 6, 7)),
    "layer": (lambda: nn.LayerNorm(5), (4, 6, 5)),
    "rms": (lambda: nn.RMSNorm(5), (4, 6, 5)),
}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("name", NORMS)
def test_norms_of_halves_with_parameters_of_floats(name, dynamic, dtype):
    make, shape = NORMS[name]
    norm = make()
    with torch.no_grad():
        for p in norm.parameters():
            p.copy_(torch.randn(p.shape))
    compiled = braze.compile(norm, dynamic=dynamic)
    for batch in (shape[0], shape[0], shape[0] + 3):
        x = torch.randn(batch, *shape[1:]).to(dtype)
        if name == "group in channels_last":
            x = x.contiguous(memory_format=torch.channels_last)
        found = []
        for f in (norm, compiled):
            given = x.clone().requires_grad_()
            norm.zero_grad()
            result = f(given)
            result.float().square().mean().backward()
            found.append([result.detach(), given.grad, *(p.grad.clone() for p in norm.parameters())])
        for eager, ours in zip(*found, strict=True):
            assert (ours.dtype, ours.stride()) == (eager.dtype, eager.stride())
            torch.testing.assert_close(ours, eager, rtol=3e-2, atol=3e-2)
