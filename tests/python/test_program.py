"""What a program tells about itself, and what a call may rely on."""

import gc
import multiprocessing
import os
import subprocess
import sys
import weakref

import pytest
import torch
from compare import check

import braze


def softmax_plus(x, w):
    return (x @ w).softmax(-1) + 1


@pytest.fixture(scope="module")
def program():
    return braze.trace(softmax_plus, (torch.randn(4, 8), torch.randn(8, 16)))


def test_what_it_tells(program):
    assert isinstance(program, braze.Program)
    assert "softmax_plus" in repr(program)
    assert "%x: f32[4,8]" in program.graph
    assert program.code("graph") == program.graph
    assert "softmax" in program.code("traced")
    assert "kernel @" in program.code("loops")
    assert "define" in program.code("llvm")
    assert ".text" in program.code("asm") or "ret" in program.code("asm")


def test_kernels_and_steps(program):
    (kernel,) = program.kernels
    assert kernel.launches == 1
    assert kernel.bytes_read >= 4 * 16 * 4
    assert kernel.bytes_written == 4 * 16 * 4
    assert kernel.code_bytes > 0
    assert any("add" in node for node in kernel.fused)
    assert [step.kind for step in program.steps] == ["call", "kernel"]
    assert program.steps[0].name == "aten::mm"
    assert "test_program.py" in program.steps[0].source


def test_times_and_memory(program):
    times = program.compile_times()
    assert {"capture", "passes", "loops", "codegen", "total"} <= times.keys()
    assert times["total"] >= times["capture"] > 0
    memory = program.memory()
    assert memory["output_bytes"] == 4 * 16 * 4
    assert memory["code_bytes"] > 0
    assert memory["graph_peak_bytes"] >= memory["graph_bytes"] >= memory["graph_used_bytes"] > 0


def test_allocations_by_phase(program):
    allocations, times = program.compile_allocations(), program.compile_times()
    assert allocations.keys() == times.keys()
    assert all(count >= 0 and size >= count for count, size in allocations.values())
    whole = [pair for phase, pair in allocations.items() if "/" not in phase and phase != "total"]
    assert allocations["total"] == tuple(map(sum, zip(*whole, strict=True)))
    # The graph is built while capturing; the passes' parts are in the passes.
    assert allocations["capture"][1] > program.memory()["graph_used_bytes"] / 2
    parts = [size for phase, (_, size) in allocations.items() if phase.startswith("passes/")]
    assert 0 < sum(parts) <= allocations["passes"][1]


def test_threads_that_compile_are_counted_with_the_phase(monkeypatch):
    monkeypatch.setenv("BRAZE_CACHE", "0")

    def many(*tensors):
        return [torch.softmax(tensor * 1.5, -1).cumsum(0) for tensor in tensors]

    tensors = [torch.randn(3 + k, 4 + k) for k in range(12)]
    program = braze.trace(many, tuple(tensors), check=False)
    assert program.compile_stats()["compiled"] > 4
    allocations = program.compile_allocations()
    parts = [allocations[f"codegen/{part}"] for part in ("emit", "machine", "store", "load")]
    assert sum(size for _, size in parts) <= allocations["codegen"][1]
    # LLVM allocates megabytes.
    assert allocations["codegen/machine"][1] > 2**20


def test_equal_types_and_texts_are_stored_once():
    def chain(x, y):
        for _ in range(100):
            x = x + y
        return x

    stats = braze.trace(chain, (torch.randn(3), torch.randn(3)), check=False).graph_stats()
    assert stats["values"] >= 102
    assert stats["types"] == 1
    assert stats["types_wanted"] >= 100
    assert stats["text_copies"] == stats["texts"] < 10


def test_tracing_twice_gives_the_same_text():
    one, other = (braze.trace(softmax_plus, (torch.randn(4, 8), torch.randn(8, 16))) for _ in range(2))
    for stage in ("traced", "graph", "loops", "llvm"):
        assert one.code(stage) == other.code(stage)
    assert one.compile_stats()["compiled"] == 0 or other.compile_stats()["compiled"] == 0


def test_inputs_are_released(program):
    x = torch.randn(4, 8)
    alive = weakref.ref(x)
    program(x, torch.randn(8, 16))
    del x
    gc.collect()
    assert alive() is None


def test_program_is_released():
    weight = torch.randn(3)
    program = braze.trace(lambda x: x * weight, (torch.randn(3),))
    alive = weakref.ref(program)
    del program
    gc.collect()
    assert alive() is None


def test_results_do_not_share_memory_of_the_program():
    program = braze.trace(lambda x: (x + 1, (x * 2).t(), x.cumsum(0)), (torch.randn(5, 5),))
    x = torch.randn(5, 5)
    kept = program(x)
    first = [result.clone() for result in kept]
    program(torch.randn(5, 5))
    for one, other in zip(kept, first, strict=True):
        assert torch.equal(one, other)


def test_unaligned_inputs():
    program = braze.trace(lambda x: (x * 2).sum() + x, (torch.randn(1000),))
    for start in range(1, 9):
        x = torch.randn(1010)[start : start + 1000]
        torch.testing.assert_close(program(x), (x * 2).sum() + x)


def test_unaligned_inputs_that_are_written():
    program = braze.trace(lambda x: x.mul_(2).sum(), (torch.ones(100),))
    memory = torch.ones(110)
    program(memory[3:103])
    assert memory.sum() == 210


def test_written_inputs_tell_autograd():
    program = braze.trace(lambda x: x.add_(1), (torch.ones(3),))
    x, w = torch.ones(3), torch.ones(3, requires_grad=True)
    product = (x * w).sum()
    assert program(x) is x
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.backward()


def test_strides_of_size_one_do_not_matter():
    program = braze.trace(lambda x: x + 1, (torch.randn(1, 4),))
    x = torch.randn(4, 1).t()
    assert torch.equal(program(x), x + 1)


def test_broadcast_inputs():
    check(lambda a: a * 2 + 1, torch.randn(4, 1).expand(4, 5))


def child(program, x, expected, queue):
    torch.set_num_threads(1)
    queue.put(torch.equal(program(x), expected))


def test_fork_after_compile():
    program, x = braze.trace(lambda x: (x + 1).sum(-1), (torch.randn(4, 8),)), torch.randn(4, 8)
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    process = context.Process(target=child, args=(program, x, program(x), queue))
    process.start()
    process.join(60)
    assert process.exitcode == 0
    assert queue.get()


def test_switches():
    """Without fusion, and without the disk cache, the results are the same."""
    code = (
        "import torch, braze\n"
        "x = torch.linspace(-2, 2, 64).view(4, 16)\n"
        "fn = lambda x: (x.softmax(-1) * 2 + x).sum(-1)\n"
        "p = braze.trace(fn, (x,))\n"
        "torch.testing.assert_close(p(x), fn(x))\n"
        "print(len(p.steps))"
    )
    steps = []
    for setting in ({}, {"BRAZE_FUSE": "0"}, {"BRAZE_CACHE": "0"}):
        done = subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, **setting}, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        steps.append(int(done.stdout))
    assert steps[0] == 1 == steps[2]
    assert steps[1] > 1


KNOWN = """
import sys, torch, braze
torch.manual_seed(0)
def block(x, w):
    return torch.softmax(x @ w, -1) * torch.sigmoid(x).sum()
x, w = torch.randn(6, 8), torch.randn(8, 8)
program = braze.trace(block, (x, w))
print("loops" in program.compile_times(), "artifact" in program.compile_times())
print(program.compile_stats()["compiled"])
print(program.code("traced") + program.graph + program.code("loops"))
print([step.source for step in program.steps], program(x, w).double().sum().item().hex())
with torch.no_grad():
    sized = braze.compile(lambda x: torch.softmax(x, -1).cumsum(0)[1:], dynamic=True)
    print([sized(torch.ones(n, 5)).sum().item() for n in (3, 4, 7, 200)], sized.counts())
"""


def run_known(folder, **settings):
    done = subprocess.run(
        [sys.executable, "-c", KNOWN],
        env={**os.environ, "BRAZE_CACHE_DIR": str(folder), "BRAZE_CACHE": "1", "BRAZE_VERIFY": "0", **settings},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lowered, compiled, rest = done.stdout.split("\n", 2)
    return lowered, int(compiled), rest


def test_a_second_process_does_not_lower_what_is_known(tmp_path):
    first, second = run_known(tmp_path), run_known(tmp_path)
    assert first[0] == "True True"
    assert first[1] > 0
    assert second[0] == "False True"
    assert second[1] == 0
    assert second[2] == first[2]  # texts, lines, bits, families of sizes
    assert run_known(tmp_path, BRAZE_CACHE="0") == ("True False", first[1], first[2])


def test_files_of_the_cache_that_are_damaged_cost_time_alone(tmp_path):
    first = run_known(tmp_path)
    files = [file for file in tmp_path.iterdir() if file.is_file() and file.stat().st_size > 100]
    assert len(files) > 3
    for damage in (
        lambda whole: whole[: len(whole) // 2],
        lambda whole: whole[:60] + bytes([whole[60] ^ 1]) + whole[61:],
        lambda whole: b"",
    ):
        for file in files:
            file.write_bytes(damage(file.read_bytes()) if file.exists() and file.stat().st_size > 100 else b"x")
        assert run_known(tmp_path) == first
