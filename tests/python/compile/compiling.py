"""What tests of braze.compile share: compiled functions beside plain ones."""

import threading

import pytest
import torch

import braze
from braze._load import C


def compiled(function):
    return C.CompiledFunction(function)


def in_one_graph(function, arguments, seen):
    """By what `seen` tells of results. The first calls may load what operators on such tensors look for."""
    calls, fast = 4, compiled(function)
    for number in range(calls):
        assert seen(fast(*arguments(number))) == seen(function(*arguments(number)))
    assert fast.counts() == {"captured": 1, "replayed": calls - 1, "native": 0}, fast.reasons()
    found = braze.explain(function)(*arguments(0))
    assert found.graph_count <= 1 and found.graph_break_count == 0, found.break_reasons


def whole_numbers(call, most, count):
    """Below `most`, others at each call."""
    return torch.tensor([(call * 7 + 3 * i * i + call * i) % most for i in range(count)])


def same(one, other):
    assert type(one) is type(other)
    if isinstance(one, torch.Tensor):
        torch.testing.assert_close(one, other)
        assert one.stride() == other.stride()
    elif isinstance(one, (tuple, list)):
        assert len(one) == len(other)
        for a, b in zip(one, other, strict=True):
            same(a, b)
    elif isinstance(one, dict):
        assert list(one) == list(other)
        for key in one:
            same(one[key], other[key])
    elif isinstance(one, float):
        assert one == pytest.approx(other, rel=1e-5)
    else:
        assert one == other


def in_threads(work, arguments):
    """Calls work(argument) for each argument, each in a thread of its own, all at a time."""
    threads = [threading.Thread(target=work, args=(argument,)) for argument in arguments]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def check(function, *argument_lists, replays=True):
    """The same results as natively, the first time and later; the last call of each kind is a replay."""
    fast = compiled(function)
    for arguments in argument_lists:
        for _ in range(3):
            same(fast(*arguments), function(*arguments))
    if replays:
        assert fast.reasons() == {}
        assert fast.counts() == {"captured": len(argument_lists), "replayed": 2 * len(argument_lists), "native": 0}
    return fast
