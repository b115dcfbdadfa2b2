"""braze.compiler: stances, disable, reset and their kin."""

import pytest
import torch

import braze
from braze._load import C

pytestmark = pytest.mark.skipif(not hasattr(C, "CompiledFunction"), reason="no evaluator for this Python")

X = torch.randn(4, 5)
Y = torch.randn(7)


@pytest.fixture(autouse=True)
def default_stance():
    with torch.no_grad():
        yield
    braze.compiler.set_stance("default")


@pytest.fixture
def compiled():
    return braze.compile(lambda x: torch.relu(x) * 2)


def ran(compiled, x):
    """How one call ran."""
    before = compiled.counts()
    torch.testing.assert_close(compiled(x), torch.relu(x) * 2)
    after = compiled.counts()
    return [kind for kind in after if after[kind] != before[kind]]


def test_default(compiled):
    assert ran(compiled, X) == ["captured"]
    assert ran(compiled, X) == ["replayed"]


def test_force_eager(compiled):
    compiled(X)
    with braze.compiler.set_stance("force_eager"):
        assert "replayed" not in ran(compiled, X)
        assert "captured" not in ran(compiled, Y)
    assert ran(compiled, X) == ["replayed"]


def test_eager_on_recompile(compiled):
    compiled(X)
    with braze.compiler.set_stance("eager_on_recompile"):
        assert ran(compiled, X) == ["replayed"]
        assert ran(compiled, Y) == ["native"]
    assert ran(compiled, Y) == ["captured"]


def test_fail_on_recompile(compiled):
    compiled(X)
    with braze.compiler.set_stance("fail_on_recompile"):
        assert ran(compiled, X) == ["replayed"]
        with pytest.raises(RuntimeError, match="fail_on_recompile"):
            compiled(Y)
    assert ran(compiled, Y) == ["captured"]


def test_eager_then_compile(compiled):
    with braze.compiler.set_stance("eager_then_compile"):
        assert ran(compiled, X) == ["native"]
        assert ran(compiled, X) == ["captured"]
        assert ran(compiled, X) == ["replayed"]


def test_stance_as_a_call_and_a_decorator(compiled):
    braze.compiler.set_stance("force_eager")
    assert "captured" not in ran(compiled, X)
    braze.compiler.set_stance("default")
    assert ran(compiled, X) == ["captured"]

    @braze.compiler.set_stance("force_eager")
    def inside():
        return ran(compiled, X)

    assert ran(compiled, X) == ["replayed"]
    assert "replayed" not in inside()
    assert ran(compiled, X) == ["replayed"]


def test_stances_nest_and_end_with_an_exception(compiled):
    compiled(X)
    with pytest.raises(ZeroDivisionError), braze.compiler.set_stance("force_eager"):
        with braze.compiler.set_stance("fail_on_recompile"):
            assert ran(compiled, X) == ["replayed"]
        assert "replayed" not in ran(compiled, X)
        raise ZeroDivisionError
    assert ran(compiled, X) == ["replayed"]


def test_unknown_stance():
    with pytest.raises(ValueError, match="eager_then_compile"):
        braze.compiler.set_stance("lazy")


def test_disable_runs_natively():
    calls = []

    @braze.compiler.disable
    def prints(x):
        """Prints."""
        calls.append(1)
        return x + 1

    assert prints.__name__ == "prints"
    assert prints.__doc__ == "Prints."
    compiled = braze.compile(lambda x: prints(x * 2) * 3)
    for count in range(1, 4):
        torch.testing.assert_close(compiled(X), (X * 2 + 1) * 3)
        assert len(calls) == count


@pytest.mark.parametrize("recursive", [True, False])
def test_disable_within_a_compiled_function(recursive):
    """Its frames are no segments of the function that calls it."""
    seen = []

    def deeper(x):
        seen.append(braze.compiler.is_compiling())
        return x * 2

    @braze.compiler.disable(recursive=recursive)
    def helper(x):
        seen.append(braze.compiler.is_compiling())
        return deeper(x + 1)

    compiled = braze.compile(lambda x: helper(x.relu()).sum())
    with torch.no_grad():
        for _ in range(3):
            assert compiled(torch.ones(3)) == 12
    assert seen == [False] * 6
    assert compiled.operators()["native"] == 3 * 2
    assert braze.explain(compiled)(torch.ones(3)).graph_count == 2


def test_disable_is_recursive(compiled):
    compiled(X)
    outer = braze.compiler.disable(lambda x: compiled(x))
    flat = braze.compiler.disable(recursive=False)(lambda x: compiled(x))
    before = compiled.counts()["replayed"]
    torch.testing.assert_close(outer(X), torch.relu(X) * 2)
    assert compiled.counts()["replayed"] == before
    torch.testing.assert_close(flat(X), torch.relu(X) * 2)
    assert compiled.counts()["replayed"] == before + 1


def test_disable_methods_classes_and_modules():
    class Thing:
        @braze.compiler.disable
        def method(self, x):
            return x + 1, self

    thing = Thing()
    assert thing.method(1) == (2, thing)

    @braze.compiler.disable
    class Calls:
        def __call__(self, x):
            return x * 2

    assert Calls()(2) == 4
    net = torch.nn.Linear(5, 3)
    disabled = braze.compiler.disable(net, reason="slow")
    assert disabled._orig_mod is net
    torch.testing.assert_close(disabled(X), net(X))
    with pytest.raises(TypeError, match="disable takes"):
        braze.compiler.disable(3)


def test_disable_undoes_compile(compiled):
    plain = braze.compiler.disable(compiled)
    torch.testing.assert_close(plain(X), torch.relu(X) * 2)
    assert sum(compiled.counts().values()) == 0


def test_reset(compiled):
    compiled(X)
    compiled(X)
    braze.compiler.reset()
    assert compiled.guards() == []
    assert ran(compiled, X) == ["captured"]


def test_functions_that_change_nothing():
    def f(x):
        return x

    assert braze.compiler.allow_in_graph(f) is f
    assert braze.compiler.allow_in_graph([f, f]) == [f, f]
    assert braze.compiler.assume_constant_result(f) is f
    assert braze.compiler.cudagraph_mark_step_begin() is None
    assert braze.compiler.is_compiling() is False
    assert braze.compiler.is_exporting() is False
    braze.compiler.mark_dynamic(X, 0)
    braze.compiler.mark_dynamic(X, [0, -1], min=2, max=9)
    for wrong, text in (
        (lambda: braze.compiler.allow_in_graph(3), "function"),
        (lambda: braze.compiler.assume_constant_result(3), "function"),
        (lambda: braze.compiler.mark_dynamic(X, 2), "out of range"),
        (lambda: braze.compiler.mark_dynamic(3, 0), "tensor"),
        (lambda: braze.compiler.mark_dynamic(X, 0, min=3, max=2), "is less"),
    ):
        with pytest.raises(braze.Error, match=text):
            wrong()


def test_backends_are_listed():
    assert braze.compiler.list_backends() == braze.list_backends()


def test_is_compiling():
    def f(x):
        return x + 1 if braze.compiler.is_compiling() else x - 1

    compiled = braze.compile(f)
    for _ in range(2):
        torch.testing.assert_close(compiled(X), X + 1)
    assert compiled.counts()["replayed"] == 1
    torch.testing.assert_close(f(X), X - 1)


def test_allow_in_graph():
    calls = []

    @braze.compiler.allow_in_graph
    def odd(x):
        calls.append(len(calls))  # An effect that a capture would have to know.
        return x * 2 if bool(calls) else x

    def f(x):
        return odd(x) + 1

    fast = braze.compile(f, fullgraph=True)
    x = torch.randn(3)
    for _ in range(3):
        torch.testing.assert_close(fast(x), x * 2 + 1)
    assert fast.counts() == {"captured": 1, "replayed": 2, "native": 0}
    assert calls == [0], "a replay runs the operators alone"
    assert braze.compiler.allow_in_graph([odd, f]) == [odd, f]
    with pytest.raises(TypeError, match="takes a function"):
        braze.compiler.allow_in_graph(3)


def test_a_function_allowed_in_graphs_is_given_guarded_arguments():
    @braze.compiler.allow_in_graph
    def scaled(x, factors):
        return x * sum(factors)

    fast = braze.compile(lambda x, factors: scaled(x, factors) + 1, fullgraph=True)
    x, factors = torch.randn(3), [1, 2]
    torch.testing.assert_close(fast(x, factors), x * 3 + 1)
    factors.append(3)
    torch.testing.assert_close(fast(x, factors), x * 6 + 1)


def test_assume_constant_result():
    answers = iter([2.0, 3.0])

    class Model(torch.nn.Module):
        @braze.compiler.assume_constant_result
        def factor(self, name):
            return {name: next(answers)}

        def forward(self, x):
            return x * self.factor("a")["a"]

    fast = braze.compile(Model(), fullgraph=True)
    x = torch.randn(3)
    with torch.no_grad():
        for _ in range(3):
            torch.testing.assert_close(fast(x), x * 2)
        torch.testing.assert_close(fast(x[:2]), x[:2] * 3)  # Captured anew.
    assert next(answers, None) is None


def test_a_constant_result_is_one_object():
    made = []

    @braze.compiler.assume_constant_result
    def make():
        made.append(object())
        return made[-1]

    fast = braze.compile(lambda x: (x + 1, make()), fullgraph=True)
    results = [fast(torch.zeros(2))[1] for _ in range(3)]
    assert len(made) == 1
    assert all(one is made[0] for one in results)


def test_forced_backends():
    seen = []

    def backend(graph, example_inputs):
        seen.append(len(example_inputs))
        return graph.forward

    fast = braze.compile(lambda x: torch.relu(x) + 1)
    x = torch.randn(4)
    expected = torch.relu(x) + 1
    torch.testing.assert_close(fast(x), expected)
    for _ in range(2):
        with braze.compiler.set_stance("default", force_backend=backend):
            torch.testing.assert_close(fast(x), expected)
        torch.testing.assert_close(fast(x), expected)
    with braze.compiler.set_stance(force_backend="eager"):
        torch.testing.assert_close(fast(x), expected)
    assert seen == [1], "its program is found again"
    assert fast.counts() == {"captured": 3, "replayed": 3, "native": 0}
    with pytest.raises(ValueError, match="force_backend goes with"):
        braze.compiler.set_stance("force_eager", force_backend="eager")


def test_suppressed_errors():
    def backend(graph, example_inputs):
        raise ZeroDivisionError("no code today")

    def f(x):
        y = torch.relu(x)
        print(end="")
        return y + 1

    x = torch.randn(4)
    with pytest.raises(ZeroDivisionError, match="no code today"):
        braze.compile(f, backend=backend)(x)
    fast = braze.compile(f, backend=backend, options={"suppress_errors": True})
    with pytest.warns(RuntimeWarning, match="suppress_errors.*no code today"):
        torch.testing.assert_close(fast(x), torch.relu(x) + 1)
    assert fast.counts()["native"] == 1
