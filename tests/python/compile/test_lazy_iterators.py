"""Iterators of itertools that a function returns, or holds where its graph ends: as far as they have come."""

import itertools
import os
import sys

import pytest
import torch
from compiling import same

import braze
from braze._load import C

pytestmark = pytest.mark.skipif(not hasattr(C, "CompiledFunction"), reason="no evaluator for this Python")
X = torch.rand(4)
MAKE = {
    "chain": lambda x: itertools.chain([x, x + 1], (x * 2,)),
    "chain of one": lambda x: itertools.chain([x, x + 1, x * 2]),
    "from_iterable": lambda x: itertools.chain.from_iterable([[x, x + 1], [x * 3]]),
    "of iterators": lambda x: itertools.chain(iter([x, x + 1]), zip([x], [3], strict=True)),
    "nested": lambda x: itertools.chain(itertools.chain([x], [x + 1]), itertools.islice([x, x * 2, x * 3], 1, 3)),
    "islice": lambda x: itertools.islice([x, x + 1, x * 2, x * 3, x * 4], 1, None),
    "islice to": lambda x: itertools.islice([x, x + 1, x * 2, x * 3, x * 4], 3),
    "islice by": lambda x: itertools.islice([x, x + 1, x * 2, x * 3, x * 4, x * 5], 0, 5, 2),
    "islice of iterator": lambda x: itertools.islice(iter((x, x + 1, x * 2, x * 3)), 1, 4),
    "repeat": lambda x: itertools.repeat(x * 2, 3),
    "count": lambda x: map(lambda k: x * k, itertools.islice(itertools.count(2, 3), 3)),
    "zipped": lambda x: zip(itertools.count(1), itertools.repeat(x + 1, 2), [x, x * 2], strict=False),
    "map of chain": lambda x: map(torch.neg, itertools.chain([x, x + 1], [x * 2])),
}


@pytest.mark.parametrize("taken", [0, 1, 2, 5])
@pytest.mark.parametrize("make", MAKE)
def test_results(make, taken):
    def f(x):
        made = MAKE[make](x)
        given = [next(made, None) for _ in range(taken)]
        return given, made

    fast = braze.compile(f)
    for x in (X, X + 1, X):
        given, made = fast(x)
        native, other = f(x)
        same(given, native)
        assert type(made) is type(other)
        same([*made], [*other])
    if sys.version_info < (3, 12):
        assert fast.counts() == {"captured": 1, "replayed": 2, "native": 0}


@pytest.mark.parametrize("taken", [0, 1, 2, 5])
@pytest.mark.parametrize("make", MAKE)
def test_held_across_a_break(make, taken):
    def f(x):
        y = x * 2
        made = MAKE[make](y)
        given = [next(made, None) for _ in range(taken)]
        os.getpid()
        return given, list(made), y + 1

    fast = braze.compile(f)
    for x in (X, X + 1, X):
        same(fast(x), f(x))


def test_two_names_and_an_older_iterator():
    def f(x, items):
        made = itertools.chain(items, [x])
        first = next(made)
        os.getpid()
        return first, made, {"again": made}, x * 2

    fast = braze.compile(f)
    for count in (3, 2, 3):
        one, other = iter([X + k for k in range(count)]), iter([X + k for k in range(count)])
        result, native = fast(X, one), f(X, other)
        same(result[0], native[0])
        assert result[1] is result[2]["again"]
        same(next(one, None), next(other, None))
        same([*result[1]], [*native[1]])


def test_numbers_that_are_counted():
    def f(x):
        count, times = itertools.count(3), itertools.repeat("a", 2)
        y = x * next(count)
        next(times)
        os.getpid()
        return y * next(count), count, times

    fast = braze.compile(f)
    for _ in range(3):
        y, count, times = fast(X)
        native, other, others = f(X)
        same(y, native)
        assert (repr(count), repr(times)) == (repr(other), repr(others))
