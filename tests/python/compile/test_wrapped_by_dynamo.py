"""Functions that the user has given to PyTorch's compiler, called within what braze compiles."""

import pytest
import torch
import torch._dynamo

import braze
from braze._load import C

pytestmark = pytest.mark.skipif(not hasattr(C, "CompiledFunction"), reason="no evaluator for this Python")


@torch.compile(backend="eager")
def compiled_by_torch(x):
    return x.sin() * 2


@torch.compiler.disable
def disabled(x):
    return x.sin() * 2


def marks(x):
    y = x * 2
    torch._dynamo.mark_static(y)
    torch._dynamo.mark_static(y, 0)
    return y + 1


def calls_compiled(x):
    return compiled_by_torch(x + 1) + compiled_by_torch(x)


def calls_disabled(x):
    return disabled(x + 1) * 3


@pytest.mark.parametrize("function", [marks, calls_compiled])
def test_one_graph(function):
    compiled = braze.compile(function, fullgraph=True)
    for step in range(3):
        x = torch.arange(4.0) + step
        torch.testing.assert_close(compiled(x), function(x))
    assert compiled.counts() | {"captured": 1, "replayed": 2, "native": 0} == compiled.counts()


def test_what_is_disabled_ends_the_graph_by_that_name():
    told = braze.explain(calls_disabled)(torch.ones(3))
    assert [one.id for one in told.break_reasons] == ["disabled_function"]
    compiled = braze.compile(calls_disabled)
    for step in range(3):
        x = torch.arange(4.0) + step
        torch.testing.assert_close(compiled(x), calls_disabled(x))


def test_an_optimizer_that_dynamo_has_wrapped_is_understood():
    model = torch.nn.Linear(3, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(x):
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()

    compiled = braze.compile(step)
    for _ in range(3):
        compiled(torch.ones(2, 3))
    assert not any("marked" in reason for reason in compiled.reasons()), compiled.reasons()
