"""Item 8.1: what x + 1 compiled serves x + 2: constants are parameters of the kernel, so the code is the same.

The figure is the compilation of x + 2 in a process that has compiled x + 1.
"""

import sys

from common import Item, compiled, main, milliseconds, traced


def braze():
    import torch

    x = torch.randn(10)
    traced(lambda x: x + 1, x)
    second = traced(lambda x: x + 2, x)
    anew = second.compile_stats()["compiled"]
    failed = [f"{anew} kernels were compiled for x + 2"] if anew else []
    if not torch.equal(second(x), x + 2):
        failed.append("x + 2 is wrong")
    return {"figure": second.compile_times()["total"] / 1e6, "failed": failed}


def torch_compile():
    import torch

    x = torch.randn(10)
    compiled(lambda x: x + 1, x)
    return {"figure": milliseconds(lambda: compiled(lambda x: x + 2, x))}


ITEM = Item("8.1", "compiling x + 2 after x + 1", "ms", 1, braze, torch_compile)


if __name__ == "__main__":
    sys.exit(main(ITEM, __file__, __doc__))
