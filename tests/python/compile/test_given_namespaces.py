"""types.SimpleNamespace that a call is given: what it holds counts, not which one it is."""

import types

import pytest
import torch

import braze


def make(k=2, b=3):
    return types.SimpleNamespace(x=torch.arange(3.0), k=k, inner=types.SimpleNamespace(b=b))


def reads(a):
    return a.x * a.k + a.inner.b


def writes(a):
    a.seen = a.x * 2
    a.inner.b += 1
    return a.seen + a.inner.b


def asks(a):
    return a.x + 1 if hasattr(a, "flag") else a.x + len(vars(a))


def compares(a):
    return a.x * (a.inner == types.SimpleNamespace(b=3))


def tells(a):
    return a.x + len(repr(a.inner))


PROGRAMS = [reads, writes, asks, compares, tells]


@pytest.mark.parametrize("f", PROGRAMS)
def test_as_eager_whatever_it_holds(f):
    def flagged():
        given = make()
        given.flag = True
        return given

    def lacking():
        given = make()
        del given.k
        return given

    compiled = braze.compile(f)
    for given in (make, make, lambda: make(b=4), lambda: make(k=3), lambda: make(b=1234), flagged, lacking, make):
        ours, theirs = given(), given()
        try:
            wanted = f(theirs)
        except AttributeError:
            with pytest.raises(AttributeError):
                compiled(ours)
            continue
        torch.testing.assert_close(compiled(ours), wanted)
        assert list(vars(ours)) == list(vars(theirs))
        assert ours.inner == theirs.inner


@pytest.mark.parametrize("f", [reads, writes, asks])
def test_another_one_is_replayed(f):
    compiled = braze.compile(f, fullgraph=True)
    for _ in range(4):
        compiled(make())
    assert compiled.counts()["captured"] == 1 and compiled.counts()["replayed"] == 3


def test_which_of_two_it_is():
    one, other = make(), make()

    def f(a, b):
        return a.x + 1 if a is b else a.x + 2

    compiled = braze.compile(f)
    for a, b in ((one, other), (one, one), (other, one), (other, other), (make(), make())):
        torch.testing.assert_close(compiled(a, b), f(a, b))


def test_one_as_a_key_of_identity():
    first = make()

    def f(a):
        return a.x + (a is first)

    compiled = braze.compile(f)
    for a in (first, make(), first, make()):
        torch.testing.assert_close(compiled(a), f(a))
