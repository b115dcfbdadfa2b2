"""Addresses of tensors and of objects of the run, as keys and in comparisons; itertools.tee."""

import itertools

import pytest
import torch
from compiling import check, compiled, same

from braze._load import C

pytestmark = pytest.mark.skipif(not hasattr(C, "CompiledFunction"), reason="no evaluator for this Python")
X, Y = torch.randn(3, 4), torch.randn(3, 4)


@pytest.fixture(autouse=True)
def no_grad():
    with torch.no_grad():
        yield


def seen_once(x, y):
    seen, out = set(), x * 0
    for t in (x, y, x, x + 1):
        if id(t) in seen:
            continue
        seen.add(id(t))
        out = out + t
    return out


def by_address(x, y):
    z = x + y
    names = {id(x): 2, id(z): 3}
    return z * names[id(z)] + names.get(id(y), 5)


def compared(x, y):
    z = x + 1
    return z * 2 if id(z) == id(x) else z - x.sum() * (id(x) != id(y))


@pytest.mark.parametrize("function", [seen_once, by_address, compared])
def test_addresses_are_no_break(function):
    fast = check(function, (X, Y))
    for x, y in ((X, X), (X, Y.clone()), (X.clone(), Y)):
        for _ in range(2):
            same(fast(x, y), function(x, y))
    assert fast.counts()["captured"] == 2  # Of two tensors, and of one.


def split(x, k):
    ahead, behind = itertools.tee(iter([x, x + k, x * k]))
    next(ahead)
    return torch.stack([a - b for a, b in zip(ahead, behind, strict=False)]), sum(behind, start=0)


def three(x, k):
    a, b, c = itertools.tee((i * k for i in range(4)), 3)
    return x * sum(a) + next(b) + max(c) + sum(b)


@pytest.mark.parametrize("function", [split, three])
def test_tee_is_no_break(function):
    check(function, (X, 2), (X, 3))


def test_tee_of_one_that_is_used_later():
    def f(x):
        a, b = itertools.tee([1, 2, 3])
        c, d = itertools.tee(a)
        return x * next(a), next(b), list(c), list(d)

    fast = compiled(f)
    for _ in range(3):
        same(fast(X), f(X))
