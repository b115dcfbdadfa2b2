"""Item 6.1: operators find their rules in one table: what recording a common operator costs.

braze: the phase timer of the capture over the operators recorded, the Python that calls them included.
torch.compile: the same calls on FakeTensors, which is where its shapes come from.
"""

import sys

from common import Item, main, milliseconds, traced

ROUNDS = 50
OPERATORS = 20


def program(x, y):
    for _ in range(ROUNDS):
        a = x + y
        b = a * x
        c = b - y
        d = c / 2
        e = d.exp() + a.tanh()
        f = e.relu().sigmoid()
        g = f.transpose(0, 1).reshape(-1).view(x.shape)
        h = g.sum(-1, keepdim=True)
        i = (g - h).abs().clamp(0, 1)
        x = (i @ y).softmax(-1)
    return x


def braze():
    import torch

    times = [
        traced(program, torch.randn(8, 8), torch.randn(8, 8)).compile_times()["capture"] / 1e3 for _ in range(2)
    ]
    return {"figure": min(times) / ROUNDS / OPERATORS}


def torch_compile():
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode(), torch.no_grad():
        x, y = torch.randn(8, 8), torch.randn(8, 8)
        times = [milliseconds(lambda: program(x, y)) * 1e3 for _ in range(2)]
    return {"figure": min(times) / ROUNDS / OPERATORS}


ITEM = Item("6.1", "recording a common operator", "us", 20, braze, torch_compile)


if __name__ == "__main__":
    sys.exit(main(ITEM, __file__, __doc__))
