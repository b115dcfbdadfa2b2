"""Elementwise operators on special values, against eager: in vectors, in tails and on single elements."""

import itertools
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


EXTREMES = ["maximum", "minimum", "fmax", "fmin", "fmod", "remainder"]


@pytest.mark.parametrize("columns", [2, 8, 16, 32, 64])
@pytest.mark.parametrize("name", EXTREMES)
def test_rows_and_columns_that_are_broadcast(name, columns):
    """One operand of a kernel may be a single element of each row: the others are taken in vectors all the same."""
    function = getattr(torch, name)
    found = []
    for dtype in DTYPES:
        if not dtype.is_floating_point:
            continue
        column = torch.tensor([0.0, -0.0, torch.finfo(dtype).max, 3.0], dtype=dtype).reshape(4, 1)
        row = torch.tensor([-0.0, 0.5, 0.0, 2.0] * columns, dtype=dtype)[:columns]
        whole = row.expand(4, columns).contiguous()
        tensors = (column, row, whole, row[:1], whole.bool(), (whole != 0).to(torch.uint8))
        for x, y in itertools.permutations(tensors, 2):
            if torch.result_type(x, y) != dtype:
                continue
            wanted, got = function(x, y), braze.trace(function, (x, y), check=False)(x, y)
            same = torch.equal(wanted.isnan(), got.isnan())
            same &= torch.equal(wanted.nan_to_num().signbit(), got.nan_to_num().signbit())
            if not same or not torch.equal(wanted.nan_to_num(), got.nan_to_num()):
                found.append((dtype, tuple(x.shape), x.dtype, tuple(y.shape), y.dtype, wanted, got))
    assert not found, found[0]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("exponents", [torch.uint8, torch.int64, torch.float32, torch.bool], ids=str)
def test_exponents_beyond_powers_of_the_type(dtype, exponents):
    x = torch.tensor([0.0, 1.0, 1e-7, 3.0]).to(dtype)
    for y in (torch.tensor([200.0, 130.0, 20.0, 3.0]).to(exponents), torch.tensor(255.0).to(exponents)):
        try:
            wanted = torch.ldexp(x, y)
        except RuntimeError as error:
            with pytest.raises(RuntimeError) as raised:
                braze.compile(torch.ldexp)(x, y)
            assert str(raised.value) == str(error)
            continue
        got = braze.compile(lambda x, y: torch.ldexp(x, y) + 0)(x, y)
        torch.testing.assert_close(got, wanted + 0, equal_nan=True)


def assert_as_eager(function, *inputs, exactly=True):
    wanted, got = function(*inputs), braze.trace(function, inputs, check=False)(*inputs)
    wanted, got = [[one] if isinstance(one, torch.Tensor) else one for one in (wanted, got)]
    for one, other in zip(got, wanted, strict=True):
        assert one.dtype == other.dtype
        assert torch.equal(one.isnan(), other.isnan()), (one, other)
        one, other = one.nan_to_num(7), other.nan_to_num(7)
        if exactly:
            assert torch.equal(one, other) and torch.equal(one.signbit(), other.signbit()), (one, other)
        torch.testing.assert_close(one, other)


HALVES = [torch.float16, torch.bfloat16]


@pytest.mark.parametrize("limit", [1e-40, -1e-40, 1e-9, -1e-9])
@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_limits_that_the_type_has_no_number_for(dtype, limit):
    """They are zeros there, beside which a zero stays the one that it is."""
    x = torch.tensor([0.0, -0.0, 1.0, -1.0], dtype=dtype)
    assert_as_eager(lambda x: x.clamp(min=limit), x)
    assert_as_eager(lambda x: x.clamp(max=limit), x)
    assert_as_eager(lambda x: x.masked_fill(x == 1, limit), x)


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_half_types_rounded_on_the_way(dtype):
    largest = torch.finfo(dtype).max
    x = torch.tensor([[largest, 1.0, 3.0], [1.5, 0.1, -7.0]], dtype=dtype)
    y = torch.tensor([[2.0, largest, largest], [3.0, 0.3, 11.0]], dtype=dtype)
    assert_as_eager(lambda x, y: torch.linalg.cross(x, y), x, y)
    assert_as_eager(lambda x, y: torch.linalg.cross(x.mT, y.mT, dim=0), x, y)
    assert_as_eager(torch.xlogy, x, y)
    assert_as_eager(torch.special.xlog1py, x, y.abs())
    z = torch.tensor([[largest, 2.0, 1e-3], [1.1, 1.2, 1.3]], dtype=dtype)
    assert_as_eager(lambda z: (z.prod(), z.prod(1), z.prod(0, keepdim=True)), z)


@pytest.mark.parametrize("numbers", [(1.0, 1.0), (1.0, 1.0, 1e-30), (1.0, -1.0, 0.5), (0.5, 0.25)], ids=str)
def test_variances_of_the_largest(numbers):
    """Eager adds up all elements in their type for the mean."""
    x = torch.tensor(numbers) * torch.finfo(torch.float32).max
    for function in (torch.var, torch.std, lambda x: x.std(0), lambda x: x[None].var((0, 1), keepdim=True)):
        assert_as_eager(function, x, exactly=False)
    assert_as_eager(lambda x: x.expand(2, -1).var(1), x, exactly=False)


@pytest.mark.parametrize("place", [0, 1, 3])
@pytest.mark.parametrize("number", [torch.inf, -torch.inf, torch.nan])
def test_means_beside_variances_of_infinities(number, place):
    x = torch.arange(8.0).reshape(2, 4)
    x[0, place] = number
    for function in (torch.var_mean, torch.std_mean):
        assert_as_eager(function, x, exactly=False)
        assert_as_eager(lambda x, of=function: of(x, 1), x, exactly=False)
        assert_as_eager(lambda x, of=function: of(x, 0, keepdim=True), x, exactly=False)
        assert_as_eager(lambda x, of=function: of(x.mT, (0, 1)), x, exactly=False)


@pytest.mark.parametrize("length", [32, 33, 47, 70])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_quotients_that_overflow_where_vectors_leave_a_rest(dtype, length):
    x = torch.full((length,), torch.finfo(dtype).max, dtype=dtype)
    y = torch.full_like(x, 0.3)
    assert_as_eager(torch.remainder, x, y)
    assert_as_eager(lambda x, y: x.clone().fmod_(y), x, y)
    assert_as_eager(lambda x: x % 0.25, x)
    assert_as_eager(lambda x: x % 3, x)


NORMS = {
    "layer_norm": lambda x: torch.nn.functional.layer_norm(x, x.shape[-1:]),
    "group_norm": lambda x: torch.nn.functional.group_norm(x[:, None], 1),
    "rms_norm": lambda x: torch.nn.functional.rms_norm(x, x.shape[-1:]),
    "batch_norm": lambda x: torch.nn.functional.batch_norm(x, None, None, training=True),
    "instance_norm": lambda x: torch.nn.functional.instance_norm(x[None]),
}


@pytest.mark.parametrize("columns", [3, 8, 32, 64, 768])
@pytest.mark.parametrize("scale", [1e30, 1e25, -1e22, 3e-30, 1e10])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("name", NORMS)
def test_norms_whose_squares_overflow(name, dtype, scale, columns):
    """Eager's kernels make 0 or NaN of it, each in its own way."""
    if dtype is torch.float64:
        scale = scale**5 if abs(scale) > 1 else scale
    x = ((torch.arange(4.0 * columns).reshape(4, columns) % 7 + 1) * scale).to(dtype)
    expected, got = NORMS[name](x), braze.compile(NORMS[name])(x)
    torch.testing.assert_close(got, expected, equal_nan=True)


@pytest.mark.parametrize("sizes", [(64, 4), (8, 4, 6), (2, 4, 3, 5)])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_batch_norm_of_halves_with_a_mean_far_from_zero(dtype, sizes):
    """Mean and rstd are rounded to the type of the input before they are applied."""
    torch.manual_seed(0)
    x = (torch.randn(sizes) * 3 + 50).to(dtype)
    expected = torch.nn.functional.batch_norm(x, None, None, training=True)
    got = braze.compile(lambda x: torch.nn.functional.batch_norm(x, None, None, training=True))(x)
    torch.testing.assert_close(got, expected)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_erf_of_every_half(dtype):
    """ATen's formula is off by 1.5e-7, which is all that there is of a small one."""
    x = torch.arange(-(2**15), 2**15).to(torch.int16).view(dtype)
    for each in (x, x[::3], x[40:41]):
        expected, got = torch.erf(each), braze.compile(torch.erf)(each)
        torch.testing.assert_close(got, expected, rtol=torch.finfo(dtype).eps, atol=2e-7, equal_nan=True)
        assert torch.equal(got == 0, expected == 0)
        assert torch.equal(got.nan_to_num().signbit(), expected.nan_to_num().signbit())
