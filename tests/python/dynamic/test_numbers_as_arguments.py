"""Floats computed of sizes, and sizes, as plain arguments of operators: one program for all sizes."""

import math

import pytest
import torch
from torch.nn import functional as F

import braze
from braze._load import C

pytestmark = pytest.mark.skipif(not hasattr(C, "CompiledFunction"), reason="no evaluator for this Python")

SIZES = (8, 12, 20, 5, 33, 7, 1, 0, 16)


def n(x):
    return x.shape[0]


ONES = torch.ones(6, 6)
FORMS = {
    "attention": lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None], scale=1 / math.sqrt(n(x) + 1)),
    "layer norm": lambda x: F.layer_norm(x, (6,), eps=1e-5 * n(x)),
    "rms norm": lambda x: F.rms_norm(x, (6,), eps=1e-5 * n(x)),
    "group norm": lambda x: F.group_norm(x, 2, eps=1e-3 * n(x)),
    "elu": lambda x: F.elu(x, alpha=n(x) / 8),
    "elu by a size": lambda x: F.elu(x, n(x)),
    "hardtanh": lambda x: F.hardtanh(x, -n(x) / 8, n(x) / 8),
    "softplus": lambda x: F.softplus(x, beta=n(x) / 8, threshold=n(x) / 2),
    "softplus of numbers that are alike": lambda x: F.softplus(x, n(x) / 8, n(x) / 8),
    "power": lambda x: (x.abs() ** (n(x) / 8), torch.pow(x.abs(), n(x) / 8)),
    "leaky_relu": lambda x: F.leaky_relu(x, n(x) / 50),
    "threshold": lambda x: F.threshold(x, n(x) / 50, n(x) / 2),
    "hardshrink": lambda x: F.hardshrink(x, n(x) / 50),
    "nan_to_num": lambda x: torch.nan_to_num(torch.where(x > 0, x, math.nan), nan=n(x) / 2),
    "clamp": lambda x: (x.clamp(-n(x) / 30, n(x) / 30), x.clamp(max=n(x) / 9), x.clamp_min(n(x) / 9)),
    "lerp": lambda x: torch.lerp(x, x * 2, n(x) / 50),
    "alpha": lambda x: (torch.add(x, x, alpha=n(x) / 2), torch.sub(x, x + 1, alpha=n(x) / 3)),
    "products": lambda x: (
        torch.addmm(x, x, ONES, beta=n(x) / 9, alpha=n(x) / 2),
        torch.addmv(x[:, 0], x, ONES[0], alpha=n(x) / 2),
        torch.baddbmm(x[None], x[None], ONES[None], beta=n(x) / 9),
    ),
    "factors": lambda x: (torch.addcmul(x, x, x, value=n(x) / 3), torch.addcdiv(x, x, x.abs() + 1, value=n(x) / 3)),
    "isclose": lambda x: torch.isclose(x, x * 1.1, rtol=n(x) / 300, atol=1e-3 * n(x)),
    "full": lambda x: (torch.full((3,), n(x) / 2), torch.full_like(x, n(x) / 3), x.new_full((2,), n(x) / 4)),
    "fills": lambda x: (x.clone().fill_(n(x) / 2), x.masked_fill(x > 0, n(x) / 2), torch.where(x > 0, x, n(x) / 2)),
    "huber": lambda x: F.huber_loss(x, x * 2, delta=(n(x) + 1) / 9, reduction="none"),
    "smooth l1": lambda x: F.smooth_l1_loss(x, x * 2, beta=(n(x) + 1) / 9, reduction="none"),
    "padding": lambda x: F.pad(x, (1, 1), value=n(x) / 2),
    "logit": lambda x: torch.logit(x.sigmoid(), eps=1e-3 * n(x)),
    "a range": lambda x: torch.linspace(0, n(x) / 2, 7),
    "a comparison": lambda x: (torch.gt(x, n(x) / 9), torch.eq(x, n(x) / 9)),
}
# In place, or random.
DRAWN = {
    "normal_": lambda x: torch.empty_like(x).normal_(0, 1 / math.sqrt(n(x) + 1)),
    "normal_, by keyword": lambda x: torch.empty_like(x).normal_(std=1 / math.sqrt(n(x) + 1)),
    "uniform_": lambda x: torch.empty_like(x).uniform_(-1 / (n(x) + 1), n(x) / 2),
    "uniform_ to a size": lambda x: torch.empty_like(x).uniform_(0, n(x)),
    "elu_": lambda x: F.elu(x.clone(), n(x) / 8, inplace=True),
}


def same(one, other):
    if isinstance(other, tuple):
        for a, b in zip(one, other, strict=True):
            same(a, b)
        return
    assert one.dtype == other.dtype and (one.stride() == other.stride() or not other.numel())
    torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5, equal_nan=True)


def captures(function, sizes, dynamic=None, dtype=torch.float32):
    compiled = braze.compile(function, dynamic=dynamic)
    for size in sizes:
        x = torch.randn(size, 6, generator=torch.Generator(torch.get_default_device()).manual_seed(size)).to(dtype)
        torch.manual_seed(0)
        wanted = function(x)
        torch.manual_seed(0)
        same(compiled(x), wanted)
    assert compiled.counts()["native"] == 0
    return compiled.counts()["captured"]


@pytest.mark.usefixtures("no_grad")
@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("form", [*FORMS, *DRAWN])
def test_one_program_for_all_sizes(form, dynamic):
    function = {**FORMS, **DRAWN}[form]
    assert captures(function, [size for size in SIZES if size > 1], dynamic) == (1 if dynamic else 2)
    captures(function, SIZES, dynamic)


TRAINED = {
    "elu": lambda x: F.elu(x, alpha=n(x) / 8),
    "softplus": lambda x: F.softplus(x, beta=n(x) / 8, threshold=n(x) / 2),
    "hardtanh": lambda x: F.hardtanh(x, -n(x) / 8, n(x) / 8),
    "power": lambda x: (x.abs() + 1) ** (n(x) / 8),
    "alpha": lambda x: torch.add(x, x * x, alpha=n(x) / 2),
    "leaky_relu": lambda x: F.leaky_relu(x, n(x) / 50),
    "clamp": lambda x: x.clamp(-n(x) / 30, n(x) / 30),
    "attention": lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None], scale=1 / math.sqrt(n(x))),
    "layer norm": lambda x: F.layer_norm(x, (6,), eps=1e-2 * n(x)),
}


@pytest.mark.parametrize("form", TRAINED)
def test_gradients(form):
    function, compiled = TRAINED[form], braze.compile(TRAINED[form])
    for size in (8, 12, 20, 5, 33, 7):
        x = torch.randn(size, 6, requires_grad=True)
        (ours,) = torch.autograd.grad(compiled(x).pow(2).sum(), x)
        (theirs,) = torch.autograd.grad(function(x).pow(2).sum(), x)
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.usefixtures("no_grad")
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64, torch.int64], ids=str)
@pytest.mark.parametrize("form", ["clamp", "fills", "full", "alpha", "lerp"])
def test_other_types(form, dtype):
    function, compiled = FORMS[form], braze.compile(FORMS[form])
    for size in SIZES:
        x = torch.linspace(-9, 9, size * 6).view(size, 6).to(dtype)
        try:
            wanted = function(x)
        except RuntimeError as error:
            with pytest.raises(RuntimeError, match=str(error).splitlines()[0][:20].replace("(", ".")):
                compiled(x)
            continue
        for ours, theirs in zip(
            *[one if isinstance(one, tuple) else (one,) for one in (compiled(x), wanted)], strict=True
        ):
            assert ours.dtype == theirs.dtype
            torch.testing.assert_close(ours, theirs, rtol=0.02, atol=0.02)


@pytest.mark.usefixtures("no_grad")
def test_a_range_whose_length_a_number_decides():
    def f(x):
        return torch.arange(0, n(x) / 2, 0.5), torch.arange(n(x) / 4)

    captures(f, (8, 12, 20, 5, 33))


@pytest.mark.usefixtures("no_grad")
def test_autocast_makes_them_numbers():
    def f(x):
        with torch.autocast("cpu", torch.bfloat16):
            half = x.bfloat16()
            attended = F.scaled_dot_product_attention(x[None], x[None], half[None], scale=1 / n(x))
            return F.layer_norm(half, (6,), eps=1e-3 * n(x)), torch.addmm(x, x, ONES, alpha=n(x) / 2), attended

    compiled = braze.compile(f)
    for size in (8, 12, 20, 5, 33):
        x = torch.randn(size, 6)
        for ours, theirs in zip(compiled(x), f(x), strict=True):
            assert ours.dtype == theirs.dtype
            torch.testing.assert_close(ours, theirs, rtol=0.02, atol=0.02)


@pytest.mark.usefixtures("no_grad")
def test_floats_that_vary():
    def f(x, slope, limit):
        return F.elu(x, slope), F.softplus(x, slope + 0.5), x.clamp(max=limit * 2), F.layer_norm(x, (6,), eps=limit)

    compiled, x = braze.compile(f), torch.randn(4, 6)
    for k in range(1, 8):
        same(compiled(x, k / 4, k / 7), f(x, k / 4, k / 7))
    assert compiled.counts() == {"captured": 2, "replayed": 5, "native": 0}


class Halved:
    """Divides in its own way."""

    def __init__(self, x):
        self.x = x

    def __divmod__(self, k):
        return self.x / k, self.x - k

    def __rdivmod__(self, k):
        return k - self.x, self.x * k


DIVIDED = {
    "tensor": lambda x, k: divmod(x, k),
    "number": lambda x, k: divmod(k, x),
    "object": lambda x, k: divmod(Halved(x), k),
    "by an object": lambda x, k: divmod(k, Halved(x)),
    "float": lambda x, k: x * divmod(k, 2.5)[1] + divmod(7.5, k)[0],
}


@pytest.mark.usefixtures("no_grad")
@pytest.mark.parametrize("name", DIVIDED)
def test_divmod_is_what_its_operands_say(name):
    """Tensors have none."""
    compiled, x = braze.compile(DIVIDED[name]), torch.randn(4, 6)
    for k in range(2, 7):
        if name in ("tensor", "number"):
            with pytest.raises(TypeError) as expected:
                DIVIDED[name](x, k)
            with pytest.raises(TypeError) as raised:
                compiled(x, k)
            assert str(raised.value) == str(expected.value)
        else:
            same(compiled(x, k), DIVIDED[name](x, k))
