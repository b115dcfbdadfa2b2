"""Functions of TorchScript are part of the graph, as what they compute."""

import sys

import pytest
import torch
from compiling import compiled, same

from braze._load import C

pytestmark = pytest.mark.skipif(not hasattr(C, "CompiledFunction"), reason="no evaluator for this Python")
X = torch.linspace(-2, 2, 6).view(2, 3)


@pytest.fixture(autouse=True)
def plain_calls(monkeypatch):
    """PyTorch's helpers for tests, which others import here, put a function of theirs around calls of scripts."""
    helpers = sys.modules.get("torch.testing._internal.common_utils")
    if helpers:
        monkeypatch.setattr(torch._C.ScriptFunction, "__call__", helpers.func_call)


@torch.jit.script
def scaled(x, k: int = 2):
    return x.sin() * k


@torch.jit.script
def of_dtype(x, k):
    if x.dtype == torch.float32:
        return x * 4e-3
    return torch.where(k.lt(0), x, k.new_full((), 1e15))


@torch.jit.script
def calls_another(x, dim: int = -1):
    norm = scaled(x, 3).norm(p=2, dim=dim, keepdim=True).clamp_min(1e-15)
    return x / norm


@torch.jit.script
def loops(x, count: int):
    parts = []
    for k in range(count):
        parts.append(x * k)
    return torch.stack(parts)


@torch.jit.script
def in_place(x):
    y = x.clone()
    y += 1
    y[0] = 0
    return y


@torch.jit.script
def of_values(x):
    if bool((x > 0).all()):
        return x * 2
    return x + 1


CALLS = {
    "scaled": lambda x: scaled(x, 3) + 1,
    "default": lambda x: scaled(x + 1) * 2,
    "keyword": lambda x: scaled(x, k=4) * 2,
    "of_dtype": lambda x: of_dtype(x, x) + 1,
    "calls_another": lambda x: calls_another(x.cos(), dim=0),
    "loops": lambda x: loops(x, 3).sum(0),
    "in_place": lambda x: in_place(x * 2) + x,
}


@pytest.mark.parametrize("name", CALLS)
def test_scripts_are_one_graph(name):
    function = CALLS[name]
    fast = compiled(function)
    with torch.no_grad():
        for number in range(4):
            same(fast(X + number), function(X + number))
    assert fast.counts() == {"captured": 1, "replayed": 3, "native": 0}
    report = fast.report()
    assert report["operators"]["native"] == 0
    assert len(report["segments"]) == 1


def test_a_script_that_decides_by_values_is_a_break():
    def f(x):
        return of_values(x * 2) + 1

    fast = compiled(f)
    with torch.no_grad():
        for number in (0, 5, 0, 5):
            same(fast(X + number), f(X + number))
    assert fast.report()["operators"]["native"] > 0


def test_gradients_of_scripts():
    def f(x):
        return calls_another(x * 2).sum() + scaled(x).sum()

    fast = compiled(f)
    for number in range(4):
        ours, theirs = ((X + number).requires_grad_() for _ in range(2))
        fast(ours).backward()
        f(theirs).backward()
        same(ours.grad, theirs.grad)


@pytest.mark.parametrize("how", ["script", "trace"])
@pytest.mark.parametrize("calls_before", [0, 1, 3])
def test_gradients_of_scripts_that_have_run(how, calls_before):
    """After its first runs a script is optimized, and has a backward of its own."""

    def gated(x):
        return x * torch.sigmoid(x) + x.tanh() * 2

    script = torch.jit.script(gated) if how == "script" else torch.jit.trace(gated, (X,))
    for _ in range(calls_before):
        script(X.clone().requires_grad_()).sum().backward()

    def f(x):
        return script(x * 2) + script(x)

    fast = compiled(f)
    for number in range(4):
        ours, theirs = ((X + number).requires_grad_() for _ in range(2))
        fast(ours).sum().backward()
        f(theirs).sum().backward()
        same(ours.grad, theirs.grad)
    assert fast.counts() == {"captured": 1, "replayed": 3, "native": 0}
    assert torch._C._get_graph_executor_optimize()
