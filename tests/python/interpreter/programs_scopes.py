"""Small programs about what CPython compiles differently by version: scopes, slices, super(), ends."""
# Some of these are wrong on purpose.
# ruff: noqa: B018, B023, F821, F841, UP008

import sys

PROGRAMS = []


def program(function):
    PROGRAMS.append(function)
    return function


# ---- comprehensions, whose variables may live in the function around them ----


@program
def comprehensions_hide_their_variables():
    x = "outer"
    squares = [x * x for x in range(4)]
    pairs = {(x, y) for x in range(2) for y in [x + 1]}
    table = {x: [x for x in range(x)] for x in range(3)}
    return x, squares, sorted(pairs), table


@program
def comprehension_variable_without_a_value_outside():
    made = [late for late in range(3)]
    try:
        return late
    except NameError as error:
        return made, type(error), error.name
    late = 1


@program
def comprehension_that_raises_puts_variables_back():
    x = 7
    try:
        [1 // x for x in (1, 0)]
    except ZeroDivisionError as error:
        return x, error.__traceback__.tb_lineno, str(error)


@program
def comprehension_with_closures():
    functions = [lambda: i for i in range(3)]
    bound = [lambda i=i: i for i in range(3)]
    return [f() for f in functions], [f() for f in bound], [(lambda: j + k)() for j in (1, 2) for k in (10, 20)]


@program
def comprehensions_in_a_class_body():
    outside = 5

    class Body:
        names = [outside + n for n in range(3)]
        outside = 6
        again = [outside for _ in range(2)]
        size = len({n: n for n in names})

        def method(self):
            return [self.size for _ in range(2)], outside

    return Body.names, Body.again, Body.size, Body().method()


@program
def comprehension_with_walrus_and_conditions():
    found = [last := n for n in range(10) if n % 3 == 1 if n > 2]
    return found, last, [n if n else None for n in (0, 1)]


@program
def class_body_reads_enclosing_variables():
    value, other = "enclosing", "other"

    class Body:
        first = value
        value = "own"
        second = value
        third = [other, value]

    return Body.first, Body.second, Body.third


@program
def unbound_after_del():
    def f():
        x = 1
        del x
        return x

    def g():
        x = 1

        def inner():
            return x

        del x
        return inner()

    messages = []
    for function in (f, g):
        try:
            function()
        except NameError as error:
            messages.append((type(error).__name__, str(error), error.name))
    return messages


# ---- slices ----


@program
def slices():
    items, text = list(range(10)), "abcdefghij"
    low, high = 2, -2
    items[1:3] = ["x", "y", "z"]
    items[:0] = [None]
    del items[5:7]
    items[low:high] = text[low:high]
    return items, text[low:], text[:high], text[:], items[::2], (1, 2, 3)[1:], b"bytes"[1:3]


@program
def slices_of_objects():
    class Sliced:
        def __getitem__(self, key):
            return key

        def __setitem__(self, key, value):
            print("set", key, value)

    class Index:
        def __index__(self):
            print("index")
            return 1

    one = Sliced()
    one[1:2] = 3
    one[:] = "all"
    return one[1:2], one[:], one[None:"x"], [1, 2, 3][Index() :]


@program
def slices_that_fail():
    messages = []
    for work in (
        lambda: [1][1.5:],
        lambda: (1.5).real[1:2],
        lambda: {}[1:2],
        lambda: (1, 2).__setitem__(slice(0, 1), 3),
    ):
        try:
            messages.append(work())
        except (TypeError, AttributeError) as error:
            messages.append((str(error), error.__traceback__.tb_next.tb_lineno))
    return messages


# ---- super() ----


class Base:
    kind = "base"

    def method(self, *args, **kwargs):
        return "Base", args, kwargs

    @classmethod
    def made(cls):
        return cls.__name__

    @property
    def own(self):
        return f"own of {type(self).__name__}"


class Derived(Base):
    def method(self, *args, **kwargs):
        return "Derived", super().method(*args, **kwargs), super(Derived, self).method(1, two=2)

    @classmethod
    def made(cls):
        return "derived " + super().made()

    @property
    def own(self):
        return super().own + ", " + super().kind

    def missing(self):
        return super().nothing

    def through(self):
        bound = super().method
        return bound(3)

    def in_comprehension(self):
        return [super(Derived, self).kind for _ in range(2)]


@program
def super_attributes():
    one = Derived()
    return one.method(1, k=2), Derived.made(), one.own, one.through(), one.in_comprehension()


@program
def super_without_the_attribute():
    try:
        Derived().missing()
    except AttributeError as error:
        return str(error)


@program
def super_that_is_replaced():
    class Other(Base):
        def method(self):
            def super(*args):
                return len(args)

            return super(), super(1, 2)

    return Other().method()


@program
def super_of_another_object():
    messages = []
    for work in (lambda: super(Derived, Base()).method(), lambda: super(Base, Derived).kind, lambda: super()):
        try:
            messages.append(work())
        except (TypeError, RuntimeError, AttributeError) as error:
            messages.append(str(error))
    return messages


# ---- what ends a frame ----


@program
def constants_are_returned():
    def nothing():
        pass

    def branch(x):
        if x:
            return "yes"
        return ("no", 1)

    def in_finally():
        try:
            return 1
        finally:
            print("finally")

    return nothing(), branch(0), branch(1), in_finally()


def raised_again():
    try:
        raise KeyError("first")
    except KeyError:
        try:
            1 / 0
        except ZeroDivisionError:
            print(repr(sys.exc_info()[1].__context__))
        raise


def raised_through():
    try:
        raised_again()
    finally:
        print("through")


@program
def raised_again_out_of_the_frame():
    raised_through()


@program
def raised_again_with_nothing_to_raise():
    raise


@program
def raised_by_a_handler():
    try:
        try:
            {}["missing"]
        except KeyError as error:
            raise ValueError("other") from error
    except ValueError:
        raise


@program
def frames_after_their_end():
    try:
        raised_through()
    except KeyError as error:
        lines, at = [], error.__traceback__
        while at:
            lines.append((at.tb_lineno, at.tb_frame.f_lineno, at.tb_frame.f_lasti == at.tb_lasti))
            at = at.tb_next
        return lines, sorted(at_end(error))


def at_end(error):
    at = error.__traceback__
    while at.tb_next:
        at = at.tb_next
    return at.tb_frame.f_locals


@program
def thrown_into_delegating_generators():
    def inner():
        while True:
            try:
                got = yield "inner"
                print("got", got)
            except KeyError:
                print("key")
            except ValueError:
                return "done"

    def outer():
        result = yield from inner()
        yield result
        try:
            yield from iter([1, 2])
        except StopIteration as stop:
            yield "stop", stop.value
        yield from Plain()

    class Plain:
        def __iter__(self):
            return self

        def __next__(self):
            return "plain"

        def throw(self, *args):
            raise StopIteration("thrown away")

    one = outer()
    out = [next(one), one.send("x"), one.throw(KeyError), one.throw(ValueError), next(one)]
    out.append(one.throw(StopIteration(5)))
    out.append(next(one))
    try:
        one.throw(TypeError("into plain"))
    except StopIteration as stop:
        out.append(stop.value)
    return out


@program
def generator_raises_stop_iteration():
    def stops():
        yield 1
        raise StopIteration("no")

    one = stops()
    next(one)
    try:
        next(one)
    except RuntimeError as error:
        return str(error), repr(error.__cause__), repr(error.__context__), error.__traceback__.tb_next.tb_lineno


@program
def generator_raises_through_its_caller():
    def fails():
        yield 1
        raise KeyError("inside")

    return list(fails())


@program
def generator_with_comprehension_is_dropped():
    def g(n):
        for row in range(n):
            yield [row + column for column in range(2)]

    one = g(3)
    first = next(one)
    del one
    return first


@program
def keyword_calls_with_long_arguments():
    names = [f"keyword_{i}" for i in range(300)]
    text = (
        "def f(**k): return sum(k.values()), len(k)\nresult = f("
        + ", ".join(f"{n}={i}" for i, n in enumerate(names))
        + ")"
    )
    space = {}
    exec(text, space)
    return space["result"]


NEWER = """
def generic[T: (int, str), *Ts, **P](x: T) -> T:
    return x, generic.__type_params__

class Box[T]:
    def get[U](self, other: U) -> T:
        return other, T.__name__
    type Alias = list[T]

type Tree = int | list[Tree]

def run():
    print(generic(1), Box().get(2), Box.Alias.__name__, Tree.__value__)
    return [f"{x!r:>{width}}" for x in "ab" for width in (4, 6)]
"""


@program
def type_parameters():
    if sys.version_info < (3, 12):
        return "the syntax came with 3.12"
    space = {}
    exec(NEWER, space)
    return space["run"]()
