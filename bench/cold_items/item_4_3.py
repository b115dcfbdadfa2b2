"""Item 4.3: reading a tensor's metadata while tracing costs no dispatch: 30,000 reads of shape, dtype and device.

braze: on a tensor of a trace. torch.compile: on the FakeTensor that stands for it there.
"""

import sys

from common import Item, main, milliseconds, traced

READS = 10_000  # of each of three properties


def read(x):
    for _ in range(READS):
        x.shape, x.dtype, x.device  # noqa: B018  (reading is all that is measured)


def braze():
    import torch

    times = []

    def program(x):
        times.append(milliseconds(lambda: read(x)))
        return x + 1

    traced(program, torch.randn(4, 5))
    return {"figure": times[0]}


def torch_compile():
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        x = torch.randn(4, 5)
        return {"figure": milliseconds(lambda: read(x))}


ITEM = Item("4.3", "30,000 reads of metadata", "ms", 10, braze, torch_compile)


if __name__ == "__main__":
    sys.exit(main(ITEM, __file__, __doc__))
