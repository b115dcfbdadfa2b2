"""The peak of a training step's memory, in processes of their own, against eager's."""

import subprocess
import sys

import pytest

PROGRAM = """
import gc, sys
import torch
from torch import nn
import braze

def status(name):
    for line in open("/proc/self/status"):
        if line.startswith(name + ":"):
            return int(line.split()[1]) / 1024

torch.manual_seed(0)
torch.set_num_threads(1)
width, depth, rows = (int(one) for one in sys.argv[2:])
layers = []
for _ in range(depth):
    layers += [nn.Linear(width, width), nn.GELU()]
model = nn.Sequential(*layers, nn.Linear(width, 8))
f = braze.compile(model) if sys.argv[1] == "braze" else model
optimizer = torch.optim.SGD(model.parameters(), 1e-4)

def step():
    optimizer.zero_grad()
    f(torch.ones(rows, width)).pow(2).mean().backward()
    optimizer.step()

braze.compile(lambda x: x + 1)(torch.ones(3))  # Both have loaded what compiles.
step()
gc.collect()
open("/proc/self/clear_refs", "w").write("5")
step()
step()
print(status("VmHWM"))
"""


def peak(kind, *sizes):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, kind, *map(str, sizes)], capture_output=True, text=True, check=True
    )
    return float(done.stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(
    ("sizes", "limit"),
    [
        # Of some 400 MB of activations.
        ((512, 6, 16384), 1.04),
        # As many bytes of gradients: results of the backward lie where it has read what was saved.
        ((2048, 4, 2048), 1.04),
    ],
    ids=["rows", "wide"],
)
def test_peak(sizes, limit):
    eagers, ours = peak("eager", *sizes), peak("braze", *sizes)
    assert ours <= limit * eagers, (ours, eagers)
