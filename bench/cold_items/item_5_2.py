"""Item 5.2: node-local rewrites share one walk over the graph: what all passes cost for each node.

braze: the phase timer of the passes for a graph of a thousand nodes; for twice the nodes it may at most double (and
half again, for noise). torch.compile: its timers of the passes before, around and after autograd.
"""

import sys

from common import Item, compiled, main, traced

NODES = 1000
GROWTH = 3.0


def chain(length):
    def program(x, y):
        for number in range(length // 2):
            x = (x + y) * (number + 2)
        return x

    return program


def braze():
    import os

    import torch

    os.environ["BRAZE_CACHE"] = "0"  # A graph that is known from the disk goes through no pass.
    x, y = torch.randn(8, 16), torch.randn(16)
    once, twice = (
        min(traced(chain(length), x, y).compile_times()["passes"] / 1e3 for _ in range(3))
        for length in (NODES, 2 * NODES)
    )
    failed = [f"twice the nodes take {twice / once:.1f} times as long"] if twice > GROWTH * once else []
    return {"figure": once / NODES, "detail": f"twice the nodes: {twice / once:.1f} times", "failed": failed}


def torch_compile():
    import torch

    compiled(chain(NODES), torch.randn(8, 16), torch.randn(16))
    from torch._dynamo.utils import compilation_time_metrics

    passes = {name: sum(times) for name, times in compilation_time_metrics.items() if "passes" in name}
    return {"figure": sum(passes.values()) * 1e6 / NODES}


ITEM = Item("5.2", "graph passes for each node", "us", 2, braze, torch_compile)


if __name__ == "__main__":
    sys.exit(main(ITEM, __file__, __doc__))
