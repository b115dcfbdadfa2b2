"""Numbers that count the iterations of a loop with a graph break: one program for all, from the first one on."""

import pytest
import torch
from compiling import compiled, same
from test_breaks import segments
from test_resumed_loops import X, function_of

import braze
from braze._load import C

pytestmark = pytest.mark.skipif(not hasattr(C, "CompiledFunction"), reason="no evaluator for this Python")


@pytest.fixture(autouse=True)
def no_grad():
    with torch.no_grad():
        yield


COUNTERS = {
    "range": "for i in range(len(L)): {body}",
    "from elsewhere": "for i in range(3, 3 + len(L)): {body}",
    "backwards": "for i in range(len(L), 0, -1): {body}",
    "enumerate": "for i, a in enumerate(L): {body}",
    "zip": "for a, i in zip(L, range(len(L))): {body}",
    "while": "i = 0\n    while i < len(L): {body}; i += 1",
    "by a sum": "i = 0\n    while i < len(L): {body}; i = i + 1",
    "counted beside": "i = 0\n    for a in L: {body}; i += 1",
}
WITH_COUNTER = {
    "a factor": "x = torch.tanh(x * i); s = x.sum().item(); x = x * i + s",
    "an index": "x = x + y[i]; s = x.sum().item(); x = x * y[i] + s",
    "a store": "x = x + 1; s = x.sum().item(); out[i] = x[0] + s",
    "a slice": "x = x + y[i : i + 3].sum(0); s = x.sum().item(); x = x * 0.5 + y[i + 2 : i + 4].mean(0) + s",
}


@pytest.mark.parametrize("form", ["cold", "specialised"])
@pytest.mark.parametrize("body", WITH_COUNTER)
@pytest.mark.parametrize("loop", COUNTERS)
def test_counters_are_numbers_of_each_iteration(loop, body, form):
    """The first one's, too, which is not known to be another one in the next."""
    text = COUNTERS[loop].format(body=WITH_COUNTER[body])
    source = f"def f(x, L, y):\n    out = torch.zeros(20, 5)\n    {text}\n    return x * 3, out"
    y = torch.linspace(-0.6, 0.6, 100).reshape(20, 5)
    function = function_of(source, form)
    fast = compiled(function)
    for count in (4, 4, 4):
        same(fast(X, [0.5] * count, y), function(X, [0.5] * count, y))
    # In front of the break, from it to the next one, to the end; a number below 2 after others is by itself.
    assert len(segments(fast)) <= (4 if loop == "backwards" else 3)
    for count in (6, 3, 5, 4, 6, 3, 5):
        same(fast(X, [0.5] * count, y), function(X, [0.5] * count, y))
    assert fast.counts()["native"] == 0


DECIDED = {
    "first": "x = x + 1 if i == 0 else x - 1",
    "last": "x = x + 1 if i == len(L) - 1 else x - 1",
    "every other": "x = x + 1 if i % 2 else x - 1",
    "text": "x = x * len(f'{i:b}')",
    "an item": "x = x * [1.5, 2.5, 3.5, 4.5, 5.5, 6.5][i]",
    "an entry": "x = x * {0: 1.5, 1: 2.5}.get(i, 3.5)",
    "size": "x = x + torch.ones(i + 1, 5).sum(0)",
    "begins empty": "x = x + y[:i].sum(0)",
    "broadcasts": "x = x + y[:, : i + 1].sum()",
    "kept": "sums.append(i); x = x + 1",
    "same object": "x = x + 1 if i is sums else x - 1; sums.append((i, i))",
    "a number at last": "x = x * 2 ** -i",
    "a type": "x = x + (1 if type(i) is int else 2) + isinstance(i, bool)",
    "power": "x = x / (1 + i) ** 0.5",
    "a default": "x = (lambda v, k=i: v * k)(x)",
    "a closure": "x = (lambda v: v * i)(x)",
}


@pytest.mark.parametrize("form", ["cold", "specialised"])
@pytest.mark.parametrize("dynamic", [None, True, False])
@pytest.mark.parametrize("name", DECIDED)
def test_what_is_decided_by_a_counter(name, dynamic, form):
    source = f"""
def f(x, L, y):
    sums = []
    for i in range(len(L)):
        x = torch.tanh(x + i)
        sums.append(x.sum().item())
        {DECIDED[name]}
        x = x * i - 1
    return x * 3, sums, i
"""
    function = function_of(source, form)
    fast = braze.compile(function, dynamic=dynamic)
    y = torch.linspace(-0.6, 0.6, 100).reshape(20, 5)
    for count in (4, 4, 5, 1, 6, 4):
        same(fast(X, [0.5] * count, y), function(X, [0.5] * count, y))
