"""Item 2.1: names are interned: strings stored although an equal one was there, for 100 chained additions.

braze: texts copied into the graph, less the distinct ones. torch.compile: string objects in the nodes of its FX
graph (names, targets, metadata), less the distinct ones.
"""

import sys

from common import Item, captured_graph, main, reachable, traced

ADDITIONS = 100


def program(x, y):
    for _ in range(ADDITIONS):
        x = x + y
    return x


def braze():
    import torch

    graph = traced(program, torch.randn(8), torch.randn(8))
    stats = graph.graph_stats()
    lines = graph.code("traced").count("item_2_1.py:")
    failed = [] if lines >= ADDITIONS else [f"{lines} of {ADDITIONS} nodes tell their line"]
    return {
        "figure": stats["text_copies"] - stats["texts"],
        "detail": f"{stats['text_copies']} stored, {lines} nodes tell their line",
        "failed": failed,
    }


def torch_compile():
    import torch

    graph = captured_graph(program, torch.randn(8), torch.randn(8))
    texts = [found for node in graph.nodes for found in (node.name, node.op, node.target)]
    texts = reachable([*texts, *(node.meta for node in graph.nodes)], str)
    return {"figure": len(texts) - len(set(texts)), "detail": f"torch.compile: {len(texts)} stored"}


ITEM = Item("2.1", "equal names stored again", "strings", 0, braze, torch_compile)


if __name__ == "__main__":
    sys.exit(main(ITEM, __file__, __doc__))
