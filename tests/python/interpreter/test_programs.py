"""Small programs through the evaluator and natively: value, exception, traceback and output must be the same."""

import contextlib
import signal
import sys
import threading
import time
import traceback

import pytest
from programs import PROGRAMS

from braze._load import C

pytestmark = pytest.mark.skipif(not hasattr(C, "interpret"), reason="the evaluator is not built for this Python")


def outcome(call, program, capsys):
    """What a run gives, with the line and column of every frame of an exception below the program."""
    try:
        result = "returned", repr(call(program))
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        start = next((i for i, frame in enumerate(frames) if frame.name == program.__name__), len(frames))
        lines = [(frame.name, frame.lineno, frame.colno, frame.end_colno) for frame in frames[start:]]
        result = type(error), str(error), repr(error.__cause__), repr(error.__context__), lines
    return result, capsys.readouterr()


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_as_native(program, capsys):
    native = outcome(lambda f: f(), program, capsys)
    before = C.interpreter_statistics()
    assert outcome(C.interpret, program, capsys) == native
    after = C.interpreter_statistics()
    assert after["instructions"] > before["instructions"]
    unknown = "an instruction that is not in the table"
    assert after["handovers"][unknown] == 0


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_as_native_after_specialisation(program, capsys):
    """CPython rewrites code that ran often; the evaluator must read it as it was."""
    for _ in range(20):
        native = outcome(lambda f: f(), program, capsys)
    assert outcome(C.interpret, program, capsys) == native


def test_arguments_and_result():
    def f(*args, **kwargs):
        return args, kwargs

    assert C.interpret(f, 1, 2, x=3) == ((1, 2), {"x": 3})
    assert C.interpret(len, [1]) == 1
    with pytest.raises(TypeError):
        C.interpret()


def test_nothing_is_evaluated_outside():
    before = C.interpreter_statistics()
    assert sum(i for i in range(100)) == 4950
    assert C.interpreter_statistics() == before


def test_nested():
    def inner():
        return 1

    def outer():
        return C.interpret(inner) + inner()

    assert C.interpret(outer) == 2
    before = C.interpreter_statistics()["frames"]
    outer()
    assert C.interpreter_statistics()["frames"] == before + 1


def test_other_threads_run_natively():
    frames, stop = [], threading.Event()

    def work():
        while not stop.is_set():
            sum(i for i in range(100))
        frames.append(C.interpreter_statistics()["frames"])

    thread = threading.Thread(target=work)
    thread.start()

    def long():
        return sum(i * i for i in range(100_000))

    assert C.interpret(long) == sum(i * i for i in range(100_000))
    stop.set()
    thread.join()
    assert frames == [0]


def test_other_threads_get_the_lock():
    done = threading.Event()

    def spin():
        while not done.is_set():
            pass
        return "done"

    threading.Timer(0.05, done.set).start()
    assert C.interpret(spin) == "done"


def test_several_threads_evaluate_at_once():
    def work(n):
        return sum(i * n for i in range(20_000))

    results = {}

    def run(n):
        results[n] = C.interpret(work, n)

    threads = [threading.Thread(target=run, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {n: work(n) for n in range(4)}


def test_signals_are_served():
    class Alarm(Exception):
        pass

    def handler(number, frame):
        raise Alarm(frame.f_code.co_name)

    def spin():
        end = time.monotonic() + 30
        while time.monotonic() < end:
            pass

    before = signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(Alarm, match="spin"):
            C.interpret(spin)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_exception_from_another_thread():
    import ctypes

    started = threading.Event()
    caught = []

    def spin():
        started.set()
        end = time.monotonic() + 30
        while time.monotonic() < end:
            pass

    def run():
        try:
            C.interpret(spin)
        except KeyError:
            caught.append(True)

    thread = threading.Thread(target=run)
    thread.start()
    started.wait()
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(KeyError))
    thread.join()
    assert caught == [True]


def test_generator_outlives_the_interpreted_call():
    def numbers():
        yield from range(3)
        yield "end"

    def start():
        g = numbers()
        return next(g), g

    first, rest = C.interpret(start)
    assert [first, *rest] == [0, 1, 2, "end"]
    native = numbers()
    next(native)
    assert C.interpret(list, native) == [1, 2, "end"]


def test_code_with_long_arguments():
    """EXTENDED_ARG: more than 256 constants, names, locals and jumps."""
    lines = [f"    v{i} = {i + 1000}.5" for i in range(400)]
    body = "\n".join(f"        total += v{i}" for i in range(400))
    source = f"def f(n):\n{chr(10).join(lines)}\n    total = 0\n    for _ in range(n):\n{body}\n    return total"
    namespace = {}
    exec(source, namespace)
    assert C.interpret(namespace["f"], 3) == namespace["f"](3)


def test_recursion_count_is_given_back():
    def deep(n):
        return n and deep(n - 1)

    def too_deep():
        return too_deep()

    for _ in range(5):
        with pytest.raises(RecursionError):
            C.interpret(too_deep)
    assert C.interpret(deep, sys.getrecursionlimit() // 2) == 0


def test_calls_nested_deeper_than_the_c_stack_allows():
    """CPython takes over while half of the C stack is left, and takes no more of it."""

    def deep(n):
        return n and deep(n - 1)

    limit = sys.getrecursionlimit()
    before = C.interpreter_statistics()["handovers"]
    sys.setrecursionlimit(110_000)
    try:
        assert C.interpret(deep, 100_000) == 0
    finally:
        sys.setrecursionlimit(limit)
    after = C.interpreter_statistics()["handovers"]
    assert sum(after.values()) > sum(before.values())
    assert C.interpret(deep, 100) == 0


@pytest.mark.skipif(sys.version_info < (3, 12), reason="sys.monitoring came with 3.12")
class TestMonitoring:
    """Tools see the events of an evaluated function as they do natively."""

    @staticmethod
    def watched():
        def g(n):
            for i in range(n):
                yield 2 * i

        total = 0
        for i in g(3):
            total += i
        try:
            int("x")
        except ValueError:
            total += 1
        return total

    @contextlib.contextmanager
    def tool(self, events):
        seen, monitoring = [], sys.monitoring
        monitoring.use_tool_id(3, "test")
        for event in (
            monitoring.events.PY_START,
            monitoring.events.PY_RETURN,
            monitoring.events.PY_YIELD,
            monitoring.events.PY_UNWIND,
            monitoring.events.RAISE,
            monitoring.events.LINE,
            monitoring.events.CALL,
        ):
            if not events & event:
                continue

            def note(code, *rest, event=event):
                if code.co_filename == __file__ and code.co_name in ("watched", "g"):
                    seen.append((event, code.co_name, rest[0]))

            monitoring.register_callback(3, event, note)
        monitoring.set_events(3, events)
        try:
            yield seen
        finally:
            monitoring.set_events(3, 0)
            monitoring.free_tool_id(3)

    @pytest.mark.parametrize(
        "names", [["PY_START", "PY_RETURN", "PY_YIELD"], ["LINE", "CALL"], ["RAISE", "PY_UNWIND"]]
    )
    def test_events(self, names):
        events = 0
        for name in names:
            events |= getattr(sys.monitoring.events, name)
        with self.tool(events) as natively:
            self.watched()
        with self.tool(events) as evaluated:
            C.interpret(self.watched)
        assert evaluated == natively != []

    def test_tool_that_comes_during_a_call(self):
        events = sys.monitoring.events.LINE

        def starts():
            with self.tool(events) as seen:
                self.watched()
            return seen

        assert C.interpret(starts) == starts() != []

    def test_evaluated_again_after_the_tool_left(self):
        with self.tool(sys.monitoring.events.LINE):
            self.watched()
        self.watched()
        before = C.interpreter_statistics()["handovers"]
        assert C.interpret(self.watched) == 7
        after = C.interpreter_statistics()["handovers"]
        tracing = next(reason for reason in after if "sys.settrace" in reason)
        assert after[tracing] == before[tracing]
