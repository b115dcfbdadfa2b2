"""Item 3.2: a graph is found again by its structural hash: compiling a known graph a second time.

braze: the program's phase timers, in a process that has compiled the same function before. torch.compile: the same
after torch._dynamo.reset(), with its graph cache filled.
"""

import sys

from common import Item, compiled, main, milliseconds, traced


def program(x, y):
    return (x * y + 1).softmax(-1).sum(0)


def braze():
    import torch

    x, y = torch.randn(8, 16), torch.randn(16)
    cold = traced(program, x, y).compile_times()["total"] / 1e6
    again = traced(program, x, y)
    compiled_anew = again.compile_stats()["compiled"]
    failed = [f"{compiled_anew} kernels were compiled again"] if compiled_anew else []
    return {"figure": again.compile_times()["total"] / 1e6, "detail": f"{cold:.3g} when cold", "failed": failed}


def torch_compile():
    import torch

    x, y = torch.randn(8, 16), torch.randn(16)
    compiled(program, x, y)
    torch._dynamo.reset()
    return {"figure": milliseconds(lambda: compiled(program, x, y))}


ITEM = Item("3.2", "compiling a known graph", "ms", 1, braze, torch_compile)


if __name__ == "__main__":
    sys.exit(main(ITEM, __file__, __doc__))
