"""What PyTorch's profiler and Linux's perf see of compiled programs."""

import json
import os
import subprocess
import sys

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

import braze
from braze._load import C

pytestmark = pytest.mark.skipif(not hasattr(C, "CompiledFunction"), reason="no evaluator for this Python")


def model(x, w):
    return torch.softmax(torch.nn.functional.gelu(x @ w), -1)


@pytest.fixture
def trace(tmp_path):
    """A function that profiles a call: events by name, in the order in which they began."""

    def record(call, **choices):
        with profile(activities=[ProfilerActivity.CPU], **choices) as profiler:
            call()
        profiler.export_chrome_trace(str(tmp_path / "trace.json"))
        events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
        events = [each for each in events if each.get("ph") == "X" and "dur" in each]
        return sorted(events, key=lambda each: each["ts"])

    return record


def named(events, start):
    return [each for each in events if each["name"].startswith(start)]


def holds(outer, inner):
    return outer["ts"] <= inner["ts"] and inner["ts"] + inner["dur"] <= outer["ts"] + outer["dur"] + 1e-3


def test_steps_of_a_replay(trace):
    x, w = torch.randn(32, 64), torch.randn(64, 16)
    compiled = braze.compile(model)
    compiled(x, w)
    events = trace(lambda: compiled(x, w), record_shapes=True)
    (guards,) = named(events, "braze::guards")
    (program,) = named(events, "braze::program")
    (kernel,) = named(events, "braze::kernel")
    (call,) = named(events, "braze::call aten::mm")
    assert guards["ts"] + guards["dur"] <= program["ts"] + 1e-3
    assert holds(program, call) and holds(program, kernel) and call["ts"] < kernel["ts"]
    assert not named(events, "braze::compile")
    steps = {step.name for step in compiled.programs()[0].steps}
    assert kernel["name"].removeprefix("braze::kernel ") in steps
    torch.testing.assert_close(compiled(x, w), model(x, w))


def test_shapes_are_told(trace):
    x, w = torch.randn(32, 64), torch.randn(64, 16)
    compiled = braze.compile(model)
    compiled(x, w)
    for asked in (True, False):
        events = trace(lambda: compiled(x, w), record_shapes=asked)
        (call,), (kernel,) = named(events, "braze::call aten::mm"), named(events, "braze::kernel")
        if asked:
            assert call["args"]["shapes"] == "f32[32,64], f32[64,16] -> f32[32,16]"
            assert kernel["args"]["shapes"] == "f32[32,16] -> f32[32,16]"
        else:
            assert "shapes" not in call["args"] and "shapes" not in kernel["args"]


def test_bytes_and_fused_operators_are_told(trace):
    x = torch.randn(32, 64)
    compiled = braze.compile(lambda x: torch.softmax(x * 3, -1))
    compiled(x)
    (kernel,) = named(trace(lambda: compiled(x), record_shapes=True), "braze::kernel")
    assert int(kernel["args"]["bytes_read"]) == int(kernel["args"]["bytes_written"]) == 32 * 64 * 4
    assert "exp" in kernel["args"]["fused"]
    assert int(kernel["args"]["flops"]) >= 32 * 64 * 4


def test_phases_of_a_first_call(trace):
    compiled = braze.compile(model)
    x, w = torch.randn(32, 64), torch.randn(64, 16)
    events = trace(lambda: compiled(x, w))
    names = [each["name"] for each in named(events, "braze::compile")]
    for phase in ("capture", "passes", "loops", "codegen", "bind"):
        assert f"braze::compile {phase}" in names, names
    (passes,) = named(events, "braze::compile passes")[:1] or [None]
    assert any(holds(passes, part) for part in named(events, "braze::compile passes/"))


def test_training(trace):
    layer = torch.nn.Linear(16, 16)
    compiled = braze.compile(layer)
    x = torch.randn(4, 16)
    compiled(x).sum().backward()
    events = trace(lambda: compiled(x).relu().sum().backward())
    assert len(named(events, "braze::program")) == 2


def test_watched_kernels_compute_the_same_bits():
    """Watched, each kernel of a parallel region runs by itself."""

    def f(x, y):
        a, b = torch.softmax(x, -1), torch.layer_norm(y, (256,))
        return a.sum(0), b * 2, (a + 1).amax(-1)

    x, y = torch.randn(2048, 256), torch.randn(2048, 256)
    compiled = braze.compile(f)
    first = compiled(x, y)
    for number in range(40):  # The 2nd, 3rd, 5th, ... are measured.
        for one, other in zip(first, compiled(x, y), strict=True):
            assert torch.equal(one, other), number
    with profile(activities=[ProfilerActivity.CPU]):
        for one, other in zip(first, compiled(x, y), strict=True):
            assert torch.equal(one, other)


def test_an_error_inside_of_a_watched_step():
    compiled = braze.compile(lambda x, i: x[i] * 2)
    x = torch.randn(8)
    compiled(x, torch.tensor([1]))
    with profile(activities=[ProfilerActivity.CPU]), pytest.raises(IndexError):
        compiled(x, torch.tensor([100]))
    torch.testing.assert_close(compiled(x, torch.tensor([2])), x[torch.tensor([2])] * 2)


def test_steps_are_measured_on_few_calls():
    program = braze.trace(lambda x: torch.softmax(x, -1), torch.randn(64, 64), check=False)
    x = torch.randn(64, 64)
    assert program.step_times() == [0]
    program(x)
    assert program.step_times() == [0]
    program(x)
    (time,) = program.step_times()
    assert time > 0


def test_names_for_perf(tmp_path):
    code = """
import os, torch, braze
f = braze.compile(lambda x: torch.softmax(x * 2, -1))
f(torch.randn(4, 8))
(kernel,) = f.programs()[0].kernels
print(os.getpid(), kernel.name, kernel.code_bytes)
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "BRAZE_PERF_MAP": "1", "BRAZE_CACHE": "0"},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    process, name, size = done.stdout.split()
    path = f"/tmp/perf-{process}.map"
    try:
        with open(path) as file:
            lines = [line for line in file if "braze::" in line]
    finally:
        os.unlink(path)
    start, length, *words = lines[0].split()
    assert words == [f"braze::{name}"]
    assert int(start, 16) > 0 and 0 < int(length, 16) <= int(size)
