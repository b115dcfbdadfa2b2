"""Small programs about the flow of control: iteration, generators, exceptions, with. See programs.py."""
# Some of these are wrong on purpose.
# ruff: noqa: B018, F821

import contextlib
import sys
import traceback
import types

PROGRAMS = []


def program(function):
    PROGRAMS.append(function)
    return function


# ---- iteration and generators ----


@program
def generator_protocol():
    def g():
        try:
            received = yield 1
            while received:
                received = yield received * 2
        except KeyError as error:
            yield f"caught {error}"
        finally:
            print("finally")
        return "result"

    one = g()
    out = [next(one), one.send(3), one.throw(KeyError("k"))]
    try:
        next(one)
    except StopIteration as stop:
        out.append(stop.value)
    two = g()
    next(two)
    two.close()
    return out, one.gi_frame, two.gi_running


@program
def yield_from():
    def inner(n):
        got = []
        for i in range(n):
            got.append((yield i))
        return got

    def outer():
        first = yield from inner(2)
        second = yield from [10, 20]
        try:
            yield from failing()
        except ValueError as error:
            yield str(error)
        return first, second

    def failing():
        yield "before"
        raise ValueError("inside")

    g = outer()
    out = [next(g)]
    try:
        while True:
            out.append(g.send(len(out)))
    except StopIteration as stop:
        return out, stop.value


@program
def generator_raises_stop_iteration():
    def g():
        yield 1
        raise StopIteration("inside")

    return list(g())


@program
def generators_in_flight():
    def fibonacci():
        a, b = 0, 1
        while True:
            yield a
            a, b = b, a + b

    streams = [fibonacci() for _ in range(3)]
    return [next(s) for s in streams for _ in range(5)]


@program
def own_iterators():
    class Countdown:
        def __init__(self, n):
            self.n = n

        def __iter__(self):
            return self

        def __next__(self):
            if self.n == 0:
                raise StopIteration
            self.n -= 1
            return self.n

    class Indexed:
        def __getitem__(self, i):
            if i > 2:
                raise IndexError
            return i * 10

    total = []
    for i in Countdown(3):
        if i == 2:
            continue
        total.append(i)
    else:
        total.append("else")
    for i in Indexed():
        if i == 10:
            break
        total.append(i)
    else:
        total.append("never")
    return total, list(zip(Countdown(2), Indexed(), strict=False))


@program
def coroutine_driven_by_hand():
    @types.coroutine
    def wait(x):
        return (yield x)

    async def work():
        return await wait(1) + await wait(2)

    c = work()
    out = [c.send(None), c.send(10)]
    try:
        c.send(20)
    except StopIteration as stop:
        out.append(stop.value)
    return out


# ---- exceptions ----


@program
def uncaught_in_callee():
    def third(x):
        return x / 0

    def second(x):
        return third(
            x,
        )

    second(1)


@program
def context_and_cause():
    try:
        try:
            raise KeyError("first")
        except KeyError as error:
            raise ValueError("second") from error
    except ValueError as error:
        cause = error.__cause__
    try:
        try:
            raise KeyError("first")
        finally:
            raise TypeError("third")
    except TypeError as error:
        return repr(cause), repr(error.__context__), error.__suppress_context__


@program
def finally_and_return():
    trail = []

    def f(how):
        try:
            trail.append("try")
            if how == "return":
                return "returned"
            if how == "raise":
                raise ValueError
            trail.append("end")
        except ValueError:
            trail.append("except")
            return "handled"
        else:
            trail.append("else")
        finally:
            trail.append("finally")
        return "after"

    def loop():
        for i in range(3):
            try:
                if i == 1:
                    continue
                if i == 2:
                    break
            finally:
                trail.append(i)

    loop()
    return [f(how) for how in ("return", "raise", "")], trail


@program
def traceback_lines():
    def raises():
        values = [
            1,
            2,
        ]
        return values[7]

    def catches_and_raises_again():
        try:
            raises()
        except IndexError:
            x = 1
            raise
        return x

    try:
        catches_and_raises_again()
    except IndexError as error:
        first = traceback.extract_tb(error.__traceback__)[0].lineno
        return [
            (entry.name, entry.lineno - first, entry.colno, entry.line)
            for entry in traceback.extract_tb(error.__traceback__)
        ]


@program
def line_numbers_seen_from_below():
    def line():
        return sys._getframe(1).f_lineno

    first = line()
    return line() - first, [
        line() - first,
        line() - first,
    ]


@program
def raising_what_is_none():
    messages = []
    for thing in (1, "text", None, int, object()):
        try:
            raise thing
        except TypeError as error:
            messages.append(str(error))
    for catch in (1, int, (ValueError, 2)):
        try:
            try:
                raise ValueError
            except catch:
                messages.append("caught")
        except TypeError as error:
            messages.append(str(error))
    try:
        raise
    except RuntimeError as error:
        messages.append(str(error))
    try:
        raise ValueError from 3
    except TypeError as error:
        messages.append(str(error))
    return messages


@program
def exc_info_is_restored():
    seen = [sys.exc_info()[0]]
    try:
        raise ValueError
    except ValueError:
        seen.append(sys.exc_info()[0])
        try:
            raise KeyError
        except KeyError:
            seen.append(sys.exc_info()[0])
        seen.append(sys.exc_info()[0])
    seen.append(sys.exc_info()[0])
    return seen


@program
def exception_groups():
    caught = []
    try:
        try:
            raise ExceptionGroup(
                "g", [ValueError(1), TypeError(2), ExceptionGroup("h", [ValueError(3), OSError(4)])]
            )
        except* ValueError as group:
            caught.append([type(e).__name__ for e in group.exceptions])
        except* TypeError:
            caught.append("type")
            raise KeyError("new") from None
    except ExceptionGroup as rest:
        caught.append(repr(rest))
    try:
        raise ValueError("naked")
    except* ValueError as group:
        caught.append(repr(group))
    return caught


@program
def asserts():
    assert True
    assert [] == [1], "message"


@program
def names_deleted_after_except():
    try:
        raise ValueError
    except ValueError as error:
        str(error)
    return error


# ---- with ----


@program
def with_statements():
    trail = []

    @contextlib.contextmanager
    def manager(name, swallow=False):
        trail.append(f"enter {name}")
        try:
            yield name
        except ValueError as error:
            trail.append(f"{name} saw {error}")
            if not swallow:
                raise
        finally:
            trail.append(f"exit {name}")

    with manager("a", swallow=True) as a, manager("b") as b:
        trail.append((a, b))
        raise ValueError("inside")
    with contextlib.suppress(ZeroDivisionError), contextlib.ExitStack() as stack:
        stack.callback(trail.append, "callback")
        1 / 0

    def returns():
        with manager("c"):
            return 5

    return trail, returns()


@program
def no_context_manager():
    class OnlyEnter:
        def __enter__(self):
            return 1

    messages = []
    for manager in (1, OnlyEnter()):
        try:
            with manager:
                pass
        except TypeError as error:
            messages.append(str(error))
    return messages
