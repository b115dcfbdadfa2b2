"""Item 8.2: what max-autotune has measured serves products of like sizes: the first call of one, after another.

On an NVIDIA GPU; elsewhere there is nothing to measure.
"""

import sys

from common import Item, main, milliseconds

MODE = "max-autotune-no-cudagraphs"


def first_calls(compile_):
    """Milliseconds of the first call of a product, of one of like sizes behind it, and what was compiled."""
    import torch

    made, times = [], []
    for rows in (1000, 1008):
        a, b = torch.randn(rows, 768, device="cuda"), torch.randn(768, 3000, device="cuda")
        torch.cuda.synchronize()
        made.append(compile_(lambda a, b: a @ b, mode=MODE, dynamic=False))

        def call(function=made[-1], a=a, b=b):
            function(a, b)
            torch.cuda.synchronize()

        times.append(milliseconds(call))
    return times, made


def braze():
    import torch

    import braze

    if not torch.cuda.is_available():
        return {"skipped": "no NVIDIA GPU"}
    (first, second), made = first_calls(braze.compile)
    known = [facts["was_known"] for one in made for program in one.programs() for facts in program.kernel_tuning()]
    failed = [] if known == [False, True] else [f"what was measured is not found again: {known}"]
    return {"figure": second, "detail": f"{first:.0f} ms where nothing is known", "failed": failed}


def torch_compile():
    import torch

    if not torch.cuda.is_available():
        return {"skipped": "no NVIDIA GPU"}
    (_, second), _ = first_calls(torch.compile)
    return {"figure": second}


ITEM = Item("8.2", "a product like one that was measured", "ms", 20, braze, torch_compile)


if __name__ == "__main__":
    sys.exit(main(ITEM, __file__, __doc__))
