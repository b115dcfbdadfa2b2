"""Loops over OrderedDicts with a graph break in their body."""

import collections

import pytest
import torch
from compiling import compiled, same
from test_resumed_loops import LOOP, X, check, function_of

from braze._load import C

pytestmark = pytest.mark.skipif(not hasattr(C, "CompiledFunction"), reason="no evaluator for this Python")


@pytest.fixture(autouse=True)
def no_grad():
    with torch.no_grad():
        yield


ITEMS = {
    "items": ("k, a", "D.items()"),
    "pairs": ("a", "D.items()"),
    "enumerate": ("i, (k, a)", "enumerate(D.items())"),
    "zip": ("(k, a), b", "zip(D.items(), L)"),
    "iter": ("k, a", "iter(D.items())"),
}
OTHERS = {
    "keys": ("a", "D"),
    "values": ("a", "D.values()"),
    "backwards": ("a", "reversed(D.items())"),
    "keys backwards": ("a", "reversed(D)"),
}


def ordered(n):
    return collections.OrderedDict.fromkeys((f"k{i}" for i in range(n)), "v1")


@pytest.mark.parametrize("form", ["cold", "specialised"])
@pytest.mark.parametrize("name", ITEMS)
def test_items(name, form):
    target, iterable = ITEMS[name]
    function = function_of(LOOP.format(target=target, iterable=iterable), form)
    check(function, lambda n: (X, ["b"] * n, ordered(n)), count=3)


@pytest.mark.parametrize("form", ["cold", "specialised"])
@pytest.mark.parametrize("name", OTHERS)
def test_other_iterators(name, form):
    target, iterable = OTHERS[name]
    function = function_of(LOOP.format(target=target, iterable=iterable), form)
    fast = compiled(function)
    for count in (3, 3, 3, 5, 0, 2):
        same(fast(X, [], ordered(count)), function(X, [], ordered(count)))


CHANGES = {
    "an older value": "D[k] = x",
    "the last one's": "D['k3'] = x if k != 'k2' else a",
    "a new key": "D['new'] = a",
    "a key less": "del D['k3']",
    "another order": "D.move_to_end('k1')",
    "all": "D.clear()",
    "afterwards": "pass\n    D.move_to_end('k0'); D['k1'] = x",
    "itself": "x = x * len(D); D.popitem()",
}


@pytest.mark.parametrize("form", ["cold", "specialised"])
@pytest.mark.parametrize("where", ["before", "behind"])
@pytest.mark.parametrize("name", CHANGES)
def test_dicts_that_change_meanwhile(name, where, form):
    read = "s = x.sum().item(); sums.append(s)"
    body = f"{CHANGES[name]}" if where == "behind" else "pass"
    first = CHANGES[name].split("\n")[0] if where == "before" else "pass"
    source = f"""
def f(x, D):
    sums = []
    for k, a in D.items():
        x = torch.tanh(x + 1); {first}
        {read}
        x = x * 2; {body}
    return x, sums
"""
    fast, function = compiled(function_of(source, form)), function_of(source, form)
    for _ in range(3):
        results = []
        for one in (fast, function):
            given = ordered(4)
            try:
                results.append([one(X, given), given])
            except RuntimeError:  # A replay may say in other words how it has changed.
                results.append(["raised", given])
        same(*results)


@pytest.mark.parametrize("form", ["cold", "specialised"])
def test_iterators_that_are_given(form):
    """One type for keys, values and items, in both directions."""
    source = """
def f(x, it):
    sums = []
    for a in it:
        x = torch.tanh(x + 1)
        sums.append((x.sum().item(), a))
        x = x * 2
    return x * 3, sums, list(it)
"""
    fast, function = compiled(function_of(source, form)), function_of(source, form)

    class Kin(collections.OrderedDict):
        pass

    makers = {
        "items": lambda d: iter(d.items()),
        "keys": lambda d: iter(d),
        "values": lambda d: iter(d.values()),
        "back": lambda d: reversed(d.items()),
        "kin": lambda d: iter(Kin(d).items()),
        "begun": lambda d: next(it := iter(d.items())) and it,
        "ended": lambda d: list(it := iter(d.items())) and it,
        "moved": lambda d: (d.move_to_end("k0"), iter(d.items()))[1],
        "plain": lambda d: iter(dict(d).items()),
    }
    for _ in range(2):
        for make in makers.values():
            for count in (3, 4):
                same(fast(X, make(ordered(count))), function(X, make(ordered(count))))


def test_order_is_that_of_the_dict():
    def f(x, D):
        seen = []
        for k, a in D.items():
            x = x * 0.5 + a
            seen.append((k, x.sum().item()))
            x = x - 1
        return x, seen

    fast = compiled(f)
    for k in range(4):
        D = collections.OrderedDict((f"k{i}", X * i) for i in range(4))
        D.move_to_end(f"k{k}", last=k % 2 == 0)
        D[f"k{3 - k}"] = X * 9
        same(fast(X, D), f(X, D))


def test_modules_by_name():
    layers = collections.OrderedDict((f"l{i}", torch.nn.Linear(5, 5)) for i in range(4))

    def f(x):
        seen = {}
        for name, layer in layers.items():
            x = torch.tanh(layer(x))
            seen[name] = x.mean().item()
            x = x + 0.1
        return x, seen

    fast = compiled(f)
    for _ in range(4):
        same(fast(X), f(X))
    assert fast.counts()["native"] == 0
