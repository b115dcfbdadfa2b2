"""Whoever looks at a number that varies (`is`, keys, iterators) gets an answer that holds for this number."""

import collections
import functools
import itertools
import math
import operator

import pytest
import torch
import torch.utils._pytree as pytree

import braze
from braze._load import C

pytestmark = pytest.mark.skipif(not hasattr(C, "CompiledFunction"), reason="no evaluator for this Python")
X = torch.linspace(-1, 1, 5)
PAIRS = [(3, 3), (4, 4), (5, 5), (4, 5), (5, 4), (7, 7), (1000, 1000), (2000, int("2000")), (0, 0), (1, 1)]


def setdefault(x, n, m):
    d = {}
    d.setdefault(n, 1), d.setdefault(m, 2), d.setdefault(4, 9)
    return x + sum(d.values())


def stored(x, n, m):
    d, s = collections.OrderedDict(), set()
    d[n], d[m], d[4] = 1, 2, 3
    s.add(n), s.add(m), s.add(4)
    return x + len(d) + 10 * len(s)


def updated(x, n, m):
    d, e = {4: 1}, collections.OrderedDict()
    d.update(zip((n, m), (1, 2), strict=True))
    e.update(d.items())
    return x + len(d) + 10 * len(e)


def accumulated(x, n, m):
    seen = []
    list(itertools.accumulate((n, m, 4), lambda a, b: seen.append(a > 4) or a + b))
    return x + sum(seen)


def counted(x, n, m):
    d = collections.defaultdict(int)
    for key in (n, m, 4):
        d[key] += 1
    return x + d[4]


def removed(x, n, m):
    left = [n, m, 4]
    left.remove(4)
    return x + left[0]


def matched(x, n, m):
    match n:
        case 3:
            return x + 1
        case 4 | 5:
            return x + 2
        case _:
            return x + 3


LOOKS = {
    "is": lambda x, n, m: x + 1 if n is m else x - 1,
    "is not": lambda x, n, m: x + 1 if n is not m else x - 1,
    "operator.is_": lambda x, n, m: x + 1 if operator.is_(n, m) else x - 1,
    "is, of what is made": lambda x, n, m: x + 1 if (n + 1) is (m + 1) else x - 1,
    "is None": lambda x, n, m: x + (n is None) + 2 * (m is not None),
    "keys": lambda x, n, m: x + len({n: 1, m: 2, 4: 3}),
    "keys of tuples": lambda x, n, m: x + len({(n, 1): 1, (m, 1): 2, (4, 1): 3}),
    "keys looked up": lambda x, n, m: x + {n: 1, 5: 2}.get(m, 0) + {n: 1}.get(4, 0),
    "keys of merged dicts": lambda x, n, m: x + len({**{n: 1}, **{m: 2}, 4: 1}),
    "keys comprehended": lambda x, n, m: x + len({k: 1 for k in (n, m, 4)}),
    "keys from zip": lambda x, n, m: x + len(dict(zip((n, m, 4), (1, 2, 3), strict=True))),
    "keys from iter": lambda x, n, m: x + len(set(iter([n, m, 4]))) + len({v: 1 for v in iter((n, m, 4))}),
    "in an iterator": lambda x, n, m: x + (n in iter((m, 4))) + sum(1 for v in iter([n, m, 4]) if v == 4),
    "an iterator sorted": lambda x, n, m: x + sorted(iter([n, m, 4]))[1] + math.prod(iter((n, m))) % 5,
    "text of an iterator": lambda x, n, m: x + len(",".join(map(str, iter([n, m])))),
    "the largest of an iterator": lambda x, n, m: x + max(iter((n, m, 4))) + min(iter([n, m])) + sum(iter((n, m))),
    "all of an iterator": lambda x, n, m: x + all(iter((n, m))) + any(iter([n, m])) + (tuple(iter([n])) == (4,)),
    "an iterator told apart": lambda x, n, m: x + int(functools.reduce(operator.sub, iter([n, m, 4])) > -4),
    "keys from zip, updated": updated,
    "keys and items of one dict": lambda x, n, m: x + len(dict({n: 1, m: 2, 4: 3}.items())),
    "accumulated": lambda x, n, m: (
        x + len({*itertools.accumulate([n, m, 4])}) + (9 in itertools.accumulate([n, m]))
    ),
    "accumulated by max": lambda x, n, m: x + list(itertools.accumulate([n, m, 4], max))[1],
    "what accumulate is given calls": accumulated,
    "leaves by a number": lambda x, n, m: x + len(pytree.tree_leaves([n, [m]], is_leaf=lambda v: v != n and n - 4)),
    "truths of leaves": lambda x, n, m: x + pytree.tree_all(lambda v: v - 4, [n, m]),
    "any truth of leaves": lambda x, n, m: x + pytree.tree_any(lambda v: v > 4, {"a": n, "b": (m,)}),
    "keys of a tree": lambda x, n, m: x + len(pytree.tree_map(lambda v: v + 1, {n: 1, m: 2, 4: n})),
    "leaves mapped": lambda x, n, m: x * 2 if pytree.tree_map(lambda v: v - 3, [n, (m,)])[0] > 1 else x,
    "paths in a tree": lambda x, n, m: (
        x + len(pytree.keystr(pytree.tree_flatten_with_path({n: 1, "a": [m]})[0][0][0]))
    ),
    "trees of one kind": lambda x, n, m: x + (pytree.tree_structure({n: 1}) == pytree.tree_structure({4: m})),
    "keys from enumerate": lambda x, n, m: x + len({v for _, v in enumerate((n, m, 4))}),
    "a set from reversed": lambda x, n, m: x + len(set(reversed((n, m, 4)))),
    "the largest of zip": lambda x, n, m: x + max(zip((n, m), (1, 2), strict=True))[1],
    "elements": lambda x, n, m: x + len({n, m, 4}) + (n in {3, 5}) + (4 in [n, m]),
    "Counter": lambda x, n, m: x + len(collections.Counter([n, m, 4])),
    "index": lambda x, n, m: x + [n, m, 4].index(4) + [n, m, 4].count(4),
    "equality": lambda x, n, m: x + ([n] == [m]) + 2 * ((n, 1) == (4, 1)),
    "truth": lambda x, n, m: x + (n and 5) + (1 if not n else 2) + bool(m),
    "text": lambda x, n, m: x + len(f"{n}{m!r}") + len(str(m)),
    "hash": lambda x, n, m: x + hash(n) % 7,
    "setdefault": setdefault,
    "stored": stored,
    "counted": counted,
    "removed": removed,
    "matched": matched,
}


@pytest.mark.parametrize("look", LOOKS)
def test_arguments(look):
    function = LOOKS[look]
    compiled = braze.compile(function)
    for n, m in PAIRS:
        assert torch.equal(compiled(X, n, m), function(X, n, m)), (n, m)


SIZES = {
    "is": lambda x, n: x + (x.shape[0] is n),
    "keys": lambda x, n: x + {x.shape[0]: 1}.get(4, 0),
    "elements": lambda x, n: x + len({x.shape[0], 4}),
    "truth": lambda x, n: x + (1 if x.shape[0] % 2 else 3) + (2 if x.numel() else 1),
}


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("look", SIZES)
def test_sizes(look, dynamic):
    function = SIZES[look]
    compiled = braze.compile(function, dynamic=dynamic)
    for n in (3, 4, 5, 6, 2, 0, 1, 300):
        x = torch.ones(n)
        assert torch.equal(compiled(x, n), function(x, n)), n
