"""Item 5.1: all kernels of a graph are compiled in one batch: eight in one graph against eight graphs of one.

The figure is the time of the one graph over the sum of the eight, 1 if nothing is gained. No two kernels have the
same structure, so that none is found compiled.
"""

import os
import sys

from common import Item, compiled, main, milliseconds, traced

KERNELS = 8
STEPS = ("sin", "exp", "tanh", "sigmoid", "log1p", "erf", "cos", "sqrt", "expm1")


def kernel(first, second):
    """Four operators in an order of its own, then a sum over rows."""
    names = [STEPS[first % 9], STEPS[second % 9], STEPS[(first + second) % 9], "abs"]

    def fn(x):
        for name in names:
            x = getattr(x, name)()
        return x.sum(-1)

    return fn


def together(fns):
    return lambda *inputs: [fn(x) for fn, x in zip(fns, inputs, strict=True)]


def compare(compile_one):
    import torch

    # Other sizes, so that the kernels of one graph cannot be fused.
    inputs = [torch.rand(8, 16 + number) for number in range(KERNELS)]
    compile_one(kernel(7, 8), inputs[0])  # what only the first compilation of a process pays
    batch = [kernel(number, 1) for number in range(KERNELS)]
    single = [kernel(number, 3) for number in range(KERNELS)]
    once = milliseconds(lambda: compile_one(together(batch), *inputs))
    apart = sum(milliseconds(lambda f=fn, x=x: compile_one(f, x)) for fn, x in zip(single, inputs, strict=True))
    return {"figure": once / apart, "detail": f"{once:.3g} against {apart:.3g} ms"}


def braze():
    return compare(traced)


def torch_compile():
    import torch

    def afresh(fn, *inputs):
        torch._dynamo.reset()  # All kernels share one code object, which is recompiled only eight times.
        return compiled(fn, *inputs)

    return compare(afresh)


# Threads are what is gained; a single processor gains nothing.
LIMIT = 0.8 if len(os.sched_getaffinity(0)) > 1 else 1.1
ITEM = Item("5.1", "eight kernels in one graph, against eight graphs", "of the time", LIMIT, braze, torch_compile)


if __name__ == "__main__":
    sys.exit(main(ITEM, __file__, __doc__))
