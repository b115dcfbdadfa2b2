"""Batch norms that train on a GPU, beside eager's and float64's; what a training step has in memory at once."""

import copy

import pytest
import torch
from on_gpu import assert_as_eager, needs_gpu
from torch import nn

import braze

pytestmark = [needs_gpu, pytest.mark.filterwarnings("ignore")]

LAYOUTS = {
    "rows": torch.contiguous_format,
    "channels_last": torch.channels_last,
}


def norm_of(rank, channels, **options):
    kind = {2: nn.BatchNorm1d, 3: nn.BatchNorm1d, 4: nn.BatchNorm2d, 5: nn.BatchNorm3d}[rank]
    torch.manual_seed(0)
    norm = kind(channels, **options)
    if norm.affine:
        nn.init.uniform_(norm.weight, 0.5, 2)
        nn.init.normal_(norm.bias)
    return norm


def trained(norm, x, gradient, function):
    """One call and its backward: results, gradients, and statistics as they are afterwards."""
    leaf = x.clone(memory_format=torch.preserve_format).requires_grad_()
    result = function(leaf)
    result.backward(gradient)
    named = [(name, tensor.clone()) for name, tensor in norm.state_dict().items()]
    gradients = [leaf.grad, *(parameter.grad for parameter in norm.parameters())]
    norm.zero_grad()
    return result.detach(), gradients, [tensor for _, tensor in named]


def check(norm, x):
    gradient = torch.randn_like(x)
    exact, eager, ours = copy.deepcopy(norm).double(), copy.deepcopy(norm).cuda(), copy.deepcopy(norm).cuda()
    compiled = braze.compile(ours)
    for _ in range(3):
        reference = trained(exact, x.cpu().double(), gradient.cpu().double(), exact)
        assert_as_eager(trained(ours, x, gradient, compiled), trained(eager, x, gradient, eager), reference)
    assert compiled.counts()["native"] == 0, compiled.reasons()
    return compiled


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("shape", [(8, 5, 7, 7), (32, 64, 28, 28), (4, 256, 3, 5), (2, 3, 65, 33)], ids=str)
def test_images(shape, dtype, layout):
    x = (torch.randn(shape, device="cuda") * 3 + 2).to(dtype).to(memory_format=LAYOUTS[layout])
    check(norm_of(4, shape[1]), x)


@pytest.mark.parametrize(
    "options", [{"affine": False}, {"track_running_stats": False}, {"momentum": None}], ids=str
)
@pytest.mark.parametrize("shape", [(64, 33), (16, 20, 50), (2, 12, 3, 4, 5)], ids=str)
def test_forms(shape, options):
    check(norm_of(len(shape), shape[1], **options), torch.randn(shape, device="cuda") - 2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_without_cudnn(dtype):
    x = torch.randn(8, 20, 14, 14, device="cuda", dtype=dtype)
    with torch.backends.cudnn.flags(enabled=False):
        check(norm_of(4, 20), x)


def test_parameters_of_halves():
    x = torch.randn(8, 20, 14, 14, device="cuda", dtype=torch.bfloat16)
    check(norm_of(4, 20).bfloat16(), x)


def test_far_from_zero():
    """The variance of what is a million times as far from zero as it is wide."""
    x = 1e4 + 1e-2 * torch.randn(16, 8, 20, 20, device="cuda")
    check(norm_of(4, 8), x)
    check(norm_of(4, 8), torch.full((4, 8, 20, 20), 3e5, device="cuda"))


def test_is_kernels_alone():
    compiled = check(norm_of(4, 64), torch.randn(16, 64, 28, 28, device="cuda"))
    assert all("call" not in {step["kind"] for step in program.plan()["steps"]} for program in compiled.programs())


def network(seed):
    torch.manual_seed(seed)

    def block(channels):
        return nn.Sequential(
            nn.Conv2d(channels, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels), nn.ReLU()
        )

    layers = [nn.Conv2d(3, 64, 3, padding=1), *(block(64) for _ in range(4)), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return nn.Sequential(*layers, nn.Linear(64, 10)).cuda()


@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
@pytest.mark.parametrize("autocast", [False, True])
def test_networks(mode, autocast):
    """Convolutions and their backwards in channels_last, whatever the parameters lie in."""
    eager, ours = network(0), network(0)
    compiled = braze.compile(ours, mode=mode)
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        for call in range(4):
            torch.manual_seed(call)
            x, target = torch.randn(16, 3, 32, 32, device="cuda"), torch.randint(10, (16,), device="cuda")
            losses = []
            for model, function in ((eager, eager), (ours, compiled)):
                with torch.autocast("cuda", torch.bfloat16, enabled=autocast):
                    loss = nn.functional.cross_entropy(function(x), target)
                loss.backward()
                losses.append(loss.detach())
                with torch.no_grad():
                    for parameter in model.parameters():
                        parameter -= 0.01 * parameter.grad
            tolerance = 5e-2 if autocast else 1e-3
            torch.testing.assert_close(losses[1], losses[0], rtol=tolerance, atol=tolerance)
            for mine, theirs in zip(ours.parameters(), eager.parameters(), strict=True):
                assert mine.grad.stride() == theirs.grad.stride()
                error = (mine.grad - theirs.grad).norm() / (theirs.grad.norm() + 1e-3)
                assert error < (0.2 if autocast else 1e-2)
                mine.grad = theirs.grad = None
    assert compiled.counts()["native"] == 0, compiled.reasons()


def peak_of(step):
    for _ in range(3):
        step()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    step()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - before


class Deep(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(1024, 1024) for _ in range(12))

    def forward(self, x):
        for layer in self.layers:
            x = x + nn.functional.gelu(layer(x))
        return x


def test_peak_is_not_above_eagers():
    """What is saved is let go of, and gradients are allocated, as the backward goes on."""
    torch.manual_seed(0)
    model = Deep().cuda()
    x = torch.randn(2048, 1024, device="cuda")
    compiled = braze.compile(model)

    def step(function):
        model.zero_grad()
        function(x).square().mean().backward()

    assert peak_of(lambda: step(compiled)) <= peak_of(lambda: step(model))
