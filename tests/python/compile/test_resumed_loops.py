"""Loops with a graph break in their body: replays move the iterator on, one program for all iterations."""

import gc
import itertools
import sys
import weakref
from pathlib import Path

import pytest
import torch
from compiling import compiled, in_threads, same
from test_breaks import segments
from torch import nn

from braze._load import C

sys.path.insert(0, str(Path(__file__).parent.parent / "stale"))
from specialised import specialise, widen

pytestmark = pytest.mark.skipif(not hasattr(C, "CompiledFunction"), reason="no evaluator for this Python")
X = torch.randn(3, 5)


@pytest.fixture(autouse=True)
def no_grad():
    with torch.no_grad():
        yield


def function_of(source, form, **names):
    """The function `f` of a source; `specialised`: as CPython leaves it after some native calls."""
    code = compile(source, __file__, "exec")
    scope = {"torch": torch, "itertools": itertools, **names}
    if form == "specialised":
        code = specialise(compile(widen(source), __file__, "exec"))
    exec(code, scope)
    return scope["f"]


def check(function, make, count, others=3):
    """`make(length)` gives arguments. As natively with every length, all of it compiled in so many programs, and in
    so many more for three other lengths: the segment in front of a loop knows what it goes through."""
    fast = compiled(function)

    def call(length):
        given, native = make(length), make(length)
        same(fast(*given), function(*native))

    for _ in range(3):
        call(4)
    assert len(segments(fast)) == count, [(s["break"], s["replays"]) for s in segments(fast)]
    for length in (6, 3, 5, 4, 6, 3, 5):
        call(length)
    assert len(segments(fast)) == count + others, [(s["break"], s["replays"]) for s in segments(fast)]
    assert fast.counts()["native"] == 0
    return fast


# ---- one program for the way from the break to the break of the next iteration, one for the end

ITERABLES = [
    ("a", "L"),
    ("a", "tuple(L)"),
    ("a", "range(len(L))"),
    ("a", "range(300, 300 + len(L))"),
    ("a", "range(len(L), 0, -1)"),
    ("a", "reversed(L)"),
    ("i, a", "enumerate(L)"),
    ("i, a", "enumerate(L, 5)"),
    ("a, b", "zip(L, D)"),
    ("a, b, c", "zip(L, range(99), reversed(L))"),
    ("a", "zip(L, L)"),
    ("i, (a, b)", "enumerate(zip(L, L))"),
    ("(i, a), b", "zip(enumerate(L), L)"),
    ("a", "D"),
    ("a", "D.keys()"),
    ("a", "D.values()"),
    ("k, a", "D.items()"),
    ("i, (k, a)", "enumerate(D.items())"),
    ("a", "iter(L)"),
]

LOOP = """
def f(x, L, D):
    sums = []
    for {target} in {iterable}:
        x = torch.tanh(x + 1)
        sums.append((x.sum().item(), a))
        x = x * 2
    else:
        x = x - 5
    return x * 3, sums
"""


@pytest.mark.parametrize("form", ["cold", "specialised"])
@pytest.mark.parametrize("target, iterable", ITERABLES)
def test_loops(target, iterable, form):
    function = function_of(LOOP.format(target=target, iterable=iterable), form)
    check(function, lambda n: (X, [object] * n, dict.fromkeys(range(n), "v")), count=3)


def test_items_are_arguments_of_the_graph():
    def f(x, y):
        sums = []
        for row, other in zip(x, y, strict=True):
            x = x + row * other
            sums.append(x.sum().item())
            x = x * 0.5 - other
        return x, sums

    rows = torch.randn(2, 9, 5)
    check(f, lambda n: (rows[0, :n], rows[1, :n]), count=3, others=5)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(5, 5)

    def forward(self, x):
        return torch.relu(self.linear(x)) + x


class Stack(nn.Module):
    def __init__(self, depth):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(depth))
        self.sums = []

    def forward(self, x):
        for i, block in enumerate(self.blocks):
            x = block(x)
            self.sums.append((i, x.sum().item()))
            x = x * 2
        return x


@pytest.mark.parametrize("dynamo_has_run", [False, True])
def test_layers_share_a_program(dynamo_has_run):
    """PyTorch's own compiler keeps a table of the modules that are made after it has run for the first time."""
    if dynamo_has_run:
        torch.cond(X.sum() > 0, lambda x: x * 2, lambda x: x * 3, (X,))
    torch.manual_seed(0)
    model = Stack(7)
    fast = compiled(model.forward)
    for _ in range(3):
        same(fast(X), model.forward(X))
    # The first layer, all others, the end.
    assert len(segments(fast)) == 3
    assert fast.counts()["native"] == 0
    assert len(model.sums) == 42


def test_nested_loops():
    def f(x, n, m):
        sums = []
        for _ in range(n):
            x = x + 1
            for _ in range(m):
                x = x * 0.5
                sums.append(x.sum().item())
                x = x + 2
            x = x - 3
        return x, sums

    # To the break, from it to the next one over neither, the inner or both ends.
    check(f, lambda n: (X, n, 3), count=4)


def test_break_continue_and_else():
    def f(x, numbers):
        sums = []
        for _ in numbers:
            x = x + 1
            total = x.sum().item()
            sums.append(total)
            if total > 300:
                break
            if total < 0:
                continue
            x = x * 2
        else:
            x = x - 1
        return x, sums

    fast = compiled(f)
    for start in (0.0, -20.0, 10.0, 40.0) * 4:
        x = torch.full((3, 5), start)
        same(fast(x, range(5)), f(x, range(5)))
    before = len(segments(fast))
    for start in (0.0, -20.0, 10.0, 40.0):
        x = torch.full((3, 5), start)
        same(fast(x, range(5)), f(x, range(5)))
    assert len(segments(fast)) == before


def test_an_exception_in_the_body():
    def f(x, numbers):
        sums = []
        for n in numbers:
            try:
                x = x + 1
                sums.append(x.sum().item() / n)
                x = x * 2
            except ZeroDivisionError:
                x = x - 7
        return x, sums

    def of(function):
        return function(X, [1, 0, 2, 0, 3])

    fast = compiled(f)
    for _ in range(4):
        same(of(fast), of(f))


def test_an_exception_leaves_the_iterator_where_natively():
    def f(x, it):
        for n in it:
            x = x + 1
            x.sum().item()
            x = x[:, :n] + X
        return x

    fast = compiled(f)
    for _ in range(3):
        one, other = iter([5, 5, 2, 5]), iter([5, 5, 2, 5])
        messages = []
        for function, it in ((fast, one), (f, other)):
            with pytest.raises(RuntimeError) as error:
                function(X, it)
            messages.append(str(error.value))
        assert messages[0] == messages[1]
        assert list(one) == list(other)


# ---- iterators that others hold

SHARED = {
    "argument": "for a in it: {body}",
    "next": "for a in it:\n        b = next(it, None); {body}",
    "two_names": "other = it\n    for a in it:\n        b = next(other, None); {body}",
    "stops": "for a in it:\n        {body}\n        if len(sums) > 1: break",
    "zip_with_itself": "for a, b in zip(it, it):\n        {body}",
    "enumerate": "for i, a in enumerate(it):\n        {body}",
    "held_enumerate": "e = enumerate(it)\n    for i, a in e:\n        b = next(e, None); {body}",
    "method": "for a in it:\n        {body}\n        try: it.__next__()\n        except StopIteration: x = x + 4",
    "iter": "for a in iter(it):\n        b = next(iter(it), 7); {body}",
}


@pytest.mark.parametrize("form", ["cold", "specialised"])
@pytest.mark.parametrize("name", SHARED)
def test_shared_iterators(name, form):
    body = "x = torch.tanh(x + 1); sums.append(x.sum().item()); x = x * 2"
    source = (
        f"def f(x, it):\n    sums = []\n    {SHARED[name].format(body=body)}\n    return x * 3, sums, it is None"
    )
    function = function_of(source, form)
    fast = compiled(function)
    for length in (4, 4, 4, 5, 7, 4, 1, 0, 4):
        for make in (lambda n: iter(range(n)), lambda n: iter(["s"] * n), lambda n: iter(dict.fromkeys(range(n)))):
            one, other = make(length), make(length)
            same(fast(X, one), function(X, other))
            same(list(one), list(other))


ELSEWHERE = [
    "list(it)",
    "tuple(it)",
    "[*it]",
    "(lambda *a: a)(*it)",
    "sum(it)",
    "max(it, default=0)",
    "sorted(it)",
    "any(it)",
    "list(zip(it, it))",
    "list(zip(it, range(9)))",
    "list(enumerate(it))",
    "list(map(abs, it))",
    "list(itertools.islice(it, 2))",
    "list(itertools.chain(it, it))",
    "dict(zip(it, it))",
    "3 in it",
    "it in [it]",
    "{it: 1}[it]",
    "hash(it) == hash(it)",
    "len(str(it)) > 3",
    "bool(it)",
    "it.__length_hint__()",
    "iter(it) is it",
    "it is iter([])",
    "isinstance(it, type(iter([])))",
    "type(it).__name__",
    "list(n for n in it)",
    "[n for n in it]",
    "{n: n for n in it}",
    "torch.tensor(list(it)).sum()",
    "[(n, next(it, None)) for n in it]",
    "next(zip(it, it), None)",
    "hasattr(it, '__next__')",
    "(it, it)[0] is it",
    "setattr(BOX, 'it', it), next(BOX.it, None)",
    "copy.copy(it).__length_hint__()",
    "set(it)",
    "functools.reduce(lambda a, b: a + b, it, 0)",
    "list(reversed(list(it)))",
    "[].extend(it)",
    "next(filter(None, it), None)",
]


@pytest.mark.parametrize("rest", ["", "x.sum().item()"])
@pytest.mark.parametrize("source", ELSEWHERE)
def test_older_iterators_elsewhere(source, rest):
    import copy
    import functools

    class Box:
        pass

    names = {"BOX": Box(), "copy": copy, "functools": functools}
    text = f"def f(x, it):\n    x = x + 1\n    {rest}\n    y = {source}\n    return x * 2, y, next(it, None)"
    function = function_of(text, "cold", **names)
    fast = compiled(function)
    makers = (lambda n: iter(range(n)), lambda n: iter(list(range(n))), lambda n: iter(dict.fromkeys(range(n))))
    for length in (4, 4, 6, 0, 4):
        for make in makers:
            one, other = make(length), make(length)
            same(fast(X, one), function(X, other))
            assert list(one) == list(other)


def test_next_of_an_argument():
    def f(x, it):
        return x + next(it) * next(it, 5)

    fast = compiled(f)
    for _ in range(3):
        one, other = iter([X, X + 1, 2.0]), iter([X, X + 1, 2.0])
        same(fast(X, one), f(X, other))
        assert list(one) == list(other) == [2.0]
    assert fast.counts()["replayed"] == 2
    with pytest.raises(StopIteration):
        fast(X, iter([]))
    same(fast(X, iter([X])), f(X, iter([X])))


def test_a_whole_loop_over_an_argument():
    def f(x, it):
        for a in it:
            x = x * 2 + a
        return x

    fast = compiled(f)
    for _ in range(3):
        one = iter([X, X + 1])
        same(fast(X, one), f(X, iter([X, X + 1])))
        assert list(one) == []
    assert fast.counts()["replayed"] == 2
    assert len(segments(fast)) == 1
    same(fast(X, iter([X])), f(X, iter([X])))
    same(fast(X, iter([X, X, X])), f(X, iter([X, X, X])))


def test_iterators_of_the_users():
    class Countdown:
        def __init__(self, n):
            self.n = n

        def __iter__(self):
            return self

        def __next__(self):
            if self.n == 0:
                raise StopIteration
            self.n -= 1
            return X

    def f(x, it):
        sums = []
        for a in it:
            x = x + a
            sums.append(x.sum().item())
            x = x * 2
        return x, sums

    fast = compiled(f)
    for _ in range(3):
        same(fast(X, Countdown(4)), f(X, Countdown(4)))


def test_what_is_iterated_changes_under_way():
    def f(x, numbers, table):
        for n in numbers:
            x = x + n
            x.sum().item()
            if n < 3:
                numbers.append(n + 2)
                x = x * 2
        for key in table:
            x = x + key
            x.sum().item()
            table[key] = x
        return x, numbers, table

    fast = compiled(f)
    for _ in range(4):
        same(fast(X, [1, 2], {1: 0, 5: 0}), f(X, [1, 2], {1: 0, 5: 0}))


def test_a_dict_that_grows_under_its_iterator():
    def f(x, table):
        for key in table:
            x = x + 1
            x.sum().item()
            table[key + 10] = x
            x = x * 2
        return x

    fast = compiled(f)
    for _ in range(3):
        with pytest.raises(RuntimeError, match="changed size during iteration"):
            fast(X, {1: 0, 2: 0})


def test_what_a_loop_goes_through_dies_in_time():
    class Mark:
        pass

    def make(holds):
        mark = Mark()
        holds.append(weakref.ref(mark))
        return [mark] * 4

    def f(x, holds):
        for _ in make(holds):
            x = x + 1
            x.sum().item()
            x = x * 2
        holds.append(holds[-1]() is None)
        return x * 3

    fast = compiled(f)
    for _ in range(3):
        one, other = [], []
        same(fast(X, one), f(X, other))
        assert one[1:] == other[1:] == [False]  # `_` holds the last item
        gc.collect()
        assert one[0]() is None


def test_finalizers_run_where_natively():
    log = []

    class Noisy:
        def __del__(self):
            log.append("gone")

    def f(x, n):
        for _ in [Noisy() for _ in range(n)]:
            x = x + 1
            log.append(x.sum().item())
            x = x * 2
        _ = None
        log.append("end")
        return x * 3

    fast = compiled(f)
    for _ in range(3):
        log.clear()
        result = fast(X, 3)
        ours = list(log)
        log.clear()
        same(result, f(X, 3))
        same(ours, list(log))


def test_threads_share_nothing():
    def f(x, items):
        sums = []
        for i, a in enumerate(items):
            x = torch.tanh(x + a)
            sums.append((i, x.sum().item()))
            x = x * 2
        return x, sums

    fast = compiled(f)
    items = [torch.randn(5) for _ in range(6)]
    expected = f(X, items)
    failures = []

    def work(_):
        for _ in range(20):
            try:
                same(fast(X, items), expected)
            except BaseException as error:
                failures.append(error)

    in_threads(work, range(4))
    assert not failures


def test_a_strict_zip():
    def f(x, one, other):
        for _a, _b in zip(one, other, strict=True):
            x = x + 1
            x.sum().item()
            x = x * 2
        return x

    fast = compiled(f)
    for _ in range(3):
        same(fast(X, [1, 2, 3], [4, 5, 6]), f(X, [1, 2, 3], [4, 5, 6]))
        with pytest.raises(ValueError, match="shorter"):
            fast(X, [1, 2, 3], [4, 5])


# ---- numbers that a segment only puts somewhere


def test_numbers_that_are_only_kept():
    def f(x, scale):
        sums, last, box = [], {"sum": 0.0}, [0.0]
        for i in range(6):
            x = torch.tanh(x + 1)
            total = x.sum().item()
            sums.append(total)
            sums.append((i, [total, scale]))
            last["sum"] = total
            last[i] = {"i": i, "total": total}
            box[0] = total
            x = x * 2
        return x, sums, last, box

    fast = compiled(f)
    for scale in (1, 300, 2.5, -7, 10**30):
        same(fast(X, scale), f(X, scale))
    # `last[i]` looks at the key: one program for each i.
    assert fast.counts()["native"] == 0


def test_kept_numbers_are_guarded_when_they_are_looked_at():
    looks = {
        "subscript": "x = x + kept[-1]",
        "sum": "x = x + sum(kept)",
        "in": "x = x + 1 if 3 in kept else x - 1",
        "equal": "x = x + 1 if kept == [1, 3] else x - 1",
        "hash": "x = x + len({(n, 0), (3, 0)})",
        "tuple": "pair = (n, n); a, b = pair; x = x + a",
        "is": "x = x + 1 if kept[-1] is n else x - 1",
        "is_small": "x = x + 1 if kept[-1] is 3 else x - 1",
        "text": "x = x + len(str(kept))",
        "format": "x = x + len(f'{kept}')",
        "max": "x = x + max(kept)",
        "sorted": "x = x + sorted(kept)[0]",
        "generator": "x = x + sum(k for k in kept)",
        "loop": "for k in kept: x = x * k",
        "call": "x = x + (lambda k: k[-1] * 2)(kept)",
        "nested": "box = [[kept]]; x = x + box[0][0][1]",
        "dict": "d = {'n': n}; x = x + d['n']",
        "cell": "x = x + (lambda: n)()",
        "tensor": "x = x + torch.tensor(kept)[1]",
        "shape": "x = x + torch.ones(kept)[0, 0]",
        "map": "x = x + list(map(abs, kept))[1]",
        "reversed": "x = x + next(reversed(kept))",
        "compare": "x = x + 1 if (n, 2) < (4, 0) else x - 1",
        "star": "x = x + max(*kept)",
        "extend": "more = [0]; more.extend(kept); x = x + more[-1]",
        "count": "x = x + kept.count(3)",
        "index": "x = x + (kept.index(3) if 3 in kept else 7)",
        "sort": "kept.sort(); x = x + kept[0]",
        "bool": "x = x + 1 if kept[-1] else x - 1",
        "slice": "x = x + kept[1:][0]",
        "join": "x = x + [10, 20, 30, 40, 50, 60, 70, 80][kept[1]]",
    }
    for name, look in looks.items():
        # A break in front, so that `n` is what a frame passes on.
        body = f"kept = [1]\n    x.sum().item()\n    kept.append(n)\n    {look}\n    return x * 2, kept"
        source = f"def f(x, n):\n    {body}"
        for form in ("cold", "specialised"):
            function = function_of(source, form)
            fast = compiled(function)
            for n in (3, 3, 4, 2, 3, 0, 1):
                if name == "shape" and n == 0:
                    continue
                one, other = fast(X, n), function(X, n)
                try:
                    same(one, other)
                except AssertionError as error:
                    raise AssertionError(f"{name}, {form}, {n}: {error}") from None
                assert one[1][-1] is other[1][-1] or name == "sort", name
