"""defaultdicts that calls are not given: guarded by their entries and factory, not by which object they are."""

from collections import defaultdict

import pytest
import torch

import braze


class State:
    pass


class Other(defaultdict):
    def __missing__(self, key):
        return 99


def two():
    return 2


def seven():
    return 7


def replaces(s, x):
    y = x + s.d["a"]
    s.d = defaultdict(two)
    return y


def copies(s, x):
    copy = s.d.copy()
    return x + copy["n"]


def goes_through(s, x):
    for value in s.d.values():
        x = x * 2 + value
    return x


def writes_through_another(s, x):
    s.other["k"] = 5
    return x + s.d["k"]


BODIES = {
    "entry": lambda s, x: x + s.d["e"],
    "missing entry": lambda s, x: x + s.d["m"],
    "length": lambda s, x: x * len(s.d),
    "contains": lambda s, x: x + (1 if "q" in s.d else 2),
    "sum": lambda s, x: x + sum(s.d.values()),
    "factory": lambda s, x: x + s.d.default_factory(),
    "identity": lambda s, x: x + (1 if s.d is s.kept else 2),
    "union": lambda s, x: x + (s.d | {"u": 1})["n"],
    "replaces": replaces,
    "copies": copies,
    "goes through": goes_through,
    "writes through another": writes_through_another,
}


def another(s, factory=two, kind=defaultdict, **entries):
    s.d = kind(factory, **(entries or {"e": 1}))


def another_and_maybe_the_other(s, k):
    another(s)
    s.other = s.d if k % 3 else defaultdict(two)


def another_that_is_kept(s, k):
    another(s)
    s.kept = s.d if k % 2 else None


CHANGES = {
    "nothing": lambda s, k: None,
    "another one": lambda s, k: another(s),
    "another factory": lambda s, k: another(s, two if k % 2 else seven),
    "another order": lambda s, k: another(s, **({"a": 1, "e": 2} if k % 2 else {"e": 2, "a": 1})),
    "no factory": lambda s, k: another(s, None if k == 5 else two, e=1, m=3, a=4, n=2, k=1),
    "a subclass": lambda s, k: another(s, kind=Other if k == 4 else defaultdict),
    "its factory": lambda s, k: setattr(s.d, "default_factory", two if k % 3 else seven),
    "an entry": lambda s, k: s.d.update(e=k),
    "more entries": lambda s, k: s.d.update({str(k // 2): k}),
    "cleared": lambda s, k: s.d.clear(),
    "the other": another_and_maybe_the_other,
    "which is kept": another_that_is_kept,
}


def outcome(compile, body, change):
    s = State()
    s.d = s.kept = s.other = defaultdict(two, e=1)
    f = compile(lambda x: body(s, x))
    found = []
    for k in range(8):
        change(s, k)
        try:
            result = f(torch.full((2,), float(k))).tolist()
        except (KeyError, TypeError) as error:
            result = repr(error)
        found.append((result, type(s.d), list(s.d.items()), s.d.default_factory))
    return found


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("body", BODIES)
def test_as_eager(body, change):
    theirs = outcome(lambda f: f, BODIES[body], CHANGES[change])
    assert outcome(braze.compile, BODIES[body], CHANGES[change]) == theirs


@pytest.mark.parametrize("body", BODIES)
def test_another_one_is_no_reason_to_capture(body):
    compiled = []

    def compile(f):
        compiled.append(braze.compile(f))
        return compiled[0]

    outcome(compile, BODIES[body], CHANGES["another one"])
    counts = compiled[0].counts()
    assert counts["captured"] <= 2 and counts["replayed"] >= 6, counts
