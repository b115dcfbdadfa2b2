"""Item 1.1: nothing heavy is imported for a first compilation.

braze: importing it after torch, and the first program, machine code included. torch.compile: the first call with
backend="eager", which captures and generates no code.
"""

import sys

from common import Item, compiled, main, milliseconds, traced

HEAVY = ("triton", "sympy", "torch._dynamo", "torch._inductor")


def heavy_modules(before: set[str]) -> list[str]:
    loaded = set(sys.modules) - before
    return [heavy for heavy in HEAVY if any(name.startswith(heavy) for name in loaded)]


def braze():
    import torch

    before, x = set(sys.modules), torch.randn(10)
    ms = milliseconds(lambda: traced(lambda x: x + 1, x))
    heavy = heavy_modules(before)
    return {"figure": ms, "failed": [f"imported {', '.join(heavy)}"] if heavy else []}


def torch_compile():
    import torch

    before, x = set(sys.modules), torch.randn(10)
    ms = milliseconds(lambda: compiled(lambda x: x + 1, x, backend="eager"))
    return {"figure": ms, "detail": f"torch.compile imports {', '.join(heavy_modules(before))}"}


ITEM = Item("1.1", "import and first compilation", "ms", 50, braze, torch_compile)


if __name__ == "__main__":
    sys.exit(main(ITEM, __file__, __doc__))
