"""Ranges that a function is given, or finds in objects: their numbers decide; where it asks, which object it is."""

import itertools
import math

import pytest
import torch

import braze
from braze._load import C

pytestmark = pytest.mark.skipif(not hasattr(C, "CompiledFunction"), reason="no evaluator for this Python")
X = torch.arange(6.0).reshape(2, 3)
ONE = range(2, 6)
RANGES = [ONE, range(2, 6), range(1, 6, 2), range(5, 1, -1), range(0), range(3, 8), ONE, range(2, 10, 4)]

PROGRAMS = {
    "length": lambda x, r: x * len(r) + len(r[1:]),
    "sums": lambda x, r: x * sum(r) + math.prod(r),
    "items": lambda x, r: (x * 2, list(r), tuple(r), [*r], {*r} == {2, 3, 4, 5}),
    "contained": lambda x, r: x + (3 in r) + 2 * (2.0 in r) + 4 * (x.shape[0] in r),
    "sorted": lambda x, r: (x * 2, sorted(r, reverse=True), max(r, default=3), min(r, default=2)),
    "gone through": lambda x, r: (x * 2, list(enumerate(r)), list(zip(r, r, strict=True)), list(reversed(r))),
    "compared": lambda x, r: x + (r == range(2, 6)) + 2 * (r != ONE),
    "truth": lambda x, r: x * 2 if r else x + 1 if not bool(r) else x,
    "numbers": lambda x, r: x + r.start + 2 * r.stop + r.step + r.count(3) + (r.index(3) if 3 in r else 9),
    "functions": lambda x, r: (x * 2, [*map(abs, r)], [*itertools.accumulate(r)], any(r), all(r)),
    "a dimension": lambda x, r: x.sum(dim=list(r)[:0] or [0]) + torch.tensor([*r, 1]).sum(),
    "which it is": lambda x, r: x + (r is ONE),
    "returned": lambda x, r: (x * len(r), r, [r]),
}


class Holder:
    pass


def by_attribute(program, wrap):
    holder = Holder()
    function = wrap(lambda x: program(x, holder.it))

    def call(given):
        holder.it = given
        return function(X)

    return function, call


def by_argument(program, wrap):
    function = wrap(lambda x, nested: program(x, nested[1]["range"]))
    return function, lambda given: function(X, (0, {"range": given}))


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("way", [by_argument, by_attribute])
@pytest.mark.parametrize("name", PROGRAMS)
def test_as_in_eager(name, way, dynamic):
    program = PROGRAMS[name]
    compiled, call = way(program, lambda f: braze.compile(f, dynamic=dynamic))
    plain = way(program, lambda f: f)[1]
    for given in RANGES + RANGES[::-1]:
        ours, theirs = call(given), plain(given)
        assert str(ours) == str(theirs)
        if name == "returned":
            assert ours[1] is given and ours[2][0] is given
    if name != "which it is":
        assert len(braze.explain(program)(X, ONE).break_reasons) == 0


def test_an_equal_range_is_no_new_capture():
    compiled, call = by_attribute(lambda x, r: x * len(r) + sum(r), braze.compile)
    for _ in range(4):
        assert torch.equal(call(range(2, 6)), X * 4 + 14)
    assert compiled.counts() == {"captured": 1, "replayed": 3, "native": 0}
