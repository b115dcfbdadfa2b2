"""Programs in a process that has several GPUs: on either, across both, beside each other; and a process a GPU."""

import subprocess
import sys
import threading

import pytest
import torch
from on_gpu import assert_as_eager, needs_gpu
from torch import nn
from torch.nn import functional as F

import braze

pytestmark = [needs_gpu, pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two CUDA devices")]

DEVICES = ("cuda:0", "cuda:1")
MODES = ("default", "reduce-overhead", "max-autotune")


def network(device):
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.LayerNorm(128), nn.Linear(128, 16)).to(device)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("current", (0, 1))
def test_either_device_whichever_is_current(current, mode):
    def f(x, w):
        return F.softmax(x @ w, -1) * x.sum(1, keepdim=True), F.dropout(x, 0.5)

    compiled = braze.compile(f, mode=mode)
    with torch.cuda.device(current), torch.no_grad():
        for k in range(8):
            device = DEVICES[k % 2]
            x, w = torch.randn(96, 64, device=device), torch.randn(64, 64, device=device)
            torch.manual_seed(k)
            wanted = f(x, w)
            torch.manual_seed(k)
            got = compiled(x, w)
            assert all(y.device == torch.device(device) for y in got)
            torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-4)
        assert torch.cuda.current_device() == current
    counts = compiled.counts()
    assert counts["native"] == 0 and counts["captured"] == 2, (counts, compiled.reasons())


@pytest.mark.parametrize("mode", MODES)
def test_one_program_across_both(mode):
    def f(x, y):
        a = (x * 2).relu()
        b = a.to("cuda:1") + y.exp()
        return b.to("cuda:0").sum(1) + x[:, 0], b.softmax(-1)

    compiled = braze.compile(f, mode=mode)
    with torch.no_grad():
        for k in range(6):
            x = torch.randn(300, 40, generator=torch.manual_seed(k)).to("cuda:0")
            y = torch.randn(300, 40, generator=torch.manual_seed(k + 9)).to("cuda:1")
            with torch.cuda.device(k % 2):
                assert_as_eager(compiled(x, y), f(x, y))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("device", DEVICES)
def test_training(device, mode):
    mine, theirs = network(device), network(device)
    optimizers = [torch.optim.AdamW(net.parameters(), lr=1e-3) for net in (mine, theirs)]
    compiled = braze.compile(mine, mode=mode)
    for k in range(6):
        x = torch.randn(32, 64, generator=torch.manual_seed(k)).to(device)
        for net, optimizer in zip((compiled, theirs), optimizers, strict=True):
            optimizer.zero_grad()
            net(x).square().mean().backward()
            optimizer.step()
    for one, other in zip(mine.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)


def test_gradients_go_from_one_device_to_the_other():
    def loss(x, w):
        return F.gelu((x @ x.t()).to("cuda:1") * w)

    compiled = braze.compile(loss)
    for k in range(4):
        x = torch.randn(20, 20, generator=torch.manual_seed(k)).to("cuda:0").requires_grad_()
        w = torch.randn(20, 20, generator=torch.manual_seed(k + 5)).to("cuda:1").requires_grad_()
        wanted = torch.autograd.grad(loss(x, w).sum(), (x, w))
        torch.testing.assert_close(torch.autograd.grad(compiled(x, w).sum(), (x, w)), wanted)


def test_threads_with_a_device_each():
    nets = [network(device).eval() for device in DEVICES]
    compiled = [braze.compile(net, mode="reduce-overhead") for net in nets]
    wrong = []

    def work(k):
        torch.cuda.set_device(k)
        generator = torch.Generator(device=DEVICES[k]).manual_seed(k)
        with torch.no_grad():
            for _ in range(40):
                x = torch.randn(64, 64, device=DEVICES[k], generator=generator)
                if not torch.allclose(compiled[k](x), nets[k](x), atol=1e-4):
                    wrong.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_batches_padded_on_the_second():
    net = network("cuda:1").eval()
    compiled = braze.compile(net, dynamic=True, options={"size_buckets": "powers_of_two", "cudagraphs": True})
    with torch.no_grad():
        for n in (13, 9, 16, 11, 30, 17, 12):
            x = torch.randn(n, 64, device="cuda:1")
            torch.testing.assert_close(compiled(x), net(x), rtol=1e-4, atol=1e-4)


TORCHRUN = """
import torch, braze
import torch.distributed as dist
from torch import nn
dist.init_process_group("nccl")
rank = dist.get_rank()
torch.cuda.set_device(rank)

def trained(compile):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.LayerNorm(256), nn.Linear(256, 8)).cuda()
    net = nn.parallel.DistributedDataParallel(braze.compile(net) if compile else net, device_ids=[rank])
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    for step in range(8):
        x = torch.randn(32, 64, generator=torch.manual_seed(10 * step + rank)).cuda()
        optimizer.zero_grad()
        net(x).square().mean().backward()
        optimizer.step()
    return [p.detach().clone() for p in net.parameters()]

for one, other in zip(trained(True), trained(False), strict=True):
    torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
print("as eager")
dist.barrier()
dist.destroy_process_group()
"""


def test_a_process_a_gpu(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(TORCHRUN)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", str(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and done.stdout.count("as eager") == 2, done.stdout + done.stderr
