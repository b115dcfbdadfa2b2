"""Elementwise operators on special values, against eager: in vectors, in tails and on single elements."""

import warnings

import pytest
import torch
from special_values import BINARY, DTYPES, UNARY, differences, pairs, values

import braze

# Where eager's vectors and its single elements differ, and these are right.
KNOWN = (
    "cosh torch.float64 of", "sinh torch.float64 of", "sigmoid torch.float64 of -710",
    "special.expit torch.float64",
    "2 % torch.float64", "remainder torch.float64", "fmod torch.float64",
    "F.gelu torch.float32 of inf", "F.gelu torch.bfloat16 of inf",
)  # fmt: skip


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
    found = [line for line in compared(table, arguments, length) if not line.startswith(KNOWN)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("length", [1, 7, 64])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_unary(dtype, length):
    check(UNARY, (values(dtype),), length)


@pytest.mark.parametrize("length", [1, 7, 64])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_binary(dtype, length):
    check(BINARY, pairs(dtype), length)
