"""Operators whose shapes are computed by Python code import modules when they are first captured."""

import subprocess
import sys

import pytest

from braze._load import C

pytestmark = pytest.mark.skipif(not hasattr(C, "CompiledFunction"), reason="no evaluator for this Python")

# In a process of its own each: a module is imported once. What is imported registers classes with abstract ones.
CODE = """
import sys
from collections import abc
import torch
from torch.nn import functional as F
import braze

def whole(x, parts):
    scale = len(parts) if isinstance(parts, abc.Sequence) else 2
    return F.adaptive_max_pool2d(x * scale, 3)

def in_segments(x, parts):
    y = x * len(parts) if isinstance(parts, abc.Sequence) else x
    y = F.adaptive_max_pool2d(y, 3)
    print(end="")
    return y * 2 if isinstance(parts, abc.Mapping) else y

def asked_before_and_after(x, parts):
    y = F.adaptive_max_pool2d(x * isinstance(parts, abc.Sequence), 3)
    return y * isinstance(parts, abc.Mapping) + len(parts)

function = globals()[sys.argv[1]]
compiled = braze.compile(function, dynamic=True)
modules = len(sys.modules)
for n in (4, 5, 6):
    x = torch.randn(n, 3, 8, 8)
    torch.testing.assert_close(compiled(x, (1, 2, 3)), function(x, (1, 2, 3)))
assert len(sys.modules) > modules, "nothing is imported any more: another operator is needed here"
counts = compiled.counts()
print(counts["captured"], counts["native"])
"""


@pytest.mark.parametrize("function", ["whole", "in_segments", "asked_before_and_after"])
def test_the_first_call_is_compiled(function):
    done = subprocess.run([sys.executable, "-c", CODE, function], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["1", "0"], done.stdout + done.stderr
