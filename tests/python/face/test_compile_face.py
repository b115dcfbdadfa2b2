"""braze.compile's arguments and what it returns, beside torch.compile's documentation."""

import copy
import inspect
import pickle

import pytest
import torch

import braze
from braze._load import C

pytestmark = pytest.mark.skipif(not hasattr(C, "CompiledFunction"), reason="no evaluator for this Python")

X = torch.randn(4, 5)


def scaled(x, scale=2.0):
    """Scales."""
    return torch.softmax(x * scale, -1)


class Callable:
    def __init__(self):
        self.shift = 3.0

    def __call__(self, x):
        return x + self.shift

    @braze.compile
    def method(self, x):
        return x - self.shift

    @classmethod
    @braze.compile
    def of_class(cls, x):
        return x * len(cls.__name__)

    @staticmethod
    @braze.compile
    def static(x):
        return x * 5


def check(compiled, function, *args, **kwargs):
    """Eager's result, three times; at least the last one replayed or captured."""
    for _ in range(3):
        with torch.no_grad():
            torch.testing.assert_close(compiled(*args, **kwargs), function(*args, **kwargs))


def test_a_function():
    compiled = braze.compile(scaled)
    check(compiled, scaled, X)
    check(compiled, scaled, X, scale=3.0)
    assert compiled.counts()["native"] == 0
    assert compiled.__name__ == "scaled"
    assert compiled.__doc__ == "Scales."
    assert compiled.__module__ == __name__
    assert compiled.__wrapped__ is scaled
    assert inspect.signature(compiled) == inspect.signature(scaled)


def test_decorators():
    @braze.compile
    def plain(x):
        return x + 1

    @braze.compile(fullgraph=True, mode="max-autotune")
    def with_arguments(x):
        return x + 1

    check(plain, lambda x: x + 1, X)
    check(with_arguments, lambda x: x + 1, X)
    check(braze.compile(lambda x: x * 2), lambda x: x * 2, X)


def test_methods_and_callable_objects():
    thing = Callable()
    check(thing.method, lambda x: x - 3.0, X)
    check(Callable.of_class, lambda x: x * 8, X)
    check(thing.of_class, lambda x: x * 8, X)
    check(Callable.static, lambda x: x * 5, X)
    check(braze.compile(thing), thing, X)
    check(braze.compile(thing.__call__), thing, X)


def test_a_class_compiles_its_instances_calls():
    @braze.compile
    class Adds:
        def __call__(self, x):
            return x + 1

    assert isinstance(Adds(), Adds)
    check(Adds(), lambda x: x + 1, X)


def test_compiling_twice_is_compiling_once():
    once = braze.compile(scaled)
    twice = braze.compile(once)
    assert twice.__wrapped__ is scaled
    check(twice, scaled, X)


def test_compiled_functions_call_each_other():
    inner = braze.compile(scaled)
    outer = braze.compile(lambda x: inner(x) + 1)
    check(outer, lambda x: scaled(x) + 1, X)


def test_disable_gives_back_the_model():
    assert braze.compile(scaled, disable=True) is scaled
    assert braze.compile(disable=True)(scaled) is scaled


@pytest.mark.parametrize("mode", [None, *braze.list_modes()])
def test_modes(mode):
    check(braze.compile(scaled, mode=mode), scaled, X)


def test_modes_and_options_are_listed():
    assert {"default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"} == set(braze.list_modes())
    assert "fusion" in braze.list_options()
    assert "cache_dir" not in braze.list_options()


def test_options():
    check(braze.compile(scaled, options={"fusion": False, "recompile-limit": 3}), scaled, X)
    check(braze.compile(scaled, dynamic=True), scaled, X)


@pytest.mark.parametrize(
    ("choices", "error", "text"),
    [
        ({"mode": "default", "options": {}}, RuntimeError, "at the same time"),
        ({"mode": "fast"}, ValueError, "max-autotune-no-cudagraphs"),
        ({"options": {"speed": 1}}, ValueError, "recompile_limit"),
        ({"options": {"fusion": 1}}, TypeError, "of type bool"),
        ({"options": ["fusion"]}, TypeError, "dict"),
        ({"fullgraph": "yes"}, TypeError, "True or False"),
        ({"dynamic": 3}, TypeError, "None, True or False"),
        ({"backend": "none such"}, ValueError, "register_backend"),
        ({"backend": 3}, TypeError, "callable"),
        ({"disable": None}, TypeError, "True or False"),
    ],
)
def test_wrong_arguments(choices, error, text):
    with pytest.raises(error, match=text) as raised:
        braze.compile(scaled, **choices)
    assert isinstance(raised.value, braze.Error)


@pytest.mark.parametrize(
    ("model", "text"),
    [
        (3, "takes a function"),
        (classmethod(scaled), "@classmethod above"),
        (property(scaled), "@property above"),
    ],
)
def test_what_cannot_be_compiled(model, text):
    with pytest.raises(TypeError, match=text):
        braze.compile(model)


def test_none_in_a_decorator():
    with pytest.raises(TypeError, match="None"):
        braze.compile(fullgraph=True)(None)


def test_copies_are_the_function_itself():
    compiled = braze.compile(scaled)
    assert copy.deepcopy(compiled) is compiled
    assert copy.deepcopy({"f": compiled})["f"] is compiled


module_level = braze.compile(scaled)
module_level.__qualname__ = "module_level"


def test_pickles_by_name():
    assert pickle.loads(pickle.dumps(module_level)) is module_level


def test_errors_are_eagers():
    compiled = braze.compile(lambda x, y: x @ y)
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        compiled(X, X)


def test_limits_of_programs():
    def breaks(x):
        y = x + 1
        if y.sum() > 0:
            y = y * 2
        return y

    shapes = [torch.ones(n) for n in range(2, 9)]
    few = braze.compile(breaks, dynamic=False, options={"cache_size_limit": 3})
    many = braze.compile(breaks, dynamic=False)
    with torch.no_grad():
        for x in shapes:
            torch.testing.assert_close(few(x), breaks(x))
            torch.testing.assert_close(many(x), breaks(x))
        assert len(few.report()["segments"]) <= 4 < len(many.report()["segments"])
        two = braze.compile(scaled, dynamic=False, options={"recompile_limit": 2})
        with pytest.warns(RuntimeWarning, match="recompile limit"):
            for x in shapes:
                torch.testing.assert_close(two(x), scaled(x))
    assert two.counts() == {"captured": 2, "replayed": 0, "native": 5}
