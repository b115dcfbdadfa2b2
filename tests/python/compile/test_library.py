"""Functions of the standard library that are understood as a whole: those with a cache, signatures."""

import functools
import inspect

import pytest
import torch
from compiling import compiled, same
from processes import fresh

from braze._load import C

pytestmark = pytest.mark.skipif(not hasattr(C, "CompiledFunction"), reason="no evaluator for this Python")
X = torch.randn(4, 5)
STATE = {"factor": 2.0, "calls": 0}


@pytest.fixture(autouse=True)
def no_grad():
    STATE.update(factor=2.0, calls=0)
    with torch.no_grad():
        yield


def make(maxsize):
    @functools.lru_cache(maxsize)
    def factor(name, *more):
        STATE["calls"] += 1
        torch.zeros(3).add_(1)  # No operator of the graph.
        return STATE[name] + len(more)

    return factor


@pytest.mark.parametrize("maxsize", [None, 128])
@pytest.mark.parametrize("arguments", [("factor",), ("factor", 1, "a")])
def test_a_cached_result_stays_until_the_cache_drops_it(maxsize, arguments):
    factor = make(maxsize)
    fast = compiled(lambda x: torch.relu(x) * factor(*arguments))
    for _ in range(3):
        same(fast(X), torch.relu(X) * (2.0 + len(arguments) - 1))
    assert STATE["calls"] == 1
    # The first call makes the entry, natively: its effects are the function's own.
    assert fast.counts() == {"captured": 1, "replayed": 1, "native": 1}
    STATE["factor"] = 5.0
    same(fast(X), torch.relu(X) * (2.0 + len(arguments) - 1))
    assert fast.counts()["replayed"] == 2, "the entry is there, and the function is not run"
    factor.cache_clear()
    for _ in range(2):
        same(fast(X), torch.relu(X) * (5.0 + len(arguments) - 1))
    assert STATE["calls"] == 2
    assert fast.counts()["captured"] == 2
    (node,) = [line for line in fast.report()["segments"][0]["graph"].splitlines() if "relu" in line]
    assert "zeros" not in fast.report()["segments"][0]["graph"], node


@pytest.mark.parametrize("maxsize", [None, 8])
@pytest.mark.parametrize("typed", [False, True])
def test_cached_functions_are_part_of_one_graph(maxsize, typed):
    @functools.lru_cache(maxsize, typed=typed)
    def pair(a, *, b=2, like=None):
        return [a, b]

    def f(x):
        a, b = pair(3, b=4)
        return torch.relu(x) * a + b * pair(1)[1]

    fast = compiled(f)
    for _ in range(4):
        same(fast(X), torch.relu(X) * 3 + 8)
    assert fast.counts() == {"captured": 1, "replayed": 2, "native": 1}
    assert pair.cache_info()[:2] == (6, 2), "as many uses as calls"


def test_a_small_cache_drops_what_was_asked_long_ago():
    factor = make(1)
    fast = compiled(lambda x: x * factor("factor"))
    same(fast(X), X * 2.0)
    STATE["factor"] = 3.0
    factor("calls")
    same(fast(X), X * 3.0)


@pytest.mark.parametrize("way", ["keyword", "typed", "object", "none kept", "raises"])
def test_what_is_not_plain_is_called_natively(way):
    maxsize = 0 if way == "none kept" else 8

    @functools.lru_cache(maxsize, typed=way == "typed")
    def factor(one=1):
        if way == "raises":
            raise ValueError("no factor")
        return [2.0] if way == "object" else 2.0

    def f(x):
        y = torch.relu(x)
        if way == "keyword":
            return y * factor(one=1)
        if way == "raises":
            try:
                factor()
            except ValueError as error:
                return y, str(error)
        return y * (factor(1)[0] if way == "object" else factor(1))

    fast = compiled(f)
    for _ in range(3):
        same(fast(X), f(X))


def test_signatures_tell_their_parameters():
    def taken(a, b=1, *, c=2):
        return a

    def f(x, function):
        return x * len(inspect.signature(function).parameters)

    fast = compiled(f)
    for function, count in ((taken, 3), (taken, 3), (make, 1), (taken, 3)):
        same(fast(X, function), X * count)
    assert fast.counts() == {"captured": 2, "replayed": 2, "native": 0}


def test_names_of_a_package():
    def f(x):
        from torch.nn import functional

        return functional.relu(x) + 1

    fast = compiled(f)
    for _ in range(3):
        same(fast(X), torch.relu(X) + 1)
    assert fast.counts() == {"captured": 1, "replayed": 2, "native": 0}


def test_addresses():
    table = {id(STATE): 3.0}

    def f(x, key):
        return x * table.get(id(key), 0.5), x * (id([]) > 0)

    fast = compiled(f)
    other = {}
    for key in (STATE, STATE, other, STATE, other):
        same(fast(X, key), f(X, key))


def test_relative_imports(tmp_path, monkeypatch):
    package = tmp_path / "relatives"
    (package / "models").mkdir(parents=True)
    (package / "__init__.py").write_text("FACTOR = 2.0\n")
    (package / "tools.py").write_text("OFFSET = 1.0\n")
    (package / "models" / "__init__.py").write_text("")
    (package / "models" / "near.py").write_text("SHIFT = 0.5\n")
    (package / "models" / "model.py").write_text(
        "def f(x):\n    from .. import FACTOR\n    from ..tools import OFFSET\n    from . import near\n"
        "    return x * FACTOR + OFFSET - near.SHIFT\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    import relatives.models.model
    import relatives.models.near
    import relatives.tools

    f = relatives.models.model.f
    fast = compiled(f)
    for _ in range(2):
        same(fast(X), f(X))
    assert fast.counts() == {"captured": 1, "replayed": 1, "native": 0}
    relatives.tools.OFFSET = 7.0
    same(fast(X), f(X))
    relatives.models.near.SHIFT = 3.0
    same(fast(X), f(X))
    monkeypatch.setattr(relatives.models.model, "__package__", "relatives")  # Now `..` is beyond the top.
    with pytest.raises(ImportError):
        fast(X)


def test_cached_functions_are_given_objects_and_dtypes():
    class Logger:
        pass

    logger, calls = Logger(), []

    @functools.lru_cache
    def cached(*arguments):
        calls.append(arguments)
        return len(calls)

    def f(x, scale):
        x = x * cached(x.shape, x.dtype, x.device)
        x = x + cached(logger, "once")
        return x - cached((logger, (1, logger)), scale)

    fast = compiled(f)
    for _ in range(5):  # Each of the three is computed by a native run first.
        fast(X, 2)
    assert len(calls) == 3
    counts = fast.counts()
    same(fast(X, 2), f(X, 2))
    assert fast.counts() == counts | {"replayed": counts["replayed"] + 1}
    assert fast.report()["first_break"] is None or len(fast.report()["segments"]) == 1
    logger = Logger()  # Another one: another entry.
    for _ in range(4):
        result = fast(X, 2)
    assert len(calls) == 5
    same(result, f(X, 2))


def test_counters_that_existed_before():
    import collections

    counter = collections.Counter(a=1)

    def f(x, words):
        counter.update(words)
        return x * counter["a"], counter["b"]

    fast = compiled(f)
    same(fast(X, ["a", "b", "a"]), (X * 3, 1))
    same(fast(X, ["a", "b", "a"]), (X * 5, 2))
    same(fast(X, ["b"]), (X * 5, 3))
    assert dict(counter) == {"a": 5, "b": 3}


# ---- code whose builtins lack `__import__`, as that of the `__new__` of named tuples

WITHOUT_BUILTINS = {
    "a module": "MODULE(x)",
    "an abstract base class": "x * 2 if isinstance(GIVEN, ABC.Mapping) else x * 3",
    "a named tuple": "PAIR(x, x * 2)",
    "torch.vmap": "torch.vmap(lambda y: y * 2)(x)",
    "torch.func.grad": "torch.func.grad(lambda y: (y * y).sum())(x)",
    "a tree": "torch.utils._pytree.tree_map(lambda y: y * 2, [x, (x,)])",
    "text": "x + 1 if str(x.shape) else x",
    "a factory": "x + torch.zeros(5)",
    "a thread's own": "LOCAL.a * x",
}


@pytest.mark.parametrize("name", WITHOUT_BUILTINS)
def test_builtins_without_import(name):
    """In a process that has imported nothing yet where it is first needed."""
    fresh(f"""
import collections, collections.abc, threading
import torch, braze

local = threading.local()
local.a = 2
names = {{
    "torch": torch, "MODULE": torch.nn.Linear(5, 3), "isinstance": isinstance, "ABC": collections.abc,
    "GIVEN": {{}}, "PAIR": collections.namedtuple("Pair", "a b"), "str": str, "LOCAL": local, "__builtins__": {{}},
}}
exec("def f(x): return {WITHOUT_BUILTINS[name]}", names)
with torch.no_grad():
    native = names["f"](x := torch.randn(4, 5))
    fast = braze.compile(names["f"], fullgraph=True)
    for _ in range(3):
        ours = fast(x)
torch.testing.assert_close(torch.utils._pytree.tree_leaves(ours), torch.utils._pytree.tree_leaves(native))
assert fast.counts()["captured"] == 1 and fast.counts()["native"] == 0, fast.report()
""")


def test_a_registration_after_a_call_without_builtins():
    """Guards learn of registrations where the first of them is made without `__import__`."""
    fresh("""
import abc
import torch, braze

class Base(abc.ABC):
    pass

class Given:
    pass

names = {"isinstance": isinstance, "Base": Base, "given": Given(), "__builtins__": {}}
exec("def f(x): return x * 2 if isinstance(given, Base) else x * 3", names)
fast = braze.compile(names["f"])
x = torch.ones(3)
assert [fast(x).sum().item() for _ in range(3)] == [9, 9, 9]
Base.register(Given)
assert [fast(x).sum().item() for _ in range(3)] == [6, 6, 6]
""")
