"""Convolution and average pooling: shapes told by braze's own rules must be those that eager gives."""

from __future__ import annotations

import sys

import pytest
import torch
import torch.nn.functional as F

import braze

CONVOLUTIONS = [
    ((2, 3, 14, 14), (4, 3, 3, 3), {"padding": 1}),
    ((1, 4, 9, 7), (6, 2, 3, 2), {"stride": 2, "groups": 2}),
    ((2, 3, 11), (5, 3, 4), {"dilation": 2, "padding": 3}),
    ((1, 2, 5, 6, 7), (3, 2, 2, 2, 2), {"stride": (1, 2, 3)}),
    ((3, 10, 10), (2, 3, 3, 3), {}),
]
POOLS = [
    ((2, 1, 14, 14), {"kernel_size": 3, "stride": 1, "padding": 1}),
    ((1, 3, 9, 10), {"kernel_size": (2, 3)}),
    ((3, 7, 8), {"kernel_size": 3, "stride": 2, "ceil_mode": True, "count_include_pad": False}),
    ((1, 2, 6, 6), {"kernel_size": 2, "divisor_override": 3}),
]


def check(function, *inputs, exact=True):
    """Convolutions are eager's own; poolings may add in another order."""
    program = braze.trace(function, inputs, check=False)
    got, wanted = program(*inputs), function(*inputs)
    assert got.shape == wanted.shape and got.stride() == wanted.stride()
    if exact:
        torch.testing.assert_close(got, wanted, rtol=0, atol=0)
    else:
        torch.testing.assert_close(got, wanted)


@pytest.mark.parametrize("shape, weight, options", CONVOLUTIONS)
@pytest.mark.parametrize("bias", [False, True])
def test_convolution(shape, weight, options, bias):
    tensors = [torch.randn(shape), torch.randn(weight)] + ([torch.randn(weight[0])] if bias else [])
    convolution = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}[len(weight) - 2]
    check(lambda *t: convolution(*t, **options), *tensors)


@pytest.mark.parametrize("shape, options", POOLS)
def test_average_pool(shape, options):
    check(lambda x: F.avg_pool2d(x, **options), torch.randn(shape), exact=False)


def test_transposed_weights_give_row_major_results():
    check(lambda x, w: F.conv2d(x, w.t().reshape(1, 1, 3, 3)), torch.randn(2, 1, 8, 8), torch.randn(3, 3))
    check(lambda x: F.avg_pool2d(x.transpose(2, 3), 2), torch.randn(2, 3, 8, 6), exact=False)


@pytest.mark.parametrize("shape", [(2, 3, 1, 1), (1, 2, 1, 2), (2, 2, 1), (1, 1, 2, 3)])
@pytest.mark.parametrize(
    "options",
    [
        {"kernel_size": 3, "padding": 1},
        {"kernel_size": 3, "padding": 2, "stride": 2},
        {"kernel_size": 2, "dilation": 2, "padding": 2},
    ],
)
def test_blocks_that_are_larger_than_the_image(shape, options):
    check(lambda x: F.unfold(x, **options), torch.randn(shape))


def test_channels_last_keeps_its_layout():
    x = torch.randn(2, 3, 8, 8).to(memory_format=torch.channels_last)
    check(lambda x: F.avg_pool2d(x, 2), x, exact=False)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("which", ["input", "weight", "both"])
def test_a_convolution_lies_channels_last_as_in_eager(which, dtype):
    x, w = torch.randn(2, 8, 9, 9, dtype=dtype), torch.randn(4, 8, 3, 3, dtype=dtype)
    if which != "weight":
        x = x.to(memory_format=torch.channels_last)
    if which != "input":
        w = w.to(memory_format=torch.channels_last)
    check(lambda x, w: F.conv2d(x, w, padding=1), x, w, exact=False)


def test_wrong_windows_raise_as_in_eager():
    with pytest.raises(RuntimeError):
        braze.trace(lambda x, w: F.conv2d(x, w), (torch.randn(1, 3, 2, 2), torch.randn(4, 3, 3, 3)))
    with pytest.raises(RuntimeError):
        braze.trace(lambda x: F.avg_pool2d(x, 2, padding=2), (torch.randn(1, 1, 4, 4),))


def test_no_python_is_imported_for_shapes():
    before = set(sys.modules)
    braze.trace(lambda x, w: F.avg_pool2d(F.conv2d(x, w), 2), (torch.randn(1, 1, 9, 9), torch.randn(1, 1, 2, 2)))
    assert not [name for name in set(sys.modules) - before if name.startswith(("torch._refs", "sympy"))]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_tensors_of_another_device_are_refused():
    with pytest.raises(RuntimeError, match="CPU only"):
        braze.trace(lambda x: x + 1, (torch.randn(3, device="cuda"),))
    with pytest.raises(RuntimeError, match="CPU only"):
        braze.trace(lambda x: x.to("cuda"), (torch.randn(3),))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("width", [7, 16, 28, 33, 64])
def test_windows_two_apart(dtype, width):
    """Their elements are read as whole vectors, also where a row ends within one."""
    x = torch.randn(2, 3, 9, width).to(dtype)
    for options in ({"kernel_size": 2}, {"kernel_size": 3, "stride": 2, "padding": 1}, {"kernel_size": (1, 4)}):
        check(lambda x, options=options: F.max_pool2d(x, **options), x)
        check(lambda x, options=options: F.avg_pool2d(x, **options), x, exact=False)
    check(lambda x: x[..., 1::2].clone(), x)
    check(lambda x: x[..., ::3] * 2, x)


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("factor", [2, 3, 4, (2, 1), 1.5])
def test_nearest_upsampling(factor, layout):
    for width in (1, 8, 20, 33):
        x = torch.randn(2, 5, 7, width).contiguous(memory_format=layout)
        check(lambda x: F.interpolate(x, scale_factor=factor), x)
        check(lambda x: F.interpolate(x, scale_factor=factor, mode="nearest-exact").relu(), x)


def test_upsampling_by_whole_numbers_reads_no_table():
    program = braze.trace(lambda x: F.interpolate(x, scale_factor=2), (torch.randn(1, 2, 8, 16),))
    assert "i64 in" not in program.code("loops")
    assert "gather" not in program.code("asm")


@pytest.mark.parametrize("pad", [(1, 1, 1, 1), (3, 0, 0, 2), (-1, 2, 1, -1), (20, 0), (0, 0, 2, 2)])
def test_padding(pad):
    for width in (8, 31, 32, 100):
        x = torch.randn(2, 3, 9, width)
        check(lambda x: F.pad(x, pad), x)
        check(lambda x: F.pad(x, pad, value=2.5) * 2 + F.pad(x.abs(), pad, value=1.0), x)


def test_the_inside_of_a_padded_row_has_no_conditions_on_lanes():
    program = braze.trace(lambda x: F.pad(x, (1, 1)), (torch.randn(40, 32),))
    text = program.code("loops")
    assert "in 0..1 " in text and "in 1..33 " in text and "in 33..34 " in text
    assert " if " not in text


def test_large_outputs_in_odd_rows_go_past_the_cache():
    """Rows of 34 floats are no whole cache lines; the last block of rows is not whole either."""
    x = torch.randn(275003, 32)
    program = braze.trace(lambda x: F.pad(x, (1, 1)), (x,), check=False)
    assert "%stage" in program.code("loops") and "vmovnt" in program.code("asm")
    assert torch.equal(program(x), F.pad(x, (1, 1)))


@pytest.mark.parametrize("shape", [(2, 1003, 12, 16), (1, 523, 16, 64), (1, 999, 8, 33)])
def test_heads_are_moved_in_blocks(shape):
    x = torch.randn(shape)
    program = braze.trace(lambda x: x.transpose(1, 2).contiguous(), (x,), check=False)
    assert program.code("loops").count("for %") == 4
    assert torch.equal(program(x), x.transpose(1, 2))
