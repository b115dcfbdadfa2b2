"""What numbers and tensors mean in eager, at their edges: overflow, denormals, signs of zero, places beyond 2**31,
nothing at all, overlapping elements, and tensors that are no plain arrays of numbers."""

import oracle
import pytest
import torch
from oracle import check_kernels

import braze

FLOATS = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
SIGNED = (torch.int64, torch.int32, torch.int16, torch.int8)
MANY = 2**31 + 16


def traced(fn, *args):
    program = braze.trace(fn, args, check=False)
    assert oracle.library_calls(program) == []
    return program


def same_bits(fn, x):
    """Zeros of both signs are told apart as well."""
    expected, got = fn(x), traced(fn, x)(x)
    for one, other in zip(got, expected, strict=True):
        number = ~other.isnan()
        assert torch.equal(one.isnan(), ~number), (one, other)
        assert torch.equal(one[number], other[number]), (one, other)
        assert torch.equal(one[number].signbit(), other[number].signbit()), (one, other)


@pytest.mark.parametrize("dtype", [*SIGNED, torch.uint8], ids=str)
def test_integers_wrap(dtype):
    info = torch.iinfo(dtype)
    x = torch.tensor([info.min, info.min + 1, info.max, info.max - 1, 0, 1], dtype=dtype)
    check_kernels(lambda x: (x + x, x - 1, x * x, -x, x.abs(), x + 3, ~x), x)
    check_kernels(lambda x: (x.cumsum(0), x.sum(0, dtype=x.dtype), x.prod(0, dtype=x.dtype)), x)
    check_kernels(lambda x: (x << 3, x >> 1, x.pow(3), x.square()), x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16], ids=str)
def test_denormals_are_numbers(dtype):
    info = torch.finfo(dtype)
    small = torch.tensor(info.tiny * info.eps, dtype=torch.float64)
    x = (small * torch.tensor([1, -1, 3, 100, -7])).to(dtype)
    same_bits(lambda x: (x * 1, x + x, x - x, x.abs(), x.maximum(-x), torch.where(x > 0, x, -x), x * 0.5), x)
    same_bits(lambda x: (x.amax(), x.sum(), (x != 0), x.sign(), x.double()), x)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_zero_has_a_sign(dtype):
    x = torch.tensor([0.0, -0.0, -0.3, 0.3, float("-inf")], dtype=dtype)
    same_bits(lambda x: (-x, x * -1, x * 0.5, x.round(), x.ceil(), x.trunc(), x.abs(), x.clone(), x + 0.0), x)
    same_bits(lambda x: (x - 0.0, 0.0 - x, x / 4, 1 / x, x.sqrt(), x.reciprocal(), x.float(), torch.sin(x[:4])), x)


def test_promotion():
    values = [torch.tensor([1, 0, 3]).to(dtype) for dtype in (*FLOATS, *SIGNED, torch.uint8, torch.bool)]
    for x in values:
        check_kernels(lambda x: (x + 1, x * 2.5, x + True, 2 - x.long(), torch.maximum(x, x.new_ones(()))), x)
        for y in values:
            check_kernels(lambda x, y: (x * y, x[:1] + y[0], torch.where(x > 0, x, y), x == y), x, y)


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 4), (2, 0, 3)], ids=str)
def test_nothing(shape):
    x = torch.randn(shape)
    check_kernels(
        lambda x: (
            x + 1,
            x.sum(),
            x.prod(),
            x.mean(),
            x.any(),
            x.all(),
            x.sum(0),
            x.exp().t_() if x.dim() == 2 else x,
        ),
        x,
    )
    check_kernels(
        lambda x: (torch.cat([x, x]), x.expand(2, *x.shape).contiguous(), x.flip(0), x.cumsum(-1), x.flatten()), x
    )
    oracle.check(lambda x: x.amax(), (x,))
    oracle.check(lambda x: x.argmax(-1), (x,))
    oracle.check(lambda x: x.var(), (x,))


def test_no_dimension():
    x, y = torch.tensor(2.5), torch.tensor(3)
    check_kernels(
        lambda x, y: (x * y, x.sum(), x.softmax(0), x.cumsum(0), x.expand(3), x[None], x.t(), x.amax(0), x > y),
        x,
        y,
    )
    check_kernels(lambda x, y: (x.add_(1), y.mul_(2), torch.stack([x, x])), x, y)


def test_elements_that_overlap():
    x = torch.randn(3, 1)
    wide = x.expand(3, 4)
    check_kernels(
        lambda x: (x + 1, x.sum(1), x.t().contiguous(), x.cumsum(1), torch.cat([x, x]), x[:, 1:] * 2), wide
    )
    windows = torch.arange(10.0).as_strided((4, 3), (2, 1))
    check_kernels(lambda x: (x * x, x.sum(0), x.softmax(1), x.flatten()), windows)
    oracle.check(lambda x: x.add_(1), (wide,))
    # What the overlapping elements come to depends on the order of eager's kernel: left to it.
    with pytest.raises(RuntimeError, match="more than once"):
        braze.trace(lambda x: x.mul_(2), (torch.arange(10.0).as_strided((4, 3), (2, 1)),))
    one, other = (torch.arange(10.0).as_strided((4, 3), (2, 1)) for _ in range(2))
    assert torch.equal(braze.compile(lambda x: x.mul_(2))(one), other.mul_(2)) and torch.equal(one, other)


def test_lazy_conjugates_and_negatives():
    z = torch.randn(3, 4, dtype=torch.complex64)
    oracle.check(lambda z: (z.conj() * z, z.conj().imag + 1, z.conj().imag.neg(), z.mH.clone()), (z,))
    for lazy in (z.conj(), z.conj().imag):
        with pytest.raises(braze.Error, match="lazy conjugate or negative view"):
            braze.trace(lambda x: x * 2, (lazy,))
        assert torch.equal(braze.compile(lambda x: x * 2)(lazy), lazy * 2)


# ---- places beyond 2**31, of which next to none is memory that is touched


@pytest.fixture(scope="module")
def many():
    """int8, mostly uninitialised: its ends are 0, 1, 2, 3, 4."""
    x = torch.empty(MANY, dtype=torch.int8)
    x[:5] = x[-5:] = torch.arange(5)
    return x


def test_reductions_of_more_elements_than_i32_counts():
    ones = torch.ones(1, dtype=torch.int8).expand(MANY)
    assert traced(lambda x: x.sum(), ones)(ones) == MANY
    true = torch.ones(1, dtype=torch.bool).expand(2, MANY)
    assert traced(lambda x: x.any(1), true)(true).tolist() == [True, True]


def test_elements_beyond_2_to_the_31(many):
    assert torch.equal(traced(lambda x: x[-5:] + 1, many)(many), torch.arange(1, 6, dtype=torch.int8))
    index = torch.tensor([0, MANY - 1, MANY - 3])

    def reads(x, i):
        return x[i] * 2, x.index_select(0, i) + 1, torch.gather(x, 0, i), x.take(i), x.flip(0)[:3] + 0

    program = traced(reads, many, index)
    for one, other in zip(program(many, index), reads(many, index), strict=True):
        assert torch.equal(one, other)
    for beyond in (MANY, -MANY - 1):
        with pytest.raises(IndexError, match="out of range"):
            program(many, torch.tensor([beyond, 0, 0]))


def test_rows_beyond_2_to_the_31(many):
    square = many[: 2**31].view(2**16, 2**15)
    assert torch.equal(traced(lambda x: x[0, :5].float() + 1, square)(square), torch.arange(1.0, 6))
    wide = lambda x: x.expand(2**16, 2**16)[65535, 65530:] + x  # noqa: E731
    one = torch.ones(1, dtype=torch.int8)
    assert torch.equal(traced(wide, one)(one), one.expand(6) * 2)


# ---- tensors that are no plain arrays of numbers


class Plain(torch.Tensor):
    pass


X = torch.arange(12.0).view(3, 4) / 8
UNUSUAL = {
    "sparse": lambda: X.to_sparse(),
    "compressed": lambda: X.to_sparse_csr(),
    "mkldnn": lambda: X.to_mkldnn(),
    "quantized": lambda: torch.quantize_per_tensor(X, 0.1, 0, torch.qint8),
    "nested": lambda: torch.nested.nested_tensor([X, X[:2]]),
    "jagged": lambda: torch.nested.nested_tensor([X, X[:2]], layout=torch.jagged),
    "without data": lambda: X.to("meta"),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", UNUSUAL)
def test_unusual_arguments(kind):
    x = UNUSUAL[kind]()
    with pytest.raises(braze.Error, match="`x` is"):
        braze.trace(lambda x: x * 2, (x,))
    try:
        expected = x * 2
    except RuntimeError as error:
        with pytest.raises(type(error)):
            braze.compile(lambda x: x * 2)(x)
        return
    got = braze.compile(lambda x: x * 2)(x)
    assert type(got) is type(expected)
    assert (got.layout, got.dtype, got.device) == (expected.layout, expected.dtype, expected.device)
    if kind not in ("nested", "jagged", "without data"):
        assert torch.equal(got.to_dense(), expected.to_dense())


INSIDE = {
    "sparse": lambda x: x.to_sparse().to_dense() + 1,
    "compressed": lambda x: x.to_sparse_csr().to_dense() + 1,
    "mkldnn": lambda x: x.to_mkldnn().to_dense() + 1,
    "nested": lambda x: torch.nested.nested_tensor([x, x[:2]]).to_padded_tensor(0.0) + 1,
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", INSIDE)
def test_unusual_values_inside(kind):
    with pytest.raises(RuntimeError, match="only strided ones can be traced"):
        braze.trace(INSIDE[kind], (X,), check=False)
    assert torch.equal(braze.compile(INSIDE[kind])(X), INSIDE[kind](X))
    assert torch.equal(braze.trace(lambda x: x + 1, (X,))(X), X + 1)


def test_dtypes_without_a_kernel():
    for dtype in (torch.uint16, torch.uint32, torch.uint64, torch.complex64, torch.complex128):
        oracle.check(lambda x: (x * 2, x.float() if not x.is_complex() else x.abs()), (X.to(dtype),))
    oracle.check(lambda x: x.to(torch.float8_e4m3fn).float() + 1, (X,))


def test_subclasses():
    x = X.as_subclass(Plain)
    got = braze.compile(lambda x: x * 2)(x)
    assert type(got) is Plain
    assert torch.equal(got, x * 2)
    oracle.check(lambda x: (x.as_subclass(Plain) + 1).as_subclass(torch.Tensor), (X,))
    parameter = torch.nn.Parameter(X.clone())
    assert torch.equal(braze.trace(lambda x: x * 2, (parameter,))(parameter), parameter.detach() * 2)


@pytest.mark.parametrize("order", [2.0, 3.0, -1.0, 0.5])
@pytest.mark.parametrize("value", [1e-41, -1e30, 0.0, float("nan")])
def test_the_norm_of_one_element_is_its_magnitude(order, value):
    x = torch.full((3, 1), value)
    check_kernels(lambda x: (torch.linalg.vector_norm(x, order, dim=1), x[:1].norm(order)), x)


def test_a_cat_without_elements_into_one_of_its_parts():
    x = torch.zeros(0)
    with pytest.raises(RuntimeError, match="single memory location"):
        braze.trace(lambda x, y: torch.cat([x, y], out=x), (x, torch.ones(4, 6)))
