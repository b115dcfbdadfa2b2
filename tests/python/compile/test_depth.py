"""Values and calls nested deeper than C stacks are, and objects that say they are tensors: never down."""

import processes
import pytest

from braze._load import C

pytestmark = pytest.mark.skipif(not hasattr(C, "CompiledFunction"), reason="no evaluator for this Python")

NESTED = """
import torch, braze
torch.set_grad_enabled(False)
x = torch.ones(3)
def nest(wrap, n):
    made = x
    for _ in range(n): made = wrap(made)
    return made
def unwrap(d):
    while not isinstance(d, torch.Tensor): d = d[0]
    return d + 1
"""
WRAPS = ["lambda d: [d]", "lambda d: (d,)", "lambda d: {0: d}", "lambda d: [d, 1]"]


@pytest.mark.parametrize("wrap", WRAPS)
def test_arguments_nested_deeply(wrap):
    code = f"c = braze.compile(unwrap)\nfor n in (3, 20_000, 3): assert c(nest({wrap}, n)).tolist() == [2, 2, 2]"
    processes.fresh(NESTED + code)


@pytest.mark.parametrize("wrap", WRAPS)
def test_results_and_locals_nested_deeply(wrap):
    code = f"""
wrap = {wrap}
def f(t, n):
    d = t * 2
    for _ in range(n): d = wrap(d)
    return d, t + 1
c = braze.compile(f)
for n in (3, 3, 500, 3000):
    assert unwrap(c(x, n)[0]).tolist() == [3, 3, 3]
def g(t, n):
    d = f(t, n)[0]
    print(end="")
    return unwrap(d)
c = braze.compile(g)
for n in (3, 3, 500, 3000): assert c(x, n).tolist() == [3, 3, 3]
"""
    processes.fresh(NESTED + code)


def test_trace_of_values_that_hold_themselves():
    code = """
import pytest
for held in ([x], {0: x}, [x, (x, {})]):
    inner = held[1][1] if isinstance(held, list) and len(held) > 1 else held
    inner.append(held) if isinstance(inner, list) else inner.update(me=held)
    with pytest.raises(RecursionError): braze.trace(lambda h: h[0] + 1, (held,), check=False)
    with pytest.raises(RecursionError): braze.trace(lambda t: held, (x,), check=False)
with pytest.raises(RecursionError): braze.trace(unwrap, (nest(lambda d: [d], 20_000),), check=False)
assert braze.trace(unwrap, (nest(lambda d: [d], 20),))(nest(lambda d: [d], 20)).tolist() == [2, 2, 2]
c = braze.compile(lambda h: h[0] + 1)
for _ in range(3): assert c(held).tolist() == [2, 2, 2]
"""
    processes.fresh(NESTED + code)


RECURSIVE = """
import sys, threading, torch, braze
x = torch.ones(3)
class Again:
    def __call__(self, x, n): return n and again(x, n - 1)
again = Again()
def f(x): return f(x + 1)
def g(x):
    if x.sum() > 1e9: return x
    return g(x + 1)
def h(x, n): return h(x + 1, n - 1) if n else x
def in_thread(stack, run):
    threading.stack_size(stack)
    def body():
        torch.set_grad_enabled(False)
        done.append(run())
    done = []
    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    return done[0]
def fails(function):
    try: function(x)
    except RecursionError: return True
"""


@pytest.mark.parametrize(("stack", "limit"), [(1 << 18, 1000), (1 << 19, 3000), (1 << 23, 30_000)])
def test_recursion_on_small_stacks(stack, limit):
    """RecursionError as in plain Python, which takes no C stack for it; what comes after is compiled again."""
    code = f"""
sys.setrecursionlimit({limit})
for function in (f, g):
    c = braze.compile(function)
    for _ in range(2): assert in_thread({stack}, lambda: fails(c))
c = braze.compile(h)
for n in (5, {limit - 200}, 5): assert in_thread({stack}, lambda: c(x, n)).tolist() == [n + 1.0] * 3
k = braze.compile(lambda x: torch.tanh(x) + 1)
for _ in range(2): assert in_thread(1 << 23, lambda: k(x)).shape == (3,)
assert k.counts()["replayed"] == 1
"""
    processes.fresh(RECURSIVE + code)


def test_other_threads_are_captured_beside_a_deep_one():
    code = """
sys.setrecursionlimit(30_000)
c = braze.compile(h)
k = braze.compile(lambda x, s: (torch.tanh(x) + s).sum())
stop = []
def deep():
    while not stop: assert c(x, 20_000).tolist() == [20_001.0] * 3
threading.stack_size(1 << 22)
thread = threading.Thread(target=deep)
thread.start()
with torch.no_grad():
    for n in range(40): assert abs(k(x, n).item() - (torch.tanh(x) + n).sum().item()) < 1e-4
stop.append(1)
thread.join()
"""
    processes.fresh(RECURSIVE + code)


# None is handed to torch's own operators, which die of some of them.
LIARS = {
    "trace an argument": "braze.trace(lambda t: x + 1, (liar,), check=False)",
    "trace a result": "braze.trace(lambda t: liar, (x,), check=False)",
    "call a program": "braze.trace(lambda t: t + 1, (x,), check=False)(liar)",
    "compile an argument": "braze.compile(lambda t: x + 1)(liar)",
    "compile a result": "braze.compile(lambda t: liar)(x)",
    "an attribute": "held = torch.nn.Module(); held.m = liar; braze.compile(lambda t: x + (held.m is t))(liar)",
    "a second call": "c = braze.compile(lambda t: t * 2); c(x); c(liar)",
    "in a frame": "c = braze.compile(lambda t: (print(end=''), x + 1)[1]); c(liar); c(x); c(liar)",
    "isinstance": "c = braze.compile(lambda t: isinstance(t, torch.Tensor)); assert c(liar) is True",
    "repack": "braze.compiler.repack_weights([liar])",
    "mark_dynamic": "braze.compiler.mark_dynamic(liar, 0)",
}


@pytest.mark.parametrize("kind", ["Mock(spec=torch.Tensor)", "Liar()", "Mock(spec=torch.nn.Parameter)"])
def test_objects_that_say_they_are_tensors(kind):
    """Whatever plain Python says of them; here only that nobody dies."""
    head = f"""
import torch, braze
from unittest.mock import Mock
torch.set_grad_enabled(False)
x = torch.ones(3)
class Liar:
    @property
    def __class__(self): return torch.Tensor
liar = {kind}
"""
    tries = ""
    for text in LIARS.values():
        body = "\n    ".join(text.split("; "))
        tries += f"try:\n    {body}\nexcept (TypeError, RuntimeError, AttributeError, ValueError): pass\n"
    processes.fresh(head + tries)
