"""Lists that each iteration of a loop with a graph break makes longer: how long they are is no matter."""

import sys

import pytest
import torch
from compiling import compiled, same
from test_resumed_loops import X, check, function_of

import braze
from braze._load import C

pytestmark = pytest.mark.skipif(not hasattr(C, "CompiledFunction"), reason="no evaluator for this Python")


@pytest.fixture(autouse=True)
def no_grad():
    with torch.no_grad():
        yield


GROWING = {
    "the last item": "s = x.sum().item(); x = {read}; seen.append(x + a); x = seen[-1] * 2",
    "the last but one": "s = x.sum().item(); x = {read}; seen.append(x); seen.append(a); x = seen[-2]",
    "extend": "s = x.sum().item(); x = {read}; seen.extend([x, x * 2]); seen.extend((a, x - 1))",
    "+=": "s = x.sum().item(); x = {read}; seen += [x, x * 2]; seen += (a, x - 1)",
    "the last of those": "s = x.sum().item(); x = {read}; seen += [x + 1, x * 2]; x = seen[-2] + seen[-1]",
}


@pytest.mark.parametrize("form", ["cold", "specialised"])
@pytest.mark.parametrize("name", GROWING)
def test_lists_that_grow(name, form):
    body = GROWING[name].format(read="torch.tanh(x * 0.5 + s * 0.01)")
    function = function_of(
        f"def f(x, L):\n    seen = []\n    for a in L:\n        {body}\n    return x * 3, seen", form
    )
    check(function, lambda n: (X, [0.5] * n), count=3)


FROM_BEFORE = {
    "the last": "s = x.sum().item(); x = {read}; x = seen[-1] + x * 2; seen.append(x - 1)",
    "and more": "s = x.sum().item(); x = {read} * seen[-1] + len(seen[-1]); seen.append(x); x = seen[-1] + a",
    "two": "s = x.sum().item(); x = {read}; x = seen[-1] * x - seen[-2]; seen.append(x); seen.append(x + a)",
    "within it": "s = x.sum().item(); x = {read} + pairs[-1][0]; pairs.append((x + a, a)); seen.append(x * 2)",
}


@pytest.mark.parametrize("form", ["cold", "specialised"])
@pytest.mark.parametrize("name", FROM_BEFORE)
def test_what_an_earlier_iteration_has_left_at_the_end(name, form):
    body = FROM_BEFORE[name].format(read="torch.tanh(x * 0.5 + s * 0.01)")
    source = f"""
def f(x, L):
    seen, pairs = [x, x + 1], [(x + 1, 0.5)]
    for a in L:
        {body}
    return x * 3, seen, pairs
"""
    check(function_of(source, form), lambda n: (X, [0.5] * n), count=3)


READS = {
    "last": "y = seen[-1]",
    "older": "y = seen[-1] + seen[-2]",
    "both ways": "y = seen[-1] + seen[0] * 2",
    "written": "seen[-1].add_(1); y = seen[-1] * 2",
    "written and all": "seen[-1].mul_(2); y = sum(seen)",
    "replaced": "y = seen[-1]; seen[-1] = y * 2; y = y + seen[-1]",
    "taken": "y = seen[-1]; y = y + seen.pop() + seen[-1]",
    "not there": "y = seen[-1]\n    try: y = y + seen[-9]\n    except IndexError: y = y - 7",
    "same object": "y = seen[-1]; y = y + 1 if seen[-1] is seen[-2] else y - 1",
    "numbers": "y = x * len(seen) + numbers[-1]; numbers.append(len(numbers))",
    "mixed": "y = x + 1 if numbers[-1] is None else x * numbers[-1]; numbers.append(None)",
    "in a tuple": "y = (x, *seen)[-1] + tuple(seen)[-2]",
    "own class": "y = kin[-1] * 2; kin.append(y)",
}


@pytest.mark.parametrize("dynamic", [None, True, False])
@pytest.mark.parametrize("form", ["cold", "specialised"])
@pytest.mark.parametrize("read", READS)
def test_items_from_the_end(read, form, dynamic):
    """Of lists of any length: each call has its own."""

    class Kin(list):
        def __getitem__(self, index):
            return list.__getitem__(self, index) + 1

    body = f"x = x * 2 + x.sum().item()\n    {READS[read]}"
    source = f"def f(x, seen, numbers, kin):\n    {body}\n    return y, seen, numbers"
    function = function_of(source, form)
    fast = braze.compile(function, dynamic=dynamic)
    for count in (3, 4, 2, 7, 3):
        tensors = [torch.randn(3, 5) for _ in range(count)]
        if count == 7:
            tensors[-2] = tensors[-1]

        def given(tensors=tensors, count=count):
            copies = {id(one): one.clone() for one in tensors}
            return X, [copies[id(one)] for one in tensors], [0.5] * count, Kin([X, X * 3])

        for _ in range(2):
            same(fast(*given()), function(*given()))
    if read in ("last", "older"):  # In front of the break and behind it, where one of them is twice there.
        assert len(fast.report()["segments"]) <= 3


def test_comprehensions_with_a_break_in_them():
    def scored(x, a):
        x = torch.tanh(x + a)
        return x + x.sum().item() * 0.01

    def f(x, L):
        return [scored(x, a) + 1 for a in L], [*(x * 2 for _ in L), *L]

    # Python 3.12 puts comprehensions into the function, which saves one.
    check(f, lambda n: (X, [0.5] * n), count=5 if sys.version_info < (3, 12) else 4)


def test_a_list_that_grows_under_two_names():
    def f(x, one, other):
        x = x + x.sum().item() * 0.01
        one.append(x + 1)
        other.append(x + 2)
        x = one[-1] * 3
        other += [x, x - 1]
        return x + one[-1], len(other)

    fast = compiled(f)
    for same_one in (False, False, True, True, False):
        given = [[1.0], [2.0], [3.0], [4.0]]
        if same_one:
            given[1], given[3] = given[0], given[2]
            given[2].clear(), given[2].append(1.0)
        same(fast(X, *given[:2]), f(X, *([given[2], given[3]] if same_one else [[1.0], [2.0]])))
        if same_one:
            same(given[0], given[2])


@pytest.mark.parametrize("kind", ["empty", "itself", "pops", "a generator", "not there"])
def test_lists_that_are_changed_otherwise(kind):
    code = {
        "empty": "seen += []; seen.extend(()); y = seen[-1]",
        "itself": "seen.append(x); seen += seen; seen.extend(seen); y = seen[-1]",
        "pops": "seen.append(x); seen.append(a); y = seen.pop(); y = seen[-1]; y = seen.pop(0)",
        "a generator": "seen.extend(x * k for k in range(2)); seen += (x + k for k in range(2)); y = seen[-3]",
        "not there": "seen.append(x)\n        try: y = seen[-99]\n        except IndexError: y = seen[-2]",
    }[kind]
    source = f"""
def f(x, L):
    seen, all = [x, x + 1], []
    for a in L:
        x = torch.tanh(x + 1) + x.sum().item() * 0.01
        {code}
        all.append(y)
    return x * 3, seen, all
"""
    function = function_of(source, "cold")
    fast = compiled(function)
    for length in (3, 3, 4, 2, 3):
        given = [1.0] * length
        same(fast(X, given), function(X, given))


def test_a_set_and_a_dict_begun_before_a_break():
    def f(x):
        given, names = [1, 2], {"c": 3}
        numbers = {*given, int(x.sum() * 0), *given, *(5, 6)}
        return x * 2, numbers, {**names, "n": int(x.sum() * 0), **names}

    fast = compiled(f)
    for number in range(3):
        same(fast(X + number), f(X + number))
