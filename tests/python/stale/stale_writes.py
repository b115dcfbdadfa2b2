"""Writes into arguments, and how these overlap: memory that lies elsewhere, or in one another, on later calls.

Every function is called with memory in one arrangement, and then with it in two others.
"""

import numpy as np
import torch
from staleness import call, case, module


def numbers(count, start=1.0):
    return torch.arange(start, start + count)


def apart():
    return numbers(6), numbers(6, 2.0)


def same():
    x = numbers(6)
    return x, x


def another_view():
    x = numbers(6)
    return x, x.view(2, 3).view(6)


def halves():
    x = numbers(12)
    return x[:6], x[6:]


def halves_swapped():
    x = numbers(12)
    return x[6:], x[:6]


def interleaved():
    x = numbers(12)
    return x[::2], x[1::2]


def numpy_apart():
    return torch.from_numpy(np.arange(6, dtype=np.float32)), torch.from_numpy(np.ones(6, dtype=np.float32))


def numpy_overlapping():
    base = np.arange(9, dtype=np.float32)
    return torch.from_numpy(base[:6]), torch.from_numpy(base[3:])


def numpy_same():
    base = np.arange(6, dtype=np.float32)
    return torch.from_numpy(base), torch.from_numpy(base)


def misaligned():
    return numbers(7)[1:], numbers(9)[3:]


ARRANGEMENTS = [
    apart,
    same,
    another_view,
    halves,
    halves_swapped,
    interleaved,
    numpy_apart,
    numpy_overlapping,
    numpy_same,
    misaligned,
]
FUNCTIONS = {
    "add_then_read": "def f(a, b):\n a.add_(1)\n return b * 2",
    "read_then_add": "def f(a, b):\n y = b * 2\n a.add_(y)\n return y",
    "both": "def f(a, b):\n a.mul_(2)\n b.add_(a)\n return a - b",
    "swap": "def f(a, b):\n t = a.clone()\n a.copy_(b)\n b.copy_(t + 1)",
    "reduce": "def f(a, b):\n a.sub_(b.sum())\n return b.amax()",
    "moments": "def f(a, b):\n a.mul_(0.5).add_(b, alpha=0.5)\n b.addcmul_(a, a, value=0.1)",
}


def writes(name, source, first, second):
    @case(name=f"{name}_{first.__name__}_{second.__name__}", evolves=True)
    def cases():
        m = module(source)
        # A write goes on from call to call: each has memory of its own.
        yield call(m.f, *first())
        yield call(*second())

    return cases


for name, source in FUNCTIONS.items():
    for k, first in enumerate(ARRANGEMENTS):
        for step in (1, 3):
            writes(name, source, first, ARRANGEMENTS[(k + step) % len(ARRANGEMENTS)])
