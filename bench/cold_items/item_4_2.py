"""Item 4.2: simplifying expressions of sizes again costs nothing: they are interned, in one form of each.

The figure is 1,000 times the same expressions over two symbolic sizes, each compared with another way to write it,
after a first time. braze: on the sizes of a tensor of a trace. torch.compile: on those of the FakeTensor that is in
its place there.
"""

import sys

from common import Item, main, milliseconds

TIMES = 1000


def simplified(n, m):
    """Whether pairs of expressions that say the same are found equal."""
    return (
        (n + m) * (n - m) == n * n - m * m
        and (4 * n + 6 * m * n) // 2 == n * (2 + 3 * m)
        and (n * m + 2 * n - n) % n == 0
        and 3 * (n + 2) - 2 * (n + 3) == n
    )


def timed(n, m):
    if not simplified(n, m):
        raise AssertionError("equal expressions differ")
    return milliseconds(lambda: [simplified(n, m) for _ in range(TIMES)])


def braze():
    import torch

    import braze

    times = []

    def program(x):
        times.append(timed(*x.shape))
        return x + 1

    made = braze.trace(program, torch.randn(6, 10), dynamic={"x": [0, 1]}, check=False)
    bigger = torch.randn(9, 31)
    failed = [] if torch.equal(made(bigger), bigger + 1) else ["the sizes have become numbers"]
    return {"figure": times[0], "failed": failed}


def torch_compile():
    import torch
    from torch._dynamo.source import ConstantSource
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext

    dynamic = StatelessSymbolicContext(dynamic_sizes=[DimDynamic.DYNAMIC] * 2)
    mode = FakeTensorMode(shape_env=ShapeEnv())
    x = mode.from_tensor(torch.randn(6, 10), source=ConstantSource("x"), symbolic_context=dynamic)
    return {"figure": timed(*x.shape)}


ITEM = Item("4.2", "4,000 known comparisons of sizes", "ms", 120, braze, torch_compile)


if __name__ == "__main__":
    sys.exit(main(ITEM, __file__, __doc__))
