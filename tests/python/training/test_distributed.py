"""A compiled model in DistributedDataParallel: two processes on the CPU train to eager's weights."""

import os
import socket
import subprocess
import sys

import pytest
import torch
import torch.distributed

PROGRAM = """
import copy, os, sys
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
import braze

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
layers = [nn.Linear(8, 32), nn.LayerNorm(32), nn.GELU(), nn.Linear(32, 4)]
eager = nn.Sequential(*layers)
models = {"eager": eager, "inside": copy.deepcopy(eager), "outside": copy.deepcopy(eager)}
parallel = {
    "eager": DistributedDataParallel(models["eager"], bucket_cap_mb=0.001),
    "inside": DistributedDataParallel(braze.compile(models["inside"]), bucket_cap_mb=0.001),
    "outside": braze.compile(DistributedDataParallel(models["outside"], bucket_cap_mb=0.001)),
}
counted = []
for side, model in parallel.items():
    optimizer = torch.optim.SGD(models[side].parameters(), 0.1)
    data = torch.Generator().manual_seed(1 + rank)
    for step in range(10):
        x, y = torch.randn(16, 8, generator=data), torch.randn(16, 4, generator=data)
        optimizer.zero_grad()
        (model(x) - y).pow(2).mean().backward()
        optimizer.step()
for side in ("inside", "outside"):
    for ours, theirs in zip(models[side].parameters(), models["eager"].parameters(), strict=True):
        torch.testing.assert_close(ours, theirs)
compiled = parallel["inside"].module
assert compiled.counts()["native"] == 0, compiled.reasons()
# All processes have the same weights.
flat = torch.cat([p.detach().flatten() for p in models["inside"].parameters()])
both = [torch.empty_like(flat) for _ in range(2)]
dist.all_gather(both, flat)
assert torch.equal(*both)
dist.destroy_process_group()
print("done", flush=True)
# A thread of gloo may still hold tensors of the last collective call, and aborts the process when it lets go of
# them while the interpreter ends (https://github.com/pytorch/pytorch/pull/179291): the interpreter does not end.
os._exit(0)
"""


@pytest.mark.skipif(not torch.distributed.is_available(), reason="this PyTorch has no torch.distributed")
def test_two_processes_train_to_eagers_weights():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    processes = []
    for rank in range(2):
        own = {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        processes.append(
            subprocess.Popen(
                [sys.executable, "-c", PROGRAM],
                env={**os.environ, **own, "OMP_NUM_THREADS": "1"},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    for process in processes:
        output, error = process.communicate(timeout=120)
        assert process.returncode == 0 and "done" in output, error
