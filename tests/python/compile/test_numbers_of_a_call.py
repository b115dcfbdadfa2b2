"""Whole numbers that are read of tensors, and lengths of lists, which are others at each call."""

import pytest
import torch
from compiling import compiled, same, whole_numbers
from test_breaks import segments
from test_resumed_loops import X, function_of

import braze
from braze._load import C

pytestmark = pytest.mark.skipif(not hasattr(C, "CompiledFunction"), reason="no evaluator for this Python")


@pytest.fixture(autouse=True)
def no_grad():
    with torch.no_grad():
        yield


# ---- numbers that were read at a break are numbers of their call from the first capture on

READ = {
    "a factor": "k = t[0].item(); y = x * k + k",
    "an index": "k = t[0].item(); y = x + rows[k]",
    "a slice": "k = t[0].item(); y = x + rows[k : k + 3].sum(0)",
    "int()": "k = int(t[0] + t[1]); y = x * (k // 2) + rows[k % 7]",
    "in a list": "L = t.tolist(); y = x + L[0] * 2 + L[1]",
    "a tensor of them": "L = t.tolist(); y = x + torch.tensor(L).sum()",
    "twice": "k = t[0].item(); y = x * k; n = t[1].item(); y = y + n * k",
    "a choice": "k = t[0].item(); y = x * k if k > 3 else x - k",
    "0 and 1": "k = (t[0] % 2).item(); y = x * k + k",
    "handed on": "k = t[0].item(); y = (lambda a, n: a + n * rows[n])(x, k)",
}


@pytest.mark.parametrize("dynamic", [None, True, False])
@pytest.mark.parametrize("form", ["cold", "specialised"])
@pytest.mark.parametrize("name", READ)
def test_numbers_that_are_read(name, form, dynamic):
    source = f"def f(x, t):\n    x = x + 1\n    {READ[name]}\n    return y * 3"
    function = function_of(source, form, rows=torch.linspace(-1, 1, 200).reshape(40, 5))
    fast = braze.compile(function, dynamic=dynamic)
    captured = []
    for call in range(9):
        t = whole_numbers(call, 11, 4)
        before = fast.counts()["captured"]
        same(fast(X, t), function(X, t))
        captured.append(fast.counts()["captured"] - before)
    if dynamic is not False:
        # A variable that holds such a number behind another read is one from the second capture on, from 2 up.
        assert sum(captured) <= (5 if name == "twice" else 2), captured


# ---- lengths

LENGTHS = {
    "returned": ("return x * 2, len(L)", 2),
    "a factor": ("return x * len(L)", 2),
    "half of it": ("return x + rows[len(L) // 2]", 2),
    "compared": ("return x * 2 if len(L) > 3 else x - 1", 3),
    "after more": ("L.append(1.0); L.append(x)\n    return x + len(L), len(L)", 2),
    "before and after": ("n = len(L); L.append(7)\n    return x + n * 2 + len(L), n == len(L) - 1", 2),
    "of a tuple": ("return x + len(M)", 2),
    "of two": ("return x + len(L) * len(M)", 2),
    "in a range": ("return x + sum(range(len(L)))", 6),
    "and its items": ("return sum(L[i] for i in range(len(L))) + x", 6),
    "text": ("return x, f'{len(L)} losses'", 6),
    "none": ("L.clear()\n    return x * 2 + len(L), len(L)", 6),
}


@pytest.mark.parametrize("dynamic", [None, True, False])
@pytest.mark.parametrize("form", ["cold", "specialised"])
@pytest.mark.parametrize("where", ["whole", "behind a break"])
@pytest.mark.parametrize("name", LENGTHS)
def test_lengths_of_lists(name, where, form, dynamic):
    """They may hold other losses, and more. Of what a whole call is given, the items are guarded."""
    body, most = LENGTHS[name]
    before = "x = x + 1" if where == "whole" else "x = x + x.sum().item()"
    source = f"def f(x, L, M):\n    {before}\n    {body}"
    function = function_of(source, form, rows=torch.linspace(-1, 1, 200).reshape(40, 5))
    fast = braze.compile(function, dynamic=dynamic)
    for count in (4, 6, 2, 5, 3, 7, 6, 2, 9):
        given, native = ([[0.25 * i + count for i in range(count)], (count,) * (count + 1)] for _ in range(2))
        same(fast(X, *given), function(X, *native))
        same(given, native)
    if dynamic is not False and where != "whole" and most < 6:
        assert len(segments(fast)) <= most + 1, fast.guards()


def test_a_list_under_two_names_has_one_length():
    def f(x, one, other):
        one.append(x)
        other.append(x * 2)
        return x + len(one) * 10 + len(other)

    fast = compiled(f)
    for count in (2, 3, 4, 5):
        for is_one in (True, False, True):
            lists = [[1.0] * count for _ in range(4)]
            if is_one:
                lists[1], lists[3] = lists[0], lists[2]
            same(fast(X, *lists[:2]), f(X, *lists[2:]))
            same(lists[0], lists[2])


def test_a_class_of_lists_says_itself_how_long_it_is():
    class Odd(list):
        def __len__(self):
            return 7

    def f(x, L):
        return x + len(L)

    fast = compiled(f)
    for given in ([1.0] * 3, [1.0] * 4, Odd([1.0]), [1.0] * 6, (1.0, 2.0), Odd(), [1.0] * 8):
        same(fast(X, given), f(X, given))


# ---- numbers below 2: 0 and 1 are those of a switch, and get a program each; a third number is one of many

GIVEN = {
    "an argument": lambda k: (k,),
    "an item of a list": lambda k: ([3, k],),
    "an item of a tuple": lambda k: ((k, 3),),
    "an entry of a dict": lambda k: ({"k": k},),
    "within a list": lambda k: ([[k], 4],),
}
SMALL = {
    "a factor": "x * k + k",
    "a shift": "torch.roll(x, k) * 2",
    "a choice": "x * k if k > 0 else x - k",
    "an index": "x + rows[k]",
    "returned": "x + 1, k, -k",
}
HELD = {
    "an argument": "a",
    "an item of a list": "a[1]",
    "an item of a tuple": "a[0]",
    "an entry of a dict": "a['k']",
    "within a list": "a[0][0]",
}


@pytest.mark.parametrize("form", ["cold", "specialised"])
@pytest.mark.parametrize("use", SMALL)
@pytest.mark.parametrize("name", GIVEN)
def test_numbers_below_2(name, use, form):
    source = f"def f(x, a):\n    k = {HELD[name]}\n    return {SMALL[use]}"
    function = function_of(source, form, rows=torch.linspace(-1, 1, 200).reshape(40, 5))
    fast, captured = braze.compile(function), []
    for call in range(16):
        k = (call * 7 + call * call) % 11 - 5
        before = fast.counts()["captured"]
        same(fast(X, *GIVEN[name](k)), function(X, *GIVEN[name](k)))
        captured.append(fast.counts()["captured"] - before)
    # An index that is 0, and one that is negative, go ways of their own, and so do shifts and choices.
    assert captured[9:] == [0] * 7 and sum(captured) <= 7, captured
    assert fast.counts()["native"] == 0


def test_a_switch_is_two_programs():
    fast = braze.compile(lambda x, k: x + 1 if k else x - 1)
    for call in range(6):
        same(fast(X, call % 2), X + 1 if call % 2 else X - 1)
    assert fast.counts()["captured"] == 2


def test_numbers_in_what_a_call_is_given_are_its_own():
    """A list that is given is the caller's, which sees what is done to it."""

    def f(x, numbers):
        y = x * numbers[0]
        numbers[0] += 1
        numbers.append(numbers[0] * 2)
        return y

    fast = braze.compile(f)
    for call in range(8):
        mine, other = [call * 3 - 4, 2], [call * 3 - 4, 2]
        same(fast(X, mine), f(X, other))
        same(mine, other)
    assert fast.counts()["captured"] <= 4
