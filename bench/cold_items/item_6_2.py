"""Item 6.2: shapes are told by rules in C++, remembered by operator and types: a thousand equal additions.

braze: the phase timer of the capture over the additions, the Python that calls them included. torch.compile: the
same calls on FakeTensors, whose cache is on.
"""

import sys

from common import Item, main, milliseconds, traced

CALLS = 1000


def program(x, y):
    for _ in range(CALLS):
        x = x + y
    return x


def braze():
    import torch

    times = [traced(program, torch.randn(8, 8), torch.randn(8)).compile_times()["capture"] / 1e3 for _ in range(2)]
    return {"figure": min(times) / CALLS}


def torch_compile():
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode(), torch.no_grad():
        x, y = torch.randn(8, 8), torch.randn(8)
        times = [milliseconds(lambda: program(x, y)) * 1e3 for _ in range(2)]
    return {"figure": min(times) / CALLS}


ITEM = Item("6.2", "recording an operator on known types", "us", 15, braze, torch_compile)


if __name__ == "__main__":
    sys.exit(main(ITEM, __file__, __doc__))
