"""A compiled model in DistributedDataParallel: two processes on the CPU train to eager's weights, and send
gradients while the backward runs."""

import pytest
import torch
import torch.distributed
from two_processes import run_in_two

WEIGHTS = """
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
"""

# Gradients of three megabytes, in buckets of one.
OVERLAP = """
def stack():
    torch.manual_seed(0)
    layers = []
    for _ in range(8):
        layers += [nn.Linear(320, 320), nn.Tanh()]
    return nn.Sequential(*layers, nn.Linear(320, 4))

models = {side: stack() for side in ("eager", "inside", "outside")}
parallel = {
    "eager": DistributedDataParallel(models["eager"], bucket_cap_mb=1),
    "inside": DistributedDataParallel(braze.compile(models["inside"]), bucket_cap_mb=1),
    "outside": DistributedDataParallel(models["outside"], bucket_cap_mb=1),
}
logs = {side: [] for side in models}

def reduce(log, bucket):
    log.append("bucket")
    work = dist.all_reduce(bucket.buffer().div_(2), async_op=True)
    return work.get_future().then(lambda done: done.value()[0])

for side, model in parallel.items():
    model.register_comm_hook(logs[side], reduce)
calls = {**parallel, "outside": braze.compile(parallel["outside"])}
for side, call in calls.items():
    optimizer = torch.optim.SGD(models[side].parameters(), 0.1)
    data = torch.Generator().manual_seed(1 + rank)
    for step in range(4):
        x, y = torch.randn(16, 320, generator=data).requires_grad_(), torch.randn(16, 4, generator=data)
        x.register_hook(lambda _: logs[side].append("ended"))
        optimizer.zero_grad()
        (call(x) - y).pow(2).mean().backward()
        optimizer.step()
for side in ("inside", "outside"):
    for ours, theirs in zip(models[side].parameters(), models["eager"].parameters(), strict=True):
        torch.testing.assert_close(ours, theirs)
    # DistributedDataParallel orders its buckets in the first backward.
    log = logs[side][logs[side].index("ended") + 1 :]
    assert log.index("ended") >= 2, logs
for call in (calls["inside"].module, calls["outside"]):
    assert call.counts()["native"] == 0, call.reasons()
"""


@pytest.mark.parametrize("program", [WEIGHTS, OVERLAP], ids=["weights", "overlap"])
@pytest.mark.skipif(not torch.distributed.is_available(), reason="this PyTorch has no torch.distributed")
def test_two_processes(program):
    run_in_two(program)
