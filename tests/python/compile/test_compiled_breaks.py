"""What is not understood runs natively, once, with all its effects; what is around it is replayed."""

import pytest
import torch
from compiling import compiled, same

from braze._load import C

pytestmark = pytest.mark.skipif(not hasattr(C, "CompiledFunction"), reason="no evaluator for this Python")


@pytest.fixture(autouse=True)
def no_grad():
    with torch.no_grad():
        yield


X = torch.randn(4, 5)


def with_breaks(function, *arguments):
    fast = compiled(function)
    for _ in range(6):
        same(fast(*arguments), function(*arguments))
    assert fast.counts() == {"captured": 1, "replayed": 5, "native": 0}
    return fast


def test_values_of_tensors():
    with_breaks(lambda x: x * 2 if x.sum() > 0 else x, X)
    with_breaks(lambda x: x.sum().item(), X)
    with_breaks(lambda x: (x + 1).tolist(), X)
    with_breaks(lambda x: (x * 2).numpy().sum().item(), X)
    with_breaks(lambda x: float(x.sum()), X)


def test_nothing_to_compute_before_a_break_runs_natively():
    fast = compiled(lambda x: x.tolist())
    for _ in range(6):
        assert fast(X) == X.tolist()
    assert fast.counts()["native"] == 6


def test_effects_happen_once(capsys):
    log, calls = [], {"n": 0}

    def f(x):
        y = x + 1
        log.append(1)
        calls["n"] += 1
        print("called")
        return y

    fast = compiled(f)
    for n in range(1, 7):
        same(fast(X), X + 1)
        assert (len(log), calls["n"]) == (n, n)
    assert capsys.readouterr().out == "called\n" * 6


def test_effects_in_finally_happen_once():
    trail = []

    def f(x):
        try:
            y = x + 1
            return y.item()
        except BaseException as error:
            trail.append(type(error).__name__)
            raise
        finally:
            trail.append("finally")

    fast = compiled(f)
    for n in range(1, 4):
        with pytest.raises(RuntimeError):
            fast(X)
        assert trail == ["RuntimeError", "finally"] * n


def test_exceptions():
    def f(x, kind):
        if kind == "own":
            raise KeyError("mine")
        if kind == "shape":
            return x @ x
        return x[10]

    fast = compiled(f)
    for kind, error in (("own", KeyError), ("shape", RuntimeError), ("index", IndexError)):
        for _ in range(2):
            with pytest.raises(error):
                fast(X, kind)


def test_index_out_of_range_later():
    def f(x, i):
        return x[i]

    fast = compiled(f)
    same(fast(X, torch.tensor([0, 1])), X[:2])
    with pytest.raises(IndexError, match="out of bounds|out of range"):
        fast(X, torch.tensor([0, 9]))


def test_numpy_time_and_random():
    import random
    import time

    fast = compiled(lambda x: x * (time.time() > 0))
    for _ in range(20):
        same(fast(X), X)
    assert fast.counts()["captured"] <= 8
    fast = compiled(lambda x: x * 0 + random.random())
    assert len({fast(X).sum().item() for _ in range(5)}) > 1


def test_objects_with_their_own_operators():
    class Number:
        def __init__(self):
            self.asked = 0

        def __add__(self, other):
            self.asked += 1
            return other + self.asked

    number = Number()
    fast = compiled(lambda x: number + x)
    for n in range(1, 5):
        same(fast(X), X + n)
