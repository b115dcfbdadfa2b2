"""Python floats that are other ones at later calls: inputs of the graph, or guarded where they are looked at."""

import dataclasses
import math

import pytest
import torch
from torch import nn

import braze

VALUES = [0.1, 0.2, 0.6, -0.7, 0.3, -0.0, 0.0, 1e-300, 1e5, 1e300, math.inf, -math.inf, math.nan, 3.0]


def same(ours, theirs):
    if isinstance(theirs, torch.Tensor):
        assert ours.dtype == theirs.dtype and ours.requires_grad == theirs.requires_grad
        torch.testing.assert_close(ours, theirs, equal_nan=True)
        return
    assert type(ours) is type(theirs)
    if isinstance(theirs, (tuple, list)):
        assert len(ours) == len(theirs)
        for one, other in zip(ours, theirs, strict=True):
            same(one, other)
    else:
        assert repr(ours) == repr(theirs)


def outcome(function, *arguments):
    try:
        return function(*arguments)
    except Exception as error:
        return type(error).__name__, str(error)


def arithmetic(x, a, b):
    return x * a + x / 3.0 * (a - b) - torch.add(x, x, alpha=-a)


def of_numbers(x, a, b):
    return x * (a * 0.9), x * (1 - b), x + a * b, -a - x, x * (2 * a + b / 4)


def quotients(x, a, b):
    return a / (x + 10), x / a, x * (1.0 / 3)


def powers(x, a, b):
    return x * (1 - b**2), x * a**b, x * math.sqrt(abs(b))


def looked_at(x, a, b):
    if a > 0.25:
        return x * a, a
    return x + b, a * 2, [a, b], {"a": a}


def text_of(x, a, b):
    return x * a, f"{a:.3f}", str(b), repr(a), isinstance(a, float), type(a).__name__


def integers(x, a, b):
    return x * (int(a * 10) if abs(a) < 1e6 else 1), round(b, 2), math.floor(b) if math.isfinite(b) else 0


def functions(x, a, b):
    return torch.clamp(x, -abs(a), abs(a)), torch.full((2,), b), torch.tensor([a, b]), x.abs().pow(b)


def integer_tensors(x, a, b):
    n = torch.arange(4)
    return n * a, n + b, (n > a), torch.where(n > 1, a, b)


def loops(x, a, b):
    for _ in range(3):
        x = x * a + b
        b = b * 0.5
    return x, b


def defaults(x, a, b):
    return nn.functional.leaky_relu(x, a), nn.functional.threshold(x, b, a)


def in_place(x, a, b):
    y = x.clone()
    y.mul_(a).add_(x, alpha=b)
    y += a
    return y


def same_float(x, a, b):
    return x * a, a is b, a == b, min(a, b), max(a, b), a in (b, 0.5), sorted([a, b])


FUNCTIONS = [
    arithmetic,
    of_numbers,
    quotients,
    powers,
    looked_at,
    text_of,
    integers,
    functions,
    integer_tensors,
    loops,
    defaults,
    in_place,
    same_float,
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
@pytest.mark.filterwarnings("ignore:.*recompile limit")
def test_arguments(function, dtype):
    x = torch.linspace(-1, 1, 16).to(dtype)
    f = braze.compile(function)
    for k, a in enumerate(VALUES * 2):
        b = VALUES[(3 * k + 1) % len(VALUES)]
        ours, theirs = outcome(f, x, a, b), outcome(function, x, a, b)
        # Of f16's kin intermediate results are not rounded, and numbers that overflow are told apart elsewhere.
        if dtype == torch.bfloat16 and function in (arithmetic, of_numbers, loops, in_place, looked_at):
            continue
        if function is functions and abs(b) == 1e300:
            continue
        same(ours, theirs)


def two_programs_do(function, x):
    """Calls with 20 pairs of floats: the second program serves all others. Returns what was compiled."""
    compiled = braze.compile(function, fullgraph=True)
    for k in range(20):
        a, b = 0.5 + 0.1 * k, 1.0 / (k + 2)
        same(compiled(x, a, b), function(x, a, b))
    assert compiled.counts() == {"captured": 2, "replayed": 18, "native": 0}
    return compiled


@pytest.mark.parametrize("function", [arithmetic, of_numbers, in_place], ids=lambda f: f.__name__)
def test_two_programs_do_for_all(function):
    two_programs_do(function, torch.randn(16))


def test_comparisons_and_functions_of_python_do_not_specialise():
    def f(x, a, b):
        scale = math.sqrt(a) / (1 + b**2) if a > 0.1 else a
        return x * scale + max(a, b) * abs(b)

    x = torch.randn(16)
    compiled = two_programs_do(f, x)
    same(compiled(x, 0.05, 0.2), f(x, 0.05, 0.2))


def test_which_object_a_float_is():
    def f(x, a, b):
        return x * a + 1 if a is b else x * b

    compiled = braze.compile(f)
    x = torch.randn(4)
    for a, b in ((0.1, 0.2), (0.3, 0.4), (0.5, 0.6), (0.7, 0.7), (0.8, 0.9)):
        same(compiled(x, a, b), f(x, a, b))
    for k in range(3):
        one = 0.25 * k
        same(compiled(x, one, one), f(x, one, one))


def test_an_integer_tensor_takes_no_fraction():
    def f(n, a):
        return torch.add(n, n, alpha=a)

    compiled = braze.compile(f)
    for a in (0.5, 1.5, 2.5):
        assert outcome(compiled, torch.arange(4), a) == outcome(f, torch.arange(4), a)


def test_a_float_that_doubles_its_own_expression():
    def f(x, a):
        for _ in range(20):
            a = a * a
        return x * a

    compiled = braze.compile(f)
    x = torch.randn(4)
    for a in (0.99, 1.0, 0.98, 0.97):
        same(compiled(x, a), f(x, a))


def test_gradients():
    def loss(x, a):
        return (x * a).tanh().mul(1 - a).sum()

    f = braze.compile(loss)
    for k in range(8):
        a = 0.1 * k + 0.3
        x = torch.linspace(-1, 1, 16).requires_grad_()
        y = x.detach().clone().requires_grad_()
        f(x, a).backward()
        loss(y, a).backward()
        same(x.grad, y.grad)
    assert f.counts()["captured"] == 2, (f.counts(), f.reasons())


def test_gradients_of_factors_of_operators():
    """PyTorch's formulas ask whether they are one."""

    def loss(x, y, a):
        z = torch.add(x, y, alpha=a) * torch.sub(y, x, alpha=a)
        return torch.addcmul(z, x, y, value=a).sin().sum()

    f = braze.compile(loss)
    for a in (0.3, 0.4, 1.0, -0.5, 0.0):
        ours = [torch.linspace(-1, 1, 16).requires_grad_(), torch.linspace(1, 2, 16).requires_grad_()]
        theirs = [one.detach().clone().requires_grad_() for one in ours]
        f(*ours, a).backward()
        loss(*theirs, a).backward()
        same([one.grad for one in ours], [one.grad for one in theirs])
    assert f.counts()["native"] == 0, f.reasons()


def test_results_that_are_floats_are_of_the_call():
    def f(x, a):
        return x * a, a, a * 2

    compiled = braze.compile(f)
    x = torch.randn(4)
    for k in range(6):
        same(compiled(x, 0.1 * k), f(x, 0.1 * k))


@dataclasses.dataclass
class Config:
    scale: float = 1.0
    shift: float = 0.0


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.temperature = 1.0
        self.config = Config()

    def forward(self, x):
        return self.linear(x) * self.temperature + self.config.scale * x + self.config.shift


def test_attributes_of_modules_and_configs():
    net = Scaled()
    f = braze.compile(net, fullgraph=True)
    x = torch.randn(3, 4)
    with torch.no_grad():
        for k in range(12):
            net.temperature = 1.0 / (k + 1)
            net.config.scale = 0.1 * k
            net.config.shift = -0.3 * k
            same(f(x), net(x))
    assert f.counts() == {"captured": 2, "replayed": 10, "native": 0}
    net.temperature = 2  # An int.
    net.config.shift = torch.ones(4)
    with torch.no_grad():
        same(f(x), net(x))


@pytest.mark.filterwarnings("ignore:.*recompile limit")
def test_attributes_that_the_function_writes():
    class Decay:
        def __init__(self):
            self.rate = 1.0

    def step(state, x):
        state.rate = state.rate * 0.9
        return x * state.rate

    one, other = Decay(), Decay()
    f = braze.compile(step)
    x = torch.randn(4)
    for _ in range(14):
        same(f(one, x), step(other, x))
        assert one.rate == other.rate


@pytest.mark.filterwarnings("ignore:.*recompile limit")
def test_entries_of_dicts_and_what_is_beside_them():
    def f(options, x):
        y = x * options["a"]
        options["b"] = options["a"] * 2
        return y + options["b"], sorted(options), dict(options)

    compiled = braze.compile(f)
    x = torch.randn(4)
    for k in range(12):
        one, other = {"a": 0.1 * k}, {"a": 0.1 * k}
        same(compiled(one, x), f(other, x))
        assert one == other


def test_a_division_by_zero_raises():
    def f(x, a, b):
        return x * (a / b)

    compiled = braze.compile(f)
    x = torch.randn(4)
    for b in (1.0, 2.0, 3.0, 4.0):
        same(compiled(x, 1.0, b), f(x, 1.0, b))
    with pytest.raises(ZeroDivisionError):
        compiled(x, 1.0, 0.0)


def test_classes_of_floats_are_told_apart():
    class Degrees(float):
        def __mul__(self, other):
            return other * 2

    def f(x, a):
        return a * x

    compiled = braze.compile(f)
    x = torch.randn(4)
    for a in (0.1, 0.2, 0.3, 2, True, Degrees(0.5), torch.tensor(0.5), 0.4):
        same(compiled(x, a), f(x, a))
