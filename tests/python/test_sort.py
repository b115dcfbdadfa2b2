"""sort, argsort and topk, to the bit: also the order of equal elements, NaNs, zeros of either sign, and layouts."""

import itertools

import pytest
import torch

import braze

FLOATS = [torch.float32, torch.float64, torch.bfloat16, torch.float16]
INTEGERS = [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8]


def rows(dtype, length, distinct, special=False):
    """`distinct` different values at most: few make many equal elements."""
    x = torch.randint(0, distinct, (6, length)) - (0 if dtype is torch.uint8 else distinct // 2)
    x = x.to(dtype) if not dtype.is_floating_point else (x / 8).to(dtype)
    if special and dtype.is_floating_point and length > 4:
        for value in float("nan"), -float("nan"), float("inf"), -float("inf"), 0.0, -0.0:
            x[torch.randint(0, 6, (6,)), torch.randint(0, length, (6,))] = value
    return x


def same_bits(got, want):
    for one, other in zip(got, want, strict=True):
        assert (one.dtype, one.shape, one.stride()) == (other.dtype, other.shape, other.stride())
        assert torch.equal(one.nan_to_num(), other.nan_to_num()) and torch.equal(one.isnan(), other.isnan())
        if one.dtype.is_floating_point:
            keep = ~one.isnan()
            assert torch.equal(one[keep].signbit(), other[keep].signbit())


@pytest.mark.parametrize("dtype", FLOATS + INTEGERS, ids=str)
@pytest.mark.parametrize("length", [1, 2, 16, 17, 100, 192, 1000])
def test_sort(dtype, length):
    torch.manual_seed(length)
    for distinct, descending, stable in itertools.product([3, 100, 1 << 20], [False, True], [None, False, True]):
        x = rows(dtype, length, min(distinct, 100) if dtype in (torch.int8, torch.uint8) else distinct, True)
        options = {} if stable is None else {"stable": stable}

        def f(x, options=options, descending=descending):
            return tuple(torch.sort(x, dim=-1, descending=descending, **options))

        program = braze.trace(f, (x,), check=False)
        same_bits(program(x), f(x))


@pytest.mark.parametrize("dtype", FLOATS + INTEGERS, ids=str)
@pytest.mark.parametrize("length", [1, 17, 100, 1000, 5000])
def test_topk(dtype, length):
    torch.manual_seed(length)
    for distinct, largest, ordered in itertools.product([3, 1 << 20], [False, True], [False, True]):
        x = rows(dtype, length, min(distinct, 100) if dtype in (torch.int8, torch.uint8) else distinct, True)
        for count in sorted({0, 1, min(3, length), min(300, length), length // 64, length // 3, length}):

            def f(x, count=count, largest=largest, ordered=ordered):
                return tuple(torch.topk(x, count, -1, largest, ordered))

            same_bits(braze.trace(f, (x,), check=False)(x), f(x))


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_dimensions_and_layouts(dim):
    torch.manual_seed(dim)
    whole = torch.randn(6, 20, 70)
    layouts = {
        "contiguous": whole,
        "transposed": whole.transpose(0, 2),
        "gaps": whole[:, ::2, 1::3],
        "expanded": whole[:, :1].expand(6, 20, 70),
        "flipped from a kernel": whole,
    }
    for name, x in layouts.items():

        def f(x, name=name):
            x = x.flip(1) * 2 if name == "flipped from a kernel" else x
            values, indices = torch.sort(x, dim)
            top = torch.topk(x, 3, dim)
            return values, indices, values * 2, top.values, top.indices, torch.argsort(x, dim, descending=True)

        same_bits(braze.trace(f, (x,), check=False)(x), f(x))


def test_one_result_only_and_results_that_are_joined():
    torch.manual_seed(0)
    x = torch.randn(8, 300)

    def f(x):
        return x.sort(-1).values + 1, x.argsort(-1), torch.cat([x.sort(-1).values, x.topk(5).values], 1), x.msort()

    same_bits(braze.trace(f, (x,), check=False)(x), f(x))


def test_bools_and_scalars():
    flags = torch.tensor([[True, False, True, False, False] * 9])
    f = lambda x: tuple(torch.sort(x))  # noqa: E731
    same_bits(braze.trace(f, (flags,), check=False)(flags), f(flags))
    same_bits(braze.trace(f, (torch.tensor(3.0),), check=False)(torch.tensor(3.0)), f(torch.tensor(3.0)))
