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


def types_of_convolutions(plan):
    """Of each convolution of a plan in text, its operands and result, with strides in braces if not row-major."""
    buffers = dict(re.findall(r"^  (#\d+) = .* : (\S+)$", plan, re.MULTILINE))
    calls = re.findall(r"^  call 'aten::convolution'(.*)", plan, re.MULTILINE)
    return [[seen or buffers[name] for name, seen in re.findall(r"(#\d+)(?: as (\S+))?", call)] for call in calls]


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


def test_forwards_of_training_stay_row_major():
    """The backward reads every result in eager's layout: all would be there twice."""
    model = nn.Sequential(block(3, 32), block(32, 32), block(32, 64))
    compiled = braze.compile(model)
    compiled(torch.randn(2, 3, 24, 24)).sum().backward()
    calls = types_of_convolutions(compiled.programs()[0].code("loops"))
    assert len(calls) == 3
    assert not any("{" in "".join(types) for types in calls)
