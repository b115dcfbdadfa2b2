"""braze.compile against plain Python: results, and that captured calls replay."""

import math
import threading

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from braze._load import C

pytestmark = pytest.mark.skipif(not hasattr(C, "CompiledFunction"), reason="no evaluator for this Python")


def compiled(function):
    return C.CompiledFunction(function)


@pytest.fixture(autouse=True)
def no_grad():
    with torch.no_grad():
        yield


def same(one, other):
    assert type(one) is type(other)
    if isinstance(one, torch.Tensor):
        torch.testing.assert_close(one, other)
        assert one.stride() == other.stride()
    elif isinstance(one, (tuple, list)):
        assert len(one) == len(other)
        for a, b in zip(one, other, strict=True):
            same(a, b)
    elif isinstance(one, dict):
        assert list(one) == list(other)
        for key in one:
            same(one[key], other[key])
    elif isinstance(one, float):
        assert one == pytest.approx(other, rel=1e-5)
    else:
        assert one == other


def in_threads(work, arguments):
    """Calls work(argument) for each argument, each in a thread of its own, all at a time."""
    threads = [threading.Thread(target=work, args=(argument,)) for argument in arguments]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def check(function, *argument_lists, replays=True):
    """The same results as natively, the first time and later; the last call of each kind is a replay."""
    fast = compiled(function)
    for arguments in argument_lists:
        for _ in range(3):
            same(fast(*arguments), function(*arguments))
    if replays:
        assert fast.reasons() == {}
        assert fast.counts() == {"captured": len(argument_lists), "replayed": 2 * len(argument_lists), "native": 0}
    return fast


X = torch.randn(4, 5)
SCALE = 2.0
SETTINGS = {"shift": 1.0, "names": ["a", "b"]}


def test_one_operator():
    check(lambda x: x + 1, (X,), (torch.randn(7),))


def test_operators_and_methods():
    def f(x, y):
        z = torch.softmax(x @ y.t(), dim=-1)
        return z.sum(-1, keepdim=True) * F.gelu(x[:, :1]) - x.mean().unsqueeze(0)

    check(f, (X, torch.randn(3, 5)))


def test_numbers_by_value():
    def f(x, n):
        return x * n if n > 1 else x + n

    fast = check(f, (X, 1), (X, 2), (X, 2.0), (X, True))
    assert len(fast.guards()) == 4


def test_globals_and_closures():
    bias = torch.randn(5)
    factor = 3

    def f(x):
        return (x + bias) * SCALE + SETTINGS["shift"] * factor + math.sqrt(4)

    check(f, (X,))


def test_containers_in_and_out():
    def f(pair, options):
        a, b = pair
        out = {"sum": a + b, "list": [a * options["k"], "text", None], "n": len(pair)}
        return out, (a - b,)

    check(f, ([X, X + 1], {"k": 3}))


def test_loops_comprehensions_and_helpers():
    def scale(x, by=2):
        return x * by

    def f(xs):
        total = torch.zeros(5)
        for i, x in enumerate(xs):
            total = total + scale(x, by=i) if i else scale(x)
        return total, [x.exp() for x in xs], sum(i for i in range(4)), max(1, len(xs)), f"{len(xs)}"

    check(f, ([torch.randn(5) for _ in range(3)],))


def test_comprehensions_hide_their_variables():
    """Their variables may live in the function around them, with what they hide (perhaps nothing) on the stack."""

    def f(xs):
        total = torch.zeros(5)
        for _ in range(2):
            total = total + sum([x * weight for x in xs for weight in (1, 2)])
        x = "hidden"
        return total, [x for x in xs], {k: xs[k] + k for k in range(2)}, x

    check(f, ([torch.randn(5) for _ in range(3)],))


class Window:
    def __init__(self, items):
        self.items = items

    def __getitem__(self, key):
        return self.items[key.start : key.stop]


def test_slices():
    text = "abcdef"

    def f(x, n):
        window = Window([x, x + 1, x * 2])
        return x[1:n], x[:, :2], [x, x][:1], text[n:], window[:2], (x, n)[1:], x[None:None]

    check(f, (X, 3))


def test_slices_of_tensors_are_stored():
    def f(x):
        y = torch.zeros(4, 5)
        y[1:3] = x[1:3]
        y[:1] = 2
        return y

    check(f, (X,))


class Scaled(torch.nn.Module):
    factor = 2

    def scale(self, x, *, by=1):
        return x * self.factor * by


class Shifted(Scaled):
    factor = 3

    def scale(self, x, *, by=1):
        bound = super().scale
        return bound(x) + super().scale(x, by=by) + super(Shifted, self).scale(x) * super().factor  # noqa: UP008

    def forward(self, x):
        return self.scale(x, by=4)


def test_super_attributes():
    check(Shifted().eval(), (X,))


def test_constants_are_returned():
    def which(x):
        if x.dim() == 2:
            return "matrix"
        return ("other", 1)

    def nothing(x):
        pass

    check(lambda x: (x + 1, which(x), which(x[0]), nothing(x)), (X,))


def test_modules():
    model = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.LayerNorm(8), nn.Linear(8, 2), nn.Dropout()).eval()
    fast = check(model, (X,), (torch.randn(2, 5),))
    model[0].weight.mul_(2)
    same(fast(X), model(X))
    model[3].bias = nn.Parameter(torch.randn(2))
    same(fast(X), model(X))
    model.train()
    torch.manual_seed(0)
    expected = model(X)
    torch.manual_seed(0)
    same(fast(X), expected)


def test_a_module_of_ones_own():
    class Block(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.norm = nn.LayerNorm(width)
            self.inner = nn.Linear(width, 4 * width)
            self.outer = nn.Linear(4 * width, width)
            self.scale = 0.5
            self.register_buffer("shift", torch.randn(width))

        @property
        def half(self):
            return self.scale

        def forward(self, x, mask=None):
            y = self.outer(F.gelu(self.inner(self.norm(x))))
            if mask is not None:
                y = y.masked_fill(mask, 0.0)
            return x + y * self.half + self.shift

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = nn.ModuleList(Block(5) for _ in range(3))

        def forward(self, x, mask=None):
            for block in self.blocks:
                x = block(x, mask=mask)
            return x

    net = Net().eval()
    fast = check(net, (X,), (X, X > 0))
    net.blocks[1].scale = 0.25
    same(fast(X), net(X))
    net.blocks[2].shift = torch.ones(5)
    same(fast(X), net(X))
    net.blocks[0].norm.register_forward_hook(lambda module, args, out: out * 2)
    same(fast(X), net(X))
    del net.blocks[0]
    same(fast(X), net(X))
    Block.forward = lambda self, x, mask=None: x * 3
    same(fast(X), net(X))


def test_methods_and_decoration():
    class Thing:
        def __init__(self, k):
            self.k = k

        @compiled
        def run(self, x):
            return x * self.k

    one, two = Thing(1), Thing(2)
    for _ in range(2):
        same(one.run(X), X)
        same(two.run(X), X * 2)
    one.k = 5
    same(one.run(X), X * 5)


def test_made_objects_and_closures():
    class Pair:
        def __init__(self, a, b):
            self.a, self.b = a, b

        def total(self):
            return self.a + self.b

    def f(x):
        pair = Pair(x, x * 2)
        pair.c = 3
        count = 0

        def bump(by):
            nonlocal count
            count += by
            return count

        bump(2)
        return pair.total() * pair.c + bump(1)

    check(f, (X,))


def test_arguments_written_in_place():
    def f(x):
        x.add_(1)
        x[0] = 7
        return x * 2

    fast = compiled(f)
    for _ in range(3):
        mine, native = X.clone(), X.clone()
        same(fast(mine), f(native))
        same(mine, native)
    assert fast.counts()["replayed"] == 2


def test_an_input_given_back():
    def f(x):
        return x, x + 1

    fast = compiled(f)
    for _ in range(3):
        assert fast(X)[0] is X


def test_aliases_among_arguments():
    def f(x, y):
        x.add_(1)
        return x + y

    fast = compiled(f)
    for one, other in ((X.clone(), X.clone()), (X.clone(), None), (X.clone(), X.clone())):
        mine = one.clone(), None if other is None else other.clone()
        native = f(one, one if other is None else other)
        same(fast(mine[0], mine[0] if other is None else mine[1]), native)


def test_no_grad_inside():
    def f(x):
        with torch.no_grad():
            y = x * 2
        return y

    check(f, (X,))


def test_gradients_are_compiled():
    w = torch.randn(5, requires_grad=True)

    def f(x):
        return (x * w).sum()

    fast = compiled(f)
    with torch.enable_grad():
        for _ in range(2):
            fast(X).backward()
    torch.testing.assert_close(w.grad, 2 * X.sum(0))
    assert fast.counts() == {"captured": 1, "replayed": 1, "native": 0}


# ---- what is not understood runs natively, once, with all its effects; what is around it is replayed ----


def with_breaks(function, *arguments):
    fast = compiled(function)
    for _ in range(6):
        same(fast(*arguments), function(*arguments))
    assert fast.counts() == {"captured": 1, "replayed": 5, "native": 0}
    return fast


def test_values_of_tensors():
    with_breaks(lambda x: x * 2 if x.sum() > 0 else x, X)
    with_breaks(lambda x: x.sum().item(), X)
    with_breaks(lambda x: (x + 1).tolist(), X)
    with_breaks(lambda x: (x * 2).numpy().sum().item(), X)
    with_breaks(lambda x: float(x.sum()), X)


def test_nothing_to_compute_before_a_break_runs_natively():
    fast = compiled(lambda x: x.tolist())
    for _ in range(6):
        assert fast(X) == X.tolist()
    assert fast.counts()["native"] == 6


def test_effects_happen_once(capsys):
    log, calls = [], {"n": 0}

    def f(x):
        y = x + 1
        log.append(1)
        calls["n"] += 1
        print("called")
        return y

    fast = compiled(f)
    for n in range(1, 7):
        same(fast(X), X + 1)
        assert (len(log), calls["n"]) == (n, n)
    assert capsys.readouterr().out == "called\n" * 6


def test_effects_in_finally_happen_once():
    trail = []

    def f(x):
        try:
            y = x + 1
            return y.item()
        except BaseException as error:
            trail.append(type(error).__name__)
            raise
        finally:
            trail.append("finally")

    fast = compiled(f)
    for n in range(1, 4):
        with pytest.raises(RuntimeError):
            fast(X)
        assert trail == ["RuntimeError", "finally"] * n


def test_exceptions():
    def f(x, kind):
        if kind == "own":
            raise KeyError("mine")
        if kind == "shape":
            return x @ x
        return x[10]

    fast = compiled(f)
    for kind, error in (("own", KeyError), ("shape", RuntimeError), ("index", IndexError)):
        for _ in range(2):
            with pytest.raises(error):
                fast(X, kind)


def test_index_out_of_range_later():
    def f(x, i):
        return x[i]

    fast = compiled(f)
    same(fast(X, torch.tensor([0, 1])), X[:2])
    with pytest.raises(IndexError, match="out of bounds|out of range"):
        fast(X, torch.tensor([0, 9]))


def test_numpy_time_and_random():
    import random
    import time

    fast = compiled(lambda x: x * (time.time() > 0))
    for _ in range(20):
        same(fast(X), X)
    assert fast.counts()["captured"] <= 8
    fast = compiled(lambda x: x * 0 + random.random())
    assert len({fast(X).sum().item() for _ in range(5)}) > 1


def test_objects_with_their_own_operators():
    class Number:
        def __init__(self):
            self.asked = 0

        def __add__(self, other):
            self.asked += 1
            return other + self.asked

    number = Number()
    fast = compiled(lambda x: number + x)
    for n in range(1, 5):
        same(fast(X), X + n)


# ---- never a stale result ----


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
    import threading

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
        import math
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
