"""Convolutions in eager's layout and in channels_last, and the choice between the two."""

import json
import re
import threading

import pytest
import torch
from processes import fresh
from torch import nn
from torch.nn import functional as F

import braze

LAYOUTS = ("traced", "channels_last")
CALLS = 14


def block(inputs, outputs, **options):
    return nn.Sequential(nn.Conv2d(inputs, outputs, 3, padding=1, **options), nn.BatchNorm2d(outputs), nn.ReLU())


class Net(nn.Module):
    """Everything that lies between convolutions: batch norms, poolings, upsampling, a cat, a residual, means."""

    def __init__(self, mode="nearest"):
        super().__init__()
        self.mode = mode
        self.first, self.second = block(3, 16, bias=False), block(16, 16, groups=16)
        self.deep, self.last = block(16, 32, dilation=1, stride=2), nn.Conv2d(48, 5, 1)

    def forward(self, x):
        x = self.first(x)
        kept = x + self.second(x)
        x = self.deep(F.max_pool2d(kept, 3, 2, padding=1))
        x = F.avg_pool2d(F.pad(x, (1, 1, 1, 1)), 2)
        x = F.interpolate(x, size=kept.shape[2:], mode=self.mode)
        x = torch.cat([kept, x], 1)
        return self.last(x), x.mean((2, 3)), F.adaptive_avg_pool2d(x, 1).flatten(1), x.permute(0, 2, 3, 1)


def types_of_convolutions(plan, name="convolution"):
    """Of each convolution of a plan in text, its operands and result, with strides in braces if not row-major."""
    buffers = dict(re.findall(r"^  (#\d+) = .* : (\S+)$", plan, re.MULTILINE))
    calls = re.findall(rf"^  call 'aten::{name}'(.*)", plan, re.MULTILINE)
    return [
        [seen or buffers[buffer] for buffer, seen in re.findall(r"(#\d+)(?: as (\S+))?", call)] for call in calls
    ]


def same(got, want, tolerance=1e-4):
    got, want = (x if isinstance(x, tuple) else (x,) for x in (got, want))
    for one, other in zip(got, want, strict=True):
        torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance)
        assert one.stride() == other.stride()


def convolutions_by_hand():
    """Pairs of a module and its input: what convolutions can be."""
    image, volume, row = torch.randn(2, 6, 9, 8), torch.randn(2, 4, 5, 6, 7), torch.randn(2, 6, 11)
    yield nn.Conv2d(6, 10, 3), image
    yield nn.Conv2d(6, 10, 3, bias=False, stride=2, padding=1), image
    yield nn.Conv2d(6, 12, 3, groups=3, dilation=2), image
    yield nn.Conv2d(6, 6, 3, groups=6, padding=1), image
    yield nn.Conv2d(6, 1, 1), image
    yield nn.Conv2d(1, 7, 3), torch.randn(2, 1, 9, 8)
    yield nn.Conv2d(6, 10, 3), image[:1]
    yield nn.Conv2d(6, 10, 1), torch.randn(3, 6, 1, 1)
    yield nn.ConvTranspose2d(6, 10, 2, stride=2), image
    yield nn.ConvTranspose2d(6, 8, 3, stride=2, padding=1, output_padding=1, groups=2), image
    yield nn.Conv3d(4, 8, 3, padding=1), volume
    yield nn.ConvTranspose3d(4, 8, 2, stride=2, bias=False), volume
    yield nn.Conv1d(6, 10, 3), row
    yield nn.Conv2d(6, 10, 3).to(memory_format=torch.channels_last), image
    yield nn.Conv2d(6, 10, 3), image.to(memory_format=torch.channels_last)
    yield nn.Conv2d(6, 10, 3), image.permute(0, 1, 3, 2)
    for dtype in (torch.bfloat16, torch.float16, torch.float64):
        yield nn.Conv2d(6, 10, 3).to(dtype), image.to(dtype)


@torch.no_grad()
def compare_all():
    """In a process with one layout forced: every kind of convolution alone, between kernels, and in nets."""
    torch.manual_seed(0)
    for module, x in convolutions_by_hand():
        tolerance = 1e-4 if x.dtype.itemsize >= 4 else 2e-2
        between = nn.Sequential(nn.ReLU(), module, nn.Sigmoid())
        for model in (module.eval(), between.eval()):
            program = braze.trace(model, (x,), check=False)
            for _ in range(2):
                same(program(x), model(x), tolerance)
    for mode in ("nearest", "bilinear", "bicubic"):
        model, x = Net(mode).eval(), torch.randn(2, 3, 16, 12)
        program = braze.trace(model, (x,), check=False)
        same(program(x), model(x))
        same(braze.compile(model)(x), model(x))
    return "done"


@pytest.mark.parametrize("layout", LAYOUTS)
def test_each_layout_is_right(layout):
    code = "import json, test_convolution\nprint(json.dumps(test_convolution.compare_all()))"
    assert json.loads(fresh(code, BRAZE_CONVOLUTION=layout)) == "done"


def test_channels_last_reaches_all_convolutions():
    """Two copies: of the input, and of the result that a caller sees. All between is stored as it is read."""
    code = """
import torch, braze, test_convolution
model, x = test_convolution.block(3, 16), torch.randn(2, 3, 12, 12)
model = torch.nn.Sequential(model, torch.nn.MaxPool2d(2), test_convolution.block(16, 16), torch.nn.Conv2d(16, 8, 1))
program = braze.trace(model.eval(), (x,), check=False)
text = program.code("loops")
calls = test_convolution.types_of_convolutions(text)
print(len(calls), sum(sum("{" in one for one in types) == 2 for types in calls), text.count("fused=['copy of"))
"""
    assert fresh(code, BRAZE_CONVOLUTION="channels_last").split() == ["3", "3", "2"]
    assert fresh(code, BRAZE_CONVOLUTION="traced").split() == ["3", "0", "0"]


@torch.no_grad()
def test_right_at_every_call():
    model, x = Net().eval(), torch.randn(2, 3, 16, 12)
    program, compiled = braze.trace(model, (x,), check=False), braze.compile(model)
    for _ in range(CALLS):
        x = torch.randn(2, 3, 16, 12)
        want = model(x)
        same(program(x), want)
        same(compiled(x), want)


@torch.no_grad()
def test_changed_weights_and_written_inputs():
    model, x = block(4, 8).eval(), torch.randn(2, 4, 8, 8)

    def f(x):
        y = model(x)
        x.mul_(0.5)
        return y, y[:, 1:3]

    program, other = braze.trace(f, (x.clone(),), check=False), x.clone()
    for k in range(CALLS):
        model[0].weight.data.add_(0.01 * k)
        want = f(other)
        got = program(x)
        same(got, want)
        same(x, other)
        assert got[0].data_ptr() + 64 * got[0].element_size() == got[1].data_ptr()


@torch.no_grad()
def test_several_threads_call():
    model = Net().eval()
    inputs = [torch.randn(2, 3, 20, 12) for _ in range(4)]
    wanted = [model(x) for x in inputs]
    program, failures = braze.trace(model, (inputs[0],), check=False), []

    @torch.no_grad()
    def call(k):
        try:
            for _ in range(CALLS):
                same(program(inputs[k]), wanted[k])
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=call, args=(k,)) for k in range(len(inputs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures[0]


@torch.no_grad()
def test_deterministic_algorithms_and_no_onednn_are_eagers():
    model, x = nn.Conv2d(6, 10, 3), torch.randn(2, 6, 9, 8)
    program = braze.trace(model, (x,), check=False)
    torch.use_deterministic_algorithms(True)
    try:
        assert all(torch.equal(program(x), model(x)) for _ in range(CALLS))
    finally:
        torch.use_deterministic_algorithms(False)
    with torch.backends.mkldnn.flags(enabled=False):
        assert all(torch.equal(program(x), model(x)) for _ in range(CALLS))


@torch.no_grad()
def test_nothing_is_compiled_after_the_first_call(tmp_path):
    code = """
import os, torch, braze, test_convolution
model, x = test_convolution.Net().eval(), torch.randn(2, 3, 16, 12)
program = braze.trace(model, (x,), check=False)
kept = lambda: sum(len(files) for _, _, files in os.walk(os.environ["BRAZE_CACHE_DIR"]))
state = lambda: (program.code("loops"), program.compile_times(), kept())
program(x)
first = state()
for _ in range(test_convolution.CALLS):
    program(x)
print(first == state())
"""
    assert fresh(code, BRAZE_CACHE_DIR=str(tmp_path / "cache"), BRAZE_MATMUL="aten").split() == ["True"]


@pytest.mark.parametrize(
    ("layout", "make"),
    [
        ("channels_last", lambda: (nn.Sequential(block(3, 32), block(32, 32)), (1, 3, 24, 24))),
        ("channels_last", lambda: (nn.Sequential(block(32, 64), block(64, 64, groups=64)), (2, 32, 12, 12))),
        ("traced", lambda: (nn.Sequential(block(1, 8), block(8, 8)), (1, 1, 28, 28))),
        ("traced", lambda: (nn.Sequential(nn.Conv2d(3, 32, 8, 8), nn.Flatten(2)), (1, 3, 64, 64))),
    ],
)
def test_the_layout_that_moves_less_is_chosen(layout, make):
    model, size = make()
    program = braze.trace(model.eval(), (torch.randn(size),), check=False)
    calls = types_of_convolutions(program.code("loops"))
    assert ("channels_last" if all("{" in "".join(types) for types in calls) else "traced") == layout


def trained(model, x, compiled, repeats=1):
    """Results of some steps, and the gradients that they left."""
    model.zero_grad()
    got = None
    for _ in range(repeats):
        got = compiled(x)
        total = sum(one.square().mean() for one in (got if isinstance(got, tuple) else (got,)))
        total.backward()
    return got, [p.grad.clone() for p in model.parameters()], x.grad


def same_training(model, x, tolerance=2e-3, repeats=1):
    eager, compiled = trained(model, x, model, repeats), None
    x.grad = None
    compiled = braze.compile(model)
    for _ in range(2):
        x.grad = None
        got = trained(model, x, compiled, repeats)
    assert compiled.counts()["native"] == 0, compiled.reasons()
    same(got[0], eager[0], tolerance)
    for one, other in zip(got[1], eager[1], strict=True):
        torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance * float(other.abs().max()) + 1e-6)
        assert one.stride() == other.stride()
    if x.requires_grad:
        torch.testing.assert_close(got[2], eager[2], rtol=tolerance, atol=tolerance)
        assert got[2].stride() == eager[2].stride()
    return compiled


def is_image(seen):
    """Not a weight: those have 3 by 3 elements a channel, or one."""
    return seen.count(",") >= 3 and not re.search(r",[13],[13]\]", seen)


def test_what_training_saves_of_images_stays_in_channels_last():
    model = nn.Sequential(block(3, 32), block(32, 32, groups=32), block(32, 64)).train()
    compiled = same_training(model, torch.randn(4, 3, 24, 24))
    for program, name in zip(compiled.programs(), ("convolution", "convolution_backward"), strict=True):
        calls = types_of_convolutions(program.code("loops"), name)
        assert len(calls) == 3
        for types in calls:
            assert all("{" in one for one in filter(is_image, types)), types
    forward, backward = (program.code("graph") for program in compiled.programs())
    images = re.findall(r"%saved\d+: f32\[4,(?:32|64),24,24\](\{[\d,]+\})?", backward)
    assert len(images) == 6 and images.count("") == 1  # What is also the result lies as eager's.
    # None of them is there in eager's layout, too.
    assert "f32[4,32,24,24]{" in forward


@pytest.mark.parametrize("statistics", ["train", "eval"])
@pytest.mark.parametrize("wants", [False, True], ids=["weights", "images"])
def test_gradients_in_channels_last_are_eagers(statistics, wants):
    model = nn.Sequential(block(3, 32), block(32, 32), nn.MaxPool2d(2), block(32, 48), nn.AvgPool2d(2))
    getattr(model, statistics)()
    same_training(model, torch.randn(4, 3, 24, 24, requires_grad=wants))


class Returning(nn.Module):
    """Results that are also saved, and seen through views, keep eager's strides."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.head = block(3, 32), block(32, 32), nn.Linear(32 * 12 * 12, 5)

    def forward(self, x):
        first = self.first(x)
        second = self.second(first) + first
        return first, self.head(second.flatten(1)), second.permute(0, 2, 3, 1), second.relu()


def test_results_that_are_saved_have_eagers_strides():
    same_training(Returning(), torch.randn(4, 3, 12, 12, requires_grad=True))


@pytest.mark.parametrize(
    "make",
    [
        lambda: nn.Sequential(nn.Conv3d(16, 32, 3), nn.BatchNorm3d(32), nn.ReLU(), nn.Conv3d(32, 32, 3)),
        lambda: nn.Sequential(nn.ConvTranspose3d(16, 32, 2, 2), nn.ReLU(), nn.Conv3d(32, 16, 1)),
    ],
    ids=["volumes", "transposed volumes"],
)
def test_training_of_volumes(make):
    same_training(make(), torch.randn(2, 16, 6, 6, 6, requires_grad=True))


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("channels", [8, 24])
def test_training_of_pointwise_and_transposed_convolutions(stride, channels):
    """oneDNN's gradient of the weight of strided pointwise ones of few channels writes out of bounds."""
    model = nn.Sequential(
        nn.Conv2d(channels, 32, 1, stride), nn.BatchNorm2d(32), nn.ReLU(), nn.ConvTranspose2d(32, 16, 2, 2)
    )
    same_training(model, torch.randn(4, channels, 16, 16, requires_grad=True))


def test_training_of_images_of_all_sizes():
    model = nn.Sequential(block(3, 32), block(32, 32), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 4))
    compiled = braze.compile(model, dynamic=True)
    for size in (16, 20, 27, 16):
        for batch in (3, 4):
            x = torch.randn(batch, 3, size, size + 3)
            want = trained(model, x, model)
            got = trained(model, x, compiled)
            same(got[0], want[0], 2e-3)
            for one, other in zip(got[1], want[1], strict=True):
                torch.testing.assert_close(one, other, rtol=2e-3, atol=2e-3 * float(other.abs().max()) + 1e-6)


def test_a_backward_of_a_kept_graph_and_hooks_on_what_is_saved():
    model = nn.Sequential(block(3, 32), block(32, 32)).eval()
    x = torch.randn(2, 3, 12, 12, requires_grad=True)
    compiled = braze.compile(model)
    for f in (model, compiled):
        x.grad = None
        with torch.autograd.graph.saved_tensors_hooks(lambda t: t.numpy().copy(), torch.from_numpy):
            result = f(x)
        result.sum().backward(retain_graph=True)
        result.square().sum().backward()
        if f is model:
            want = x.grad.clone()
    torch.testing.assert_close(x.grad, want, rtol=1e-3, atol=1e-3)


def test_second_derivatives_through_images_in_channels_last():
    model = nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), nn.Softplus(), nn.Conv2d(32, 32, 3), nn.Softplus())
    x = torch.randn(2, 3, 12, 12, requires_grad=True)
    found = []
    for f in (model, braze.compile(model)):
        (slope,) = torch.autograd.grad(f(x).sum(), x, create_graph=True)
        model.zero_grad()
        slope.square().sum().backward()
        found.append([p.grad.clone() for p in model.parameters()])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)


def test_settings_that_ask_for_eagers_layouts_between_steps():
    model = nn.Sequential(block(3, 32), block(32, 32), block(32, 32))
    x = torch.randn(4, 3, 16, 16)
    want = trained(model, x, model)
    compiled = braze.compile(model)
    for deterministic, onednn in ((False, True), (True, True), (False, False), (False, True)):
        torch.use_deterministic_algorithms(deterministic)
        try:
            with torch.backends.mkldnn.flags(enabled=onednn):
                got = trained(model, x, compiled)
        finally:
            torch.use_deterministic_algorithms(False)
        same(got[0], want[0], 2e-3)
        for one, other in zip(got[1], want[1], strict=True):
            torch.testing.assert_close(one, other, rtol=2e-3, atol=2e-3 * float(other.abs().max()) + 1e-6)
