"""Volumes, unpooling and sampling by grids: layouts and special places, against eager, without a call of ATen."""

import oracle
import pytest
import torch
import torch.nn.functional as F
from oracle import check_kernels


@pytest.mark.parametrize("kind", ["max", "average", "adaptive average", "adaptive max", "nearest", "trilinear"])
def test_volumes_lie_as_in_eager(kind):
    window = {
        "max": lambda x: F.max_pool3d(x, 2, return_indices=True),
        "average": lambda x: F.avg_pool3d(x, (2, 1, 2), padding=(1, 0, 0)),
        "adaptive average": lambda x: F.adaptive_avg_pool3d(x, (2, 3, 1)),
        "adaptive max": lambda x: F.adaptive_max_pool3d(x, 2, return_indices=True),
        "nearest": lambda x: F.interpolate(x, scale_factor=2.0),
        "trilinear": lambda x: F.interpolate(x, size=(5, 3, 6), mode="trilinear"),
    }[kind]
    x = torch.randn(2, 3, 4, 5, 4)
    last = x.contiguous(memory_format=torch.channels_last_3d)
    for given in (x, last, x.transpose(1, 3).contiguous().transpose(1, 3)):
        check_kernels(window, given)
    if "linear" not in kind and kind != "nearest":
        check_kernels(window, x[0])
        if kind != "max":
            oracle.check(window, (last[0],))


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_maxima_are_put_back(layout):
    x = torch.randn(2, 3, 7, 6).contiguous(memory_format=layout)

    def there_and_back(x):
        largest, places = F.max_pool2d(x, 3, 2, 1, return_indices=True)
        return F.max_unpool2d(largest, places, 3, 2, 1, output_size=(7, 6))

    def gradient(x):
        largest, places = F.max_pool2d(x, 3, 2, 1, return_indices=True)
        return torch.ops.aten.max_pool2d_with_indices_backward(
            largest, x, [3, 3], [2, 2], [1, 1], [1, 1], False, places
        )

    # The gradient of channels that lie together is ATen's on a CPU, which is faster there.
    check = check_kernels if layout is torch.contiguous_format else lambda fn, x: oracle.check(fn, (x,))
    for given in (x, x[0]):
        check_kernels(there_and_back, given)
        check(gradient, given)
    check_kernels(
        lambda x: F.max_unpool3d(*F.max_pool3d(x, 2, return_indices=True), 2), torch.randn(2, 3, 4, 6, 2).half()
    )
    places = torch.zeros(1, 2, 2, 2, dtype=torch.int64)
    check_kernels(lambda x, places: F.max_unpool2d(x, places, 2), torch.randn(1, 2, 2, 2), places)
    oracle.check(lambda x, places: F.max_unpool2d(x, places, 2), (torch.randn(1, 2, 2, 2), places + 16))


@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_grid_sample(mode, padding, align_corners):
    def sample(x, grid):
        return F.grid_sample(x, grid, mode, padding, align_corners)

    grid = torch.randn(2, 4, 6, 2)
    grid[0, 0, :4] = torch.tensor([[1.0, -1.0], [0.0, 0.0], [1e6, 0.3], [-1.0, 7.5]])
    for x in (torch.randn(2, 3, 5, 7), torch.randn(2, 3, 5, 1).double()):
        check_kernels(sample, x, grid.to(x.dtype))
        check_kernels(sample, x.contiguous(memory_format=torch.channels_last), grid.to(x.dtype).flip(1))
    oracle.check(sample, (torch.randn(2, 3, 5, 7).bfloat16(), grid.bfloat16()))
    if mode != "bicubic":
        check_kernels(sample, torch.randn(2, 3, 4, 5, 6), torch.randn(2, 3, 2, 4, 3))
