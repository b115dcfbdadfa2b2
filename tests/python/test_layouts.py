"""Strides of every operator in every layout: a sample of tests/python/layout_sweep.py, the same one each time."""

import layout_sweep
import opinfo_sweep
import pytest
import torch
from layouts import LAYOUTS
from torch.nn import functional as F

import braze

PARTS = 4
FRACTION = {torch.float32: 0.05, torch.bfloat16: 0.01, torch.int64: 0.01}


@pytest.fixture(scope="module")
def operators():
    return opinfo_sweep.operators()


@pytest.mark.parametrize("dtype", FRACTION, ids=str)
@pytest.mark.parametrize("part", range(PARTS))
def test_sampled_layouts(operators, part, dtype):
    chosen = layout_sweep.picker(FRACTION[dtype])
    failures = []
    for op in operators[part::PARTS]:
        failures += layout_sweep.sweep(op, dtype, 2, layout_sweep.Report(), chosen=chosen)
    assert not failures, "\n".join(failures)


LAST = torch.randn(2, 4, 4, 4).to(memory_format=torch.channels_last)
ONE = torch.randn(1, 4, 4, 4).to(memory_format=torch.channels_last)
VOLUME = torch.randn(1, 2, 5, 5, 5).to(memory_format=torch.channels_last_3d)
GAPS = torch.stack([torch.randn(2, 4, 4, 4)] * 2, -1)[..., 1]
WEIGHT = torch.randn(4, 4, 3, 3)
NORM = torch.nn.BatchNorm2d(4).eval().requires_grad_(False)
# A dimension of size 1 that has the stride of another one.
ROW = torch.randn(3, 2, 2).permute(1, 2, 0)[:1]
COMPLEX = torch.randn(4, 5, dtype=torch.complex64)

CASES = {
    "transposed convolution": (lambda x: F.conv_transpose2d(x, WEIGHT), LAST),
    "convolution of one volume": (lambda x: F.conv3d(x, torch.ones(3, 2, 3, 3, 3)), VOLUME),
    "convolution of rows": (
        lambda x: F.conv1d(x, torch.ones(3, 3, 4).transpose(1, 2)),
        torch.randn(1, 5, 4).transpose(1, 2),
    ),
    "reflecting pad": (lambda x: F.pad(x, (1, 1, 1, 1), mode="reflect"), LAST),
    "replicating pad": (lambda x: F.pad(x, (1, 1, 1, 1), mode="replicate"), LAST),
    "stack": (lambda x: torch.stack([x, x], 1), LAST),
    "stack of one": (lambda x: torch.stack([x, x], 1), ONE),
    "group norm of one": (lambda x: F.group_norm(x, 2), ONE),
    "batch norm of one pixel": (lambda x: NORM(F.adaptive_avg_pool2d(x, 1)), ONE),
    "the same, interpolated": (
        lambda x: F.interpolate(NORM(F.adaptive_avg_pool2d(x, 1)), size=(2, 2), mode="bilinear"),
        ONE,
    ),
    "slice_scatter with gaps": (lambda x: x.slice_scatter(x[:, :1], 1, 0, 1), GAPS),
    "select_scatter with gaps": (lambda x: x.select_scatter(x[:, 0], 1, 0), GAPS),
    "a number to the power of a tensor": (lambda x: 2**x, LAST),
    "isin": (lambda x: torch.isin(x, x[0, 0]), LAST),
    "multigammaln": (lambda x: torch.special.multigammaln(x.abs() + 3, 2), LAST),
    "a new tensor with gaps": (lambda x: torch.empty_strided((2, 4), (7, 1)).copy_(x[0, :2, 0]), LAST),
    "a new tensor with gaps, filled": (lambda x: torch.empty_strided((2, 2), (4, 1)).fill_(1.0), LAST),
    "angle of complex numbers": (lambda x: torch.complex(x, x + 1).permute(1, 0).angle(), torch.rand(2, 3)),
    "one element, expanded": (lambda x: x.expand(1, 1) + x.expand(1, 1, 3), torch.tensor(2.0)),
    "angle of a transposed complex slice": (lambda x: x[:, 1:3].t().angle(), COMPLEX),
    "empty_strided of complex numbers": (
        lambda x: torch.empty_strided((2, 4), (7, 1), dtype=x.dtype).copy_(x[:2, :4]),
        COMPLEX,
    ),
    "integers converted for a product": (lambda x: x.to(torch.int64) * torch.ones(1, 2, 3), ROW),
    "a power of one row": (lambda x: x.float().pow(2), torch.ones(1, 2, 3).as_strided((1, 2, 3), (3, 3, 1))),
    "limits of one row": (lambda x: x.clamp(-1, 1), torch.ones(1, 2, 3).as_strided((1, 2, 3), (3, 3, 1))),
    "a part of a solution": (lambda x: torch.linalg.lstsq(x, x[:, :, :2] + 1).solution, torch.randn(2, 4, 3)),
    "a part of a complex solution": (
        lambda x: torch.linalg.lstsq(x, x[:, :, :2] + 1).solution,
        torch.randn(2, 4, 3, dtype=torch.complex64),
    ),
    "pooled rows": (lambda x: F.max_pool1d(x, 3, 2, 1), torch.randn(2, 4, 3).transpose(1, 2)),
    "ldexp": (lambda x: torch.ldexp(x[:, :1], x), torch.ones(4, 3, 2).permute(2, 1, 0)),
    "slice_scatter of all of it": (lambda x: torch.zeros(3, 4).slice_scatter(x[:, ::2], 1, 0, 4), torch.rand(3, 8)),
    "slice_scatter behind an offset": (lambda x: x[1:].slice_scatter(x[1:2], 0, 0, 1), LAST.contiguous()),
    "select_scatter behind an offset": (lambda x: x[1:].select_scatter(x[1:, 0], 1, 0), LAST.contiguous()),
    "diagonal_scatter behind an offset": (
        lambda x: x[1].diagonal_scatter(x[1].diagonal() + 1),
        torch.ones(2, 3, 3),
    ),
    "diagonal_scatter of complex numbers": (lambda x: x[1:, 1::2].diagonal_scatter(x[1, 1::2] + 1), COMPLEX),
    "as_strided_scatter with gaps": (lambda x: x[:, 1::2].as_strided_scatter(x[0, :2] + 1, (2,), (3,), 1), COMPLEX),
    "as_strided_scatter behind an offset": (
        lambda x: x[1:].as_strided_scatter(x[0] + 1, (4,), (1,), 7),
        torch.ones(3, 4),
    ),
    "as_strided_copy with gaps": (lambda x: torch.as_strided_copy(x[:, 1::2], (2, 2), (3, 1), 1), COMPLEX),
}


def _with_place(tensor):
    return [tensor, tensor.stride(), tensor.storage_offset()]


@pytest.mark.parametrize("name", CASES)
def test_strides(name):
    fn, x = CASES[name]
    with torch.no_grad():
        expected = fn(x)
        program = braze.trace(lambda x: _with_place(fn(x)), (x,), check=False)
        got, *place = program(x)
    assert place == _with_place(expected)[1:]
    assert _with_place(got)[1:] == place
    if expected.is_contiguous():  # What eager's storages hold behind the last element is not looked at.
        assert got.untyped_storage().nbytes() == expected.untyped_storage().nbytes()
    torch.testing.assert_close(got, expected)


def test_what_follows_from_strides():
    def rows(x):
        return F.conv_transpose2d(x, WEIGHT).permute(0, 2, 3, 1).view(-1, 4).sum(0)

    torch.testing.assert_close(braze.compile(rows)(LAST), rows(LAST))

    def first(x):
        return F.pad(x, (1, 1, 1, 1), mode="reflect").as_strided((3,), (1,))

    assert torch.equal(braze.compile(first)(LAST), first(LAST))


def test_random_numbers_for_a_tensor_with_gaps():
    def fill(x):
        return x[:, ::2].normal_()

    torch.manual_seed(0)
    expected = fill(torch.zeros(8, 8))
    torch.manual_seed(0)
    assert torch.equal(braze.compile(fill)(torch.zeros(8, 8)), expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64], ids=str)
def test_written_through_a_reshaped_result(dtype):
    """kron() writes its out= tensor through _unsafe_view(), which is no view by its schema."""

    def product(x, out):
        torch.kron(x, x, out=out)
        return out + 1

    x, out, theirs = torch.randn(2, 2, dtype=dtype), torch.zeros(4, 4, dtype=dtype), torch.zeros(4, 4, dtype=dtype)
    program = braze.trace(product, (x, out.clone()), check=False)
    torch.testing.assert_close(program(x, out), product(x, theirs))
    torch.testing.assert_close(out, theirs)
    with pytest.raises(RuntimeError, match="single memory location"):
        braze.trace(product, (x, out[:1].expand(4, 4)), check=False)


def test_written_results_of_types_without_a_name():
    """The graph knows no uint64."""

    def hashed(x, out):
        return torch.hash_tensor(x, out=out)

    x = torch.randn(4, 5)
    expected = torch.hash_tensor(x)
    program = braze.trace(hashed, (x, torch.zeros_like(expected)), check=False)
    assert torch.equal(program(x, torch.zeros_like(expected)), expected)


VALUES = {
    "item": lambda x: x[0, 0].item(),
    "equal": lambda x: x.equal(x),
    "nonzero": lambda x: x.nonzero(),
    "masked_select": lambda x: x.masked_select(x.real > 0),
    "geqrf": lambda x: torch.geqrf(x),
}


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("layout", ["contiguous", "gaps", "expanded", "reversed"])
def test_values_of_complex_arguments(name, layout):
    """Read while tracing, of arguments as they are."""
    x = LAYOUTS[layout].make(COMPLEX[:, :4].contiguous())
    expected = VALUES[name](x)
    got = braze.trace(VALUES[name], (x,), check=False)(x)
    torch.testing.assert_close(got, expected)


def test_writes_to_expanded_complex_numbers_run_natively():
    """Of those that eager allows, only what fills a tensor has an outcome that depends on no order."""

    @braze.compile
    def fill(x):
        y = x[:1].clone().expand(4, 5)
        y.fill_(2)
        return y + 1

    assert torch.equal(fill(COMPLEX), torch.full((4, 5), 3, dtype=torch.complex64))


def test_an_out_tensor_that_the_operator_lays_out_anew():
    """linear() leaves an out= tensor of the right size, but with gaps, without them."""

    def apply(x, w, out):
        torch._C._nn.linear(x, w, out=out)
        return out, out.stride()

    x, w = torch.randn(3), torch.randn(4, 3)
    expected = apply(x, w, torch.zeros(8)[::2])
    out = torch.zeros(8)[::2]
    got = braze.compile(apply)(x, w, out)
    torch.testing.assert_close(got, expected)
    assert out.stride() == expected[1]


def test_an_out_tensor_that_is_resized():
    """The caller's tensor, which no program can resize, also where none of its elements are lost."""
    with pytest.raises(RuntimeError, match="resizes a tensor that is an input"):
        braze.trace(lambda x, out: torch.add(x, 1, out=out), (torch.ones(3), torch.empty(0)), check=False)
    out = torch.empty(0)
    assert torch.equal(
        braze.compile(lambda x, out: torch.add(x, 1, out=out))(torch.ones(3), out), torch.full((3,), 2.0)
    )
    assert out.shape == (3,)


def test_batch_norm_into_another_layout():
    """Eager's kernel for bf16 takes the result to lie as the input does."""

    def norm(x, mean, variance, *outs):
        names = ("out", "save_mean", "save_invstd")
        return torch.ops.aten.native_batch_norm.out(
            x, None, None, mean, variance, True, 0.1, 1e-5, **dict(zip(names, outs, strict=True))
        )

    def arguments():
        ones = [torch.ones(shape, dtype=torch.bfloat16) for shape in ((4,), (4,), (2, 4, 4, 4), (4,), (4,))]
        return LAST.bfloat16(), *ones

    torch.testing.assert_close(braze.trace(norm, arguments(), check=False)(*arguments()), norm(*arguments()))


NOTHING = {
    "rows": torch.ones(0, 12)[:, ::2],
    "cut rows": torch.ones(8, 6)[:0, ::2],
    "transposed": torch.ones(6, 0).t(),
    "expanded": torch.ones(1, 6).expand(0, 6),
    "permuted": torch.ones(4, 6, 3).permute(2, 0, 1)[:, :0],
}
OF_NOTHING = {
    "nan_to_num": lambda x: x.nan_to_num(1),
    "hardtanh": F.hardtanh,
    "relu6": F.relu6,
    "frexp": lambda x: torch.frexp(x)[0],
    "prelu": lambda x: F.prelu(x, torch.ones(1)),
    "huber loss": lambda x: F.huber_loss(x, x, reduction="none"),
    "logits' loss": lambda x: F.binary_cross_entropy_with_logits(x, x, reduction="none"),
    "empty_like": torch.empty_like,
    "sum": lambda x: x + x,
    "clamp": lambda x: x.clamp(0, 1),
}


@pytest.mark.parametrize("layout", NOTHING)
@pytest.mark.parametrize("name", OF_NOTHING)
def test_strides_of_nothing(name, layout):
    """Some operators keep those of an empty tensor, whatever they are."""
    function, x = OF_NOTHING[name], NOTHING[layout]
    assert braze.trace(function, (x,), check=False)(x).stride() == function(x).stride()
