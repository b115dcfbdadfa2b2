"""Item 4.1: static shapes need no guards of their own: how many guards each further tensor adds.

The same function of 10 and of 20 tensors of one static shape; what one compare covers (type, dtype, device, sizes,
strides, gradient) counts as one guard.
"""

import sys

from common import Item, main

FEW, MANY = 10, 20


def program(*tensors):
    total = tensors[0]
    for tensor in tensors[1:]:
        total = total + tensor
    return total


def tensors(count):
    import torch

    return [torch.randn(4, 5) for _ in range(count)]


def result(counts, side=""):
    return {"figure": (counts[1] - counts[0]) / (MANY - FEW), "detail": f"{side}{counts[1]} for {MANY} tensors"}


def braze():
    import braze

    counts, failed = [], []
    for count in (FEW, MANY):
        compiled = braze.compile(program)
        arguments = tensors(count)
        compiled(*arguments)
        compiled(*arguments)
        if compiled.counts()["replayed"] != 1:
            failed.append(f"{count} tensors are not replayed: {'; '.join(compiled.reasons())}")
        counts.append(sum(len(texts) for texts in compiled.guards()))
    return {**result(counts), "failed": failed}


def torch_compile():
    import torch

    counts = []
    for count in (FEW, MANY):
        torch._dynamo.reset()
        counts.append(len(torch._dynamo.explain(program)(*tensors(count)).out_guards))
    return result(counts, "torch.compile: ")


ITEM = Item("4.1", "guards that a tensor adds", "guards", 1, braze, torch_compile)


if __name__ == "__main__":
    sys.exit(main(ITEM, __file__, __doc__))
