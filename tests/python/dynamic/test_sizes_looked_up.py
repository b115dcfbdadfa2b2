"""Sizes as keys, members and operands that lie in containers: what is compared is guarded."""

import functools
import math

import pytest
import torch
from any_size import same

import braze
from braze._load import C

pytestmark = pytest.mark.skipif(not hasattr(C, "CompiledFunction"), reason="no evaluator for this Python")


@pytest.mark.parametrize("make", [dict.fromkeys, set, list, tuple])
def test_members_that_come_later(make):
    class Holder:
        known = make([8])

    def function(x):
        return x + 1 if x.shape[0] in Holder.known else x - 1

    compiled = braze.compile(function, dynamic=True)
    for n in (8, 5, 6):
        same(compiled(torch.zeros(n)), function(torch.zeros(n)))
    Holder.known = make([8, 7])
    for n in (7, 6, 8, 5):
        same(compiled(torch.zeros(n)), function(torch.zeros(n)))


def test_a_dict_that_is_given_more_keys():
    known = {8: 2}

    def function(x):
        return x + known.get(x.shape[0], 5), x * (3 if x.shape[0] in known else 4)

    compiled = braze.compile(function, dynamic=True)
    for n in (8, 5, 6):
        same(compiled(torch.ones(n)), function(torch.ones(n)))
    assert compiled.counts()["captured"] == 2
    known[7] = 9
    known[6] = 1
    for n in (7, 6, 5, 8):
        same(compiled(torch.ones(n)), function(torch.ones(n)))
    del known[8]
    same(compiled(torch.ones(8)), function(torch.ones(8)))


def test_entries_that_change():
    scales = {8: 2, 5: 3, "other": 4}

    def function(x):
        return x * scales[x.shape[0]] if x.shape[0] in scales else x * scales["other"]

    compiled = braze.compile(function, dynamic=True)
    for changed in (2, 7, 1):
        scales[8], scales["other"] = changed, changed + 1
        for n in (8, 5, 6, 9):
            same(compiled(torch.ones(n)), function(torch.ones(n)))


def test_a_partial_of_a_function_in_c():
    """What it holds is a number of this call, whoever calls it."""

    def function(x):
        power = functools.partial(math.pow, x.shape[0])
        return x * sum(map(power, (1, 2))), power(2)

    compiled = braze.compile(function, dynamic=True)
    for n in (3, 5, 8, 2):
        same(compiled(torch.ones(n)), function(torch.ones(n)))


def test_a_partial_that_is_given_back():
    def function(x):
        return x + 1, functools.partial(torch.mul, other=x.shape[0])

    compiled = braze.compile(function, dynamic=True)
    for n in (3, 5, 8, 2):
        result, multiply = compiled(torch.ones(n))
        same(multiply(result), function(torch.ones(n))[1](result))
        assert multiply.keywords == {"other": n}


def test_operands_stay_what_they_are():
    """An operator is given expressions in the place of what a tuple, dict or partial holds."""

    def function(x):
        items, named = (x, x.shape[0]), {"alpha": 2}
        call = functools.partial(torch.sub, *items)
        return torch.add(*items, **named), call(alpha=2), items[1], call.args[1]

    compiled = braze.compile(function, dynamic=True)
    for n in (3, 5, 8, 2):
        same(compiled(torch.ones(n)), function(torch.ones(n)))
    assert compiled.counts()["captured"] == 1


def test_the_order_of_sizes_is_guarded():
    def function(x, y):
        shapes = sorted([x.shape[0], y.shape[0], 6])
        return x.sum() + shapes[0], y.sum() * shapes[1], sorted([y.shape[0], x.shape[0]], reverse=True)

    compiled = braze.compile(function, dynamic=True)
    for a, b in ((3, 8), (4, 9), (8, 3), (9, 4), (2, 3), (3, 2), (8, 9), (5, 5), (7, 7), (6, 6)):
        same(compiled(torch.ones(a), torch.ones(b)), function(torch.ones(a), torch.ones(b)))
    assert compiled.counts()["captured"] < 10


def test_which_dimension_is_guarded():
    def function(x):
        return x.sum(x.shape[0] % 2), x.argmax(dim=x.shape[0] % 2), x.cumsum(x.shape[0] % 2), x.tile(x.shape[0], 1)

    compiled = braze.compile(function, dynamic=True)
    for n in (8, 5, 6, 7, 12, 13):
        same(compiled(torch.ones(n, 3)), function(torch.ones(n, 3)))
    assert compiled.counts()["captured"] == 2


def test_what_is_computed_without_memory_is_read_through_any_reshape():
    """Positions of a store into a slice: whose sizes agree with those of their reshape by a guard alone."""

    def function(x):
        y = x.clone()
        y[: x.shape[0] // 2, 1:] = 3.0
        return y

    compiled = braze.compile(function, dynamic=True)
    for n in (2, 3, 8, 5):
        x = torch.randn(n, 3)
        one, other = (x.clone().requires_grad_() for _ in range(2))
        for run, leaf in ((compiled, one), (function, other)):
            (run(leaf) * torch.arange(3.0)).sum().backward()
        same(one.grad, other.grad)
