"""What DistributedDataParallel can be told, and the other ways to spread a model over two processes: losses,
weights, buffers and gradients are eager's, and what eager raises is raised."""

import pytest
import torch
import torch.distributed
from two_processes import run_in_two

DATA_PARALLEL = """
import contextlib
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.distributed.algorithms.join import Join

class Net(nn.Module):
    def __init__(self, branch=False, norm=False):
        super().__init__()
        self.first, self.middle, self.last = nn.Linear(8, 16), nn.Linear(16, 16), nn.Linear(16, 4)
        self.norm = nn.BatchNorm1d(16) if norm else nn.LayerNorm(16)
        self.branch = branch
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x, use=True):
        h = self.norm(self.first(x)).tanh()
        if use or not self.branch:
            h = self.middle(h).relu()
        self.seen += 1
        return self.last(h)

def reduced(hook, state=None):
    return lambda model: model.register_comm_hook(state() if state else None, hook)

def power_state():
    return powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=1, start_powerSGD_iter=2)

class Case:
    def __init__(self, *, net={}, quiet=False, use=None, hook=None, uneven=None, sizes=(6,), **options):
        self.net, self.quiet, self.use, self.hook, self.uneven = net, quiet, use, hook, uneven
        self.sizes, self.options = sizes, options

    def train(self, how):
        torch.manual_seed(0)
        model = Net(**self.net)
        parallel = DistributedDataParallel(braze.compile(model) if how == "inside" else model, **self.options)
        call = braze.compile(parallel) if how == "outside" else parallel
        if self.hook:
            self.hook(parallel)
        optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
        data = torch.Generator().manual_seed(1 + rank)
        losses = []
        joined = {None: contextlib.nullcontext, "join": parallel.join, "Join": lambda: Join([parallel])}
        with joined[self.uneven]():
            for step in range(7 + (2 * rank if self.uneven else 0)):
                n = self.sizes[step % len(self.sizes)]
                x, y = torch.randn(n, 8, generator=data), torch.randn(n, 4, generator=data)
                quiet = self.quiet and step % 3 != 2
                with parallel.no_sync() if quiet else contextlib.nullcontext():
                    result = call(x, self.use(step)) if self.use else call(x)
                    loss = (result - y).pow(2).mean()
                    loss.backward()
                losses.append(loss.detach())
                if not quiet:
                    optimizer.step()
                    optimizer.zero_grad(set_to_none=bool(step % 2))
        gradients = [p.grad for p in model.parameters()]
        native = (call if how == "outside" else parallel.module).counts()["native"] if how != "eager" else 0
        assert native == 0
        return losses, [t.clone() for t in model.state_dict().values()], gradients, [
            g is not None and g.stride() for g in gradients
        ]

branching = {"branch": True}
CASES = {
    "plain": Case(),
    "accumulated": Case(quiet=True),
    "unused_here_and_there": Case(find_unused_parameters=True, net=branching, use=lambda k: (k + rank) % 2 == 0),
    "unused_everywhere": Case(find_unused_parameters=True, net=branching, use=lambda k: k % 2 == 0),
    "unused_and_not_told": Case(net=branching, use=lambda k: False),
    "views_of_buckets": Case(gradient_as_bucket_view=True),
    "views_of_buckets_accumulated": Case(gradient_as_bucket_view=True, quiet=True),
    "views_of_buckets_unused": Case(
        gradient_as_bucket_view=True, find_unused_parameters=True, net=branching, use=lambda k: (k + rank) % 2 == 0
    ),
    "static": Case(static_graph=True),
    "static_unused": Case(static_graph=True, find_unused_parameters=True, net=branching, use=lambda k: False),
    "buffers": Case(net={"norm": True}),
    "buffers_of_their_own": Case(net={"norm": True}, broadcast_buffers=False),
    "hook": Case(hook=reduced(default_hooks.allreduce_hook)),
    "hook_in_halves": Case(hook=reduced(default_hooks.fp16_compress_hook)),
    "hook_of_low_rank": Case(hook=reduced(powerSGD_hook.powerSGD_hook, power_state)),
    "uneven": Case(uneven="join"),
    "uneven_joined": Case(uneven="Join"),
    "uneven_buffers": Case(uneven="join", net={"norm": True}),
    "other_sizes": Case(sizes=(6, 4, 5)),
    "small_buckets": Case(bucket_cap_mb=0.0005),
}

def outcome(case, how):
    try:
        return case.train(how)
    except RuntimeError as error:
        return type(error).__name__, str(error)[:60]

for name, case in CASES.items():
    expected = outcome(case, "eager")
    for how in ("inside", "outside"):
        actual = outcome(case, how)
        try:
            if "RuntimeError" in expected:
                assert actual == expected
            else:
                torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5)
        except Exception as error:
            print("WRONG", name, how, error, actual)
        dist.barrier()
    print("compared", name)
"""

SHARDED = """
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

mesh = init_device_mesh("cpu", (2,))

def make():
    torch.manual_seed(0)
    inner = nn.Sequential(nn.Linear(16, 16), nn.ReLU())
    return nn.Sequential(nn.Linear(8, 16), nn.Tanh(), inner, nn.LayerNorm(16), nn.Linear(16, 4))

def sharded(compiled, **how):
    model = make()
    if compiled == "layer":
        model[2].forward = braze.compile(model[2].forward)
    fully_shard(model[2], mesh=mesh, **how)
    fully_shard(model, mesh=mesh, **how)
    return model

MODELS = {
    "fully_shard": sharded,
    "fully_shard_kept": lambda compiled: sharded(compiled, reshard_after_forward=False),
    "fully_shard_halves": lambda compiled: sharded(
        compiled, mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    ),
    "fully_sharded": lambda compiled: FullyShardedDataParallel(
        make(), use_orig_params=True, device_id=torch.device("cpu")
    ),
    "columns_and_rows": lambda compiled: parallelize_module(
        nn.Sequential(*list(make())[:1], nn.ReLU(), nn.Linear(16, 4)),
        mesh,
        {"0": ColwiseParallel(), "2": RowwiseParallel()},
    ),
    "data_parallel": lambda compiled: nn.DataParallel(make()),
}

def train(make, compiled):
    model = make(compiled)
    call = braze.compile(model) if compiled == "model" else model
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    data = torch.Generator().manual_seed(1 + (rank if "shard" in name else 0))
    losses = []
    for step in range(4):
        x, y = torch.randn(6, 8, generator=data), torch.randn(6, 4, generator=data)
        loss = (call(x) - y).pow(2).mean()
        loss.backward()
        losses.append(loss.detach())
        optimizer.step()
        optimizer.zero_grad()
    return losses, [p.full_tensor() if hasattr(p, "full_tensor") else p.detach() for p in model.parameters()]

for name, make_model in MODELS.items():
    expected = train(make_model, "")
    tolerance = 2e-2 if "halves" in name else 1e-4
    for compiled in ("model", "layer"):
        try:
            torch.testing.assert_close(train(make_model, compiled), expected, rtol=tolerance, atol=tolerance)
        except Exception as error:
            print("WRONG", name, compiled, error)
        dist.barrier()
    print("compared", name)
"""


@pytest.mark.parametrize(("program", "cases"), [(DATA_PARALLEL, 20), (SHARDED, 6)], ids=["data", "sharded"])
@pytest.mark.skipif(not torch.distributed.is_available(), reason="this PyTorch has no torch.distributed")
def test_as_eager(program, cases):
    output = run_in_two(program)
    assert "WRONG" not in output, output
    assert output.count("compared") == cases, output
