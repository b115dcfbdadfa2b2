"""Elementwise operators on special values, against eager: in vectors, in tails and on single elements."""

import warnings

import pytest
import torch
from special_values import BINARY, DTYPES, UNARY, differences, pairs, values

import braze


def supported(table, arguments):
    """The operators that eager has for these types."""
    found = {}
    for name, fn in table.items():
        try:
            fn(*arguments)
            found[name] = fn
        except (RuntimeError, NotImplementedError, TypeError):
            continue
    return found


def compared(table, arguments, length):
    """Differences of all operators of the table, one program for pieces of `length` elements."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        table = supported(table, arguments)
        results = {name: ([], []) for name in table}

        def run(*pieces):
            return [_first(fn(*pieces)) for fn in table.values()]

        count = len(arguments[0])
        filled = [torch.cat([part, part[:1].expand(-count % length)]) for part in arguments]
        pieces = list(zip(*(part.split(length) for part in filled), strict=True))
        program = braze.trace(run, pieces[0], check=False)
        for piece in pieces:
            for name, got, expected in zip(table, program(*piece), run(*piece), strict=True):
                results[name][0].append(got)
                results[name][1].append(expected)
        found = []
        for name, (got, expected) in results.items():
            whole = torch.cat(got)[:count], torch.cat(expected)[:count]
            found += differences(name, lambda *x, fn=table[name]: _first(fn(*x)), arguments, *whole)
    return found


def _first(result):
    return result if isinstance(result, torch.Tensor) else result[0]


def check(table, arguments, length):
    found = compared(table, arguments, length)
    assert not found, "\n".join(found)


@pytest.mark.parametrize("length", [1, 7, 64])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_unary(dtype, length):
    check(UNARY, (values(dtype),), length)


@pytest.mark.parametrize("length", [1, 7, 64])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_binary(dtype, length):
    check(BINARY, pairs(dtype), length)


WIDER = {
    "product": lambda x, wide: x * wide,
    "product in place": lambda x, wide: x.clone().mul_(wide),
    "quotient": lambda x, wide: x / wide,
    "ldexp": lambda x, wide: torch.ldexp(x, torch.tensor(20)),
    "xlogy": lambda x, wide: torch.xlogy(x, wide),
    "xlogy of a number": lambda x, wide: torch.xlogy(x, 1e6),
    "addcmul": lambda x, wide: torch.addcmul(x, x, wide),
}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", WIDER)
def test_half_types_with_one_element_of_a_wider_type(name, dtype):
    """Products and quotients take it as it is, in f32; the others round it first, which may overflow."""
    x = torch.tensor([0.5, 1.5, 0.0, -1.0, 1e-3], dtype=dtype)
    for wide in (
        torch.tensor(1e6),
        torch.tensor(1e-8),
        torch.tensor(1 / 3, dtype=torch.float64),
        torch.tensor(70000),
    ):
        expected = WIDER[name](x, wide)
        got = braze.trace(WIDER[name], (x, wide), check=False)(x, wide)
        torch.testing.assert_close(got, expected, equal_nan=True)


def test_gelu_of_the_largest():
    """oneDNN's, of dense tensors of more than one element; else ATen's own."""
    x = torch.tensor([torch.inf, -torch.inf, torch.finfo(torch.float32).max, 1.0, -0.0, torch.nan, 2e38, 1e38])

    def each(x):
        return torch.nn.functional.gelu(x), torch.nn.functional.gelu(x[::2]), torch.nn.functional.gelu(x[:1])

    for got, expected in zip(braze.trace(each, (x,), check=False)(x), each(x), strict=True):
        assert torch.equal(got.isnan(), expected.isnan()) and torch.equal(got.isinf(), expected.isinf())
        assert torch.equal(got.nan_to_num().signbit(), expected.nan_to_num().signbit())
