"""Practice 4: reading the generated code, and fusion: bytes counted, and measured against a copy.

A chain of pointwise operators is limited by memory. Eager PyTorch reads and writes whole tensors for each
operator; one fused kernel reads the inputs once and writes the result once, and should take as long as a copy
of these.
"""

import re

import torch
from lesson import IS_BRAZE, Lesson, run
from torch.utils._python_dispatch import TorchDispatchMode


def chain(x, y):
    return torch.relu(x * 1.5 + y) * torch.sigmoid(x) - 0.25


def entropy(x):
    p = torch.softmax(x, dim=-1)
    return -(p * torch.log(p + 1e-9)).sum(dim=-1)


class CountedBytes(TorchDispatchMode):
    """What every operator of eager PyTorch reads and writes."""

    def __init__(self) -> None:
        super().__init__()
        self.moved = self.operators = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        tensors = [value for value in (*args, result) if isinstance(value, torch.Tensor)]
        self.moved += sum(tensor.numel() * tensor.element_size() for tensor in tensors)
        self.operators += 1
        return result


def copy_us(lesson: Lesson, moved: int) -> float:
    """A copy that reads and writes so many bytes together."""
    source = torch.zeros(moved // 8)
    target = torch.empty_like(source)
    return lesson.median_us(copy=lambda: target.copy_(source))["copy"]


def kernels_of(compiled, inputs, result) -> tuple[int, int]:
    """(how many, bytes that they move). braze counts both. Inductor's are counted in what it writes, and move at
    least the inputs and the result."""
    if IS_BRAZE:
        (program,) = compiled.programs()
        return len(program.kernels), sum(k.bytes_read + k.bytes_written for k in program.kernels)
    from torch._inductor.utils import run_and_get_code

    _, (code, *_) = run_and_get_code(compiled, *inputs)
    return code.count('extern "C"'), sum(tensor.nbytes for tensor in (*inputs, result))


#: With and without fusion. Inductor always fuses; without it there is the prepared graph, which ATen runs.
if IS_BRAZE:
    CHOICES = {"not fused": {"options": {"fusion": False}}, "fused": {}}
else:
    CHOICES = {"not fused": {"backend": "aot_eager"}, "fused": {}}


def study(lesson: Lesson, fn, *inputs: torch.Tensor) -> None:
    with CountedBytes() as eager:
        expected = fn(*inputs)
    calls = {"eager": lambda: fn(*inputs)}
    counted = {"eager": (eager.operators, eager.moved)}
    for name, choice in CHOICES.items():
        torch._dynamo.reset()
        compiled = torch.compile(fn, **choice)
        is_run_by_aten = "backend" in choice
        if IS_BRAZE:
            compiled(*inputs)  # Captured now: there is a program to look at.
        counted[name] = counted["eager"] if is_run_by_aten else kernels_of(compiled, inputs, expected)
        torch.testing.assert_close(compiled(*inputs), expected)
        calls[name] = lambda compiled=compiled: compiled(*inputs)
    times = lesson.median_us(**calls)
    rows = []
    for name, us in times.items():
        kernels, moved = counted[name]
        copied = copy_us(lesson, moved)
        rows.append([name, kernels, f"{moved / 2**20:.1f}", f"{us:.0f}", f"{copied:.0f}", f"{us / copied:.2f}"])
        lesson.facts.setdefault(fn.__name__, []).append((name, moved, us, copied))
    lesson.table(
        [fn.__name__, "kernels", "MB moved", "us a call", "us a copy of these", "call / copy"],
        rows,
    )


def show_code(lesson: Lesson, x, y) -> None:
    """From the graph to instructions. PyTorch's is C++, to be read with TORCH_LOGS=output_code."""
    if not IS_BRAZE:
        from torch._inductor.utils import run_and_get_code

        torch._dynamo.reset()
        _, (code, *_) = run_and_get_code(torch.compile(chain), x, y)
        lesson.section("The generated code (of this machine)")
        for line in code[max(0, code.find('extern "C"')) :].splitlines()[:30]:
            lesson.say(line.rstrip())
        return
    compiled = torch.compile(chain)
    compiled(x, y)
    (program,) = compiled.programs()
    lesson.section("The graph after all passes")
    lesson.say(re.sub(r"\S*/(?=phase4)", "", program.code("graph")).rstrip())
    lesson.section("Loops")
    lesson.say(program.code("loops").partition("\nplan ")[0].rstrip())
    lesson.section("Kernels")
    for kernel in program.kernels:
        lesson.say(f"{kernel.name}: reads {kernel.bytes_read}, writes {kernel.bytes_written} bytes")
        lesson.say(f"  {', '.join(kernel.fused)}")
    lesson.section("Instructions (of this machine)")
    lines = program.code("asm").splitlines()
    loads = [number for number, line in enumerate(lines) if "vmovups" in line]
    for line in lines[loads[0] : loads[0] + 12] if loads else lines[:12]:
        lesson.say(line.strip().replace("\t", " "))


def main(lesson: Lesson) -> None:
    rows = 256 if lesson.quick else 16384  # 64 MB a tensor: more than caches hold.
    x, y = torch.randn(rows, 1024), torch.randn(rows, 1024)
    with torch.no_grad():
        lesson.section("Bytes counted, and measured against a copy")
        study(lesson, chain, x, y)
        lesson.say()
        study(lesson, entropy, x)
        show_code(lesson, x[:64], y[:64])


def draw(figure, facts: dict[str, dict]) -> None:
    """Each call beside a copy of as many bytes."""
    figure.set_size_inches(11, 4 * len(facts))
    axes = figure.subplots(len(facts), 2, squeeze=False)
    for line, (compiler, found) in zip(axes, facts.items(), strict=True):
        for axis, (name, rows) in zip(line, found.items(), strict=True):
            places = range(len(rows))
            axis.bar(
                [p - 0.2 for p in places], [row[2] / 1e3 for row in rows], 0.4, color="#e4572e", label="the call"
            )
            axis.bar(
                [p + 0.2 for p in places],
                [row[3] / 1e3 for row in rows],
                0.4,
                color="#9aa5b1",
                label="a copy of its bytes",
            )
            axis.set(title=f"{name}, {compiler}", ylabel="ms")
            axis.set_xticks(places, [f"{row[0]}\n{row[1] / 2**20:.0f} MB" for row in rows])
    axes[0][-1].legend(frameon=False)


if __name__ == "__main__":
    run(main, __doc__)
