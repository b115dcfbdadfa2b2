"""super() without arguments, where a method goes on after a break; and what classes of tensors have."""

import os
import sys

import pytest
import torch
from compiling import compiled, same
from torch import nn
from torch.distributions import Gamma, Independent, Normal

from braze._load import C

pytestmark = pytest.mark.skipif(not hasattr(C, "CompiledFunction"), reason="no evaluator for this Python")
X = torch.rand(3) + 0.5


class Base:
    def __init__(self, value):
        self.value = value

    def scaled(self, x):
        self.last = x * 2
        return self.last + 1

    @property
    def kind(self):
        return 2

    @classmethod
    def made(cls, x):
        return cls(x)


class Resumed(Base):
    def __init__(self, value):
        os.getpid()
        super().__init__(value.sin())

    def scaled(self, x):
        y = x.cos()
        os.getpid()
        return super().scaled(y) * self.last


class Captured(Base):
    """`self` is a variable of an inner function, too."""

    def __init__(self, value):
        os.getpid()
        super().__init__(value.sin())
        self.again = lambda: self.value * 2

    def scaled(self, x):
        os.getpid()
        later = lambda y: super(Captured, self).scaled(y)  # noqa: E731
        return super().scaled(x) + later(x)


class ByProperty(Base):
    @property
    def kind(self):
        os.getpid()
        return super().kind + 1


class ByClass(Base):
    @classmethod
    def made(cls, x):
        os.getpid()
        return super().made(x * 2)


class Density(Independent):
    def __init__(self, loc, scale):
        os.getpid()
        super().__init__(Normal(loc, scale), 1)


CALLS = {
    "init": lambda x: Resumed(x).value + 1,
    "method": lambda x: Resumed(x).scaled(x),
    "cell": lambda x: Captured(x).again() + Captured(x).scaled(x),
    "property": lambda x: x * ByProperty(x).kind + 1,
    "class method": lambda x: ByClass.made(x).value * 2,
    "distribution": lambda x: Density(x, x.exp()).log_prob(x * 2),
}


@pytest.mark.parametrize("name", CALLS)
def test_super_after_a_break(name):
    function = CALLS[name]
    fast = compiled(function)
    with torch.no_grad():
        for number in range(5):
            x, before = X + number, fast.counts()
            same(fast(x), function(x))
            if number > 1:
                assert fast.counts()["replayed"] == before["replayed"] + 1
    # Where PyTorch's own compiler has run before, what comes after a tensor's truth within __init__ is not resumed.
    if name != "distribution" or "torch._dynamo" not in sys.modules:
        assert fast.report()["operators"]["native"] == 0


class Parametrised(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.kind = kind
        self.a, self.b = nn.Parameter(torch.rand(3) + 0.5), nn.Parameter(torch.rand(3) + 0.5)

    def forward(self, x):
        return self.kind(self.a, self.b).log_prob(x)


@pytest.mark.parametrize("kind", [Normal, Gamma, lambda a, b: Independent(Normal(a, b), 1)])
def test_distributions_of_parameters(kind):
    module = Parametrised(kind)
    fast = compiled(module.forward)
    with torch.no_grad():
        for number in range(3):
            same(fast(X + number), module(X + number))
    assert fast.counts() == {"captured": 1, "replayed": 2, "native": 0}
    assert fast.report()["operators"]["native"] == 0


def asks(x, p):
    has = [hasattr(t, "__torch_function__") for t in (x, p)]
    return x * sum(has) + p * hasattr(type(p), "_make_subclass") + x.sin()


def test_what_classes_of_tensors_have_is_asked():
    fast = compiled(asks)
    p = nn.Parameter(torch.ones(3))
    with torch.no_grad():
        for _ in range(3):
            same(fast(X, p), asks(X, p))
            same(fast(X, p.detach()), asks(X, p.detach()))
    assert fast.report()["operators"]["native"] == 0
