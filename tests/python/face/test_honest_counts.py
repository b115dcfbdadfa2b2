"""What braze tells of a function: calls, operators, reasons, breaks, names."""

import logging
import pathlib

import pytest
import torch
from torch import nn

import braze
from braze._load import C

pytestmark = pytest.mark.skipif(not hasattr(C, "CompiledFunction"), reason="no evaluator for this Python")

X = torch.ones(4)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        return torch.relu(self.linear(x)) * 2


def training_step(net, x):
    mask = (x > 0).float()
    loss = (net(x) * mask).sum()
    loss.backward()
    return loss


def test_a_training_step_is_compiled_up_to_its_backward(caplog):
    net = Net()
    compiled = braze.compile(training_step)
    with caplog.at_level(logging.WARNING, "braze"):
        for _ in range(5):
            compiled(net, X)
    assert compiled.counts() == {"captured": 1, "replayed": 4, "native": 0}
    operators = compiled.operators()
    assert operators["compiled"] % 5 == 0
    assert operators["compiled"] > 0
    assert [
        reason for reason in operators["reasons"] if "backward" not in reason and "autograd" not in reason
    ] == []
    assert caplog.records == []


def test_what_cannot_be_differentiated_is_native(caplog):
    w = torch.ones(3, 2, requires_grad=True)

    def turned(x):
        return torch.cumprod(torch.view_as_complex(x * w), 0)

    compiled = braze.compile(turned)
    with caplog.at_level(logging.WARNING, "braze"):
        for _ in range(5):
            compiled(torch.ones(3, 2)).abs().sum().backward()
    assert compiled.counts() == {"captured": 0, "replayed": 0, "native": 5}
    assert all(reason.startswith("gradients are wanted") for reason in compiled.reasons())
    assert all(reason.startswith("gradients are wanted") for reason in compiled.operators()["reasons"])
    (warning,) = [record.getMessage() for record in caplog.records if record.name == "braze"]
    assert "turned" in warning
    assert "torch.no_grad()" in warning


def test_operators_of_an_inference():
    compiled = braze.compile(Net())
    with torch.no_grad():
        for _ in range(3):
            compiled(X)
    operators = compiled.operators()
    assert operators["native"] == 0
    assert operators["reasons"] == {}
    assert operators["compiled"] % 3 == 0
    assert operators["compiled"] >= 6


def test_operators_after_a_break():
    def f(x):
        y = x * 2
        if y.sum() > 0:
            return torch.relu(y + 1)
        return y

    compiled = braze.compile(f)
    for _ in range(4):
        compiled(X)
    operators = compiled.operators()
    assert operators["compiled"] > operators["native"]
    assert any("a branch on the value of a tensor" in reason for reason in operators["reasons"])
    assert compiled.counts()["replayed"] == 3


def test_gradients_then_none():
    """Calls that want gradients have a program of their own."""
    net = Net()
    compiled = braze.compile(net)
    for _ in range(6):
        compiled(X).sum().backward()
    assert compiled.counts() == {"captured": 1, "replayed": 5, "native": 0}
    assert compiled.operators()["native"] == 0
    net.requires_grad_(False)
    for _ in range(3):
        torch.testing.assert_close(compiled(X), net(X))
    assert compiled.counts() == {"captured": 2, "replayed": 7, "native": 0}
    net.requires_grad_(True)
    assert compiled(X).requires_grad


@pytest.mark.parametrize("bad", ["text", None, 3, [1], {"a": 1}])
def test_bad_calls_do_not_make_it_native(bad):
    compiled = braze.compile(lambda x: torch.relu(x) * 2 + 1)
    for _ in range(6):
        with pytest.raises(TypeError):
            compiled(bad)
    for _ in range(6):
        assert torch.equal(compiled(X), torch.relu(X) * 2 + 1)
    assert compiled.counts()["replayed"] >= 3


def test_calls_that_raise_do_not_make_it_native():
    def f(x, n):
        if n < 0:
            raise ValueError(n)
        return torch.relu(x) * n

    compiled = braze.compile(f)
    for n in (-1, -2, -3, -4, -5, -6):
        with pytest.raises(ValueError, match=str(n)):
            compiled(X, n)
    for _ in range(6):
        assert torch.equal(compiled(X, 2), X * 2)
    assert compiled.counts()["replayed"] >= 3


def test_reports_of_a_module():
    compiled = braze.compile(Net())
    with torch.no_grad():
        compiled(X)
        compiled(X)
    assert compiled.counts() == {"captured": 1, "replayed": 1, "native": 0}
    assert compiled.reasons() == {}
    assert len(compiled.programs()) == len(compiled.guards()) == len(compiled.steps()) == 1
    assert {"counts", "operators", "reasons", "guards", "programs"} <= set(dir(compiled))


def test_a_modules_own_names_come_first():
    class Counting(Net):
        steps = 7

        def counts(self):
            return "its own"

    compiled = braze.compile(Counting())
    assert compiled.counts() == "its own"
    assert compiled.steps == 7
    assert compiled.reasons() == {}
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = compiled.nothing


def test_repr_names_the_function():
    compiled = braze.compile(training_step)
    line = training_step.__code__.co_firstlineno
    assert repr(compiled) == f"<compiled by braze: training_step ({__file__}:{line})>"
    assert "Net" in repr(braze.compile(Net()).forward)


def test_explain_names_disable_and_its_reason():
    @braze.compiler.disable(reason="it writes a file")
    def write(x):
        return x + 1

    @braze.compiler.disable
    def plain(x):
        return x + 1

    for function, said in ((write, "it writes a file"), (plain, "plain")):
        explanation = braze.explain(lambda x, function=function: function(x * 2) * 3)(X)
        reasons = [one for one in explanation.break_reasons if "braze.compiler.disable" in one.reason]
        assert said in reasons[0].reason
        assert "mark" in reasons[0].remedy


def test_each_break_is_logged_once(caplog):
    def f(x):
        y = x * 2
        print(end="")
        if y.sum() > 0:
            return y + 1
        return y

    braze.set_logs(graph_breaks=True)
    try:
        with caplog.at_level(logging.INFO, "braze.graph_breaks"):
            compiled = braze.compile(f)
            for _ in range(3):
                compiled(X)
    finally:
        braze.set_logs()
    texts = [record.getMessage() for record in caplog.records]
    assert texts
    assert len(texts) == len(set(texts))


def test_public_names():
    assert dir(braze) == sorted(braze.__all__)
    assert dir(braze.compiler) == sorted(braze.compiler.__all__)
    assert (pathlib.Path(braze.__file__).parent / "py.typed").exists()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("recompile_limit", 0),
        ("recompile_limit", -1),
        ("recompile_limit", 2**40),
        ("cache_size_limit", 0),
        ("compile_threads", -2),
        ("cache_limit_mb", -1),
        ("cache_dir", __file__),
        ("cache_dir", "a\0b"),
    ],
)
def test_nonsense_is_refused_when_it_is_set(name, value):
    before = getattr(braze.config, name)
    with pytest.raises(ValueError, match=name):
        setattr(braze.config, name, value)
    with pytest.raises(ValueError, match=name), braze.config.patch({name: value}):
        pass
    assert getattr(braze.config, name) == before
    if name in braze.list_options():
        with pytest.raises(ValueError, match=name):
            braze.compile(training_step, options={name: value})


def test_no_grad_within_is_replayed():
    net = Net()
    inner = {
        "no_grad": torch.no_grad()(lambda x: net(x)),
        "inference_mode": torch.inference_mode()(lambda x: net(x)),
        "detach": lambda x: net(x).detach(),
    }
    for name, function in inner.items():
        compiled = braze.compile(function)
        for _ in range(4):
            result = compiled(X)
            torch.testing.assert_close(result, function(X))
            assert result.requires_grad is False
            assert result.is_inference() == (name == "inference_mode"), name
        assert compiled.counts() == {"captured": 1, "replayed": 3, "native": 0}, name


def test_a_backend_with_no_grad_within():
    net = Net()

    def f(x):
        with torch.no_grad():
            return net(x)

    compiled = braze.compile(f, backend=lambda gm, inputs: gm.forward)
    for _ in range(3):
        assert compiled(X).requires_grad is False
    assert compiled.counts()["replayed"] == 2
