"""Classes derived from torch.Tensor and Parameter that leave to these what operators do with their instances."""

import compiling
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
        plain = value.detach().as_subclass(torch.Tensor)
        elements = plain.round(decimals=4).tolist() if plain.is_floating_point() else plain.tolist()
        return type(value), elements, value.requires_grad, attributes
    return [seen(one) for one in value] if isinstance(value, (list, tuple)) else value


def in_one_graph(function, arguments):
    compiling.in_one_graph(function, arguments, seen)


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


class Loud(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return super().__torch_function__(func, types, args, kwargs or {})


class Cosine(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func is torch.Tensor.sin:
            func = torch.cos
        return super().__torch_function__(func, types, args, kwargs or {})


class Silent(torch.Tensor):
    __torch_function__ = torch._C._disabled_torch_function_impl


class Box(torch.Tensor):
    """As torchvision's: only some operators keep the class, and what it knows."""

    def __new__(cls, data, *, canvas):
        box = torch.Tensor._make_subclass(cls, data)
        box.canvas = canvas
        return box

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        with torch._C.DisableTorchFunctionSubclass():
            result = func(*args, **(kwargs or {}))
        if func in (torch.Tensor.clone, torch.Tensor.mul) and not isinstance(result, Box):
            result = Box(result, canvas=args[0].canvas)
        return result

    @property
    def width(self):
        return self[..., 2] - self[..., 0]


class Marked(torch.Tensor):
    def __init__(self, data, mark="none"):
        self.mark = mark

    @staticmethod
    def __new__(cls, data, mark="none"):
        return torch.Tensor._make_subclass(cls, data, False)

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        result = super().__torch_function__(func, types, args, kwargs or {})
        if isinstance(result, Marked):
            result.mark = func.__name__
        return result


class Quiet(nn.Parameter):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **(kwargs or {}))


class Usual(nn.Parameter):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return super().__torch_function__(func, types, args, kwargs or {})


def items_stored(x):
    y = (x * 2).as_subclass(Loud)
    y[0] = 5
    y[1:] = y[0] + 1
    y[:, 0] = x[:, 0]
    return y * 2


def item_of_a_class_stored(x):
    y = x * 2
    y[0] = x[0].as_subclass(Loud) * 3
    return y


HANDLED = {
    "items_stored": items_stored,
    "item_of_a_class_stored": item_of_a_class_stored,
    "default": lambda x: x.as_subclass(Loud).sin() + 1,
    "other_function": lambda x: x.as_subclass(Cosine).sin() + x.as_subclass(Cosine).cos(),
    "disabled": lambda x: (x.as_subclass(Silent), x.as_subclass(Silent) * 2),
    "asked": lambda x: (x.as_subclass(Loud).shape, isinstance(x.as_subclass(Loud) + 1, Loud)),
    "function": lambda x: torch.nn.functional.relu(x.as_subclass(Loud)).sum(1),
    "back": lambda x: (x.as_subclass(Loud) + 1).as_subclass(torch.Tensor),
    "made": lambda x: Marked(x, "a").sin() + 1,
    "made_of_parts": lambda x: Box(x, canvas=(3, 4)).clone() * 2,
    "make_subclass": lambda x: (
        torch.Tensor._make_subclass(Named, x) + 1,
        torch.Tensor._make_subclass(Loud, x, False),
    ),
    "within": lambda x: torch.stack([x.as_subclass(Loud), x]),
    "written": lambda x: (x * 2).as_subclass(Loud).add_(1).mul_(2),
}


@pytest.mark.parametrize("name", HANDLED)
@pytest.mark.parametrize("grad", [False, True])
def test_handlers_of_what_is_made(name, grad):
    with torch.set_grad_enabled(grad):
        in_one_graph(HANDLED[name], lambda number: (fresh(number),))


GIVEN = {
    "default": (lambda y: (y.sin() + 1, y.shape), lambda number: fresh(number).as_subclass(Loud)),
    "other_function": (lambda y: y.sin() + y * torch.ones(3), lambda number: fresh(number).as_subclass(Cosine)),
    "disabled": (lambda y: y.sin() + 1, lambda number: fresh(number).as_subclass(Silent)),
    "attribute": (lambda b: (b.clone(), b * 2, b + 1, b.canvas), lambda number: Box(fresh(number), canvas=(3, 4))),
    "property": (lambda b: b.width + 1, lambda number: Box(fresh(number), canvas=(3, 4))),
    "marked": (lambda y: y.cos() * 2, lambda number: Marked(fresh(number), "given")),
}


@pytest.mark.parametrize("name", GIVEN)
def test_handlers_of_what_is_given(name):
    function, given = GIVEN[name]
    in_one_graph(function, lambda number: (given(number),))


def test_attributes_of_what_is_given_are_guarded():
    def f(b):
        return b * 2, b * b.canvas[0]

    compiled = braze.compile(f)
    for number, canvas in enumerate([(1, 2), (1, 2), (3, 2), (1, 5), (3, 2)]):
        box = Box(fresh(number), canvas=canvas)
        assert seen(compiled(box)) == seen(f(box))


@pytest.mark.parametrize("cls", [Loud, Quiet, Usual])
def test_parameters_with_a_handler(cls):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            weight = torch.full((3, 3), 0.5)
            self.weight = cls(weight) if issubclass(cls, nn.Parameter) else nn.Parameter(weight.as_subclass(cls))

        def forward(self, x):
            return torch.nn.functional.linear(x, self.weight) + self.weight.sum()

    ours, theirs = Net(), Net()
    compiled = braze.compile(ours)
    for number in range(4):
        one, other = compiled(fresh(number)), theirs(fresh(number))
        assert seen(one) == seen(other)
        one.sum().backward()
        other.sum().backward()
        assert seen(ours.weight.grad) == seen(theirs.weight.grad)
    assert compiled.counts() == {"captured": 1, "replayed": 3, "native": 0} and compiled.reasons() == {}


def noting_into(noted):
    """A class whose handler notes the names of what it handles."""

    class Notes(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            noted.append(func.__name__)
            return super().__torch_function__(func, types, args, kwargs or {})

    return Notes


def test_handlers_that_note_what_they_see():
    noted = []
    Notes = noting_into(noted)
    compiled = braze.compile(lambda x: (x + 1).sin())
    for _ in range(4):
        noted.clear()
        assert type(compiled(fresh().as_subclass(Notes))) is Notes
        assert noted == ["add", "sin"]


def test_a_handler_that_is_replaced(monkeypatch):
    def f(x):
        return x.sin() + 1

    compiled = braze.compile(f)
    for change in (False, False, True, True):
        if change:
            monkeypatch.setattr(
                Loud, "__torch_function__", classmethod(lambda cls, func, types, args=(), kwargs=None: fresh())
            )
        assert seen(compiled(fresh(1).as_subclass(Loud))) == seen(f(fresh(1).as_subclass(Loud)))


def test_handlers_below_code_that_is_not_watched():
    """Such code may call them, and what they do would happen at no replay."""

    noted = []
    Notes = noting_into(noted)

    def f(x):
        return torch.utils._pytree.tree_map(lambda y: y * 2, [x, (x, x)]), torch.vmap(lambda y: y + 1)(x)

    compiled = braze.compile(f)
    for _ in range(3):
        noted.clear()
        one = compiled(fresh().as_subclass(Notes))
        ours = list(noted)
        noted.clear()
        other = f(fresh().as_subclass(Notes))
        assert ours == noted
        assert seen(one) == seen(other)


def test_errors_leave_subclasses_enabled():
    def f(x, y):
        return x.as_subclass(Named) @ y

    compiled = braze.compile(f)
    with pytest.raises(RuntimeError):
        compiled(fresh(), fresh())
    assert torch._C._is_torch_function_enabled()
    assert type(fresh().as_subclass(Named) + 1) is Named
