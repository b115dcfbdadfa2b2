"""Classes derived from torch.Tensor and Parameter that leave to these what operators do with their instances."""

import pytest
import torch
from torch import nn

import braze
from braze._load import C

pytestmark = pytest.mark.skipif(not hasattr(C, "CompiledFunction"), reason="no evaluator for this Python")


class Named(torch.Tensor):
    label = "named"

    def twice(self):
        return self * 2


class Other(Named):
    pass


class OwnParameter(nn.Parameter):
    def scaled(self, by):
        return self * by


def fresh(number=0):
    return torch.arange(6.0).reshape(2, 3) + number


def seen(value):
    if isinstance(value, torch.Tensor):
        attributes = {name: seen(one) for name, one in vars(value).items()}
        return type(value), value.as_subclass(torch.Tensor).tolist(), value.requires_grad, attributes
    return [seen(one) for one in value] if isinstance(value, (list, tuple)) else value


def in_one_graph(function, arguments, calls=4):
    compiled = C.CompiledFunction(function)
    for number in range(calls):
        assert seen(compiled(*arguments(number))) == seen(function(*arguments(number)))
    assert compiled.counts() == {"captured": 1, "replayed": calls - 1, "native": 0}, compiled.reasons()
    found = braze.explain(function)(*arguments(0))
    assert found.graph_count <= 1 and found.graph_break_count == 0, found.break_reasons


MADE = {
    "as_subclass": lambda x: (x * 2).as_subclass(Named) + 1,
    "of_an_argument": lambda x: x.as_subclass(Named),
    "method": lambda x: x.as_subclass(Named).twice(),
    "attribute_of_the_class": lambda x: (x + 1, x.as_subclass(Other).label),
    "asked_for": lambda x: (
        x.as_subclass(Named) * 2,
        isinstance(x.as_subclass(Other) + 1, Named),
        type(x).__name__,
    ),
    "two_classes": lambda x: (x.as_subclass(Named) + x.as_subclass(Other), x.as_subclass(Other) * x),
    "back": lambda x: torch.add(x.as_subclass(Named), 1).as_subclass(torch.Tensor),
    "shape": lambda x: (x.as_subclass(Named).shape, x.as_subclass(Named).dtype, x.as_subclass(Named) + 1),
    "tuple": lambda x: (x.as_subclass(Named).max(1), x.as_subclass(Named).chunk(2)),
    "written": lambda x: (x * 2).as_subclass(Named).add_(1).mul_(2),
    "index": lambda x: x.as_subclass(Named)[0, 1:],
}


@pytest.mark.parametrize("name", MADE)
@pytest.mark.parametrize("grad", [False, True])
def test_made(name, grad):
    with torch.set_grad_enabled(grad):
        in_one_graph(MADE[name], lambda number: (fresh(number),))


def test_with_attributes():
    def f(x):
        y = x.as_subclass(Named)
        y.tag = "a"
        return y, y + 1

    in_one_graph(f, lambda number: (fresh(number),))


@pytest.mark.parametrize("name", ["method", "tuple", "written", "index", "back"])
def test_given(name):
    in_one_graph(lambda y: MADE[name](y.as_subclass(torch.Tensor)), lambda number: (fresh(number),))
    in_one_graph(lambda y: y * 2 + torch.ones(3), lambda number: (fresh(number).as_subclass(Named),))


def test_given_and_returned():
    in_one_graph(lambda y: (y, y.twice()), lambda number: (fresh(number).as_subclass(Other),))


def test_data_and_gradients_of_those_given():
    def f(p):
        return p + 1, p.data, p.grad

    compiled = C.CompiledFunction(f)
    for number in range(3):
        leaf = fresh(number).as_subclass(Named).requires_grad_()
        (leaf * 2).sum().backward()
        with torch.no_grad():
            result, expected = compiled(leaf), f(leaf)
        assert [type(one) for one in result] == [type(one) for one in expected]
        assert seen(result) == seen(expected)


def test_another_class_is_given():
    def f(x):
        return x + 1

    compiled = braze.compile(f)
    for cls in (torch.Tensor, Named, Other, torch.Tensor, nn.Parameter, OwnParameter, Named):
        x = fresh().as_subclass(cls) if cls not in (nn.Parameter, OwnParameter) else cls(fresh())
        assert type(compiled(x)) is type(f(x))


def test_parameters_of_a_class_of_their_own():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = OwnParameter(torch.full((3, 3), 0.5))

        def forward(self, x):
            return x @ self.weight + self.weight.scaled(2)[0]

    net = Net()
    in_one_graph(net, lambda number: (fresh(number),))
    ours, theirs = Net(), Net()
    braze.compile(ours)(fresh()).sum().backward()
    theirs(fresh()).sum().backward()
    torch.testing.assert_close(ours.weight.grad, theirs.weight.grad)
    assert [type(p) for p in ours.parameters()] == [OwnParameter]


def test_trained():
    def f(x, w):
        return ((x.as_subclass(Named) @ w).sin() * 2).sum()

    compiled = braze.compile(f)
    for number in range(3):
        mine, theirs = (torch.eye(3).requires_grad_() for _ in range(2))
        one, other = compiled(fresh(number), mine), f(fresh(number), theirs)
        assert type(one) is type(other)
        one.backward()
        other.backward()
        torch.testing.assert_close(mine.grad, theirs.grad)


def test_a_torch_function_that_comes_later():
    class Late(torch.Tensor):
        pass

    def f(x):
        return x.as_subclass(Late) + 1, x * 2

    compiled = braze.compile(f)
    compiled(fresh())
    noted = []

    def note(cls, func, types, args=(), kwargs=None):
        noted.append(func)
        return super(Late, cls).__torch_function__(func, types, args, kwargs)

    Late.__torch_function__ = classmethod(note)
    compiled(fresh())
    count = len(noted)
    f(fresh())
    assert count > 0 and len(noted) == 2 * count


def test_classes_that_have_a_say_run_natively():
    class Loud(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            calls.append(func.__name__)
            return super().__torch_function__(func, types, args, kwargs)

    calls = []
    compiled = braze.compile(lambda x: x + 1)
    for _ in range(2):
        assert type(compiled(fresh().as_subclass(Loud))) is Loud
    assert calls.count("add") == 2


def test_errors_leave_subclasses_enabled():
    def f(x, y):
        return x.as_subclass(Named) @ y

    compiled = braze.compile(f)
    with pytest.raises(RuntimeError):
        compiled(fresh(), fresh())
    assert torch._C._is_torch_function_enabled()
    assert type(fresh().as_subclass(Named) + 1) is Named
