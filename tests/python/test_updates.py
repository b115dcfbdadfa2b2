"""Writes by index tensors and through views, pooling and resampling: against eager, without a call of ATen."""

import pytest
import torch
import torch.nn.functional as F
from compare import check
from oracle import library_calls

import braze


def check_kernels(fn, *args, **kwargs):
    program = check(fn, *args, **kwargs)
    assert library_calls(program) == []
    return program


# ---- scatter, index_put


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.int8])
def test_scatter_meets_itself_in_order(dtype):
    """Many updates of one element: the last wins, as in eager."""
    x = torch.zeros(5, 300, dtype=dtype)
    index = torch.randint(0, 5, (40, 300))
    source = torch.randint(-50, 50, (40, 300)).to(dtype)
    check_kernels(lambda x, i, s: x.scatter(0, i, s), x, index, source)
    check_kernels(lambda x, i, s: x.T.scatter(1, i.T, s.T), x, index, source)


@pytest.mark.filterwarnings("ignore:index_reduce")
@pytest.mark.parametrize("reduce", ["sum", "prod", "mean", "amax", "amin"])
@pytest.mark.parametrize("include_self", [True, False])
def test_scatter_reduce(reduce, include_self):
    x, source = torch.randn(6, 20), torch.randn(9, 20)
    source[3, 4] = float("nan")
    index = torch.randint(0, 4, (9, 20))
    check_kernels(lambda x, i, s: x.scatter_reduce(0, i, s, reduce, include_self=include_self), x, index, source)
    if reduce != "sum":
        check_kernels(
            lambda x, i, s: x.index_reduce(0, i, s, reduce, include_self=include_self), x, index[:, 0], source
        )


def test_index_add_over_many_columns():
    x, source, index = torch.randn(10, 5000), torch.randn(30, 5000), torch.randint(0, 10, (30,))
    check_kernels(lambda x, i, s: x.index_add(0, i, s, alpha=2), x, index, source)
    check_kernels(lambda x, i, s: x.index_add_(0, i, s), x, index.int(), source)


def test_index_put_forms():
    x, i, j = torch.randn(4, 5, 6), torch.tensor([0, -1, 2]), torch.tensor([[1], [-2]])

    def set_rows(x, i, v):
        x[i] = v
        return x

    def set_ends(x, i, j, v):
        x[j, :, i] = v
        return x

    def add_middle(x, i, j):
        x[:, i, j] += 1
        return x.index_put((i, j), torch.ones(()), accumulate=True)

    def set_masked(x, m):
        x[m] = 0
        return x

    check_kernels(set_rows, x, i, torch.randn(5, 6))
    check_kernels(set_ends, x, i, j, torch.randn(2, 3, 5))
    check_kernels(add_middle, x, i, j)
    check_kernels(set_masked, x, x > 0)
    check_kernels(set_masked, x, x[..., 0] > 0)


def test_indices_out_of_range_raise_before_anything_is_written():
    x = torch.zeros(4, 3)
    for fn in (
        lambda x, i: x.index_add_(0, i, torch.ones(2, 3)),
        lambda x, i: x.index_put_((i,), torch.ones(3)),
        lambda x, i: x.scatter_(0, i[:, None], 1.0),
    ):
        program = braze.trace(fn, (x.clone(), torch.tensor([0, 1])), check=False)
        mine = x.clone()
        with pytest.raises((IndexError, RuntimeError)):
            program(mine, torch.tensor([1, 4]))
        assert torch.equal(mine, x)


# ---- views that are written


def test_written_diagonal_and_windows():
    def diagonal(x):
        x.diagonal(1).add_(5)
        return x * 2

    def windows(x):
        x.unfold(1, 3, 4)[:, :, 1] = 7
        return x

    def strided(x):
        x.as_strided((2, 2), (7, 2), 1).mul_(3)
        return x + 1

    x = torch.randn(5, 8)
    for fn in (diagonal, windows, strided):
        check_kernels(fn, x)
        check_kernels(lambda x: fn(x * 1).sum(0), x)  # noqa: B023
    check_kernels(diagonal, torch.randn(8, 5).T)


def test_writes_to_a_part_of_a_view_that_overlaps_itself():
    """Written through the overlapping view, the old value of the element's other places would come back."""

    def one_of_windows(x):
        y = x + 1
        y.unfold(0, 2, 1)[::2, 1::2].tanh_()
        return y

    def one_row_of_windows(x):
        y = x + 1
        windows = y.unfold(0, 2, 1)
        y += 7
        windows[0].movedim(0, -1).mul_(2)
        return y, windows

    def of_given_strides(x):
        y = x.clone()
        y.as_strided((3, 3), (2, 1)).transpose(0, 1)[1].neg_()
        return y

    for fn in (one_of_windows, one_row_of_windows, of_given_strides):
        check_kernels(fn, torch.randn(7))
    check(lambda x: x.unfold(0, 2, 1)[0].neg_(), torch.randn(14)[::2])


@pytest.mark.parametrize("norm_type", [1.0, 2.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_embeddings_of_bounded_norm_change_the_rows_they_read(dtype, norm_type):
    """A row that is read twice is scaled once."""
    weight = (torch.randn(20, 8) * 2).to(dtype)
    check_kernels(
        lambda w, i: F.embedding(i, w, max_norm=1.5, norm_type=norm_type), weight, torch.randint(0, 20, (3, 9))
    )


def test_diagonals_are_views_of_their_argument():
    x = torch.randn(4, 6)
    program = check_kernels(lambda x: x.diagonal(), x)
    assert program(x).data_ptr() == x.data_ptr()


# ---- pooling and resampling


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_pooling_of_special_values(layout):
    x = torch.randn(2, 3, 11, 13).contiguous(memory_format=layout)
    x[0, 0, :5, :5] = float("-inf")
    x[1, 1, 2:4, 3:9] = float("nan")
    check_kernels(lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True), x)
    check_kernels(
        lambda x: F.max_pool2d(x, (2, 3), (1, 2), (1, 1), dilation=(2, 1), ceil_mode=True, return_indices=True), x
    )
    check_kernels(lambda x: F.adaptive_max_pool2d(x, (4, 5), return_indices=True), x)
    check_kernels(lambda x: F.avg_pool2d(x.nan_to_num(), 3, 2, 1, ceil_mode=True, count_include_pad=False), x)
    check_kernels(lambda x: F.adaptive_avg_pool2d(x.nan_to_num(), (4, 13)), x)


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "bilinear", "bicubic"])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_interpolation(mode, layout):
    x = torch.randn(2, 3, 7, 9).contiguous(memory_format=layout)
    check_kernels(lambda x: F.interpolate(x, (10, 20), mode=mode), x)
    check_kernels(lambda x: F.interpolate(x, scale_factor=2, mode=mode), x)
    check_kernels(lambda x: F.interpolate(x.half(), scale_factor=(0.6, 1.7), mode=mode), x)
    if mode.startswith("bi"):
        check_kernels(lambda x: F.interpolate(x, (10, 5), mode=mode, align_corners=True), x)


def test_index_add_of_bools():
    x, source = torch.rand(4, 3) > 0.5, torch.rand(5, 3) > 0.5
    for alpha in (1, True, False, 2, -1, 0):
        check_kernels(
            lambda x, i, s, a=alpha: x.index_add(0, i, s, alpha=a), x, torch.tensor([0, 3, 0, 1, 1]), source
        )


def test_fold_takes_back_unfold():
    x = torch.randn(2, 3, 10, 12)
    check_kernels(lambda x: F.fold(F.unfold(x, (3, 2), (2, 1), 1, (2, 3)), (10, 12), (3, 2), (2, 1), 1, (2, 3)), x)


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
def test_padding_by_elements(mode):
    check_kernels(lambda x: F.pad(x, (3, 1, 0, 2), mode=mode) * 2, torch.randn(2, 3, 5, 6))
    check_kernels(lambda x: F.pad(x, (-1, 4), mode=mode), torch.randn(3, 7))


def test_a_pooling_window_far_larger_than_its_input_costs_no_more_than_the_input():
    x = torch.randn(2, 3, 10, 9)
    average = lambda x: F.avg_pool2d(x, 4000, ceil_mode=True)  # noqa: E731
    check_kernels(average, x)
    assert braze.trace(average, (x,)).memory()["arena_bytes"] < 100_000
    check_kernels(lambda x: F.avg_pool2d(x, (12, 3), 2, (5, 1), ceil_mode=True), x)
    check_kernels(lambda x: F.max_pool2d(x, (13, 30), 2, (5, 14), ceil_mode=True, return_indices=True), x)


@pytest.mark.parametrize("widths", [(0, 0, 0, 0), (-1, 0, 0, -2), (-1, -1), (0, 0, -8, 0)])
def test_padding_that_crops(widths):
    check_kernels(lambda x: F.pad(x, widths), torch.randn(2, 3, 8, 9))
    check_kernels(lambda x: F.pad(x, widths), torch.randn(2, 3, 9, 8).transpose(2, 3))


def test_composites_that_read_data_by_its_pointer():
    """max_pool1d, tensor_split and ctc_loss read above the dispatcher; lengths that are read are frozen."""
    check_kernels(lambda x: F.max_pool1d(x, 3, 2, 1), torch.randn(2, 3, 20))
    x, where = torch.randn(2, 20), torch.tensor([2, 5])
    with pytest.warns(braze.TraceWarning):
        program = braze.trace(lambda x, i: torch.tensor_split(x, i, dim=1), (x, where), check=False)
    assert [tuple(part.shape) for part in program(x, where)] == [(2, 2), (2, 3), (2, 15)]
    logits, targets = torch.randn(50, 4, 20).log_softmax(2), torch.randint(1, 20, (4, 30))
    lengths = torch.full((4,), 50), torch.randint(10, 30, (4,))
    for reduction in ("none", "mean", "sum"):
        with pytest.warns(braze.TraceWarning):
            program = braze.trace(
                lambda *args: F.ctc_loss(*args, reduction=reduction),  # noqa: B023
                (logits, targets, *lengths),
                check=False,
            )
        torch.testing.assert_close(
            program(logits, targets, *lengths), F.ctc_loss(logits, targets, *lengths, reduction=reduction)
        )


@pytest.mark.parametrize(
    "function",
    [
        lambda c, i, k: c.index_copy(0, i, k),
        lambda c, i, k: c.index_add(0, i, k, alpha=2),
        lambda c, i, k: c.index_fill(0, i, 2.0) + k.sum(),
        lambda c, i, k: c.put(i, k[:, 0]),
        lambda c, i, k: c.masked_scatter(c > 0, k.repeat(9, 1)),
        lambda c, i, k: c[:, 0].index_copy(0, i, k[:, 1]),
    ],
)
def test_updates_of_any_size_are_kernels(function):
    compiled = braze.compile(function, dynamic=True)
    for rows, count in ((6, 2), (7, 3), (9, 4), (8, 5), (30, 7)):
        arguments = torch.randn(rows, 3), torch.randperm(rows)[:count], torch.randn(count, 3)
        torch.testing.assert_close(compiled(*arguments), function(*arguments))
    for program in compiled.programs():
        assert library_calls(program) == []
    assert compiled.counts()["captured"] == 1
