"""Logs by name, and braze.explain."""

import logging
import os
import subprocess
import sys

import pytest
import torch

import braze
from braze import _logs
from braze._load import C

pytestmark = pytest.mark.skipif(not hasattr(C, "CompiledFunction"), reason="no evaluator for this Python")

X = torch.randn(4, 5)


@pytest.fixture(autouse=True)
def no_logs_afterwards():
    with torch.no_grad():
        yield
    braze.set_logs()


class Texts(logging.Handler):
    """What a logger was given."""

    def __init__(self, name):
        super().__init__()
        self.texts = []
        self._logger = logging.getLogger(name)

    def emit(self, record):
        self.texts.append((record.name, record.getMessage()))

    def __enter__(self):
        self._logger.addHandler(self)
        return self

    def __exit__(self, *exception):
        self._logger.removeHandler(self)


def logged(names, work):
    braze.set_logs(**dict.fromkeys(names, True))
    with Texts("braze") as handler:
        work()
    return handler.texts


def test_names():
    assert set(_logs.NAMES) == {
        "cudagraphs",
        "fusion",
        "graph_breaks",
        "graph_code",
        "guards",
        "output_code",
        "perf",
        "recompiles",
    }


def test_unknown_names():
    with pytest.raises(ValueError, match="there are graph_breaks"):
        braze.set_logs(breaks=True)
    with pytest.raises(TypeError, match="True or False"):
        braze.set_logs(guards="yes")


def test_recompiles_name_the_guard():
    compiled = braze.compile(lambda x, n: x * n)

    def work():
        compiled(X, 2)
        compiled(X, 2)
        compiled(X, 3)

    texts = logged(["recompiles"], work)
    assert [name for name, _ in texts] == ["braze.recompiles"]
    assert "n == 2" in texts[0][1]


def test_a_piece_that_computes_nothing_is_no_recompile():
    """Behind the loop there is nothing to compile, and no program that could serve."""

    def doubles(x, n):
        sums = []
        for _ in range(n):
            x = x * 2
            sums.append(x.sum().item())
        return x, sums

    compiled = braze.compile(doubles)
    assert len(logged(["recompiles"], lambda: compiled(X, 3))) <= 1
    assert logged(["recompiles"], lambda: [compiled(X, 3) for _ in range(4)]) == []


def test_graphs_and_guards():
    texts = dict(logged(["graph_code", "guards"], lambda: braze.compile(lambda x: torch.relu(x) + 1)(X)))
    assert "relu" in texts["braze.graph_code"]
    assert "x" in texts["braze.guards"]


def test_graph_breaks_name_line_and_reason():
    def branches(x):
        if x.sum() > 0:
            return x + 1
        return x - 1

    texts = logged(["graph_breaks"], lambda: braze.compile(branches)(X))
    assert texts
    assert "test_logs_face.py" in texts[0][1]
    assert "value of a tensor" in texts[0][1]


def test_graphs_of_stretches():
    def branches(x):
        y = x * 2
        return y + 1 if y.sum() > 0 else y - 1

    texts = logged(["graph_code", "guards"], lambda: braze.compile(branches)(X))
    assert [name for name, _ in texts].count("braze.graph_code") == 2
    assert [name for name, _ in texts].count("braze.guards") == 2


def test_nothing_is_logged_unasked():
    assert logged([], lambda: braze.compile(lambda x: x + 1)(X)) == []
    braze.set_logs(guards=True)
    assert logged(["recompiles"], lambda: braze.compile(lambda x: x + 2)(X)) == []


def test_a_listener_that_raises_breaks_nothing(monkeypatch):
    hooked = []
    monkeypatch.setattr(sys, "unraisablehook", hooked.append)
    C.listen(lambda name, text: 1 // 0, ["guards"])
    compiled = braze.compile(lambda x: x + 1)
    torch.testing.assert_close(compiled(X), X + 1)
    assert compiled.counts()["captured"] == 1
    assert [one.exc_type for one in hooked] == [ZeroDivisionError]


def run(code, **environment):
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


def test_environment():
    code = "import torch, braze\nwith torch.no_grad(): braze.compile(lambda x: x + 1)(torch.ones(3))"
    assert "[braze.graph_code]" in run(code, BRAZE_LOGS="graph_code,+guards")
    assert "[braze.guards]" in run(code, BRAZE_LOGS="all")
    assert run(code, BRAZE_LOGS="") == ""


def test_explain():
    def f(x):
        return torch.relu(x @ x.t()) + 1

    found = braze.explain(f)(X)
    torch.testing.assert_close(found.result, f(X))
    assert (found.graph_count, found.graph_break_count, found.break_reasons) == (1, 0, [])
    assert found.op_count == len(found.ops[0]) >= 2
    assert any("x" in guard for guard in found.guards[0])
    assert sum(found.compile_times.values()) > 0
    assert found.shares["interpreted"] == 1.0
    text = str(found)
    for part in ("1 graphs, 0 graph breaks", "guard: ", "compiled in", "100% interpreted"):
        assert part in text


def test_explain_a_break():
    def f(x):
        y = x * 2
        if y.sum() > 0:
            y = y + 1
        return y - 3

    found = braze.explain(braze.compile(f))(X)
    torch.testing.assert_close(found.result, f(X))
    assert found.graph_count >= 2
    assert found.graph_break_count >= 1
    reason = found.break_reasons[0]
    assert "value of a tensor" in reason.reason
    assert reason.file == __file__
    assert reason.source == "if y.sum() > 0:"
    assert "torch.where" in reason.remedy
    assert "torch.where" in str(found)


def test_explain_other_backends_and_modules():
    net = torch.nn.Linear(5, 3)
    assert braze.explain(net, backend="eager")(X).graph_count == 1
    assert braze.explain(braze.compile(net))(X).graph_count == 1


def test_fullgraph_names_line_reason_and_remedy():
    @braze.compile(fullgraph=True)
    def f(x):
        if x.sum() > 0:
            return x
        return -x

    with pytest.raises(braze.Error) as raised:
        f(X)
    text = str(raised.value)
    for part in ("test_logs_face.py", "value of a tensor", "torch.where", "fullgraph"):
        assert part in text


@pytest.mark.parametrize(
    ("reason", "remedy"),
    [
        ("branch_on_tensor", "torch.where"),
        ("item", "item()"),
        ("gradients", "torch.no_grad()"),
        ("container_existed_before_changed", "return it"),
        ("c_function_not_understood", "disable"),
        ("other", "fullgraph"),
    ],
)
def test_remedies(reason, remedy):
    assert remedy in C.break_reasons[reason][1]
