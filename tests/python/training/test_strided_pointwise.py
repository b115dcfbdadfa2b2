"""Gradients of strided 1x1 convolutions in channels_last, for which oneDNN writes beyond its memory.

Eager is not run on them here: it ruins the heap. The oracle is eager on row-major tensors.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

import braze

LAST = torch.channels_last
CHECKED_MALLOC = Path("/lib/x86_64-linux-gnu/libc_malloc_debug.so.0")


def gradients(call, module, x, wants_input):
    module.zero_grad()
    x = x.detach().requires_grad_(wants_input)
    call(x).square().mean().backward()
    return [parameter.grad for parameter in module.parameters()] + ([x.grad] if wants_input else [])


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("wants_input", [False, True])
@pytest.mark.parametrize(("channels", "bias", "strides"), [(3, True, 2), (8, False, 2), (15, True, (2, 3))])
def test_values(channels, bias, strides, wants_input, dynamic):
    rows = nn.Conv2d(channels, 32, 1, stride=strides, bias=bias)
    module = nn.Conv2d(channels, 32, 1, stride=strides, bias=bias)
    module.load_state_dict(rows.state_dict())
    module = module.to(memory_format=LAST)
    compiled = braze.compile(module, dynamic=dynamic)
    for batch, size in ((2, 112), (2, 112), (3, 57)):
        x = torch.randn(batch, channels, size, size)
        wanted = gradients(rows, rows, x, wants_input)
        found = gradients(compiled, module, x.to(memory_format=LAST), wants_input)
        for ours, theirs in zip(found, wanted, strict=True):
            assert ours.is_contiguous(memory_format=LAST if ours.dim() == 4 else torch.contiguous_format)
            torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
    assert compiled.counts()["native"] == 0


PROGRAM = """
import torch, braze
torch.set_num_threads(1)
conv = torch.nn.Conv2d(4, 32, 1, stride=2).to(memory_format=torch.channels_last)
compiled = braze.compile(conv)
for _ in range(4):
    compiled(torch.randn(2, 4, 112, 112).to(memory_format=torch.channels_last)).square().mean().backward()
    others = [torch.randn(1 + 3 * size) for size in range(300)]
    del others
assert compiled.counts()["native"] == 0
"""


@pytest.mark.skipif(not CHECKED_MALLOC.exists(), reason="no malloc that checks")
def test_heap():
    settings = {**os.environ, "MALLOC_CHECK_": "3", "LD_PRELOAD": str(CHECKED_MALLOC)}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=settings, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
