"""What each call makes anew - classes, deques, ranges - is captured once or twice, and then replayed."""

import collections
import dataclasses
import enum
import functools
import os
import typing

import pytest
import torch
from compiling import compiled, same
from torch import nn

from braze._load import C

pytestmark = pytest.mark.skipif(not hasattr(C, "CompiledFunction"), reason="no evaluator for this Python")
X = torch.randn(4)
PROGRAMS = {}


def program(function):
    PROGRAMS[function.__name__] = function
    return function


# ---- classes


@program
def class_statement(x):
    class A:
        k = 3

        def m(self, t):
            return t.sin() * self.k

    return A().m(x * 2) + 1


@program
def class_first_of_all(x):
    class A:
        pass

    y = x * 2
    a = A()
    a.v = y + 1
    return a.v * y


@program
def class_with_init(x):
    class A:
        def __init__(self, v):
            self.v = v

        def m(self):
            return self.v.sin() + 1

    return A(x * 2).m().relu() * 2


@program
def class_with_super(x):
    class A:
        def m(self, t):
            return t * 2

    class B(A):
        def m(self, t):
            return super().m(t + 1) * 3

    return B().m(x) - 1


@program
def enum_in_function(x):
    class E(enum.Enum):
        A = 1
        B = 2

    y = x * E.B.value
    return y + 1 if E.A is E(1) else y


@program
def enum_by_call(x):
    E = enum.Enum("E", "A B")
    return x * E.B.value + 1


@program
def int_enum(x):
    class E(enum.IntEnum):
        A = 1

    return x.sum(E.A - 1) * (E.A + 1)


@program
def dataclass_in_function(x):
    @dataclasses.dataclass
    class D:
        a: torch.Tensor
        b: int = 2

    d = D(x * 2)
    return d.a * d.b + 1


@program
def named_tuple_statement(x):
    class N(typing.NamedTuple):
        a: torch.Tensor
        b: int

    n = N(x * 2, 3)
    return n.a * n.b + n[0]


@program
def module_in_function(x):
    class M(nn.Module):
        def forward(self, t):
            return t * 2 + 1

    return M()(x + 1) * 3


@program
def exception_in_function(x):
    class Err(Exception):
        pass

    y = x * 2
    try:
        if x.dim() == 1:
            raise Err("a")
    except Err:
        y = y + 1
    return y * 2


@program
def autograd_function(x):
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, t):
            return t * 2

    return Double.apply(x + 1) * 2


@program
def type_called(x):
    T = type("T", (), {"k": 2, "m": lambda self, t: t * self.k})
    return T().m(x) * T.k + 1


@program
def list_derived(x):
    class L(list):
        def total(self):
            return sum(self)

    return L([x, x * 2]).total() * 2


@program
def context_manager(x):
    class Scope:
        def __enter__(self):
            return 2

        def __exit__(self, *error):
            return False

    with Scope() as k:
        y = x * k + 1
    return y * 3


@program
def callable_object(x):
    class Scale:
        def __init__(self, k):
            self.k = k

        def __call__(self, t):
            return t * self.k

    return Scale(3)(x.cos()) + 1


@program
def made_by_a_callee(x):
    def make():
        class A:
            k = 2

        return A

    y = x.exp()
    return y * make().k + y


@program
def in_a_loop(x):
    for k in range(2):

        class A:
            v = k + 1

        x = x * A.v + 1
    return x


@program
def named_tuple_class_returned(x):
    N = collections.namedtuple("N", "a b")
    y = x.sin() * 2
    return tuple(N(y, 3))


@program
def made_dataclass(x):
    D = dataclasses.make_dataclass("D", ["a", "b"])
    y = x.sin() * 2
    return D(y, 3).a + 1


@program
def held_in_a_dict(x):
    class A:
        k = 2

    table = {"a": A, "b": [A()]}
    y = x.sin()
    return y * table["a"].k + table["b"][0].k


def record(x, kind=None):
    return x * kind.k + 1


@program
def given_to_a_function(x):
    class A:
        k = 2

    return record(x.sin(), kind=A) * 2


class Described:
    k = 1


@program
def proxy_of_a_class_passed_on(x):
    held = [("a", 2), ("b", vars(Described))]
    os.getpid()
    count = 0
    for name, value in held:
        count += len(name) + (value is not None)
    return x * count + 1


# ---- deques and ranges


class History:
    def __init__(self, limit):
        self.past = collections.deque(maxlen=limit)

    def step(self, x):
        self.past.appendleft(x * 2)
        return sum(k * each for k, each in enumerate(self.past)) + 1


@program
def deque_of_a_new_object(x):
    history = History(2)
    for k in range(3):
        x = history.step(x + k)
    return x


DEQUES = [collections.deque([1, 2, 3]) for _ in range(8)]


def reads_deque(x, past):
    return x * past[0] + len(past)


def changes_deque(x, past):
    past.append(4)
    past.popleft()
    return x * past[0] + past[-1]


def loops(x, steps):
    for k in steps:
        x = x * 2 + k
    return x


@pytest.mark.parametrize("name", PROGRAMS)
def test_is_replayed_from_the_third_call_on(name):
    function = PROGRAMS[name]
    fast = compiled(function)
    with torch.no_grad():
        for number in range(6):
            x, before = X + number, fast.counts()
            same(fast(x), function(x))
            if number > 1:
                assert fast.counts()["captured"] == before["captured"], number
                assert fast.counts()["replayed"] == before["replayed"] + 1, number
    assert fast.report()["operators"]["compiled"] > 0


@pytest.mark.parametrize("function", [reads_deque, changes_deque])
@pytest.mark.parametrize("limit", [None, 3, 1000])
def test_deques_that_are_given_are_what_they_hold(function, limit):
    fast = compiled(function)
    for number in range(5):
        past, other = (collections.deque([1, 2, 3], maxlen=limit) for _ in range(2))
        same(fast(X + number, past), function(X + number, other))
        assert past == other
        assert past.maxlen == other.maxlen
    assert fast.counts()["captured"] == 1


@pytest.mark.parametrize("limit", [None, 3, 1000])
def test_how_many_items_a_deque_may_have_is_guarded(limit):
    fast = compiled(changes_deque)
    for most in (4, 3, limit):
        past, other = (collections.deque([1, 2, 3], maxlen=most) for _ in range(2))
        same(fast(X, past), changes_deque(X, other))
        assert past == other


def test_one_deque_given_twice_is_told_from_two():
    def f(x, a, b):
        a.append(1)
        return x * len(b)

    fast = compiled(f)
    for is_one in (False, True, False):
        a, other_a = collections.deque([5]), collections.deque([5])
        b, other_b = (a, other_a) if is_one else (collections.deque([5]), collections.deque([5]))
        same(fast(X, a, b), f(X, other_a, other_b))
        assert (a, b) == (other_a, other_b)


def test_ranges_that_are_given_are_their_numbers():
    fast = compiled(loops)
    for number in range(5):
        same(fast(X + number, range(1, 7, 2)), loops(X + number, range(1, 7, 2)))
    assert fast.counts()["captured"] == 1
    for steps in (range(1, 7, 3), range(0, 7, 2), range(1, 8, 2), range(3, 0, -1), range(0)):
        same(fast(X, steps), loops(X, steps))


def test_a_range_by_a_tensor_is_replayed():
    def f(x, n):
        for k in range(n.long()):
            x = x * 2 + k
        return x

    fast = compiled(f)
    for number in (3, 4, 3, 4, 3):
        same(fast(X, torch.tensor(number)), f(X, torch.tensor(number)))
    counts = fast.counts()
    same(fast(X + 1, torch.tensor(4)), f(X + 1, torch.tensor(4)))
    assert fast.counts()["captured"] == counts["captured"]


def test_classes_are_not_kept_by_programs():
    import gc

    class Base:
        pass

    def f(x):
        class A(Base):
            k = 2

        return x.sin() * A.k + 1

    fast = compiled(f)
    for number in range(5):
        same(fast(X + number), f(X + number))
    gc.collect()
    assert Base.__subclasses__() == []


def test_a_class_by_a_function_of_the_caller_is_captured_by_identity():
    @functools.cache
    def kind():
        class A:
            k = 2

        return A

    def f(x):
        return x * kind().k + 1

    fast = compiled(f)
    for number in range(5):
        same(fast(X + number), f(X + number))
    assert fast.counts()["captured"] <= 2
