"""Operators of PyTorch's backward that run as kernels of braze's."""

import pytest
import torch
import torch.nn.functional as F

import braze

ROWS = torch.tensor([3, 0, 3, -1, 2, 4, 0, 3])
CASES = {
    "avg_pool1d": (lambda x: F.avg_pool1d(x, 2), (2, 3, 8), True),
    "avg_pool2d": (lambda x: F.avg_pool2d(x, 2), (2, 3, 8, 10), True),
    "avg_pool2d of three": (lambda x: F.avg_pool2d(x, (3, 2)), (2, 3, 10, 9), True),
    "avg_pool2d by another number": (lambda x: F.avg_pool2d(x, 2, divisor_override=3), (2, 3, 8, 10), True),
    "avg_pool2d without a batch": (lambda x: F.avg_pool2d(x, 2), (3, 8, 10), True),
    "avg_pool3d": (lambda x: F.avg_pool3d(x, (1, 2, 3)), (2, 3, 4, 5, 7), True),
    "avg_pool2d, cut windows": (lambda x: F.avg_pool2d(x, 2, ceil_mode=True), (2, 3, 7, 9), True),
    "avg_pool2d, overlapping": (lambda x: F.avg_pool2d(x, 3, stride=1, padding=1), (2, 3, 7, 9), True),
    "avg_pool2d of what is inside": (
        lambda x: F.avg_pool2d(x, 3, stride=2, padding=1, ceil_mode=True, count_include_pad=False),
        (2, 3, 8, 10),
        True,
    ),
    "avg_pool2d far apart": (lambda x: F.avg_pool2d(x, 2, stride=3), (2, 3, 9, 10), True),
    "avg_pool1d, overlapping": (lambda x: F.avg_pool1d(x, 5, stride=2, padding=2), (2, 3, 19), True),
    "avg_pool3d, overlapping": (lambda x: F.avg_pool3d(x, 3, 2, 1, divisor_override=5), (1, 2, 4, 5, 6), True),
    "adaptive_avg_pool1d": (lambda x: F.adaptive_avg_pool1d(x, 5), (2, 3, 13), True),
    "adaptive_avg_pool2d": (lambda x: F.adaptive_avg_pool2d(x, 7), (2, 3, 14, 21), True),
    "adaptive_avg_pool2d, unlike windows": (lambda x: F.adaptive_avg_pool2d(x, (3, 6)), (2, 3, 28, 28), True),
    "adaptive_avg_pool2d, long windows": (lambda x: F.adaptive_avg_pool2d(x, (3, 7)), (2, 3, 41, 60), True),
    "adaptive_avg_pool2d that repeats": (lambda x: F.adaptive_avg_pool2d(x, (8, 9)), (2, 3, 3, 2), True),
    "adaptive_avg_pool2d without a batch": (lambda x: F.adaptive_avg_pool2d(x, 3), (3, 7, 8), True),
    "adaptive_avg_pool3d": (lambda x: F.adaptive_avg_pool3d(x, (2, 3, 2)), (1, 2, 4, 5, 7), True),
    "adaptive_max_pool1d": (lambda x: F.adaptive_max_pool1d(x, 5), (2, 3, 13), True),
    "adaptive_max_pool2d": (lambda x: F.adaptive_max_pool2d(x, (3, 6)), (2, 3, 14, 9), True),
    "adaptive_max_pool2d of one": (lambda x: F.adaptive_max_pool2d(x, 1), (2, 3, 6, 1), True),
    "adaptive_max_pool3d": (lambda x: F.adaptive_max_pool3d(x, 2), (1, 2, 4, 5, 7), True),
    "max_pool1d": (lambda x: F.max_pool1d(x, 3, 1, 1), (2, 3, 12), True),
    "max_pool2d": (lambda x: F.max_pool2d(x, 3, 2, 1), (2, 3, 11, 20), True),
    "max_pool2d, dilated": (lambda x: F.max_pool2d(x, 3, 2, 1, dilation=2, ceil_mode=True), (2, 3, 11, 20), True),
    "max_pool2d of many": (lambda x: F.max_pool2d(x, 7, 1, 3), (2, 3, 11, 20), True),
    "max_pool2d without a batch": (lambda x: F.max_pool2d(x, 2), (3, 6, 5), True),
    "max_pool3d": (lambda x: F.max_pool3d(x, 3, 2, 1), (1, 2, 6, 7, 8), True),
    "glu": (F.glu, (4, 6, 8), True),
    "glu of the first dimension": (lambda x: F.glu(x, 0), (4, 6, 5), True),
    "prelu": (lambda x: F.prelu(x, torch.full((1,), 0.2).to(x)), (4, 6, 5), True),
    "prelu by channel": (lambda x: F.prelu(x, torch.linspace(-1, 1, 6).to(x)), (4, 6, 5), True),
    "nearest 1d": (lambda x: F.interpolate(x, scale_factor=3), (2, 3, 5), True),
    "nearest 2d": (lambda x: F.interpolate(x, scale_factor=2), (2, 3, 5, 4), True),
    "nearest 2d to a size": (lambda x: F.interpolate(x, size=(15, 28)), (2, 3, 5, 4), True),
    "nearest 3d": (lambda x: F.interpolate(x, scale_factor=(1, 2, 4)), (1, 2, 3, 4, 2), True),
    "nearest exact": (lambda x: F.interpolate(x, scale_factor=2, mode="nearest-exact"), (2, 3, 5, 4), True),
    "nearest 2d, of parts": (lambda x: F.interpolate(x, size=(7, 6)), (2, 3, 5, 4), True),
    "nearest 2d, smaller": (lambda x: F.interpolate(x, scale_factor=0.5), (2, 3, 6, 4), False),
    "nearest 3d, of parts": (lambda x: F.interpolate(x, size=(5, 4, 3)), (1, 2, 4, 3, 3), True),
    "linear": (lambda x: F.interpolate(x, scale_factor=2, mode="linear"), (2, 3, 17), True),
    "bilinear": (lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), (2, 3, 9, 10), True),
    "bilinear of corners": (
        lambda x: F.interpolate(x, size=(20, 31), mode="bilinear", align_corners=True),
        (2, 3, 9, 10),
        True,
    ),
    "bilinear, much larger": (lambda x: F.interpolate(x, size=(13, 16), mode="bilinear"), (2, 3, 1, 2), True),
    "bilinear, smaller": (lambda x: F.interpolate(x, size=(3, 4), mode="bilinear"), (2, 3, 9, 10), True),
    "bilinear, both": (lambda x: F.interpolate(x, size=(3, 40), mode="bilinear"), (2, 3, 9, 10), True),
    "trilinear": (lambda x: F.interpolate(x, scale_factor=2, mode="trilinear"), (1, 2, 4, 3, 5), True),
    "bicubic": (lambda x: F.interpolate(x, scale_factor=2, mode="bicubic"), (2, 3, 6, 9), True),
    "bicubic of corners": (
        lambda x: F.interpolate(x, size=(5, 23), mode="bicubic", align_corners=True),
        (2, 3, 6, 9),
        True,
    ),
    "reflection 1d": (lambda x: F.pad(x, (3, 2), mode="reflect"), (2, 3, 9), True),
    "reflection 2d": (lambda x: F.pad(x, (1, 2, 3, 0), mode="reflect"), (2, 3, 6, 9), True),
    "reflection 3d": (lambda x: F.pad(x, (1, 2, 0, 1, 2, 1), mode="reflect"), (1, 2, 3, 4, 5), True),
    "reflection without a batch": (lambda x: F.pad(x, (8, 8), mode="reflect"), (3, 9), True),
    "replication 1d": (lambda x: F.pad(x, (3, 20), mode="replicate"), (2, 3, 9), True),
    "replication 2d": (lambda x: F.pad(x, (1, 2, 3, 0), mode="replicate"), (2, 3, 6, 9), True),
    "replication 3d": (lambda x: F.pad(x, (1, 2, 0, 1, 2, 1), mode="replicate"), (1, 2, 3, 1, 5), True),
    "replication that cuts": (lambda x: F.pad(x, (-1, 2, 3, -2), mode="replicate"), (2, 3, 6, 9), True),
    "rows by numbers": (lambda x: x[ROWS], (5, 6), True),
    "columns by numbers": (lambda x: x[:, ROWS], (4, 5, 3), True),
    "elements by numbers": (lambda x: x[ROWS, ROWS.flip(0)], (5, 6), True),
    "elements by numbers, apart": (lambda x: x[ROWS, :, -ROWS], (5, 3, 6), True),
    "one row by a number": (lambda x: x[ROWS[0]], (5, 6), True),
    "weight norm": (lambda x: torch._weight_norm(x, x[:, :1, :1].exp(), 0), (6, 4, 5), True),
    "weight norm of the last dimension": (lambda x: torch._weight_norm(x, x[:1].exp(), 1), (6, 4), True),
    "hardsigmoid": (F.hardsigmoid, (40, 7), True),
    "hardswish": (F.hardswish, (40, 7), True),
    "hardshrink": (F.hardshrink, (40, 7), True),
    "softshrink": (lambda x: F.softshrink(x, 0.3), (40, 7), True),
    "logsigmoid": (F.logsigmoid, (40, 7), True),
    "smooth_l1_loss": (lambda x: F.smooth_l1_loss(x, torch.ones_like(x), beta=0.5), (6, 7), True),
    "smooth_l1_loss, each": (lambda x: F.smooth_l1_loss(x, x.detach().flip(0), reduction="none"), (6, 7), True),
    "huber_loss": (lambda x: F.huber_loss(x, torch.ones_like(x), delta=0.7, reduction="sum"), (6, 7), True),
    "mse_loss": (lambda x: F.mse_loss(x, torch.ones_like(x)), (6, 7), True),
    "binary_cross_entropy": (lambda x: F.binary_cross_entropy(x.sigmoid(), (x > 0).to(x)), (6, 7), True),
    "binary_cross_entropy, weighted": (
        lambda x: F.binary_cross_entropy(x.sigmoid(), (x > 0).to(x), x.detach().abs()[0], reduction="none"),
        (6, 7),
        True,
    ),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("name", CASES)
def test_gradients(name, dtype):
    function, shape, is_native = CASES[name]
    if name.startswith("avg_pool3d") and dtype == torch.bfloat16:
        pytest.skip("eager has no such kernel")
    torch.manual_seed(0)
    compiled = braze.compile(lambda x: function(x).tanh())
    for _ in range(3):
        one = torch.randn(shape).to(dtype).requires_grad_()
        other = one.detach().clone().requires_grad_()
        ours, theirs = compiled(one), function(other).tanh()
        tangent = torch.randn_like(theirs)
        ours.backward(tangent)
        theirs.backward(tangent)
        # What eager rounds to half between its kernels, or after each of several sums, is not rounded here: nearer
        # to the gradient of f64.
        tolerance = {"rtol": 2e-2, "atol": 3e-2} if dtype == torch.bfloat16 else {}
        torch.testing.assert_close(ours, theirs, **tolerance)
        torch.testing.assert_close(one.grad, other.grad, **tolerance)
        assert one.grad.stride() == other.grad.stride()
    _, backward = compiled.programs()
    assert "(backward)" in repr(backward)
    calls = [step.name for step in backward.steps if step.kind == "call"]
    assert not is_native or not calls, calls


def of_planes():
    return [
        name for name, (_, shape, _) in CASES.items() if len(shape) in (4, 5) and not name.startswith("elements")
    ]


@pytest.mark.parametrize("name", of_planes())
def test_layouts(name):
    function, shape, is_native = CASES[name]
    last = torch.channels_last if len(shape) == 4 else torch.channels_last_3d
    compiled = braze.compile(lambda x: function(x * 2))
    for form in (last, torch.contiguous_format, last):
        for tangent_form in (last, torch.contiguous_format):
            one = torch.randn(shape).to(memory_format=form).requires_grad_()
            other = one.detach().clone().requires_grad_()
            ours, theirs = compiled(one), function(other * 2)
            tangent = torch.randn_like(theirs).contiguous(memory_format=tangent_form)
            mine, eagers = (torch.autograd.grad(*each, tangent)[0] for each in ((ours, one), (theirs, other)))
            torch.testing.assert_close(ours, theirs)
            torch.testing.assert_close(mine, eagers)
            assert ours.stride() == theirs.stride()
            if tangent.stride() == theirs.stride():  # Others are copied.
                assert mine.stride() == eagers.stride()


@pytest.mark.parametrize("name", of_planes())
def test_sizes_that_vary(name):
    function, shape, _ = CASES[name]
    compiled = braze.compile(lambda x: function(x).tanh())
    for more in (0, 1, 2, 5, 3):
        one = torch.randn(shape[0] + more, *shape[1:-1], shape[-1] + more).requires_grad_()
        other = one.detach().clone().requires_grad_()
        ours, theirs = compiled(one), function(other).tanh()
        tangent = torch.randn_like(theirs)
        ours.backward(tangent)
        theirs.backward(tangent)
        torch.testing.assert_close(ours, theirs)
        torch.testing.assert_close(one.grad, other.grad)


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize(
    "kernel", [{"kernel_size": 3, "stride": 2, "padding": 1}, {"kernel_size": 2, "dilation": 3}]
)
def test_which_of_several_is_the_largest(layout, kernel):
    """Of equal elements the first, of NaN the last, of nothing but -inf the first that is not padding."""
    kinds = torch.tensor([0.0, -0.0, 1.0, float("nan"), -float("inf"), float("inf")])
    choices = [kinds[:2], kinds[:3], kinds[2:5], kinds[4:5], kinds, kinds[4:]]
    for dtype in (torch.float32, torch.bfloat16):
        compiled = braze.compile(lambda x: F.max_pool2d(x, return_indices=True, **kernel))
        for choice in choices:
            x = choice[torch.randint(len(choice), (2, 3, 9, 21))].to(dtype).contiguous(memory_format=layout)
            for mine, eagers in zip(compiled(x), F.max_pool2d(x, return_indices=True, **kernel), strict=True):
                torch.testing.assert_close(mine, eagers, equal_nan=True, rtol=0, atol=0)
                assert mine.stride() == eagers.stride()


@pytest.mark.parametrize("name", of_planes())
@pytest.mark.parametrize("batch", [0, 1])
def test_batches_of_none_and_of_one(name, batch):
    function, shape, _ = CASES[name]
    compiled = braze.compile(function)
    results = []
    x = torch.randn(batch, *shape[1:]).requires_grad_()
    for each in (function, compiled, compiled):
        try:
            y = each(x)
            results.append((y, torch.autograd.grad(y, x, torch.ones_like(y))[0]))
        except (RuntimeError, IndexError) as error:  # Some of eager's kernels refuse an empty batch.
            results.append(type(error))
    for mine in results[1:]:
        assert type(mine) is type(results[0])
        if isinstance(mine, tuple):
            torch.testing.assert_close(mine, results[0])
            assert [one.stride() for one in mine] == [one.stride() for one in results[0]]


INFINITE = ["avg_pool2d, overlapping", "adaptive_avg_pool2d, unlike windows", "bilinear", "nearest 2d, smaller"]


@pytest.mark.parametrize("name", [*INFINITE, "adaptive_avg_pool2d that repeats", "reflection 2d", "linear"])
def test_infinities_stay_where_they_are(name):
    """Elements that have fewer terms than others are not multiplied with what they do not depend on."""
    function, shape, _ = CASES[name]
    x = torch.randn(shape).requires_grad_()
    results = []
    for each in (function, braze.compile(function)):
        y = each(x)
        tangent = torch.ones_like(y)
        tangent[0, 0, ..., 1] = tangent[1, 2, ..., -1] = float("inf")
        tangent[0, 1, ..., 0] = float("nan")
        results.append(torch.autograd.grad(y, x, tangent)[0])
    torch.testing.assert_close(*results, equal_nan=True)


LIMITED = {
    "elu": F.elu,
    "elu without end": lambda x: F.elu(x, float("inf")),
    "celu": lambda x: F.celu(x, 0.5),
    "selu": F.selu,
    "hardtanh": F.hardtanh,
    "relu6": F.relu6,
    "hardswish": F.hardswish,
    "hardsigmoid": F.hardsigmoid,
    "hardshrink": F.hardshrink,
    "softshrink": F.softshrink,
    "leaky_relu": F.leaky_relu,
    "softplus": F.softplus,
    "logsigmoid": F.logsigmoid,
}


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name", LIMITED)
def test_gradients_where_no_limit_holds(name, dtype, dynamic):
    """NaN lies beyond all limits where eager takes elements in vectors, within them where one by one."""
    kinds = torch.tensor([float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1.0, -1.0, 3.0, -3.0, 6.0, -100.0])
    few = [] if dynamic else [kinds[:3]]  # Where sizes vary the kernel is that of vectors.
    for given in (kinds.repeat(128)[:1280], *few):
        compiled = braze.compile(LIMITED[name], dynamic=dynamic)
        one = given.to(dtype).requires_grad_()
        other = one.detach().clone().requires_grad_()
        for function, x in ((compiled, one), (LIMITED[name], other)):
            function(x).backward(torch.ones_like(x))
        tolerance = {"rtol": 2e-2, "atol": 1e-3} if dtype.itemsize == 2 else {}
        torch.testing.assert_close(one.grad, other.grad, equal_nan=True, **tolerance)


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("function", [F.logsigmoid, lambda x: F.logsigmoid(x).tanh()])
def test_what_the_forward_has_kept_is_read(function, dynamic):
    compiled = braze.compile(function, dynamic=dynamic)
    for k in range(4):
        results = []
        for each in (compiled, function):
            torch.manual_seed(k)
            x = torch.randn(5, 7).requires_grad_()
            y = each(x)
            x.data.mul_(-0.5)
            y.sum().backward()
            results.append(x.grad)
        torch.testing.assert_close(*results)


def test_gradcheck():
    x = torch.randn(1, 2, 4, 6, dtype=torch.float64, requires_grad=True)
    for name in ("avg_pool2d", "nearest 2d", "bilinear", "adaptive_avg_pool2d that repeats", "replication 2d"):
        assert torch.autograd.gradcheck(braze.compile(CASES[name][0]), x)


def test_gradcheck_of_gates():
    x = torch.randn(4, 6, dtype=torch.float64, requires_grad=True)
    weight = torch.rand(6, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(braze.compile(F.glu), x)
    assert torch.autograd.gradcheck(braze.compile(F.prelu), (x, weight))


def layouts(shape):
    """A tensor of the shape (batch, heads, length, width) in memory of several orders."""
    b, h, n, d = shape
    yield "row-major", lambda: torch.randn(shape)
    yield "by length", lambda: torch.randn(b, n, h, d).transpose(1, 2)
    yield "one head for all", lambda: torch.randn(b, 1, n, d).expand(shape)
    yield "a part", lambda: torch.randn(b, n, h, 3 * d)[..., d : 2 * d].transpose(1, 2)


@pytest.mark.parametrize("masked", ["no mask", "mask", "causal"])
@pytest.mark.parametrize("length", [5, 9])
@pytest.mark.parametrize("layout", range(4))
def test_gradients_of_attention_lie_as_eagers(layout, length, masked):
    _, make = list(layouts((2, 3, length, 8)))[layout]
    _, make_other = list(layouts((2, 3, 5, 8)))[layout]

    def attention(q, k, v):
        mask = torch.ones(q.shape[-2], k.shape[-2]).tril(2).bool() if masked == "mask" else None
        # What is computed of the gradients inside of the program sees their strides too.
        scaled = q * 2, k * 0.5, v
        return F.scaled_dot_product_attention(*scaled, attn_mask=mask, is_causal=masked == "causal")

    compiled = braze.compile(attention)
    for _ in range(3):
        given = [each.requires_grad_() for each in (make(), make_other(), make_other())]
        ours, theirs = compiled(*given), attention(*given)
        torch.testing.assert_close(ours, theirs)
        tangent = torch.randn_like(theirs)
        mine, eagers = (torch.autograd.grad(each, given, tangent) for each in (ours, theirs))
        torch.testing.assert_close(mine, eagers)
        assert [each.stride() for each in mine] == [each.stride() for each in eagers]
    assert compiled.counts()["native"] == 0


@pytest.mark.parametrize("wanted", [(True, True, True), (False, False, True), (True, False, False)])
def test_attention_is_computed_once_for_forward_and_backward(wanted):
    def attention(q, k, v):
        return F.scaled_dot_product_attention(q * 2, k, v, is_causal=True)

    compiled = braze.compile(attention)
    for _ in range(3):
        given = [torch.randn(2, 3, 7, 8, requires_grad=wants) for wants in wanted]
        ours, theirs = compiled(*given), attention(*given)
        asked = [each for each in given if each.requires_grad]
        tangent = torch.randn_like(theirs)
        mine, eagers = (torch.autograd.grad(each, asked, tangent) for each in (ours, theirs))
        torch.testing.assert_close(ours, theirs)
        torch.testing.assert_close(mine, eagers)
    calls = [step.name for program in compiled.programs() for step in program.steps if step.kind == "call"]
    flash = "aten::_scaled_dot_product_flash_attention_for_cpu"
    assert sorted(calls) == [flash, flash + "_backward"]
    # Nobody wants what only a backward reads.
    with torch.no_grad():
        compiled(*given)
    names = [step.name for program in compiled.programs() for step in program.steps if step.kind == "call"]
    assert sorted(names) == sorted([*calls, "aten::scaled_dot_product_attention"])
