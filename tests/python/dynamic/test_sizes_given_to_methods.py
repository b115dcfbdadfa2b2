"""Sizes that operators hand to methods of users' classes, written in Python: one program for all sizes, as where
the methods are called by their names."""

import contextlib

import pytest
import torch
from test_programs_of_sizes import compare

from braze._load import C

pytestmark = [
    pytest.mark.skipif(not hasattr(C, "CompiledFunction"), reason="no evaluator for this Python"),
    pytest.mark.filterwarnings("ignore"),
]


class Rows:
    """Of a tensor, beside which numbers stand."""

    def __init__(self, x):
        self.x = x

    def __mul__(self, k):
        return Rows(self.x * k)

    __rmul__ = __mul__

    def __pow__(self, k):
        return NotImplemented if isinstance(k, str) else self.x**2 + k

    def __rsub__(self, k):
        return k - self.x

    def __truediv__(self, k):
        return self.x / (k + 1)

    def __iadd__(self, k):
        self.x = self.x + k
        return self

    def __getitem__(self, k):
        return self.x[k:] if isinstance(k, int) else self.x[: k.stop]

    def __setitem__(self, k, value):
        self.x = self.x * (k + 2) + value

    def __delitem__(self, k):
        self.x = self.x + k

    def __lt__(self, k):
        return self.x.shape[0] < k

    def __gt__(self, k):
        return self.x * k

    def __eq__(self, k):
        return self.x.shape[0] == k

    __hash__ = None

    def __contains__(self, k):
        return self.x.shape[0] == k + 1

    def __len__(self):
        return self.x.shape[0]


class Derived(Rows):
    def __mul__(self, k):
        return Rows(super().__mul__(k).x + k)

    def __len__(self):
        return super().__len__() * 2


class Odd(Rows):
    def __len__(self):
        return self.x.shape[0] - 1


class Listed(list):
    """C code has a say in what this one does, beside its own methods."""

    def __mul__(self, k):
        return [one * k for one in self]


class Counted(int):
    def __mul__(self, k):
        return int(self) + k


class Items:
    """What it holds is searched item by item, by C code."""

    def __init__(self, *items):
        self.items = items

    def __iter__(self):
        return iter(self.items)


def deleted(x):
    rows = Rows(x)
    del rows[x.shape[0]]
    return rows.x


def stored(x):
    rows = Rows(x)
    rows[x.shape[0]] = x.shape[0] + 1
    return rows.x


def added(x):
    rows = Rows(x)
    rows += x.shape[0]
    return rows.x


PROGRAMS = {
    "times": lambda x: (Rows(x) * x.shape[0]).x,
    "times, the other way round": lambda x: (x.shape[0] * Rows(x)).x,
    "power": lambda x: Rows(x) ** (x.shape[0] + 1),
    "subtracted from": lambda x: x.shape[0] - Rows(x),
    "by what is computed": lambda x: Rows(x) / (x.shape[0] * 0.5),
    "in place": added,
    "item": lambda x: Rows(x)[-2 * x.shape[0]] * 2,
    "slice": lambda x: Rows(x)[: x.shape[0] + 1] * 2,
    "stored": stored,
    "deleted": deleted,
    "less": lambda x: x + 1 if Rows(x) < x.shape[0] + 1 else x,
    "reflected": lambda x: x.shape[0] < Rows(x),
    "equal": lambda x: x + 1 if Rows(x) == x.shape[0] else x,
    "contains": lambda x: x + 1 if x.shape[0] - 1 in Rows(x) else x,
    "length": lambda x: x * len(Rows(x)),
    "length beside others": lambda x: x.new_zeros(len(Derived(x)) + 1) + len(Rows(x)),
    "of a class that derives": lambda x: (Derived(x) * x.shape[0]).x,
}
OTHERS = {
    "length below 0": lambda x: x * len(Odd(x)),
    "no such method": lambda x: Rows(x) @ x.shape[0],
    "refused": lambda x: Rows(x) ** "a",
    "list": lambda x: Listed([x, x + 1]) * x.shape[0],
    "list, the other way round": lambda x: x.shape[0] * Listed([x, x + 1]),
    "int": lambda x: x * (Counted(3) * x.shape[0]),
    "int, the other way round": lambda x: x * (x.shape[0] * Counted(3)),
    "searched": lambda x: x + 1 if x.shape[0] in Items(2, 5, 8) else x,
    "truth by length": lambda x: x + 1 if Rows(x) else x - 1,
    "list of its length": lambda x: [x * k for k in range(len(Rows(x)))],
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_program(name):
    counts = compare(PROGRAMS[name], (8, 5, 2, 0, 1, 7, 11, 3), True)
    assert counts["captured"] <= 3, "more than one for 0, one for 1, and one for all others"
    assert counts["native"] == 0


@pytest.mark.parametrize("name", [*PROGRAMS, *OTHERS])
@pytest.mark.parametrize("wants_gradients", [False, True])
def test_is_right(name, wants_gradients):
    function = (PROGRAMS | OTHERS)[name]
    for _ in range(20):  # CPython has specialised the code by then.
        with contextlib.suppress(TypeError):
            function(torch.ones(3, 3))
    compare(function, (8, 5, 2, 0, 1, 7, 8), None, wants_gradients)
    compare(function, (5, 2, 0, 1), False, wants_gradients)
    compare(function, (8, 5, 2, 0, 1), True, wants_gradients)
