"""Elementwise formulas, losses, reductions, scans and normalisations that run without ATen, against eager.

What OpInfo's samples leave out: special values, layouts other than row-major, state that is written.
"""

import itertools

import oracle
import pytest
import torch
import torch.nn.functional as F
from oracle import check_kernels

inf, nan = float("inf"), float("nan")
FLOATS = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
SPECIAL = [
    0.0,
    -0.0,
    nan,
    inf,
    -inf,
    1.0,
    -1.0,
    0.5,
    -0.5,
    0.3,
    2.0,
    -2.0,
    3.7,
    -3.7,
    1e-3,
    90.0,
    -90.0,
    300.0,
    6e4,
]

UNARY = {
    name: getattr(torch, name)
    for name in [
        "asin",
        "acos",
        "atan",
        "sinh",
        "cosh",
        "asinh",
        "acosh",
        "atanh",
        "erfc",
        "erfinv",
        "digamma",
        "lgamma",
        "frac",
        "sinc",
        "logit",
        "angle",
        "rad2deg",
        "deg2rad",
        "isposinf",
        "isneginf",
        "signbit",
        "sign",
        "sgn",
        "nan_to_num",
        "exp",
        "log",
        "tanh",
        "sqrt",
        "floor",
    ]
} | {
    "entr": torch.special.entr,
    "logit with eps": lambda x: torch.logit(x, 0.1),
    "hardshrink": lambda x: F.hardshrink(x, 0.4),
    "celu": lambda x: F.celu(x, 1.3),
    "logsigmoid": F.logsigmoid,
    "threshold": lambda x: F.threshold(x, 0.4, 7.0),
    "rrelu": lambda x: F.rrelu(x),
    "prelu": lambda x: F.prelu(x, torch.full((1,), 0.3, dtype=x.dtype)),
    "polygamma": lambda x: torch.polygamma(0, x),
    "nan_to_num with numbers": lambda x: torch.nan_to_num(x, 0.1, 5.0, -5.0),
}
BINARY = {
    "hypot": torch.hypot,
    "copysign": torch.copysign,
    "logaddexp": torch.logaddexp,
    "logaddexp2": torch.logaddexp2,
    "xlogy": torch.xlogy,
    "xlog1py": torch.special.xlog1py,
    "heaviside": torch.heaviside,
    "fmax": torch.fmax,
    "fmin": torch.fmin,
    "clamp_min": torch.clamp_min,
}


def layouts(x):
    """Row-major, transposed, with gaps, broadcast."""
    yield x
    yield x.t()
    yield torch.stack([x, x], -1)[..., 1]
    yield x[:1].expand(3, -1)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", UNARY)
def test_special_values(name, dtype):
    check_kernels(UNARY[name], torch.tensor(SPECIAL, dtype=dtype))


@pytest.mark.parametrize("name", UNARY)
def test_layouts(name):
    for x in layouts(torch.rand(4, 5)):
        check_kernels(UNARY[name], x)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_softshrink(dtype):
    """Eager's vectors make 0 of -0, and what they leave over keeps it: kernels are what leaves nothing over."""
    special = torch.tensor(SPECIAL, dtype=dtype)
    oracle.check(lambda x: F.softshrink(x, 0.4), (special,))
    check_kernels(lambda x: F.softshrink(x, 0.4), special.repeat(64)[:256])


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", BINARY)
def test_pairs_of_special_values(name, dtype):
    x = torch.tensor(SPECIAL, dtype=dtype)
    check_kernels(BINARY[name], x[:, None], x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_nextafter(dtype):
    x = torch.tensor([*SPECIAL, 1e-45, -1e-45], dtype=dtype)
    check_kernels(torch.nextafter, x[:, None], x)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8], ids=str)
def test_integers(dtype):
    x = torch.tensor([0, 1, 2, 3, 5, 100, 127], dtype=dtype)
    if dtype.is_signed:
        x = torch.cat([x, -x])
    check_kernels(lambda x: torch.pow(x[:, None], x), x)
    check_kernels(lambda x: torch.pow(2, x), x)
    check_kernels(lambda x: torch.addcmul(x, x, x, value=3), x)
    check_kernels(lambda x: (torch.fmax(x[:, None], x), torch.fmin(x[:, None], x)), x)
    check_kernels(lambda x: (torch.signbit(x), torch.nan_to_num(x), torch.isposinf(x), F.threshold(x, 2, 9)), x)
    check_kernels(lambda x: (torch.erfc(x), torch.asinh(x), torch.sinc(x)), x)
    check_kernels(lambda x: (torch.logsumexp(x, 0), torch.count_nonzero(x), torch.nansum(x), torch.aminmax(x)), x)
    if dtype.is_signed:
        check_kernels(lambda x: F.hardtanh(x, -3, 4), x)


def test_bools():
    x = torch.tensor([True, False, True])
    check_kernels(
        lambda x: (torch.sign(x), torch.fmax(x, ~x), torch.clamp_max(x, ~x), torch.add(x, ~x, alpha=True)), x
    )
    check_kernels(
        lambda x: (torch.max(x, 0), torch.min(x, 0), torch.aminmax(x), x.cummax(0), x.cummin(0), x.cumsum(0)), x
    )


LOSSES = {
    "mse": F.mse_loss,
    "smooth_l1": F.smooth_l1_loss,
    "huber": lambda x, y, reduction: F.huber_loss(x, y, reduction=reduction, delta=0.7),
    "soft_margin": F.soft_margin_loss,
    "bce_with_logits": lambda x, y, reduction: F.binary_cross_entropy_with_logits(
        x, y, weight=y.abs(), pos_weight=x[0].abs(), reduction=reduction
    ),
    "cosine": lambda x, y, reduction: F.cosine_embedding_loss(x, y, x[:, 0].sign(), reduction=reduction),
    "kl_div": lambda x, y, reduction: F.kl_div(x, y.abs(), reduction=reduction),
    "multi_margin": lambda x, y, reduction: F.multi_margin_loss(
        x.double(),
        torch.arange(len(x)) % x.size(1),
        p=2,
        margin=0.7,
        weight=y[0].abs().double(),
        reduction=reduction,
    ),
    "multilabel_soft_margin": lambda x, y, reduction: F.multilabel_soft_margin_loss(
        x, (y > 0).to(y.dtype), reduction=reduction
    ),
}


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("name", LOSSES)
def test_losses(name, reduction):
    for dtype in (torch.float32, torch.bfloat16):
        for x in layouts(torch.randn(4, 5).to(dtype)):
            check_kernels(lambda x, y: LOSSES[name](x, y, reduction=reduction), x, torch.randn_like(x))


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("shape", [(7,), (5, 7), (2, 7, 3), (2, 7, 3, 2)], ids=str)
def test_cross_entropy(shape, reduction):
    x = torch.randn(shape)
    target = torch.randint(0, 7, shape[1:2] and (shape[0], *shape[2:]))
    weight = torch.rand(7)
    check_kernels(lambda x, t: F.cross_entropy(x, t, reduction=reduction), x, target)
    check_kernels(lambda x, t, w: F.cross_entropy(x, t, w, ignore_index=3, reduction=reduction), x, target, weight)
    check_kernels(lambda x, t: F.nll_loss(x, t, reduction=reduction), x.bfloat16(), target)


def test_multi_margin_loss():
    check_kernels(lambda x, t: F.multi_margin_loss(x, t), torch.tensor([0.3, nan, 2.0, inf]), torch.tensor(2))
    check_kernels(lambda x, t: F.multi_margin_loss(x, t, reduction="none"), torch.randn(6), torch.tensor([1]))
    oracle.check(lambda x, t: F.multi_margin_loss(x, t), (torch.randn(2, 3), torch.tensor([0, 3])))


def test_a_class_that_does_not_exist():
    x = torch.randn(3, 4)
    oracle.check(lambda x, t: F.nll_loss(x, t), (x, torch.tensor([0, 4, 1])))
    oracle.check(lambda x, t: F.nll_loss(x, t), (x, torch.tensor([0, -1, 1])))
    check_kernels(lambda x, t: F.nll_loss(x, t), x, torch.tensor([0, -100, 1]))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("affine", [False, True])
def test_batch_norm(dtype, affine):
    for shape, training in itertools.product([(6, 3), (4, 3, 5), (2, 3, 4, 5), (2, 3, 2, 2, 3)], [False, True]):
        x = torch.randn(shape, dtype=dtype)
        weight, bias = (torch.randn(3, dtype=dtype), torch.randn(3, dtype=dtype)) if affine else (None, None)

        def norm(x, mean, var, weight=weight, bias=bias, training=training):
            return F.batch_norm(x, mean, var, weight, bias, training, 0.2)

        state = torch.randn(3, dtype=dtype), torch.rand(3, dtype=dtype) + 0.5
        check_kernels(norm, x, *state)
        if len(shape) == 4:
            check_kernels(norm, x.to(memory_format=torch.channels_last), *state)
            check_kernels(norm, x.permute(0, 1, 3, 2), *state)
        if training:
            check_kernels(lambda x, w=weight, b=bias: F.batch_norm(x, None, None, w, b, True), x)


def test_batch_norm_of_a_module():
    module = torch.nn.BatchNorm2d(3)
    check_kernels(lambda x: (module(x), module.num_batches_tracked + 0)[0], torch.randn(4, 3, 5, 5) * 3 + 1)


def test_statistics_of_large_batches():
    check_kernels(lambda x: F.batch_norm(x, None, None, training=True), torch.randn(64, 4, 40, 40) + 100)
    check_kernels(lambda x: F.instance_norm(x), torch.randn(2, 4, 40, 40) + 100)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_group_norm(dtype):
    for shape in [(2, 6), (2, 6, 5), (2, 6, 4, 5)]:
        x, w = torch.randn(shape, dtype=dtype), torch.randn(6, dtype=dtype)
        check_kernels(lambda x, w: F.group_norm(x, 3, w, w + 1), x, w)
        check_kernels(lambda x: F.group_norm(x, 2), x)
    check_kernels(
        lambda x: torch.native_group_norm(x, None, None, 2, 6, 5, 2, 1e-5), torch.randn(2, 6, 5, dtype=dtype)
    )


@pytest.mark.parametrize("dtype", [*FLOATS, torch.int64, torch.int32, torch.int8, torch.uint8], ids=str)
def test_scans(dtype):
    x = torch.tensor([[1, 3, 2, 3], [5, 5, 0, 1], [2, 7, 7, 7]], dtype=dtype)
    for given in (x, x.t(), x[:, ::2], x[:0]):
        for dim in (0, 1, -1):
            check_kernels(lambda x, d=dim: (x.cumsum(d), x.cumprod(d)), given)
            if given.numel():
                check_kernels(lambda x, d=dim: (x.cummax(d), x.cummin(d)), given)
            if dtype.is_floating_point:
                check_kernels(lambda x, d=dim: x.logcumsumexp(d), given)
    check_kernels(lambda x: (x.cumsum(0), x.cumprod(0), x.cummax(0), x.cummin(0)), x[0, 0])


def test_scans_of_special_values():
    x = torch.tensor([[1, nan, 2, nan, inf, 0], [-inf, -inf, inf, inf, -inf, 3], [0.0, -0.0, 0.0, 1, 1, -1]])
    check_kernels(lambda x: (x.cummax(1), x.cummin(1), x.logcumsumexp(1), x.cumsum(1), x.cumprod(1)), x)


def test_long_sums_keep_eagers_precision():
    x = torch.rand(200000)
    check_kernels(lambda x: x.cumsum(0), x)
    check_kernels(lambda x: (x * 1e-3 + 1).cumprod(0), x[:20000])


def test_variance_of_huge_numbers():
    x = torch.tensor([[1e20, -2e20, 3e20], [1.0, 2.0, 4.0]])
    check_kernels(lambda x: (x.var(1), x.std(1), torch.var_mean(x, 1)), x)
    check_kernels(lambda x: x.var(1), x.bfloat16())


@pytest.mark.parametrize("reduce", [torch.nansum, torch.count_nonzero, torch.nanmean], ids=lambda f: f.__name__)
def test_reductions_with_nan(reduce):
    x = torch.tensor([[1.0, nan, 0.0], [nan, nan, 2.0]])
    check_kernels(reduce, x)
    check_kernels(lambda x: reduce(x, 1), x)
    check_kernels(lambda x: reduce(x, (0, 1)), x.bfloat16())


def test_extremes_of_one_number():
    x = torch.tensor(2.5)
    check_kernels(lambda x: (x.max(0), x.min(-1), torch.aminmax(x), x.softmax(0), x.log_softmax(0)), x)
    check_kernels(lambda x: (x.softmax(0), x.log_softmax(0)), torch.tensor(inf))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_frexp(dtype):
    info = torch.finfo(dtype)
    powers = torch.tensor([2.0**k for k in range(-14, 16)], dtype=torch.float64).to(dtype)
    edges = torch.tensor(
        [info.tiny, info.smallest_normal, info.max, info.min, info.tiny * info.eps], dtype=torch.float64
    )
    x = torch.cat(
        [torch.tensor(SPECIAL, dtype=dtype), powers, edges.to(dtype), edges.to(dtype) * 0.75, -powers * 0.99]
    )
    check_kernels(torch.frexp, x)
    for given in layouts(torch.randn(4, 5).to(dtype)):
        check_kernels(torch.frexp, given)


def test_frexp_near_powers_of_two():
    for dtype, most in ((torch.float32, 126), (torch.float64, 1021)):
        powers = torch.tensor([2.0**k for k in range(-most, most)], dtype=torch.float64).to(dtype)
        toward = torch.tensor(0.0, dtype=dtype)
        check_kernels(
            torch.frexp, torch.cat([powers, torch.nextafter(powers, toward), torch.nextafter(powers, powers * 2)])
        )


@pytest.mark.parametrize("dtype", [*FLOATS, torch.int64, torch.int8], ids=str)
def test_cross(dtype):
    x, y = (torch.randn(4, 3, 5) * 9).to(dtype), (torch.randn(4, 3, 1) * 9).to(dtype)
    check_kernels(lambda x, y: torch.linalg.cross(x, y, dim=1), x, y)
    check_kernels(lambda x, y: torch.cross(x[:3].permute(1, 0, 2), y[:3, :, 0].t()[..., None], 0), x, y)


def test_multivariate_lgamma():
    x = torch.tensor([0.1, 0.5, 1.0, 1.5, 7.25, nan, inf, -0.3])
    for terms in (1, 2, 5):
        check_kernels(lambda x, p=terms: torch.mvlgamma(x, p), x)
        check_kernels(lambda x, p=terms: torch.mvlgamma(x, p), torch.tensor([3, 9]))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_weight_norm(dtype):
    v = torch.randn(4, 3, 2).to(dtype)
    check_kernels(lambda v, g: torch._weight_norm(v, g, 0), v, torch.rand(4, 1, 1).to(dtype))
    check_kernels(lambda v, g: torch._weight_norm(v, g, 2), v.transpose(0, 1), torch.rand(1, 1, 2).to(dtype))
    check_kernels(lambda v, g: torch._weight_norm(v, g, 0), v * 0, torch.rand(4, 1, 1).to(dtype))


def test_glu():
    for x in layouts(torch.randn(4, 6)):
        if x.size(1) % 2 == 0:
            check_kernels(lambda x: F.glu(x, 1), x)
    check_kernels(lambda x: F.glu(x, 0), torch.randn(4, 3).bfloat16())


def test_rounding_to_decimals():
    x = torch.tensor([1.2345, -1.2355, 0.005, 0.015, 1234.5, nan, inf])
    for decimals in (0, 1, 2, 3, -1, -2):
        check_kernels(lambda x, d=decimals: torch.round(x, decimals=d), x)
