"""What a compiled function depends on changes: never a stale result."""

import math
import threading

import pytest
import torch
from compiling import check, compiled, same

from braze._load import C

pytestmark = pytest.mark.skipif(not hasattr(C, "CompiledFunction"), reason="no evaluator for this Python")


@pytest.fixture(autouse=True)
def no_grad():
    with torch.no_grad():
        yield


X = torch.randn(4, 5)
SCALE = 2.0


def test_a_global_changes(monkeypatch):
    fast = compiled(lambda x: x * SCALE)
    for value in (2.0, 2.0, 3.0, 3, True, -0.0, 2.0):
        monkeypatch.setitem(globals(), "SCALE", value)
        same(fast(X), X * value)
    assert fast.counts()["replayed"] >= 2


def test_a_container_changes():
    config = {"k": [1, 2], "deep": {"a": 1.0}}
    fast = compiled(lambda x: x * sum(config["k"]) + config["deep"]["a"])
    native = fast.__wrapped__
    for change in (
        lambda: None,
        lambda: config["k"].append(3),
        lambda: config["k"].__setitem__(0, 10),
        lambda: config["deep"].update(a=5.0),
        lambda: config.update(k=[0]),
        lambda: None,
    ):
        change()
        same(fast(X), native(X))
    assert fast.counts()["replayed"] == 1


def test_code_defaults_and_closures_change():
    def helper(x, by=1):
        return x + by

    factor = 1

    def f(x):
        return helper(x) * factor

    def set_factor(value):
        nonlocal factor
        factor = value

    fast = compiled(f)
    for change in (
        lambda: None,
        lambda: set_factor(4),
        lambda: setattr(helper, "__defaults__", (7,)),
        lambda: setattr(helper, "__code__", (lambda x, by=1: x - by).__code__),
    ):
        change()
        same(fast(X), f(X))


def test_attributes_change():
    class Config:
        scale = 2

    config = Config()
    fast = compiled(lambda x: x * config.scale)
    native = fast.__wrapped__

    def change_class():
        Config.scale = 3

    def add_property():
        Config.scale = property(lambda self: 9)

    for change in (
        lambda: None,
        change_class,
        lambda: setattr(config, "scale", 5),
        lambda: delattr(config, "scale"),
        add_property,
        lambda: setattr(config, "__class__", type("Other", (), {"scale": 11})),
    ):
        change()
        same(fast(X), native(X))
        same(fast(X), native(X))


def test_dtype_layout_and_modes_change():
    fast = compiled(lambda x: (x / 2).sum(0))
    native = fast.__wrapped__
    for x in (X, X.double(), X.t(), X.int(), X[:0], X[:, ::2], X.expand(2, 4, 5)):
        same(fast(x), native(x))
    made = compiled(lambda x: x + torch.ones(5))
    same(made(X), X + torch.ones(5))
    torch.set_default_dtype(torch.float64)
    try:
        same(made(X), X + torch.ones(5))
    finally:
        torch.set_default_dtype(torch.float32)


def test_threads():

    fast = compiled(lambda x, n: torch.relu(x) * n)
    errors = []

    def work(n):
        try:
            for _ in range(20):
                torch.testing.assert_close(fast(X, n), torch.relu(X) * n)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


def test_a_compiled_function_dies():
    import gc
    import weakref

    def make():
        weight = torch.randn(5)
        fast = compiled(lambda x: x * weight)
        fast(X)
        fast.me = fast  # a cycle
        return weakref.ref(fast), weakref.ref(weight)

    dead = make()
    gc.collect()
    assert [reference() for reference in dead] == [None, None]


def test_imports_and_absent_attributes():
    class Config:
        pass

    config = Config()

    def f(x):
        from math import floor

        import torch

        scale = getattr(config, "scale", 1.5)
        offset = config.offset if hasattr(config, "offset") else 0
        return torch.relu(x) * math.ceil(scale) + floor(scale) + offset

    fast = check(f, (X,))
    config.scale = 3.5
    same(fast(X), f(X))
    config.offset = 2
    same(fast(X), f(X))
    Config.__getattr__ = lambda self, name: 10
    del config.scale
    same(fast(X), f(X))


def test_a_lookup_of_its_own():
    class Config:
        names = {"width": "hidden"}

        def __getattribute__(self, name):
            if name != "names" and name in super().__getattribute__("names"):
                name = super().__getattribute__("names")[name]
            return super().__getattribute__(name)

    config = Config()
    config.hidden = 3

    def f(x):
        return x * config.width + config.hidden

    fast = check(f, (X,))
    config.hidden = 4
    same(fast(X), f(X))
    Config.names["width"] = "other"
    config.other = 7
    same(fast(X), f(X))


def test_metaclasses_properties_and_named_arguments():
    class Meta(type):
        def __instancecheck__(cls, instance):
            return getattr(instance, "is_block", False)

    class Block(metaclass=Meta):
        pass

    class Thing:
        is_block = True
        _value = 2

        @property
        def value(self):
            return self._value

        @staticmethod
        def double(x):
            return x * 2

        @classmethod
        def label(cls, x, *rest, by=3, **more):
            return cls.double(x) * by + len(rest) + len(more)

    thing = Thing()

    def f(x):
        base = x * thing.value if isinstance(thing, Block) else x
        return thing.label(base, 1, 2, by=4, extra=None), Thing.double(base)

    fast = check(f, (X,))
    Thing._value = 5
    same(fast(X), f(X))
    Thing.is_block = False
    same(fast(X), f(X))
    Thing.double = staticmethod(lambda x: x - 1)
    same(fast(X), f(X))


def test_sets_that_are_equal_but_ordered_otherwise():
    numbers = {"s": {1, 9, 17}}

    def f(x):
        for n in numbers["s"]:
            x = x * 2 + n
        return x

    fast = compiled(f)
    same(fast(X), f(X))
    numbers["s"] = set()
    for n in (17, 9, 1):
        numbers["s"].add(n)
    same(fast(X), f(X))
    same(compiled(lambda x: [x, *numbers["s"]])(X), [X, *numbers["s"]])
    check(lambda x: x + sum({1, 2, 3}) if 2 in numbers["s"] else x - 1, (X,))


def test_super_looks_behind_the_class_of_its_cell():
    class Root:
        def scale(self, x):
            return x * 2

    class Middle(Root):
        def scale(self, x):
            return super().scale(x) + 1

    class Leaf(Middle):
        def scale(self, x):
            return super().scale(x) * 3

    leaf = Leaf()
    fast = check(lambda x: leaf.scale(x), (X,))
    Root.scale = lambda self, x: x * 5
    same(fast(X), leaf.scale(X))
    Leaf.scale.__closure__[0].cell_contents = Middle
    same(fast(X), leaf.scale(X))
