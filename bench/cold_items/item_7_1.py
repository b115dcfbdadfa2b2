"""Item 7.1: compile_times() tells every phase in nanoseconds, always: how far their sum is from the clock.

torch.compile: its timer of a whole frame against the clock of the first call.
"""

import sys

from common import Item, compiled, main, milliseconds, traced


def program(x):
    return (x.softmax(-1) + 1).sum(0)


def braze():
    import torch

    x = torch.randn(8, 16)
    traced(torch.neg, x)  # the import of braze is no phase
    found = []
    clock = milliseconds(lambda: found.append(traced(program, x)))
    times = found[0].compile_times()
    parts = sum(ns for name, ns in times.items() if "/" not in name and name != "total")
    failed = []
    if any(not isinstance(ns, int) or ns < 0 for ns in times.values()):
        failed.append("a phase is no count of nanoseconds")
    if parts != times["total"]:
        failed.append(f"the phases sum to {parts} ns, their total says {times['total']}")
    off = 100 * abs(clock - times["total"] / 1e6) / clock
    return {"figure": off, "detail": f"{len(times) - 1} phases", "failed": failed}


def torch_compile():
    import torch

    x = torch.randn(8, 16)
    compiled(torch.neg, x)  # nor is the import here
    from torch._dynamo.utils import compilation_time_metrics as metrics

    metrics.clear()
    clock = milliseconds(lambda: compiled(program, x))
    frames = next(times for name, times in metrics.items() if name.startswith("_compile.compile_inner"))
    return {"figure": 100 * abs(clock - sum(frames) * 1e3) / clock, "detail": f"torch.compile: {len(metrics)}"}


ITEM = Item("7.1", "phase timers against the clock", "percent off", 20, braze, torch_compile)


if __name__ == "__main__":
    sys.exit(main(ITEM, __file__, __doc__))
