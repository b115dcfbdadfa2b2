"""Strides of every operator in every layout: a sample of tests/python/layout_sweep.py, the same one each time."""

import layout_sweep
import opinfo_sweep
import pytest
import torch
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
}


@pytest.mark.parametrize("name", CASES)
def test_strides(name):
    fn, x = CASES[name]
    with torch.no_grad():
        expected = fn(x)
        assert braze.compile(lambda x: fn(x).stride())(x) == expected.stride()
        got = braze.compile(lambda x: fn(x))(x)
    assert got.stride() == expected.stride()
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
