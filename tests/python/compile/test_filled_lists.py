"""Lists whose items a function replaces one by one: what they hold is no matter, and which place a counter says."""

import copy
import os
import re

import pytest
import torch
from compiling import compiled, same

import braze
from braze._load import C

pytestmark = pytest.mark.skipif(not hasattr(C, "CompiledFunction"), reason="no evaluator for this Python")
X = torch.rand(4)


@pytest.fixture(autouse=True)
def no_grad():
    with torch.no_grad():
        yield


def by_counter(x, n):
    out = [None] * n
    for t in range(n):
        y = x * (t + 1) + 1
        os.getpid()
        out[t] = y + 1
    return out


def by_enumerate(x, n):
    out = [0] * n
    for t, factor in enumerate([0.5] * n):
        y = x * factor + 1
        os.getpid()
        out[t] = y * 2
        out[-1] = y
    return out


def from_end(x, n):
    out = [None] * (n + 1)
    for t in range(n):
        y = x * 2 + 1
        os.getpid()
        out[n - t] = y + t
    return out


@pytest.mark.parametrize("function", [by_counter, by_enumerate, from_end])
def test_one_program_for_all_iterations(function):
    fast = compiled(function)
    for n in (9, 12):
        for _ in range(2):
            same(fast(X, n), function(X, n))
        if n == 9:
            programs = len(fast.programs())
    assert programs <= 6


STORES = {
    "first": "out[0] = y",
    "last": "out[-1] = y",
    "by number": "out[t] = y",
    "behind it": "out[t + 1] = y",
    "from the end": "out[-t] = y",
    "twice": "out[t] = y; out[t] = y * 2",
    "two places": "out[t] = y; out[0] = y * 2",
    "other order": "out[0] = y * 2; out[t] = y",
    "appended": "out[t] = y; out.append(y * 2); out[0] = y - 1",
    "into what was appended": "out.append(y); out[-1] = y * 2; out[t] = y - 1",
    "and inserted": "out[t] = y; out.insert(0, y * 2)",
    "inserted first": "out.insert(0, y * 2); out[t] = y",
    "read": "out[t] = y; y = y + out[1]",
    "read the end": "out.append(x); out[t] = y; y = y + out[-1]",
    "read all": "out[t] = y; y = y + sum(out)",
    "read there": "out[t] = y; y = y * out[t] + out[t - 1]",
    "length": "out[t] = y; y = y * len(out)",
    "popped": "out[t] = y; y = y + out.pop()",
    "deleted": "out[t] = y; del out[0]",
    "slice": "out[t] = y; y = y + sum(out[:2])",
    "told": "out[t] = 7; y = y * (2 if out[1] is out[2] else 3 if type(out[1]) is int else 5)",
    "swapped": "out[0], out[t] = out[t], out[0]",
    "in place": "out[t] *= 2",
    "number": "out[t] = t",
    "itself": "out[t] = out",
    "gone through": "out[t] = y\n    for item in out: y = y + item",
    "while it is gone through": "for k, item in enumerate(out): out[k] = item + y",
    "beyond": "y = y * 2\n    try: out[t + 3] = y\n    except IndexError: y = y - 5",
    "by true": "out[True] = y",
}


@pytest.mark.parametrize("dynamic", [None, True, False])
@pytest.mark.parametrize("store", STORES)
def test_stores_into_an_argument(store, dynamic):
    names = {}
    exec(f"def f(x, out, t):\n    y = x * 2 + 1\n    {STORES[store]}\n    return y", names)
    f = names["f"]
    fast = braze.compile(f, dynamic=dynamic, options={"recompile_limit": 100})
    for t in (2, 3, 1, 2, 4, 0, 3, -1):
        for size in (5, 5, 6, 3):
            one = [X + k for k in range(size)]
            other = list(one)
            seen, expected = attempt(fast, X, one, t), attempt(f, X, other, t)
            same(seen, expected)
            if store != "itself":
                same(one, other)


def attempt(function, *arguments):
    try:
        return function(*arguments)
    except (IndexError, RecursionError) as error:
        return str(error)


@pytest.mark.parametrize("store", STORES)
def test_stores_behind_a_break(store):
    names = {"os": os}
    body = f"y = x * 2 + 1\n    os.getpid()\n    {STORES[store]}"
    exec(f"def f(x, out, L):\n  for t in L:\n    {body}\n  return y", names)
    f = names["f"]
    fast = braze.compile(f, options={"recompile_limit": 100})
    for counts in (range(4), range(1, 3), [2, 0, 1], [1, 1, 3]):
        one = [X + k for k in range(5)]
        other = list(one)
        same(attempt(fast, X, one, counts), attempt(f, X, other, counts))
        if store != "itself":
            same(one, other)


def test_what_is_stored_over_is_no_result():
    def f(x, out, t):
        for _ in range(20):
            out[0] = out[0] * 0.5 + x
            out[1] = out[0] + 1
        out[t] = x
        out[0] = x * 2
        out[-1] = x * 3
        out[0] = x * 4
        return out[t]

    for t in (0, 1, 2, 3):
        fast, one, other = braze.compile(f), [X + k for k in range(4)], [X + k for k in range(4)]
        for _ in range(3):
            same(fast(X, one, t), f(X, other, t))
            same(one, other)
        results = re.search(r"(\d+) out", repr(fast.programs()[0]))
        assert int(results[1]) <= 6


def test_the_same_list_twice():
    def f(x, a, b, t):
        y = x * 2
        a[t] = y
        return y + b[1]

    fast = braze.compile(f)
    for t in (2, 3, 1, 2):
        for shared in (False, True, False):
            one = [X + k for k in range(5)]
            other = list(one)
            again = one if shared else copy.copy(one)
            expected_again = other if shared else copy.copy(other)
            same(fast(X, one, again, t), f(X, other, expected_again, t))
            same(one, other)


def test_an_error_leaves_the_list():
    def f(x, out, t):
        out[t] = x * 2
        raise ValueError("after all")

    fast = braze.compile(f)
    for t in (2, 3, 2):
        one, other = [X] * 4, [X] * 4
        for function, items in ((fast, one), (f, other)):
            with pytest.raises(ValueError, match="after all"):
                function(X, items, t)
        same(one, other)
