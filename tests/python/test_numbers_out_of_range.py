"""Numbers that the type of a tensor cannot hold: eager converts them, or raises, each operator in its own way."""

import math
import operator

import pytest
import torch
from compare import copies
from torch.nn import functional as F

import braze

HALVES = (torch.bfloat16, torch.float16)
LARGE, SMALL = 1e300, 1e-300

CASES = {
    "full": lambda x: torch.full((2,), LARGE) + x.float(),
    "full of a type": lambda x: torch.full((2,), LARGE, dtype=x.dtype),
    "full_like": lambda x: torch.full_like(x, LARGE),
    "fill_": lambda x: x.clone().fill_(LARGE),
    "lerp": lambda x: x.lerp(x + 1, LARGE),
    "pow": lambda x: x.pow(SMALL),
    "pow of a number": lambda x: torch.pow(LARGE, x.abs()),
    "add": lambda x: torch.add(x, x, alpha=LARGE),
    "sub": lambda x: torch.sub(x, x, alpha=LARGE),
    "clamp": lambda x: x.clamp(max=LARGE),
    "masked_fill": lambda x: x.masked_fill(x > 0, LARGE),
    "where": lambda x: torch.where(x > 0, x, LARGE),
    "threshold": lambda x: F.threshold(x, LARGE, LARGE),
    "leaky_relu": lambda x: F.leaky_relu(x, LARGE),
    "elu": lambda x: F.elu(x, LARGE),
    "celu": lambda x: torch.celu(x, LARGE),
    "hardtanh": lambda x: F.hardtanh(x, -LARGE, LARGE),
    "softplus": lambda x: F.softplus(x, LARGE),
    "hardshrink": lambda x: F.hardshrink(x, LARGE),
    "softshrink": lambda x: F.softshrink(x, LARGE),
    "addcmul": lambda x: torch.addcmul(x, x, x, value=LARGE),
    "addcdiv": lambda x: torch.addcdiv(x, x, x, value=LARGE),
    "pad": lambda x: F.pad(x, (1, 1), value=LARGE),
    "scatter": lambda x: x.scatter(0, torch.tensor([0]), LARGE),
    "index_fill": lambda x: x.index_fill(0, torch.tensor([0]), LARGE),
    "huber_loss": lambda x: F.huber_loss(x, x + 1, delta=LARGE, reduction="none"),
    "smooth_l1_loss": lambda x: F.smooth_l1_loss(x, x + 1, beta=LARGE, reduction="none"),
    "nan_to_num": lambda x: torch.nan_to_num(x, nan=LARGE),
    "arithmetic": lambda x: (x + LARGE, x * LARGE, x / LARGE, x * SMALL, torch.rsub(x, LARGE)),
    "comparisons": lambda x: (x == LARGE, x < LARGE),
}

OF_INTEGERS = {
    "full": lambda x: torch.full((2,), 300, dtype=x.dtype),
    "masked_fill": lambda x: x.masked_fill(x > 0, 300),
    "clamp": lambda x: x.clamp(max=300),
    "fill_": lambda x: x.clone().fill_(300),
    "add": lambda x: torch.add(x, x, alpha=300),
}


def outcome(function, x):
    try:
        with torch.no_grad():
            return function(copies(x)), None
    except (RuntimeError, ValueError, OverflowError) as error:
        return None, str(error).splitlines()[0]


def same_as_eager(f, x):
    wanted, error = outcome(f, x)
    got, raised = outcome(braze.compile(f), x)
    if error:
        assert raised and error in raised
        return
    assert not raised
    several = wanted if isinstance(wanted, tuple) else (wanted,)
    for one, other in zip(got if isinstance(got, tuple) else (got,), several, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.float32, *HALVES, torch.float64])
@pytest.mark.parametrize("name", CASES)
def test_of_floats(name, dtype):
    same_as_eager(CASES[name], torch.tensor([-2.0, 3.0], dtype=dtype))


@pytest.mark.parametrize("dtype", [torch.int8, torch.int32])
@pytest.mark.parametrize("name", OF_INTEGERS)
def test_of_integers(name, dtype):
    same_as_eager(OF_INTEGERS[name], torch.tensor([-2, 3], dtype=dtype))


@pytest.mark.parametrize("exponent", [2.0000000001, 3.00000001, -1.0000000001, SMALL, 2.5])
@pytest.mark.parametrize("size", [1, 67])
def test_exponents_that_are_whole_in_f32_alone(exponent, size):
    """ATen's vectors round them, and its single elements do not: NaN or a number at a negative base."""
    x = -torch.rand(size) - 1
    wanted = x.pow(exponent)
    assert torch.equal(braze.compile(lambda x: x.pow(exponent))(x).isnan(), wanted.isnan())


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("op", [operator.attrgetter("add"), operator.attrgetter("sub")])
def test_alpha_is_rounded_to_the_type_of_the_tensors(op, dtype):
    function = op(torch)
    x, y = torch.randn(1000).to(dtype), torch.randn(1000).to(dtype)
    for alpha in (0.1, 1 / 3, 2.7):
        got = braze.compile(lambda x, y, alpha=alpha: function(x, y, alpha=alpha))(x, y)
        rounded = function(x.double(), y.double(), alpha=torch.tensor(alpha, dtype=dtype).item())
        assert (got != function(x, y, alpha=alpha)).sum() <= 5  # where eager rounds the product in between or not
        assert (got.double() - rounded).abs().max() <= (rounded.abs() * torch.finfo(dtype).eps).max()


#: Tensors made of a number that each call gives anew, and ranges between such. Eager raises for what does not fit.
OF_A_NUMBER = {
    "tensor": lambda x, n: torch.tensor(n, dtype=torch.int8),
    "tensor of a list": lambda x, n: torch.tensor([n, 3], dtype=torch.int16),
    "tensor of lists": lambda x, n: torch.tensor([[n], [1]], dtype=torch.uint8),
    "tensor of a tuple": lambda x, n: torch.tensor((n,), dtype=torch.int32),
    "tensor of what is computed": lambda x, n: torch.tensor([n * 2 - 1, n], dtype=torch.int32),
    "tensor beside a truth": lambda x, n: torch.tensor([True, n], dtype=torch.int8),
    "tensor of no type": lambda x, n: torch.tensor([n, 1.5], dtype=None),
    "as_tensor": lambda x, n: torch.as_tensor([n], dtype=torch.int8),
    "asarray": lambda x, n: torch.asarray([n], dtype=torch.int16),
    "new_tensor": lambda x, n: x.int().new_tensor([n, 2]),
    "IntTensor": lambda x, n: torch.IntTensor([n]),
    "full": lambda x, n: torch.full((2,), n, dtype=torch.int16),
    "scalar_tensor": lambda x, n: torch.scalar_tensor(n, dtype=torch.int8),
    "a range": lambda x, n: torch.arange(n, n + 2),
    "a range from before": lambda x, n: torch.arange(n - 2, n),
    "a range of steps": lambda x, n: torch.arange(n - 4, n, 2),
    "a narrow range": lambda x, n: torch.arange(n - 1, n, dtype=torch.int8),
    "a truth of it": lambda x, n: x.char().logical_and(torch.tensor(n)),
    "a choice by it": lambda x, n: torch.where(x > 0, x.char(), torch.tensor(n)),
}
NUMBERS = [3, 4, 100, 127, 128, 255, 256, -1, -129, 2**15, 2**16 - 1, 2**31 - 1, 2**31, -(2**31) - 1, 2**32]
NUMBERS += [2**62, 2**63 - 2, 2**63 - 1, -(2**63), 2**63, 5]


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("name", OF_A_NUMBER)
def test_of_a_number_that_varies(name, dynamic):
    f = OF_A_NUMBER[name]
    compiled = braze.compile(f, dynamic=dynamic, options={"recompile_limit": 100})
    x = torch.tensor([-2.0, 0.0, 3.0])
    for number in NUMBERS:
        wanted, error = outcome(lambda x, number=number: f(x, number), x)
        got, raised = outcome(lambda x, number=number: compiled(x, number), x)
        assert raised == error, number
        if not error:
            torch.testing.assert_close(got, wanted, rtol=0, atol=0, msg=str(number))


FLOATS = [2.5, 3.0, 100.0, 300.0, -4.0, 1e6, 1e10, 1e19, math.inf, -math.inf, math.nan]

#: What is made by a number that a tensor holds.
OF_A_FLOAT = {
    "full_like": lambda x, n: torch.full_like(x, n.item()),
    "new_full": lambda x, n: x.new_full((2,), n.item()),
    "fill_": lambda x, n: x.clone().fill_(n.item()),
    "fill_diagonal_": lambda x, n: x.clone().reshape(1, -1).fill_diagonal_(n.item()),
    "index_fill by a number": lambda x, n: x.index_fill(0, torch.tensor([0]), n.item()),
    "index_fill by a tensor": lambda x, n: x.index_fill(0, torch.tensor([0]), n),
    "masked_fill by a tensor": lambda x, n: x.masked_fill(x > 0, n),
    "fill by a tensor": lambda x, n: torch.fill(x, n),
    "fill by a tensor with dimensions": lambda x, n: torch.fill(x, n.reshape(1)),
}


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8, torch.int8, torch.float16, torch.float32])
@pytest.mark.parametrize("name", OF_A_FLOAT)
def test_of_a_float_that_varies(name, dtype):
    f = OF_A_FLOAT[name]
    compiled = braze.compile(f, options={"recompile_limit": 100})
    x = torch.tensor([0, 1, 3]).to(dtype)
    for number in map(torch.tensor, FLOATS):
        wanted, error = outcome(lambda x, number=number: f(x, number), x)
        got, raised = outcome(lambda x, number=number: compiled(x, number), x)
        assert raised == error, number
        if not error:
            torch.testing.assert_close(got, wanted, rtol=0, atol=0, equal_nan=True, msg=str(number))


@pytest.mark.parametrize("name", ["logical_and", "logical_or", "logical_xor"])
@pytest.mark.parametrize(
    "element", [torch.tensor(256), torch.tensor(1e-60, dtype=torch.float64), torch.tensor(1e-9)]
)
@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16, torch.float16, torch.float32, torch.bool])
def test_the_truth_of_a_wider_element_is_that_of_the_tensors_type(name, element, dtype):
    for x in (torch.tensor([0, 1, 0, 3]).to(dtype), torch.tensor(1).to(dtype)):
        same_as_eager(lambda x: (getattr(x, name)(element), getattr(torch, name)(element, x)), x)
        same_as_eager(lambda x: getattr(x, name + "_")(element), x)
