"""Modes of torch functions that are entered around a compiled call: their handlers are part of the graph."""

import contextlib

import pytest
import torch
from compiling import same
from torch import nn
from torch.overrides import BaseTorchFunctionMode, TorchFunctionMode

import braze
from braze._load import C

pytestmark = pytest.mark.skipif(not hasattr(C, "CompiledFunction"), reason="no evaluator for this Python")
NET = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.LayerNorm(4)).requires_grad_(False)


class Scale(TorchFunctionMode):
    def __init__(self, by):
        super().__init__()
        self.by = by

    def __torch_function__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        return result * self.by if func is torch.add else result


class Seen(TorchFunctionMode):
    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.seen.append(func.__name__)
        return func(*args, **(kwargs or {}))


class Doubles(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if func is torch.ones:
            kwargs["dtype"] = torch.float64
        return func(*args, **kwargs)


class Shifts(TorchFunctionMode):
    def __init__(self, by):
        super().__init__()
        self.by = by

    def __torch_function__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        return result - self.by if func is torch.sin else result


def adds(x):
    return torch.add(x, 1) + x.sin()


def adds_to_ones(x):
    return torch.add(x, torch.ones(3)) + torch.sin(x)


def enters_another(x):
    with Scale(3):
        y = torch.add(x, 1)
    return torch.add(y, 1) + torch.sin(x)


def leaves_them_out(x):
    with torch._C.DisableTorchFunction():
        y = torch.add(x, 1)
    return torch.add(y, 1)


def writes_items(x):
    y = x.clone()
    y[0] = 5
    y[:, 1:] = torch.add(y[0, 0], x[:, :1])
    return y[1], y


FUNCTIONS = [
    writes_items,
    adds,
    adds_to_ones,
    enters_another,
    leaves_them_out,
    lambda x: NET(x) + torch.add(x, 1).sum(),
    lambda x: torch.vmap(adds)(x),
    lambda x: torch.vmap(torch.sin, out_dims=1)(x),
    lambda x: torch.vmap(lambda row, by: torch.add(row, torch.ones(3)) * by, (0, None))(x, 2),
    lambda x: torch.vmap(torch.vmap(lambda one: torch.add(one, 1)))(x),
]
AROUND = {
    "one": lambda k: [Scale(2)],
    "two": lambda k: [Scale(2), Shifts(1)],
    "the same class twice": lambda k: [Scale(2), Scale(3)],
    "factories": lambda k: [Doubles()],
    "nothing": lambda k: [BaseTorchFunctionMode()],
    "tensor": lambda k: [Shifts(torch.full((3,), float(k)))],
}


def fresh(k):
    return torch.arange(6.0).reshape(2, 3) + k


def within(modes, function, *arguments):
    with contextlib.ExitStack() as stack:
        for mode in modes:
            stack.enter_context(mode)
        return function(*arguments)


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_around(function, around):
    fast = braze.compile(function, fullgraph=True)
    for k in range(4):
        same(within(AROUND[around](k), fast, fresh(k)), within(AROUND[around](k), function, fresh(k)))
    assert fast.counts() == {"captured": 1, "replayed": 3, "native": 0}


def test_that_change():
    fast = braze.compile(adds)
    around = [[], [Scale(2)], [Scale(3)], [Scale(2)], [], [Scale(2), Scale(3)], [Scale(3), Scale(2)], [Shifts(1)]]
    for _ in range(2):
        for modes in around:
            same(within(modes, fast, fresh(0)), within(modes, adds, fresh(0)))
    assert fast.counts()["native"] == 0 and fast.reasons() == {}


@pytest.mark.parametrize("function", [adds, lambda x: torch.vmap(adds)(x)])
def test_state_of_a_mode(function):
    ours, theirs = Seen(), Seen()
    fast = braze.compile(function, fullgraph=True)
    for k in range(5):
        same(within([ours], fast, fresh(k)), within([theirs], function, fresh(k)))
        assert ours.seen == theirs.seen
    assert fast.counts()["replayed"] > 2


@pytest.mark.parametrize("dynamic", [None, True])
def test_around_vmap_within_the_function(dynamic):
    def f(x, by):
        with Scale(by):
            y = torch.vmap(lambda row: torch.add(row, row.sin()))(x)
        return torch.add(y, 1)

    fast = braze.compile(f, dynamic=dynamic)
    for k in range(8):
        gradients = []
        for function in (fast, f):
            x = (torch.arange(6.0 + 3 * (k // 3)).reshape(-1, 3) + k).requires_grad_()
            result = function(x, 2 + k // 4)
            result.sum().backward()
            gradients.append((result.detach(), x.grad))
        same(*gradients)
    assert fast.counts()["native"] == 0 and fast.counts()["replayed"] > 2


@pytest.mark.parametrize("transform", [torch.func.grad, torch.func.hessian, torch.func.jacrev, torch.func.jacfwd])
def test_around_derivatives(transform):
    def f(x):
        return transform(lambda one: torch.add(one, 1).sin().sum())(x)

    ours, theirs = Seen(), Seen()
    fast = braze.compile(f)
    for k in range(4):
        same(within([ours], fast, fresh(k)), within([theirs], f, fresh(k)))
        assert ours.seen == theirs.seen


def test_a_global_that_is_another_mode_than_that_around():
    modes = {"now": Scale(2)}

    def f(x):
        return torch.add(x, 1) * modes["now"].by

    fast = braze.compile(f)
    first = modes["now"]
    for around, now in ((first, first), (first, first), (Scale(5), first), (first, Scale(7)), (Scale(4), Scale(4))):
        modes["now"] = now
        same(within([around], fast, fresh(0)), within([around], f, fresh(0)))


def test_a_handler_that_is_replaced(monkeypatch):
    fast = braze.compile(adds)
    for _ in range(2):
        same(within([Scale(2)], fast, fresh(0)), within([Scale(2)], adds, fresh(0)))
    monkeypatch.setattr(Scale, "__torch_function__", lambda self, func, types, args=(), kwargs=None: fresh(9))
    for _ in range(2):
        same(within([Scale(2)], fast, fresh(0)), within([Scale(2)], adds, fresh(0)))


def test_a_handler_with_a_break():
    class Tells(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            print(end="")
            return func(*args, **(kwargs or {})) * 2

    fast = braze.compile(adds)
    for k in range(4):
        same(within([Tells()], fast, fresh(k)), within([Tells()], adds, fresh(k)))


def test_operators_in_python_run_without_the_modes():
    with torch.library._scoped_library("braze_modes", "DEF") as library:
        library.define("ones_like(Tensor x) -> Tensor")
        library.impl("ones_like", lambda x: x + torch.ones(x.shape), "CPU")
        library.impl("ones_like", torch.empty_like, "Meta")

        def f(x):
            return torch.ops.braze_modes.ones_like(x) * 2

        ours, theirs = Seen(), Seen()
        fast = braze.compile(f)
        for k in range(4):
            same(within([ours], fast, fresh(k)), within([theirs], f, fresh(k)))
            assert ours.seen == theirs.seen


def test_leaves_made_under_a_mode():
    def f(x):
        with torch.no_grad():
            y = torch.add(x, 1)
            y.requires_grad_()
        return y

    ours, theirs = Seen(), Seen()
    fast = braze.compile(f)
    for k in range(4):
        one, other = within([ours], fast, fresh(k)), within([theirs], f, fresh(k))
        same(one, other)
        assert one.requires_grad and other.requires_grad and ours.seen == theirs.seen


def test_trained():
    weight = torch.ones(3, requires_grad=True)

    def f(x):
        return (torch.add(x, weight) * weight).sum()

    fast = braze.compile(f)
    for k in range(4):
        one, other = within([Scale(2)], fast, fresh(k)), within([Scale(2)], f, fresh(k))
        same(one, other)
        same(torch.autograd.grad(one, weight), torch.autograd.grad(other, weight))
    assert fast.counts() == {"captured": 1, "replayed": 3, "native": 0}


class Tripled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 3

    @staticmethod
    def backward(ctx, gradient):
        return torch.add(gradient, 2 * gradient)


@pytest.mark.parametrize("is_around_backward", [False, True])
def test_a_backward_in_python_sees_the_modes_of_its_time(is_around_backward):
    def f(x):
        return (Tripled.apply(x) * 2).sum()

    fast = braze.compile(f)
    for k in range(4):
        gradients = []
        for function in (fast, f):
            x = fresh(k).requires_grad_()
            with contextlib.ExitStack() as stack:
                with Scale(2):
                    result = function(x)
                if is_around_backward:
                    stack.enter_context(Scale(5))
                result.backward()
            gradients.append(x.grad)
        same(*gradients)
