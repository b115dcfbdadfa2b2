"""Item 7.2: compile_allocations() tells what every phase asked the heap for: megabytes for a first compilation.

braze: all blocks of all phases, freed ones too, of its own code and of LLVM. torch.compile: by how much its process
grew, without what it freed and without its worker processes: less than what was asked for.
"""

import sys

from common import Item, compiled, main, measure, traced


def program(x):
    return (x.softmax(-1) + 1).sum(0)


def braze():
    import torch

    compilation = traced(program, torch.randn(8, 16))
    allocations = compilation.compile_allocations()
    failed = []
    if allocations.keys() != compilation.compile_times().keys():
        failed.append("the phases are not those of compile_times()")
    phases = {name: pair for name, pair in allocations.items() if "/" not in name and name != "total"}
    if tuple(map(sum, zip(*phases.values(), strict=True))) != allocations["total"]:
        failed.append("the phases do not sum to their total")
    blocks, size = allocations["total"]
    if compilation.memory()["graph_peak_bytes"] > size:
        failed.append("the graph alone held more")
    largest = max(phases, key=lambda name: phases[name][1])
    detail = f"{blocks} blocks; {largest}: {phases[largest][1] / 1e6:.2g} MB"
    return {"figure": size / 1e6, "detail": detail, "failed": failed}


def torch_compile():
    import torch

    x = torch.randn(8, 16)
    before = measure.resident_bytes()
    compiled(program, x)
    return {"figure": (measure.resident_bytes() - before) / 1e6, "detail": "torch.compile: held, not asked for"}


ITEM = Item("7.2", "memory asked for by a first compilation", "MB", 50, braze, torch_compile)


if __name__ == "__main__":
    sys.exit(main(ITEM, __file__, __doc__))
