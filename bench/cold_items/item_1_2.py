"""Item 1.2: no worker processes: how many child processes there are, or were, after a first compilation."""

import sys

from common import Item, compiled, main, measure, traced


def program(x):
    return (x.softmax(-1) + 1).sum(0)


def braze():
    import torch

    children = measure.ChildProcesses()
    traced(program, torch.randn(8, 16))
    return {"figure": children.count()}


def torch_compile():
    import torch

    children = measure.ChildProcesses()
    compiled(program, torch.randn(8, 16))
    return {"figure": children.count()}


ITEM = Item("1.2", "child processes", "processes", 0, braze, torch_compile)


if __name__ == "__main__":
    sys.exit(main(ITEM, __file__, __doc__))
