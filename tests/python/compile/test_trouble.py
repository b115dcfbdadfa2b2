"""Threads, forks, many recompiles, recursion: compiled functions where programs get into trouble."""

import gc
import inspect
import os
import resource
import sys
import threading
import warnings

import processes
import pytest
import torch
from compiling import compiled, in_threads, same
from torch import nn

import braze
from braze._load import C

pytestmark = pytest.mark.skipif(not hasattr(C, "CompiledFunction"), reason="no evaluator for this Python")
X = torch.randn(4, 5)


@pytest.fixture(autouse=True)
def no_grad():
    with torch.no_grad():
        yield


def resident() -> int:
    """Bytes of this process in memory now."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def broken(x):
    y = torch.tanh(x) * 2
    int(y.sum())
    return y + 1


def test_recompiles_and_resets_do_not_grow_memory():
    fast = compiled(broken)
    xs = [torch.randn(n, 3) for n in range(1, 5)]

    def turn(count):
        for _ in range(count):
            for x in xs:
                fast(x)
            fast.reset()
        gc.collect()

    turn(60)
    before = resident()
    turn(240)
    assert resident() - before < 6 << 20


def test_a_child_process_goes_on():
    fast = compiled(broken)
    same(fast(X), broken(X))
    child = os.fork()
    if child == 0:
        good = torch.equal(fast(X), fast(X)) and torch.allclose(fast(X[:2]), broken(X[:2]))
        os._exit(0 if good else 1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0


def test_other_threads_see_ordinary_tensors():
    model = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 2)).eval()
    expected = model(X)
    fast = compiled(model)
    stop, seen = threading.Event(), []

    def use_the_model():
        with torch.no_grad():
            while not stop.is_set():
                out = model(X)
                if not torch.allclose(out, expected):
                    seen.append(out)
                if any(not p.is_leaf or p.data_ptr() == 0 for p in model.parameters()):
                    seen.append("a parameter changed")

    other = threading.Thread(target=use_the_model)
    other.start()
    for _ in range(25):
        same(fast(X), expected)
        fast.reset()
    stop.set()
    other.join()
    assert not seen


def test_several_threads_compile_one_function():
    fast = compiled(broken)
    wrong = []
    start = threading.Barrier(4)

    def work(k):
        start.wait()
        with torch.no_grad():
            for n in range(1, 20):
                x = torch.full((n % 4 + 1, k), 0.5)
                if not torch.allclose(fast(x), broken(x)):
                    wrong.append((k, n))
                if n % 7 == 0:
                    fast.reset()

    in_threads(work, range(1, 5))
    assert not wrong


def test_captures_of_several_threads_leave_the_process_as_it_was():
    """An operator lets go of Python's lock: captures overlap, and end in any order."""
    x = torch.ones(200, 1000)
    told, outside, stop = [], [], threading.Event()

    def slow(x, k):
        is_compiling = torch.compiler.is_compiling()
        for _ in range(30):
            x = torch.relu(x) * k
        return x, is_compiling

    def look():
        while not stop.is_set():
            outside.append(torch.compiler.is_compiling())

    def work(k):
        for _ in range(5):
            told.append(compiled(slow)(x, 1 + k / 8)[1])

    looks = threading.Thread(target=look)
    looks.start()
    in_threads(work, range(4))
    stop.set()
    looks.join()
    assert not any(outside)
    assert torch.compiler.is_compiling() is False
    assert gc.isenabled()
    assert all(told)


def test_what_other_threads_store_meanwhile_stays():
    shared = {"mine": 0, "theirs": 0}
    x = torch.ones(200, 1000)
    stop, lost = threading.Event(), []

    def slow(x):
        for _ in range(30):
            x = torch.relu(x)
            shared["mine"] = shared["mine"] + 1
        return x

    def count():
        n = 0
        while not stop.is_set():
            if shared["theirs"] != n:
                lost.append(n)
            n += 1
            shared["theirs"] = n

    counts = threading.Thread(target=count)
    counts.start()
    for _ in range(20):
        compiled(slow)(x)
    stop.set()
    counts.join()
    assert shared["mine"] == 600
    assert not lost


def test_recursion_with_breaks():
    def down(x, n):
        y = x + 1
        print(end="")
        return down(y * 2, n - 1) if n else y

    fast = compiled(down)
    for n in (0, 5, 30):
        same(fast(X, n), down(X, n))

    def endless(x):
        y = x + 1
        print(end="")
        return endless(y)

    fast = compiled(endless)
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(300)
    try:
        for _ in range(2):
            with pytest.raises(RecursionError):
                fast(X)
    finally:
        sys.setrecursionlimit(limit)
    same(compiled(broken)(X), broken(X))


def test_generators_and_comprehensions_around_breaks():
    def pieces(x):
        for row in x:
            yield row * 2
            print(end="")

    def f(x):
        total = x[0] * 0
        for piece in pieces(x):
            total = total + piece
        return total, [float(p.numel()) for p in pieces(x + 1)]

    fast = compiled(f)
    for _ in range(4):
        same(fast(X), f(X))


def test_signals_reach_the_user():
    import signal

    class Alarm(Exception):
        pass

    def ring(*_):
        raise Alarm

    def f(x):
        y = x + 1
        while True:
            int(y.sum())

    fast = compiled(f)
    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    try:
        with pytest.raises(Alarm):
            fast(X)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_a_signal_during_a_capture_is_not_lost():
    import signal

    class Alarm(Exception):
        pass

    def ring(*_):
        raise Alarm

    def f(x):
        n = 0
        while x.shape[0]:
            n += 1
        return x + n

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        with pytest.raises(Alarm):
            compiled(f)(X)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_a_capture_that_waits_for_another_thread_gives_up():
    state = {"go": False}

    def f(x):
        while not state["go"]:
            pass
        return x + 1

    def release():
        state["go"] = True

    timer = threading.Timer(0.1, release)
    timer.start()
    same(compiled(f)(X), X + 1)
    timer.join()


def test_calls_within_calls():
    inner = compiled(lambda x: torch.relu(x) * 2)

    def f(x):
        y = inner(x + 1)
        print(end="")
        return inner(y) - 1

    fast = compiled(f)
    for _ in range(4):
        same(fast(X), torch.relu(torch.relu(X + 1) * 2) * 2 - 1)


def test_compiled_functions_are_captured_within_others():
    inner = compiled(lambda x: torch.relu(x) * 2)

    class Thing:
        scale = 3

        @compiled
        def run(self, x):
            return x * self.scale

    thing = Thing()
    fast = compiled(lambda x: inner(x + 1) - thing.run(x))
    for _ in range(3):
        same(fast(X), torch.relu(X + 1) * 2 - X * 3)
    assert fast.counts() == {"captured": 1, "replayed": 2, "native": 0}
    assert inner.counts()["captured"] == 0
    Thing.scale = 4
    same(fast(X), torch.relu(X + 1) * 2 - X * 4)
    inner.__wrapped__.__code__ = (lambda x: x * 5).__code__
    same(fast(X), (X + 1) * 5 - X * 4)


def captured_under_an_audit_hook(_task, _say):
    """Runs in a process of its own, since an audit hook stays."""
    events = []
    sys.addaudithook(lambda event, arguments: events.append(event))

    def fn(x):
        return x * len(fn.__code__.co_varnames)  # reading __code__ is an audited event

    fast = braze.compile(fn, fullgraph=True)
    results = [fast(X), fast(X)]
    return [torch.equal(result, X) for result in results], fast.counts(), "object.__getattr__" in events


def test_audit_hooks_are_not_part_of_the_program():
    ((_, found),) = processes.results(["once"], captured_under_an_audit_hook, jobs=1, seconds=60)
    assert found == ([True, True], {"captured": 1, "replayed": 1, "native": 0}, True)


def test_operators_that_go_before_they_are_used():
    """A library that is gone again by the next capture leaves nothing to look into."""
    processes.fresh("""
import torch
from braze._load import C

def call(x):
    fast = C.CompiledFunction(lambda x: x * 2 + 1)
    assert torch.equal(fast(x), x * 2 + 1)

with torch.no_grad():
    x = torch.randn(4)
    call(x)
    for turn in range(20):
        library = torch.library.Library(f"gone{turn}", "DEF")
        for i in range(50):
            library.define(f"op{i}(Tensor x) -> Tensor")
        library._destroy()
        del library
        keep = [torch.zeros(i + 1) for i in range(500)]  # Takes the memory.
        call(x)
""")


def test_a_module_made_for_each_call_is_captured_a_few_times_only():
    compiled = braze.compile(lambda module, x: module(x) * 2)
    with torch.no_grad():
        for _ in range(8):
            module, x = torch.nn.Linear(4, 4), torch.randn(2, 4)
            torch.testing.assert_close(compiled(module, x), module(x) * 2)
    assert compiled.counts()["captured"] <= 3


def test_a_signature_made_for_each_call_is_no_other_program():
    def bound(signature, x):
        return x * len(list(signature.parameters.values()))

    compiled = braze.compile(bound)
    with torch.no_grad():
        for _ in range(6):
            x = torch.randn(2, 4)
            torch.testing.assert_close(compiled(inspect.signature(lambda a, b: a), x), x * 2)
    assert compiled.counts()["captured"] <= 3


@pytest.mark.parametrize(
    ("variable", "told"),
    [
        ("BRAZE_PASSES_OFF", "`nope`, which is no pass. They are: "),
        ("BRAZE_PRINT_AFTER", "`nope`, which is no pass. They are: "),
        ("BRAZE_ISA", "BRAZE_ISA=nope is not known"),
    ],
)
def test_what_is_misspelt_in_the_environment_is_told_and_not_run_eagerly(variable, told):
    code = """
        import braze
        try:
            braze.compile(lambda x: x + 1)
        except braze.ArgumentValueError as error:
            print(error)
    """
    assert told in processes.fresh(inspect.cleandoc(code), **{variable: "nope"})


def test_a_tensor_that_cannot_be_had():
    """A program need not make it, and would run for ages; eager raises."""

    def f(x):
        return torch.zeros(2**46).sum() + x

    fast = compiled(f)
    for _ in range(3):
        with pytest.raises(RuntimeError, match="can't allocate memory"):
            fast(torch.ones(2))
    assert fast.counts()["captured"] == 0


def test_rules_for_what_distributions_ask():
    """Without one PyTorch's Python code is asked for the shapes, which imports much."""
    program = braze.trace(lambda x: torch._is_all_true(x > 0) | torch._is_any_true(x > 2), (torch.ones(3),))
    assert "_is_a" not in str(program.graph)
    for x in (torch.ones(3), torch.zeros(3), torch.tensor([0.0, 1.0, 3.0])):
        assert program(x) == torch._is_all_true(x > 0) | torch._is_any_true(x > 2)
    with pytest.raises(RuntimeError):
        braze.trace(torch._is_all_true, (torch.ones(3),))


def test_an_error_that_warns_first_prints_nothing(capfd):
    """PyTorch prints what the module `warnings` raises then, and the capture is given up where that is entered."""

    def f(x, index):
        try:
            return x[index]
        except (IndexError, TypeError) as error:
            return str(error)

    fast = compiled(f)
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        for index in ("a", [1], 1.5):
            assert str(fast(X, index)) == str(f(X, index))
    assert len(shown) % 2 == 0  # Each as often as by plain Python.
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("name", ["bitwise_or_", "hypot_", "pow_", "heaviside_", "gcd_"])
def test_a_result_that_does_not_fit_warns_nobody(name):
    """PyTorch's Python code, asked for the shapes, makes room for it and warns; the operator itself raises."""

    def f(x, y):
        return getattr(x, name)(y)

    fast = compiled(f)
    dtype = torch.float32 if name in ("hypot_", "heaviside_") else torch.int32
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        for size in (2, 2, 3):
            x, y = torch.ones(size, 1, dtype=dtype), torch.ones(size, 3, dtype=dtype)
            with pytest.raises(RuntimeError) as expected:
                f(x, y)
            with pytest.raises(RuntimeError) as raised:
                fast(x, y)
            assert str(raised.value) == str(expected.value)
            assert torch.equal(fast(x, x), f(x, x))
    assert not shown, [str(w.message) for w in shown]


def test_results_of_operators_are_no_objects_of_one_call():
    """torch.return_types.max and its like, after a break or as arguments."""

    def after_a_break(x):
        best = x.max(1)
        os.getpid()
        return best.values * 2

    def given(x, best):
        return x[0] * best.indices[0]

    for f, arguments in ((after_a_break, lambda x: (x,)), (given, lambda x: (x, x.max(1)))):
        fast = compiled(f)
        for _ in range(4):
            x = torch.randn(4, 5)
            same(fast(*arguments(x)), f(*arguments(x)))
        assert fast.counts()["captured"] == 1
