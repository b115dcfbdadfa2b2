"""Small programs about match, classes, modules, and what the evaluator hands over. See programs.py."""
# Some of these are wrong on purpose.
# ruff: noqa: B018, F401

import collections
import dataclasses
import enum
import functools
import sys

PROGRAMS = []


def program(function):
    PROGRAMS.append(function)
    return function


# ---- match ----


@dataclasses.dataclass
class Point:
    x: int
    y: int


class Color(enum.Enum):
    RED = 1
    BLUE = 2


def matched(subject):
    match subject:
        case 0 | 1:
            return "small"
        case Color.RED:
            return "red"
        case Point(x=0, y=y):
            return "on the axis", y
        case Point(x, y) if x == y:
            return "diagonal", x
        case Point():
            return "point"
        case {"kind": "a", "value": [first, *rest]}:
            return first, rest
        case {"kind": kind, **others}:
            return kind, others
        case [x, y]:
            return "pair", x, y
        case [1, _, *_, last]:
            return "last", last
        case str() as text:
            return "text", text
        case float(number):
            return "float", number
        case None:
            return "none"
    return "else"


@program
def match_statement():
    subjects = [
        0,
        True,
        Color.RED,
        Color.BLUE,
        Point(0, 5),
        Point(3, 3),
        Point(1, 2),
        {"kind": "a", "value": [1, 2]},
    ]
    subjects += [{"kind": "b", "z": 1}, (1, 2), [1, 2, 3, 4], "ab", b"ab", 2.5, None, {}, {1}, range(2)]
    return [matched(subject) for subject in subjects]


@program
def wrong_match():
    class Bad:
        __match_args__ = ["x"]

    class Duplicate:
        __match_args__ = ("x", "x")
        x = 1

    messages = []
    for subject in (Point(1, 2), Bad(), Duplicate()):
        try:
            match subject:
                case Point(1, 2, 3):
                    pass
                case Bad(1):
                    pass
                case Duplicate(1, 1):
                    pass
        except TypeError as error:
            messages.append(str(error))
    return messages


# ---- classes ----


@program
def classes():
    class Meta(type):
        def __new__(mcls, name, bases, namespace, **kwargs):
            cls = super().__new__(mcls, name, bases, namespace)
            cls.kwargs = kwargs
            return cls

        def __prepare__(name, bases, **kwargs):
            return collections.OrderedDict(prepared=True)

    class Base:
        registry = []

        def __init_subclass__(cls, **kwargs):
            super().__init_subclass__()
            Base.registry.append((cls.__name__, kwargs))

        def __getattr__(self, name):
            if name.startswith("dynamic"):
                return name
            raise AttributeError(name)

        @property
        def double(self):
            return self.value * 2

        @double.setter
        def double(self, value):
            self.value = value // 2

    class Child(Base, flag=1):
        __slots__ = ("value",)
        limit: int = 5

        def __init__(self, value):
            super().__init__()
            self.value = value

        def __eq__(self, other):
            return self.value == other.value

        __hash__ = None

    class WithMeta(metaclass=Meta, option=2):
        x = __qualname__

    child = Child(4)
    child.double = 20
    seen = child.value, child.double, child.dynamic_one, getattr(child, "other", None), child == Child(10)
    return seen, Base.registry, WithMeta.kwargs, WithMeta.x, WithMeta.prepared, Child.__annotations__


@program
def class_bodies_see_their_function():
    x = "function"

    class A:
        y = x
        x = "class"
        z = x

        def method(self):
            return x, __class__.__name__

    return A.y, A.z, A().method()


@program
def attribute_errors():
    class A:
        __slots__ = ("x",)

    messages = []
    for act in (
        lambda: A().x,
        lambda: A().y,
        lambda: setattr(A(), "y", 1),
        lambda: delattr(A(), "x"),
        lambda: None.upper,
        lambda: A.missing,
    ):
        try:
            act()
        except AttributeError as error:
            messages.append((str(error), error.name))
    return messages


@program
def standard_classes():
    Pair = collections.namedtuple("Pair", "a b")

    @dataclasses.dataclass(order=True)
    class D:
        a: int
        b: list = dataclasses.field(default_factory=list)

    class E(enum.IntFlag):
        X = enum.auto()
        Y = enum.auto()

    @functools.lru_cache
    def f(x):
        return x * 2

    @functools.singledispatch
    def kind(x):
        return "any"

    @kind.register
    def _(x: int):
        return "int"

    counts = collections.Counter("hello")
    default = collections.defaultdict(list)
    default["x"].append(1)
    return (
        Pair(1, 2)._replace(b=3),
        D(1) < D(2),
        D(1),
        E.X | E.Y,
        f(2),
        f(2),
        f.cache_info().hits,
        kind(1),
        kind(""),
        (
            counts.most_common(1),
            dict(default),
        ),
    )


# ---- modules ----


@program
def imports():
    import os.path as path
    from collections import OrderedDict as Ordered
    from collections import abc

    try:
        from collections import no_such_name
    except ImportError as error:
        message = str(error).split("(")[0], error.name
    try:
        import no_such_module
    except ModuleNotFoundError as error:
        return path.basename("a/b"), Ordered.__name__, abc.__name__, message, str(error), error.name


@program
def executed_code():
    namespace = {}
    exec(
        "x: int = 1\nfrom math import *\nclass A:\n  y = x\n"
        "  def f(self): return self.y, floor(2.5)\nz = A().f()\ndel x\n",
        namespace,
    )
    return namespace["z"], namespace["__annotations__"], "x" in namespace, eval("a + b", {"a": 1}, {"b": 2})


@program
def executed_in_a_mapping():
    class Echo(dict):
        def __missing__(self, key):
            if key.startswith("echo"):
                return key
            raise KeyError(key)

    namespace = Echo()
    exec("a = echo_one\nb = a + echo_two\ndel a\n", {}, namespace)
    return dict(namespace)


@program
def local_names():
    a, b = 1, 2

    def inner():
        b
        return sorted(locals())

    return sorted(locals()), inner(), sorted(x for x in dir() if x != "inner")


# ---- what the evaluator hands over ----


@program
def tracing_starts_in_the_middle():
    events = []

    def tracer(frame, event, arg):
        events.append((event, frame.f_code.co_name))
        return tracer

    def traced(n):
        total = 0
        for i in range(n):
            total += i
        return total

    first = traced(3)
    sys.settrace(tracer)
    try:
        second = traced(3)
    finally:
        sys.settrace(None)
    return first, second, traced(4), events


@program
def profile_starts_in_the_middle():
    events = []

    def profiler(frame, event, arg):
        events.append((event, frame.f_code.co_name, getattr(arg, "__name__", arg)))

    def work():
        return len([1, 2])

    sys.setprofile(profiler)
    work()
    sys.setprofile(None)
    return work(), events


@program
def destructors_and_weak_references():
    import weakref

    trail = []

    class Noisy:
        def __init__(self, name):
            self.name = name

        def __del__(self):
            trail.append(self.name)

    def scope():
        a, b = Noisy("a"), Noisy("b")
        weakref.finalize(b, trail.append, "finalized b")
        del a
        trail.append("after del")
        b = None
        trail.append("after rebinding")

    scope()
    [Noisy("in a list")]
    trail.append("end")
    return trail
