"""Item 3.1: nothing is looked up twice while capturing: compiling x.T ten times, each time from the beginning.

braze: ten new compiled functions and their first calls. torch.compile: the same after torch._dynamo.reset() each
time. Both sides have compiled it once before.
"""

import sys

from common import Item, compiled, main, milliseconds

TIMES = 10


def braze():
    import torch

    import braze

    x = torch.randn(4, 5)
    functions = []

    def anew():
        functions.append(braze.compile(lambda x: x.T))
        return functions[-1](x)

    anew()
    result = anew()
    took = milliseconds(lambda: [anew() for _ in range(TIMES)])
    failed = [] if torch.equal(result, x.T) and result.data_ptr() == x.data_ptr() else ["x.T is wrong"]
    native = sum(function.counts()["native"] for function in functions)
    if native:
        failed.append(f"{native} calls ran natively: {'; '.join(functions[-1].reasons())}")
    return {"figure": took, "failed": failed}


def torch_compile():
    import torch

    x = torch.randn(4, 5)

    def anew():
        torch._dynamo.reset()
        compiled(lambda x: x.T, x)

    anew()
    return {"figure": milliseconds(lambda: [anew() for _ in range(TIMES)])}


ITEM = Item("3.1", "compiling x.T ten times", "ms", 5, braze, torch_compile)


if __name__ == "__main__":
    sys.exit(main(ITEM, __file__, __doc__))
