"""Writes docs/life_of_a_tensor.md: one small function on its way from Python to machine code, as braze shows it.

.venv/bin/python tools/life_of_a_tensor.py
"""

import os
import re
from pathlib import Path

# Before braze looks: the page is the same on every machine.
os.environ.update(BRAZE_ISA="avx2", BRAZE_LOGS="", BRAZE_FUSE="1", BRAZE_CACHE="0")

import torch

import braze

PAGE = Path(__file__).resolve().parent.parent / "docs/life_of_a_tensor.md"

FUNCTION = """
import torch

def score(features, weight):
    weighted = torch.relu(features * weight + 1)
    return weighted.mean(-1)
""".lstrip()

TEXT = """# The life of a tensor

One small function, from Python to the instructions that run, each stage as braze itself shows it. (The page is
made by `tools/life_of_a_tensor.py`; a test compares them.)

## 1. Python

```python
{function}```
```python
import braze

compiled = braze.compile(score)
scores = compiled(torch.randn(64, 512), torch.randn(512))
```

`braze.compile` does nothing yet. At the first call braze runs the function's bytecode itself
(`src/python/interpreter`). A *watcher* sees every instruction before it takes effect and asks where what it
uses came from: out of an argument, out of a global, made by this run. The arguments are replaced by *tracers*,
tensors that have a type and no numbers: PyTorch dispatches `mul`, `add`, `relu` and `mean` on them as ever, and
below autograd a dispatch key of braze's own notes down what was called (`src/capture`). Nothing is computed.

What the run relied on becomes its *guards* (`src/python/guards`). Before every later call they are checked, in
this order, in well under a microsecond; the first that fails sends the call to another program, or has it
captured again:

```
{guards}
```

`torch.relu` is found by its name in a module, so the module and the function are guarded; `torch.Tensor` may be
given operators by anybody, so its special methods are; two tensors that lie in one memory would be another
program.

## 2. The graph

What was noted down is a graph: every value has one definition and a type, and knows the line that it comes from
(`src/ir`).

```
{traced}
```

The passes (`src/passes/pipeline.cpp` lists them) rewrite it. Here `mean` is opened into what it is made of:

```
{graph}
```

The numbers are nodes, and will be arguments of the kernel, not parts of its code: the same code serves
`features * weight + 2`.

## 3. Loops

Lowering (`src/loops`) decides what is computed together. The whole graph becomes one kernel: nothing of what is
between the arguments and the means is ever stored.

```
{loops}
```

`parallel`: the rows are shared out among threads, at least `grain` to each. `vector`: the inner loop runs as
many elements at once as a register holds, `unroll` times side by side, so that {unroll} sums grow independently
of each other. Which loops there are, in what order and how wide, is decided by the *schedule*
(`src/loops/schedule`, a folder for CPUs and one for GPUs) from what the *target* says about the machine
(`src/target`).

## 4. The plan

Kernels and library calls in order, over planned memory. There is nothing between, so there is nothing to plan:

```
{plan}
```

`reads` counts every element of every argument once: {reads} bytes in and {writes} out, where eager moves
{eager} (each of its four operators reads and writes all of what it handles).

## 5. Machine code

The kernel becomes LLVM IR, written as it is meant to be (`src/codegen`): no optimiser runs, only LLVM's code
generator. This is the inner loop for AVX2:

```asm
{inner}
```

Four vectors of eight features are loaded, multiplied by the weights where they lie and increased by one in the
same instruction, cut off at zero, and added to four running sums. The whole kernel has {code_bytes} bytes. It
is position-independent: the same bytes are kept on disk, and a later process maps them without LLVM
(`src/codegen/x86/blob.h`).

## 6. The call

From now on `compiled(features, weight)` checks the guards, reads the two addresses, allocates the result, and
calls the kernel (`src/runtime`). `compiled.programs()[0]` is what this page was made from: `.code("graph")`,
`.code("loops")`, `.code("asm")`, `.kernels`, `.memory()`, `compiled.guards()`.

| | read on in |
|---|---|
| capture of Python, guards | [design/python.md](design/python.md), [design/guards.md](design/guards.md) |
| tracers, operators, memory | [design/capture.md](design/capture.md) |
| graph, passes | [design/graph.md](design/graph.md) |
| fusion, schedules, plans | [design/loops.md](design/loops.md) |
| machine code | [design/codegen.md](design/codegen.md) |
| calls | [design/runtime.md](design/runtime.md) |
"""


def inner_loop(assembly: str) -> str:
    """The block that jumps to itself."""
    for block in re.split(r"\n(?=\.L\w+:)", assembly):
        label = block.split(":", 1)[0].strip()
        jump = re.search(rf"^\tj\w+\t{re.escape(label)}$", block, re.MULTILINE)
        if jump:
            return block[: jump.end()].replace("\t", "    ")
    raise SystemExit("the kernel has no loop in one block")


def page() -> str:
    """The whole text; compiles the function."""
    space: dict[str, object] = {}
    exec(compile(FUNCTION, "score.py", "exec"), space)
    compiled = braze.compile(space["score"])
    features, weight = torch.randn(64, 512), torch.randn(512)
    with torch.no_grad():
        compiled(features, weight)
    (program,) = compiled.programs()
    loops, plan = program.code("loops").split("\nplan {", 1)
    (kernel,) = program.kernels
    element = features.element_size()
    eager = element * (7 * features.numel() + weight.numel() + len(features))
    return TEXT.format(
        function=FUNCTION,
        guards="\n".join(compiled.guards()[0]),
        traced=program.code("traced").strip(),
        graph=program.code("graph").strip(),
        loops=loops.strip(),
        plan=("plan {" + plan).strip(),
        unroll=re.search(r"unroll=(\d+)", loops)[1],
        reads=f"{kernel.bytes_read:,}",
        writes=f"{kernel.bytes_written:,}",
        eager=f"{eager:,}",
        inner=inner_loop(program.code("asm")),
        code_bytes=program.memory()["code_bytes"],
    )


if __name__ == "__main__":
    PAGE.write_text(page())
    print(PAGE)
