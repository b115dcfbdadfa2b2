"""Results of captured calls: made anew by every replay, of the same types, parts, identities and cycles."""

import collections
import dataclasses
import functools

import pytest
import torch

from braze._load import C

pytestmark = pytest.mark.skipif(not hasattr(C, "CompiledFunction"), reason="no evaluator for this Python")

X = torch.arange(6.0).reshape(2, 3)
Point = collections.namedtuple("Point", ["x", "y"])


@pytest.fixture(autouse=True)
def no_grad():
    with torch.no_grad():
        yield


def replayed(function, *arguments):
    """The result of a replay, after a capture."""
    fast = C.CompiledFunction(function)
    fast(*arguments)
    result = fast(*arguments)
    assert fast.reasons() == {}
    assert fast.counts() == {"captured": 1, "replayed": 1, "native": 0}
    return result


def native(function, *arguments):
    fast = C.CompiledFunction(function)
    fast(*arguments)
    assert fast.counts()["native"] == 1
    (reason,) = fast.reasons()
    return reason


def equal(a, b):
    assert type(a) is type(b) is torch.Tensor
    torch.testing.assert_close(a, b)


def test_one_tensor_in_several_places():
    def f(x):
        y = x + 1
        return [y, {"again": y}, (y, x)]

    first, second, (third, given) = replayed(f, X)
    assert first is second["again"] is third
    assert given is X
    equal(first, X + 1)


def test_results_of_two_replays_are_different_objects():
    def f(x):
        return [x + 1, {"a": 1}]

    fast = C.CompiledFunction(f)
    one, two, three = fast(X), fast(X), fast(X)
    assert len({id(one), id(two), id(three)}) == 3
    one[1]["a"] = 5
    assert two[1] == {"a": 1} == three[1]


def test_constants_of_the_code_are_the_same_object():
    def f(x):
        return x + 1, (1, 2, (3, "four"))

    assert replayed(f, X)[1] is f(X)[1]


def test_cycles():
    def f(x):
        outer = [x + 1]
        table = {"outer": outer}
        outer.append((table, outer))
        return outer

    outer = replayed(f, X)
    table, again = outer[1]
    assert again is outer and table["outer"] is outer
    equal(outer[0], X + 1)


def test_named_tuple():
    result = replayed(lambda x: Point(x + 1, [x * 2]), X)
    assert type(result) is Point
    equal(result.x, X + 1)
    equal(result.y[0], X * 2)


def test_torchs_tuples():
    result = replayed(lambda x: x.max(1), X)
    assert type(result) is torch.return_types.max
    equal(result.values, X.max(1).values)
    size = replayed(lambda x: (x + 1).shape, X)
    assert type(size) is torch.Size and size == (2, 3)
    parts = replayed(lambda x: (x + 1).chunk(2), X)
    assert type(parts) is tuple
    equal(parts[1], X[1:] + 1)


class Plain:
    kind = "plain"

    def __init__(self, value, other):
        self.value = value
        self.other = other

    def total(self):
        return self.value.sum() + self.other


class Slotted:
    __slots__ = ("left", "right")

    def __init__(self, left):
        self.left = left


def test_instances():
    def f(x):
        first = Plain(x + 1, 2)
        first.itself = first
        return first, Slotted(first)

    first, second = replayed(f, X)
    assert type(first) is Plain and first.itself is first and list(vars(first)) == ["value", "other", "itself"]
    equal(first.total(), (X + 1).sum() + 2)
    assert type(second) is Slotted and second.left is first and not hasattr(second, "right")


@dataclasses.dataclass
class Record:
    value: torch.Tensor
    names: list = dataclasses.field(default_factory=list)


def test_dataclass():
    result = replayed(lambda x: Record(x + 1), X)
    assert type(result) is Record and result.names == []
    equal(result.value, X + 1)


class Stack(list):
    depth = 0


def test_subclasses_of_containers():
    def f(x):
        ordered = collections.OrderedDict()
        ordered["b"] = x + 1
        ordered["a"] = 2
        return ordered

    result = replayed(f, X)
    assert type(result) is collections.OrderedDict and list(result) == ["b", "a"]
    equal(result["b"], X + 1)


def test_sets():
    def f(x):
        return x + 1, {1, 2, 3}, frozenset(["a", "b"])

    result = replayed(f, X)
    assert result[1:] == f(X)[1:]
    assert list(result[2]) == list(f(X)[2])


def test_slices_and_ranges():
    assert replayed(lambda x: [x + 1, slice(1, x.size(0)), range(1, x.size(1))], X)[1:] == [
        slice(1, 2),
        range(1, 3),
    ]


def test_closure_that_is_returned():
    def f(x):
        y = x + 1

        def inner(z, scale=2.0, *, shift=1):
            return y * scale + z + shift

        return inner

    one, two = replayed(f, X), f(X)
    assert one.__name__ == two.__name__ and one.__qualname__ == two.__qualname__
    assert one.__module__ == two.__module__ and one.__globals__ is two.__globals__
    assert one.__defaults__ == (2.0,) and one.__kwdefaults__ == {"shift": 1}
    equal(one(X), two(X))


def test_closure_that_calls_itself():
    def f(x):
        def count(n: int) -> int:
            """Counts down."""
            return 0 if n == 0 else 1 + count(n - 1)

        return x + 1, count

    _, count = replayed(f, X)
    assert count(4) == 4
    assert count.__doc__ == "Counts down." and count.__annotations__ == {"n": int, "return": int}


def test_bound_method():
    def f(x):
        return Plain(x + 1, 3).total

    equal(replayed(f, X)(), (X + 1).sum() + 3)


def test_iterators_in_flight():
    def f(x):
        items = [x + 1, x + 2, x + 3]
        first = iter(items)
        next(first)
        table = {"a": 1, "b": 2, "c": 3}
        entries = iter(table.items())
        next(entries)
        numbers = iter(range(2, 11, 3))
        next(numbers)
        return first, entries, zip(items, numbers, strict=False), enumerate(["p", "q"], 5), table.keys(), items

    first, entries, pairs, counted, keys, items = replayed(f, X)
    left = list(first)
    assert len(left) == 2 and left[0] is items[1] and left[1] is items[2]
    assert list(entries) == [("b", 2), ("c", 3)]
    assert [number for _, number in pairs] == [5, 8]
    assert list(counted) == [(5, "p"), (6, "q")]
    assert list(keys) == ["a", "b", "c"]


def test_partial():
    def scaled(y, *, by):
        return y * by

    def f(x):
        return functools.partial(scaled, x + 1, by=x.size(0))

    result = replayed(f, X)
    assert type(result) is functools.partial and result.func is scaled
    equal(result(), (X + 1) * 2)


def test_partial_that_existed_before():
    held = functools.partial(torch.mul, X)
    scaled = functools.partial(lambda a, b, *, by: (a + b) * by, by=3.0)
    equal(replayed(lambda x: held(x + 1), X), X * (X + 1))
    fast = C.CompiledFunction(lambda x: scaled(x, 1))
    for factor in (3.0, 3.0, 2.0, 2.0):
        scaled.keywords["by"] = factor
        equal(fast(X), (X + 1) * factor)
    assert fast.counts() == {"captured": 2, "replayed": 2, "native": 0}


def test_a_generator_in_flight_is_not_rebuilt():
    def f(x):
        return (y for y in [x + 1])

    fast = C.CompiledFunction(f)
    for _ in range(3):
        equal(next(fast(X)), X + 1)


def test_objects_of_c_classes_are_not_made_again():
    """pybind11 makes classes on the heap, whose instances are no plain objects: here the mark of a profiler."""

    def f(x):
        with torch.autograd.profiler.record_function("part"):
            y = x * 2
        return torch.relu(y) + 1

    fast = C.CompiledFunction(f)
    for _ in range(3):
        assert torch.equal(fast(X), f(X))
