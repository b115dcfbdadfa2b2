"""braze.compile against plain Python: results, and that captured calls replay."""

import math

import pytest
import torch
from compiling import check, compiled, same
from torch import nn
from torch.nn import functional as F

from braze._load import C

pytestmark = pytest.mark.skipif(not hasattr(C, "CompiledFunction"), reason="no evaluator for this Python")


@pytest.fixture(autouse=True)
def no_grad():
    with torch.no_grad():
        yield


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
