"""Which object it is: numbers and text of equal value, NaN, what shares its contents with what."""

from staleness import call, case, module, tensor


def nan(name, expression, first=None, then=None):
    """f(x, a, b) with two NaNs, and then with one."""

    @case(name=f"nan {name}")
    def made():
        m = module(f"import operator\nnan = float('nan')\ndef f(x, a, b): return x * (2 if {expression} else 1)")
        a, b = first() if first else (float("nan"), float("nan"))
        yield m.f, tensor(), a, b
        one = float("nan")
        yield tensor(), *(then(one) if then else (one, one))


for expression in (
    "[a] == [b]",
    "(a,) == (b,)",
    "{1: a} == {1: b}",
    "a in [b]",
    "a in (b, 1)",
    "b in {a: 1}",
    "len({a, b}) == 1",
    "[a].count(b)",
    "[a, 1] == [b, 1]",
    "a is b",
    "operator.is_(a, b)",
    "operator.contains([a], b)",
    "operator.eq([a], [b])",
    "[[a]] == [[b]]",
    "len(dict.fromkeys([a, b])) == 1",
    "a == b or a is b",
    "not ([a] != [b])",
    "[a] <= [b] and [a] == [b]",
):
    nan(expression, expression)
nan("in a list that is given", "a in b", lambda: (float("nan"), [float("nan")]), lambda one: (one, [one]))
nan("in a set that is given", "a in b", lambda: (float("nan"), {float("nan")}), lambda one: (one, {one}))
nan("in a dict that is given", "a in b", lambda: (float("nan"), {float("nan"): 1}), lambda one: (one, {one: 1}))
nan("in a tuple that is given", "a in b", lambda: (float("nan"), (float("nan"),)), lambda one: (one, (one,)))
nan("lists that are given", "a == b", lambda: ([float("nan")], [float("nan")]), lambda one: ([one], [one]))
nan(
    "dicts that are given",
    "a == b",
    lambda: ({1: float("nan")}, {1: float("nan")}),
    lambda one: ({1: one}, {1: one}),
)


def fresh(text):
    return "".join(list(text))


@case
def text_is_text():
    m = module("UNSET = ''.join(['un', 'set!'])\ndef f(x, s): return x * 2 if s is UNSET else x")
    yield m.f, tensor(), m.UNSET
    yield tensor(), fresh("unset!")


@case
def text_is_not_text():
    m = module("UNSET = ''.join(['un', 'set!'])\ndef f(x, s): return x * 2 if s is not UNSET else x")
    yield m.f, tensor(), fresh("unset!")
    yield tensor(), m.UNSET


@case
def number_is_number():
    m = module("N = float('1.5')\ndef f(x, s): return x * 2 if s is N else x")
    yield m.f, tensor(), m.N
    yield tensor(), float("1.5")


@case
def large_integer_is_it():
    m = module("N = int('123456')\ndef f(x, s): return x * 2 if s is N else x")
    yield m.f, tensor(), m.N
    yield tensor(), int("123456")


@case
def bytes_are_they():
    m = module("B = bytes([1, 2, 3])\ndef f(x, s): return x * 2 if s is B else x")
    yield m.f, tensor(), m.B
    yield tensor(), bytes([1, 2, 3])


def given_back(name, result, make):
    @case(name=f"given back {name}")
    def made():
        m = module(
            f"seen = []\ndef f(x, s): return x + 1, {result}\ndef g(x, s): r = f(x, s)[1]; seen.append(r is s)"
        )
        f, same = m.f, []

        def find(holder, s):
            items = holder.values() if isinstance(holder, dict) else holder
            return [item is s for item in items]

        values = [make() for _ in range(4)]
        m.box = []
        got = yield call(f, tensor(), values[0]).watch(m.box)
        for value in values[1:]:
            y, r = got(tensor(), value)
            same.append(r is value if not isinstance(r, (list, tuple, dict)) else find(r, value))
        m.box.append(same)
        yield tensor(), values[0]


for kind, make in (
    ("text", lambda: fresh("some text")),
    ("a float", lambda: float("2.5")),
    ("a large integer", lambda: int("1234567")),
    ("bytes", lambda: bytes([1, 2, 3])),
    ("a complex", lambda: complex("1+2j")),
):
    given_back(f"{kind}", "s", make)
    given_back(f"{kind} in a list", "[s]", make)
    given_back(f"{kind} in a tuple", "(s, 1)", make)
    given_back(f"{kind} in a dict", "{'s': s}", make)


def aliases(name, source, apart, together):
    """f(x, a, b), first with what `apart` makes, then with what `together` makes."""

    @case(name=f"aliases {name}")
    def made():
        m = module(source)
        arguments = lambda make: eval(make, m.__dict__)  # noqa: E731
        yield m.f, tensor(), *arguments(apart)
        yield tensor(), *arguments(together)
        yield tensor(), *arguments(apart)
        yield tensor(), *arguments(together)


HEAD = """
import collections, types
class L(list): pass
class D(dict): pass
class S(set): pass
class O: pass
def twice(v): return v, v
def obj(**kw):
    o = O(); o.__dict__.update(kw); return o
def func():
    def g(): pass
    g.k = 1
    return g
def dict_of(o): return o.__dict__, o
def cells():
    n = 1
    def put(v):
        nonlocal n
        n = v
    return put, lambda: n
def module():
    made = types.ModuleType("m"); made.k = 1
    return made
"""
for name, body, apart, together in (
    ("lists", "a.append(1); r = len(b); a.pop()", "[1], [1]", "twice([1])"),
    ("subclasses of list", "a.append(1); r = len(b); a.pop()", "L([1]), L([1])", "twice(L([1]))"),
    ("subclasses of dict", "a['k'] = 5; r = b['k']", "D(k=1), D(k=1)", "twice(D(k=1))"),
    (
        "default dicts",
        "a['k'] = 5; r = b['k']",
        "collections.defaultdict(int, k=1), collections.defaultdict(int, k=1)",
        "twice(collections.defaultdict(int, k=1))",
    ),
    (
        "ordered dicts",
        "a['k'] = 5; r = b['k']",
        "collections.OrderedDict(k=1), collections.OrderedDict(k=1)",
        "twice(collections.OrderedDict(k=1))",
    ),
    ("sets", "a.add(5); r = len(b)", "{1}, {1}", "twice({1})"),
    ("objects", "a.k = 5; r = b.k", "obj(k=1), obj(k=1)", "twice(obj(k=1))"),
    ("functions", "a.k = 5; r = b.k", "func(), func()", "twice(func())"),
    ("modules", "a.k = 5; r = b.k", "module(), module()", "twice(module())"),
    ("an object and its dict", "a['k'] = 5; r = b.k", "{'k': 1}, obj(k=1)", "dict_of(obj(k=1))"),
    ("a function and its dict", "a['k'] = 5; r = b.k", "{'k': 1}, func()", "dict_of(func())"),
    ("a module and its dict", "a['k'] = 5; r = b.k", "{'k': 1}, module()", "dict_of(module())"),
    ("a dict and what it is of", "b.k = 5; r = a['k']", "{'k': 1}, obj(k=1)", "dict_of(obj(k=1))"),
    ("a dict and the function it is of", "b.k = 5; r = a['k']", "{'k': 1}, func()", "dict_of(func())"),
    ("cells", "a(5); r = b()", "(cells()[0], cells()[1])", "cells()"),
    ("cells, the other way", "a(5); r = b()", "cells()", "(cells()[0], cells()[1])"),
    ("lists by operator", "import operator; r = 2 if operator.is_(a, b) else 1", "[1], [1]", "twice([1])"),
    ("lists by not is_", "import operator; r = 2 if operator.is_not(a, b) else 1", "[1], [1]", "twice([1])"),
    (
        "lists by operator's change",
        "import operator; operator.iadd(a, [1]); r = len(b); a.pop()",
        "[1], [1]",
        "twice([1])",
    ),
    ("subclasses of list by index", "a[0] = 5; r = b[0]", "L([1]), L([1])", "twice(L([1]))"),
    (
        "a list in a list",
        "a[0].append(1); r = len(b[0]); a[0].pop()",
        "[[1]], [[1]]",
        "(lambda i: ([i], [i]))([1])",
    ),
    (
        "attributes of a subclass of dict",
        "a.k = 5; r = b.k",
        "[D() for d in 'ab' if not globals().update(D=type('D', (dict,), {'k': 1}))]",
        "twice(D())",
    ),
):
    aliases(name, f"{HEAD}\ndef f(x, a, b):\n  {body}\n  return x * r", apart, together)


def two_variables(first, then, change):
    @case(name=f"closures {first} then {then}")
    def made():
        m = module(f"{HEAD}\ndef f(x, a, b):\n  return x * (a() * 10 + b())")
        shared, other = m.cells(), m.cells()
        pairs = {"one": (shared[1], shared[1]), "two": (shared[1], other[1])}
        yield m.f, tensor(), *pairs[first]
        change(shared, other)
        yield tensor(), *pairs[then]


two_variables("one", "two", lambda shared, other: other[0](7))
two_variables("two", "two", lambda shared, other: other[0](7))


@case
def member_of_an_enum_in_a_tuple():
    m = module("""
import enum
class Mode(enum.Enum): A = 1; B = 2; C = 3
MODE = Mode.A
def f(x): return x + (1 if MODE in (Mode.A, Mode.B) else 2)
""")
    yield m.f, tensor()
    m.MODE = m.Mode.B
    yield tensor()
    m.MODE = m.Mode.C
    yield tensor()


@case
def object_in_a_list():
    m = module("""
class Box: pass
a, b = Box(), Box()
def f(x, box, boxes): return x + (1 if box in boxes else 2)
""")
    yield m.f, tensor(), m.a, [m.a, m.b]
    yield tensor(), m.b, [m.a, m.b]
    yield tensor(), m.Box(), [m.a, m.b]
    yield tensor(), m.a, [m.b]


@case
def object_in_a_list_gets_an_equality():
    m = module("""
class Box: pass
a, b = Box(), Box()
def f(x): return x + (1 if a in [b] else 2)
""")
    yield m.f, tensor()
    m.Box.__eq__ = lambda self, other: True
