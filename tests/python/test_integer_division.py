"""Divisions of integers, which raise where a divisor is zero, and what else computes by remainders; and the other
check that kernels make of elements, that of probabilities."""

import oracle
import pytest
import torch
import torch.nn.functional as F
from oracle import check_kernels

import braze

DTYPES = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
DIVISIONS = {
    "floor": lambda x, y: x // y,
    "div floor": lambda x, y: torch.div(x, y, rounding_mode="floor"),
    "trunc": lambda x, y: torch.div(x, y, rounding_mode="trunc"),
    "remainder": torch.remainder,
    "fmod": torch.fmod,
    "of a number": lambda x, y: 7 % y + x,
}


def integers(shape, dtype, low):
    x = torch.randint(low, 100, shape)
    return (x if dtype == torch.uint8 else torch.where(torch.rand(shape) > 0.5, x, -x)).to(dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", DIVISIONS)
def test_divisions(name, dtype):
    for columns in (1, 3, 33, 70):  # lanes of a tail hold zeros, which are nobody's divisors
        x, y = integers((5, columns), dtype, 0), integers((5, columns), dtype, 1)
        check_kernels(DIVISIONS[name], x, y)
    check_kernels(DIVISIONS[name], x.t().contiguous().t(), y)
    check_kernels(DIVISIONS[name], x, y[:1])
    check_kernels(DIVISIONS[name], x, y[0, 0])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", DIVISIONS)
def test_a_divisor_of_zero(name, dtype):
    x, y = integers((5, 70), dtype, 0), integers((5, 70), dtype, 1)
    for place in ((0, 0), (4, 69), (2, 40)):
        zero = y.clone()
        zero[place] = 0
        assert oracle.check(DIVISIONS[name], (x, zero)) is None
        program = braze.trace(DIVISIONS[name], (x, y), check=False)
        with pytest.raises(braze.Error, match="ZeroDivisionError"):
            program(x, zero)
        assert torch.equal(program(x, y), DIVISIONS[name](x, y))


def test_nothing_is_written_before_a_division_fails():
    def written(x, y):
        x.add_(1)
        return x.floor_divide_(y)

    x, y = torch.arange(9), torch.arange(9)
    program = braze.trace(written, (x.clone(), y + 1), check=False)
    with pytest.raises(braze.Error, match="ZeroDivisionError"):
        program(x, y)
    assert torch.equal(x, torch.arange(9))


def test_zeros_that_divide_nothing():
    zero = torch.tensor(0)
    oracle.check(lambda x, y: (x // y, (x % y).sum(1)), (torch.ones(4, 0, dtype=torch.int64), zero))
    check_kernels(lambda x, y: F.pad(x // y, (3, 2)) + 1, torch.arange(6), torch.arange(1, 7))
    check_kernels(lambda x, y: (F.pad(x, (3, 2)) // y).sum(), torch.arange(6), torch.arange(1, 12))
    check_kernels(lambda x, y: (x // y).sum(0), torch.arange(330).view(10, 33), torch.arange(1, 34))
    check_kernels(lambda y: torch.cat([5 // y, y])[2:] // torch.arange(1, 9), torch.arange(1, 6))


def test_bools_among_divisors():
    x, y = torch.arange(4), torch.ones(4, dtype=torch.bool)
    check_kernels(lambda x, y: (x // y, x % y), x, y)
    oracle.check(lambda x, y: x // y, (x, ~y))
    oracle.check(lambda x, y: x // y, (y, y))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_divisors_in_common(dtype):
    info = torch.iinfo(dtype)
    edges = torch.tensor([0, 1, 2, 6, info.max, info.max - 1, info.min, info.min + 1, 12], dtype=dtype)
    check_kernels(lambda x: torch.gcd(x[:, None], x), edges)
    small = torch.tensor([0, 1, 2, 6, 12, 35, 100, 127], dtype=dtype)
    check_kernels(lambda x: torch.lcm(x[:, None], x), small if dtype == torch.uint8 else torch.cat([small, -small]))
    check_kernels(
        lambda x, y: (torch.gcd(x, y), x.gcd_(y)), integers((3, 37), dtype, 0), integers((3, 37), dtype, 0)
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_binary_cross_entropy(dtype, reduction):
    x, y, weight = torch.rand(5, 7).to(dtype), torch.rand(5, 7).to(dtype), torch.rand(7).to(dtype)
    x[0, :3] = torch.tensor([0.0, 1.0, -0.0], dtype=dtype)
    check_kernels(lambda x, y: F.binary_cross_entropy(x, y, reduction=reduction), x, y)
    check_kernels(lambda x, y: F.binary_cross_entropy(x.t(), y.t(), reduction=reduction), x, y)
    check_kernels(lambda x, y, w: F.binary_cross_entropy(x, y, w, reduction=reduction), x, y, weight)


def test_chances_that_are_none():
    x, y = torch.rand(5, 7), torch.rand(5, 7)
    program = braze.trace(F.binary_cross_entropy, (x, y), check=False)
    for wrong in (1.5, -1e-3, float("nan")):
        given = x.clone()
        given[4, 6] = wrong
        with pytest.raises(braze.Error, match="between 0 and 1"):
            program(given, y)
        assert oracle.check(F.binary_cross_entropy, (given, y)) is None
