"""Small programs through the evaluator and natively: value, exception, traceback and output must be the same."""

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
