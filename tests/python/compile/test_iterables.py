"""Objects with an `__iter__` of their own, in runs in which C code looks into what iterators give."""

import itertools

import pytest
import torch
from compiling import check
from torch import nn

from braze._load import C

pytestmark = pytest.mark.skipif(not hasattr(C, "CompiledFunction"), reason="no evaluator for this Python")
X = torch.rand(2, 3)
NET = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 3)).eval()
LAYERS = nn.ModuleList([nn.Linear(3, 3), nn.Tanh()])


class Pairs:
    def __init__(self, *items):
        self.items = items

    def __iter__(self):
        return iter(self.items)


class Steps:
    def __init__(self, *items):
        self.items = items

    def __iter__(self):
        yield from self.items


class Counting:
    def __init__(self, most):
        self.at, self.most = 0, most

    def __iter__(self):
        return self

    def __next__(self):
        self.at += 1
        if self.at > self.most:
            raise StopIteration
        return self.at


LOOKS = {
    "zip": lambda x: sum(a * b for a, b in zip((x, x), (1, 2), strict=True)),
    "zip of generators": lambda x: torch.cat([a + b for a, b in zip((x,), (k for k in (1, 2)), strict=False)]),
    "enumerate": lambda x: sum(k * a for k, a in enumerate((x, x))),
    "from_iterable": lambda x: sum(itertools.chain.from_iterable([[x], [x, x]])),
    "map": lambda x: sum(map(torch.sin, (x, x))),
    "nothing": lambda x: x * 2,
}
GOES = {
    "sequential": lambda x: NET(x),
    "modules": lambda x: [x := layer(x) for layer in LAYERS][-1],
    "builtin iterator": lambda x: sum([x * k for k in Pairs(1, 2)]),
    "generator": lambda x: sum([x * k for k in Steps(1, 2)]),
    "itself": lambda x: sum([x * k for k in Counting(2)]),
    "tensors": lambda x: sum([k + 1 for k in Pairs(x, x * 2)]),
    "iter()": lambda x: x * next(iter(Pairs(3, 4))),
    "unpacked": lambda x: (lambda a, b: x * a + b)(*Pairs(3, 4)),
    "zipped": lambda x: sum(a * b for a, b in zip(Pairs(x, x), Steps(1, 2), strict=False)),
}


@pytest.mark.parametrize("looks", LOOKS)
@pytest.mark.parametrize("goes", GOES)
def test_iterables_after_iterators_that_look(looks, goes):
    def f(x):
        y = LOOKS[looks](x)
        return GOES[goes](y) + 1

    with torch.no_grad():
        fast = check(f, (X,), replays=False)
    assert fast.counts()["replayed"] == 2
    assert fast.report()["operators"]["native"] == 0
    assert len(fast.report()["segments"]) == 1
