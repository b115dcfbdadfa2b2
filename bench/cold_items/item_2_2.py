"""Item 2.2: nodes lie in an arena: the most memory that a graph of a thousand operators held, over what it needs.

braze: from the first traced operator to the last pass, the tables that find types and texts included.
torch.compile: the peak of Python's memory while it captures the same function (without generating code), over what
is there afterwards, as tracemalloc sees it.
"""

import sys

from common import Item, captured_graph, main, traced

OPERATORS = 1000


def program(x, y):
    for _ in range(OPERATORS):
        x = x + y
    return x


def braze():
    import torch

    memory = traced(program, torch.randn(8), torch.randn(8)).memory()
    peak, needed = memory["graph_peak_bytes"], memory["graph_used_bytes"]
    return {"figure": peak / needed, "detail": f"{peak / 1e3:.0f} KB"}


def torch_compile():
    import tracemalloc

    import torch

    x, y = torch.randn(8), torch.randn(8)
    captured_graph(torch.neg, x)  # imports what capturing needs
    tracemalloc.start()
    kept = captured_graph(program, x, y)
    current, peak = tracemalloc.get_traced_memory()
    return {"figure": peak / current, "detail": f"torch.compile: {peak / 1e3:.0f} KB for {len(kept.nodes)} nodes"}


ITEM = Item("2.2", "peak over needed memory of a 1000-op graph", "times", 1.5, braze, torch_compile)


if __name__ == "__main__":
    sys.exit(main(ITEM, __file__, __doc__))
