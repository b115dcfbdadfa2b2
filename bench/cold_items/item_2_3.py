"""Item 2.3: types are interned: how many descriptions of a tensor a thousand tensors of one shape need.

braze: types of the graph (dtype, device, sizes, strides). torch.compile: FakeTensors in its FX graph, each of which
has sizes and strides of its own.
"""

import sys

from common import Item, captured_graph, main, reachable, traced

TENSORS = 1000


def program(x, y):
    for _ in range(TENSORS):
        x = x + y
    return x


def braze():
    import torch

    stats = traced(program, torch.randn(4, 8), torch.randn(4, 8)).graph_stats()
    failed = [] if stats["values"] >= TENSORS else [f"{stats['values']} values, {TENSORS} were made"]
    return {"figure": stats["types"], "detail": f"{stats['values']} values", "failed": failed}


def torch_compile():
    import torch

    graph = captured_graph(program, torch.randn(4, 8), torch.randn(4, 8))
    return {"figure": len(reachable([node.meta for node in graph.nodes], torch.Tensor))}


ITEM = Item("2.3", "types of 1000 tensors of one shape", "types", 1, braze, torch_compile)


if __name__ == "__main__":
    sys.exit(main(ITEM, __file__, __doc__))
