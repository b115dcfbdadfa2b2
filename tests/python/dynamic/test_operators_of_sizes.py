"""Operators that sizes are given to, and that make sizes, at any of these."""

import collections
import gc
import re
import time
import weakref

import pytest
import torch
from any_size import rows, run, same, second_capture_serves_all
from programs_of_sizes import BATCHES
from torch import nn
from torch.nn import functional as F

import braze
from braze._load import C

pytestmark = [
    pytest.mark.skipif(not hasattr(C, "CompiledFunction"), reason="no evaluator for this Python"),
    pytest.mark.usefixtures("no_grad"),
]


@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic"])
def test_images_resized_to_a_size(mode):
    table = torch.randn(1, 4, 5, 5)

    def f(x):
        size = (x.shape[-2] // 4, x.shape[-1] // 4)
        return F.interpolate(table, size=size, mode=mode) + 1, F.interpolate(x, scale_factor=2, mode=mode)

    calls = [(torch.randn(1, 2, n, m),) for n, m in [(16, 20), (24, 32), (32, 12), (40, 64), (20, 20)]]
    assert second_capture_serves_all(f, calls) == 0


def test_rows_of_a_table_by_many_indices():
    table = torch.randn(50, 8)

    def f(ids):
        batch, length = ids.shape
        return table.index_select(0, ids.view(-1)).view(batch, length, -1)

    calls = [(torch.randint(0, 50, size),) for size in [(2, 3), (3, 4), (5, 6), (4, 9)]]
    assert second_capture_serves_all(f, calls) == 0


def test_the_truth_of_a_number():
    def f(x, k):
        return x * k if k % 2 else x + k

    x = torch.randn(4)
    assert run(f, [(x, k) for k in (2, 4, 5, 6, 7, 8, 9)]) == 3


def test_places_that_vary():
    def f(x, i):
        places = x[i], x[1:, i - 1] * 2, x[i, i - 2]
        return places, x.roll(i, 0), x.narrow(1, i - 2, 2), x.select(1, i)

    assert run(f, [(torch.randn(9, 9), i) for i in (3, 4, 5, 7, 6)]) == 2


def test_places_that_are_written():
    def f(x):
        n = x.shape[0]
        y = x.clone()
        y[n - 2] = 7
        y[n // 2, 1:] += n
        y[:, n % 3] = n / 2
        return y

    run(f, rows(4, 6, 8, 20, 33, 5))


def test_numbers_given_to_operators():
    def f(x):
        n = x.shape[0]
        products = torch.mul(x, n), x.div(n), x // n, x**n
        return products, torch.where(x > 0, n, 0), x.masked_fill(x > 0, n)

    assert run(f, rows(4, 6, 8, 20, 5)) == 2


def test_the_length_of_a_tensor():
    def f(x):
        return [i for i in range(len(x))], x.sum() * len(x), x[: len(x) // 2]

    run(f, rows(4, 6, 8, 4), dynamic=True)
    assert run(lambda x: x * len(x) + len(x), rows(4, 6, 8, 20), dynamic=True) == 1


@pytest.mark.parametrize("out", [(None, 3), (2, 3), (4, None)])
def test_adaptive_pooling(out):
    def f(x):
        return F.adaptive_avg_pool2d(x, out)

    assert run(f, [(torch.randn(2, 3, h, 7 + h),) for h in (6, 9, 12, 17, 8)]) == 2


@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic"])
@pytest.mark.parametrize("factor", [0.5, 0.25, 1.5])
def test_images_resized_by_a_factor(mode, factor):
    def f(x):
        return F.interpolate(x, scale_factor=factor, mode=mode)

    assert run(f, [(torch.randn(1, 2, h, h + 3),) for h in (8, 12, 20, 9, 15)]) == 2


def test_ranges_by_steps():
    def f(x):
        n = x.shape[0]
        return torch.arange(0, n, 2), torch.arange(3, n + 8, 3, dtype=torch.float32), torch.arange(1, n)

    assert run(f, rows(4, 6, 9, 20, 33)) == 2


def test_the_largest_half():
    assert run(lambda x: x.topk(x.shape[0] // 2, 0).values, rows(4, 6, 9, 20, 33)) == 2


def test_operators_that_hold_on_to_sizes_while_they_are_specialised():
    """linear() of many dimensions, with a weight whose sizes are numbers: sizes become numbers within."""
    layer = nn.Linear(6, 4)

    def f(x):
        return layer(x) + layer(x.flip(0)).sum()

    for sizes in ((2, 3, 6), (4, 5, 6), (3, 3, 6)):
        run(f, [(torch.randn(sizes),)] * 2, dynamic=True)


def test_arguments_are_not_kept():
    compiled = braze.compile(lambda x: x + 1, dynamic=True)
    x = torch.randn(4, 6)
    known = weakref.ref(x)
    storage = weakref.ref(x.untyped_storage())
    compiled(x)
    del x
    gc.collect()
    assert known() is None and storage() is None


def test_sizes_that_c_code_makes_numbers_of():
    class Rows:
        def __init__(self, x):
            self.x = x

        def __len__(self):
            return self.x.shape[0]

        def __bool__(self):
            return self.x.shape[0] > 5

        def __index__(self):
            return self.x.shape[0] - 1

    def f(rows):
        return rows.x * len(rows), rows.x + 1 if rows else rows.x, list(range(99))[rows]

    compiled = braze.compile(f, dynamic=True)
    for n in (4, 6, 8, 5, 6):
        rows = Rows(torch.randn(n, 3))
        same(compiled(rows), f(rows))


def test_the_larger_of_integers_asks_for_no_size():
    def f(x):
        return torch.min(x, torch.full_like(x, 3)), torch.maximum(x, -x)

    # From fewer elements than a vector has to many.
    calls = [(torch.randint(-9, 9, (n,)),) for n in (3, 4, 8, 15, 16, 17, 40, 200)]
    assert second_capture_serves_all(f, calls) == 0


def test_a_dict_of_the_items_of_another_with_objects():
    class Output(collections.OrderedDict):
        pass

    class Held:
        scale = 2

    def f(x, held):
        output = Output(x=x * x.shape[0], held=held)
        entries, named = dict(output.items()), dict(x=output["x"], held=held)
        return entries["x"] * entries["held"].scale + named["x"] * named["held"].scale

    held = Held()
    calls = [(torch.randn(n), held) for n in (3, 4, 8, 5)]
    assert second_capture_serves_all(f, calls) == 0


@pytest.mark.parametrize("name", BATCHES)
def test_batches_of_any_size(name):
    calls = [(torch.randn(*sizes, 16),) for sizes in ((2, 4), (3, 6), (5, 9), (2, 33), (7, 12))]
    assert run(BATCHES[name], calls) == 2


def images(*sizes):
    return [(torch.randn(2, 4, h, w),) for h, w in sizes]


PLANES = images((8, 8), (10, 12), (6, 9), (16, 8), (5, 5), (17, 33), (7, 7))
# Each of which wants numbers of a size where a kernel is written for it, and none where the library's is called.
OPERATORS = {
    "averages": (lambda x: F.avg_pool2d(x, 3, 2, 1), PLANES),
    "averages of what is there": (lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False), PLANES),
    "powers of averages": (lambda x: F.lp_pool2d(x, 2, 2), PLANES),
    "pixels": (lambda x: F.pixel_shuffle(x, 2), PLANES),
    "patches as columns": (lambda x: F.unfold(x, 2), PLANES),
    "a grid": (lambda x: F.grid_sample(x, torch.zeros(2, 4, 4, 2), align_corners=False), PLANES),
    "responses": (lambda x: F.local_response_norm(x, 2), PLANES),
    "rows added": (lambda x: x.index_add(0, torch.arange(x.shape[0]), x), rows(5, 8, 3, 12, 33)),
    "rows copied": (lambda x: x.index_copy(0, torch.arange(x.shape[0]), x), rows(5, 8, 3, 12, 33)),
    "products of all elements": (lambda x: torch.kron(x, torch.ones(2, 2)), rows(5, 8, 3, 12, 33)),
    "a chain of products": (lambda x: torch.linalg.multi_dot([x, x.t(), x]), rows(5, 8, 3, 12, 33)),
    "blocks": (lambda x: torch.block_diag(x, x), rows(5, 8, 3, 12, 33)),
    "elements where a mask holds": (lambda x: x.masked_scatter(x > 0, x), rows(5, 8, 3, 12, 33)),
    "clipped beside rows of one": (lambda x: F.hardtanh(x[:, None].mT), rows(5, 8, 3, 12, 33)),
    "clipped columns of one": (
        lambda x: (F.relu6(x.t()[..., None]), torch.nan_to_num(x[None].transpose(0, 2))),
        rows(5, 8, 3, 12, 33),
    ),
    "a variance and a mean": (lambda x: torch.var_mean(x, 0, correction=0), rows(5, 8, 3, 12, 33)),
    "a fixed number of rows": (lambda x: x[:, :1].expand_as(x), rows(5, 8, 3, 12, 33)),
    "nothing compared": (lambda x: x + 1 if x.shape[0] is not None else x, rows(5, 8, 3, 12, 33)),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_that_want_numbers(name):
    function, calls = OPERATORS[name]
    assert run(function, calls) == 2
    run(function, calls, dynamic=True)


def test_operators_that_want_one_size_as_a_number():
    """Only that which they take at no other value: as many columns as there are elsewhere."""

    def f(x):
        y = torch.zeros(x.shape[0], 9, dtype=torch.complex64)
        y[:, 2:8].copy_(x + 1j)
        return torch.view_as_real(y)

    assert run(f, rows(5, 8, 3, 12, 33), dynamic=True) == 1
    blocks = [(torch.randn(2, 8, n * (n + 1)), torch.empty(2 * n, 2 * n + 2)) for n in (3, 5, 4, 9)]
    assert run(lambda x, like: F.fold(x, tuple(like.shape), 2, stride=2), blocks, dynamic=True) == 1


def test_singular_values_of_matrices_higher_and_lower_than_wide():
    """Their number is 6 for all matrices of six columns that are high enough."""
    run(torch.linalg.svdvals, rows(5, 8, 3, 12, 2, 33, 6, 1))


@pytest.mark.parametrize("dynamic", [None, True])
def test_parts_of_a_factorised_matrix(dynamic):
    """Whose pivots are another argument: its kernel asks nobody whether they are as many as the matrix's rows."""
    matrices = [torch.randn(*sizes) for sizes in ((3, 3, 5), (4, 6, 5), (2, 5, 5), (7, 4, 9), (5, 9, 3), (3, 5))]
    factors = [tuple(torch.linalg.lu_factor(matrix)) for matrix in matrices]
    run(lambda lu, pivots: torch.lu_unpack(lu, pivots), factors, dynamic=dynamic)
    run(lambda lu, pivots: torch.lu_unpack(lu, pivots, unpack_data=False)[0], factors, dynamic=dynamic)


def test_convolutions_are_not_tried_at_large_sizes():
    """What they give at other sizes is asked for, which took minutes where the library itself was asked."""

    def f(x, weight):
        return F.conv_transpose3d(x, weight, None, (3, 2, 1), (1, 2, 3), (2, 3, 1), 2, 4)

    start = time.process_time()
    sizes = [((2, 2, 4, 4, 4), (2, 2, 4, 5, 6)), ((3, 4, 5, 3, 4), (4, 3, 2, 5, 4))]
    run(f, [tuple(torch.randn(*one, dtype=torch.complex64) for one in two) for two in sizes], dynamic=True)
    assert time.process_time() - start < 30


def test_indices_into_nothing_raise():
    def f(x):
        return x.scatter(0, torch.zeros(1, 6, dtype=torch.long), 2.0)

    compiled = braze.compile(f)
    for n in (5, 8, 1):
        same(compiled(torch.ones(n, 6)), f(torch.ones(n, 6)))
    with pytest.raises(RuntimeError, match="out of bounds"):
        compiled(torch.ones(0, 6))


def test_more_is_cut_off_than_there_is():
    def f(x):
        return F.pad(x, (0, 0, -1, 2))

    compiled = braze.compile(f)
    for n in (5, 8, 1):
        same(compiled(torch.ones(n, 6)), f(torch.ones(n, 6)))
    with pytest.raises(RuntimeError, match="narrow"):
        compiled(torch.ones(0, 6))


def test_pixels_of_nothing():
    run(lambda x: F.pixel_unshuffle(x, 2), [(torch.randn(n, 3, 4, 6),) for n in (2, 3, 5, 0)])


#: Of `a` (n, m, k) and `b` (n, m, 1), whole numbers: a part of one of them is a single row, which is broadcast
#: beside the whole of it.
ROWS_BESIDE_THE_WHOLE = [
    "(b[: b.shape[0] // 2] + a) * b",
    "(b[1::3] + a) * b",
    "(b[1:100:3].minimum(a)) - b",
    "torch.where(b[1:100:3].minimum(a) != 1, b, 0).sum() + b[1:100:3].minimum(a)",
    "b[: (b.shape[0] - 1) // 2 + b.shape[0] % 2 - a.shape[0] // 3] * a + b",
    "(a[:, : a.shape[1] // 2] + b) * a",
    "(a[:, a.shape[1] // 2 : a.shape[1] // 2 + 1] + b).maximum(a) * b",
    "(b[::4] - a).cumsum(0) + b * a",
    "(b.unfold(0, b.shape[0], 1)[..., 0] + a) * b + a",
    "(b[: b.shape[0] // 2].mT + a.mT) * b.mT",
]


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("text", ROWS_BESIDE_THE_WHOLE)
def test_one_row_beside_the_whole(text, dynamic):
    f = eval(f"lambda a, b: {text}", {"torch": torch})
    calls = [
        (torch.randint(1, 9, (n, m, k)), torch.randint(1, 9, (n, m, 1)))
        for n, m, k in [(2, 3, 4), (3, 3, 5), (3, 2, 7), (2, 3, 33), (3, 3, 6)]
    ]
    compiled = braze.compile(f, dynamic=dynamic, options={"recompile_limit": 100})
    for a, b in calls:
        try:
            expected = f(a, b)
        except RuntimeError as error:  # More rows than one.
            with pytest.raises(RuntimeError, match=re.escape(str(error))):
                compiled(a, b)
        else:
            same(compiled(a, b), expected)
    # One for each call would say that no code of all sizes was made.
    assert compiled.counts()["captured"] < len(calls)
