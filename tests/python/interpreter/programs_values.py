"""Small programs about values: operators, variables, calls, containers. See programs.py."""
# Some of these are wrong on purpose.
# ruff: noqa: B023, F821

import functools

PROGRAMS = []


def program(function):
    PROGRAMS.append(function)
    return function


# ---- the stack, operators, variables ----


@program
def every_operator():
    a, b = 13, 5
    values = [a + b, a - b, a * b, a / b, a // b, a % b, a**b, a << b, a >> b, a & b, a | b, a ^ b]
    for operate in (
        lambda x: x.__iadd__([1]) if isinstance(x, list) else x,
        lambda x: -x if isinstance(x, int) else x,
        lambda x: ~x if isinstance(x, int) else x,
        lambda x: +x if isinstance(x, int) else x,
        lambda x: not x,
    ):
        values += [operate(a), operate([])]
    a += b
    a -= 1
    a *= 2
    a //= 3
    a %= 7
    a **= 2
    a <<= 1
    a >>= 1
    a &= 31
    a |= 64
    a ^= 3
    x = 3.0
    x /= 2
    return values, a, x, a < b, a <= b, a == b, a != b, a > b, a >= b, a is b, a is not b, 1 in [1], 1 not in [1]


@program
def matrix_multiplication():
    class M:
        def __matmul__(self, other):
            return "matmul"

        def __imatmul__(self, other):
            return "imatmul"

    m = M()
    first = m @ m
    m @= 1
    return first, m


@program
def chained_comparisons():
    seen = []

    def note(x):
        seen.append(x)
        return x

    return note(1) < note(2) < note(2) <= note(3), note(3) > note(4) > note(5), seen


@program
def string_building():
    text = ""
    for i in range(50):
        text += str(i)
    alias = text
    text += "!"
    return text, alias, f"{1.5:>8.2f}|{'x'!r:^5}|{[1]!s}|{'ä'!a}|{{}}|{1:{'>'}{4}}|{text[:2]=}"


@program
def slices():
    items = list(range(10))
    items[2:4] = ["a"]
    del items[::3]
    return items, items[1:], items[:-1], items[::-1], items[-3:None:1]


@program
def unbound_local():
    if len("") > 0:
        value = 1
    return value


@program
def deleted_local():
    value = 1
    del value
    del value


@program
def unbound_cell():
    def inner():
        return later

    result = inner()
    later = 1
    return result


@program
def deleted_cell():
    value = 1

    def inner():
        return value

    del value
    return inner()


@program
def cells_and_nonlocal():
    def counter():
        count = 0

        def step(by=1):
            nonlocal count
            count += by
            return count

        return step

    one, two = counter(), counter()
    return one(), one(5), two(), [f() for f in [lambda i=i: i for i in range(3)]], [f() for f in late_binding()]


def late_binding():
    return [lambda: i for i in range(3)]


@program
def globals_stored_and_deleted():
    global _made_here
    _made_here = 3
    seen = _made_here
    del _made_here
    try:
        del _made_here
    except NameError as error:
        seen = (seen, str(error))
    return seen, missing_name


# ---- calls ----


@program
def every_kind_of_call():
    def f(a, /, b, *args, c=3, d, **kwargs):
        return a, b, args, c, d, kwargs

    class C:
        def method(self, *a, **k):
            return a, k

        @classmethod
        def of_class(cls, x):
            return cls.__name__, x

        @staticmethod
        def of_none(x):
            return x

        def __call__(self, *a, **k):
            return "called", a, k

    c = C()
    bound = c.method
    return (
        f(1, 2, d=4),
        f(1, 2, 3, 4, c=5, d=6, e=7),
        f(*[1, 2], *(3,), **{"d": 4}, **{"x": 5}),
        bound(1, k=2),
        C.method(c, 1),
        C.of_class(1),
        c.of_class(2),
        c.of_none(3),
        c(1, *[2], k=3),
        functools.partial(f, 1, d=2)(3),
        len([1]),
        dict(a=1),
        int("12"),
        max(1, 2, key=lambda x: -x),
    )


@program
def wrong_calls():
    def f(a, b=1, *, c):
        return a

    cases = [
        lambda: f(),
        lambda: f(1, 2, 3, c=1),
        lambda: f(1, c=1, d=2),
        lambda: f(1, a=1, c=1),
        lambda: f(*1, c=1),
        lambda: f(**[1]),
        lambda: f(**{"c": 1}, **{"c": 2}),
        lambda: f(**{1: 2}),
        lambda: 1(),
        lambda: f(1, *None, c=2),
        lambda: print(*3),
        lambda: {**1},
        lambda: [*1],
    ]
    messages = []
    for case in cases:
        try:
            case()
        except TypeError as error:
            messages.append(str(error))
    return messages


@program
def arguments_do_not_outlive_their_use():
    import weakref

    class Thing:
        pass

    def drop(x):
        seen = weakref.ref(x)
        return seen() is x

    return drop(Thing())


@program
def recursion_limit():
    def down(n):
        return down(n + 1)

    try:
        down(0)
    except RecursionError as error:
        return str(error)


@program
def deep_but_legal_recursion():
    def ackermann(m, n):
        return n + 1 if m == 0 else ackermann(m - 1, ackermann(m, n - 1) if n else 1)

    return ackermann(2, 6)


@program
def function_attributes():
    def f(a: int, b: "str" = "x", *, c: float = 1.0) -> None:
        """Documented."""

    return f.__annotations__, f.__defaults__, f.__kwdefaults__, f.__doc__, f.__qualname__, f.__code__.co_varnames


@program
def decorators():
    trail = []

    def note(label):
        trail.append(label)

        def wrap(function):
            trail.append(function.__name__)

            @functools.wraps(function)
            def inner(*args):
                return label, function(*args)

            return inner

        return wrap

    @note("outer")
    @note("inner")
    def f(x):
        return x

    return f(1), trail


# ---- containers ----


@program
def comprehensions():
    return (
        [x * y for x in range(4) if x % 2 for y in range(x)],
        {x: x * x for x in range(3)},
        {x % 2 for x in range(5)},
        list(x for x in "abc"),
        [[y for y in range(x)] for x in range(3)],
        [last := x for x in range(3)],
        last,
    )


@program
def unpacking():
    a, (b, *c), d = 1, (2, 3, 4), "d"
    *e, f = "xyz"
    g, *h = {1: 2, 3: 4}
    (i,) = iter([9])
    return a, b, c, d, e, f, g, h, i, [*range(2), *"ab"], {*[1], *(2,)}, {**{"a": 1}, "b": 2}, (*[1], 2)


@program
def wrong_unpacking():
    def two(x):
        a, b = x

    def star(x):
        a, *b, c = x

    class Raises:
        def __iter__(self):
            yield 1
            raise KeyError("from iter")

    messages = []
    for unpack in (two, star):
        for value in ([1], [1, 2, 3], (), (1,), 5, None, iter([1, 2, 3]), {1: 1}, "a", Raises()):
            try:
                unpack(value)
                messages.append("fine")
            except Exception as error:
                messages.append((type(error).__name__, str(error)))
    return messages


@program
def order_of_evaluation():
    seen = []

    def note(x):
        seen.append(x)
        return x

    {note("k1"): note("v1"), note("k2"): note("v2")}
    target = {}
    target[note("key")] = note("value")
    (lambda *a, **k: None)(note(1), *[note(2)], x=note(3), **{"y": note(4)})
    return seen
