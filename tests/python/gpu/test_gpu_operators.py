"""Operators on a CUDA device, compiled against eager: each function is one graph, and every call a replay."""

import pytest
import torch
from on_gpu import check, needs_gpu
from torch.nn import functional as F

pytestmark = needs_gpu

HALF_AND_SINGLE = [torch.float32, torch.bfloat16, torch.float16]


def floats(*sizes, dtype=torch.float32):
    return torch.randn(sizes).to(dtype)


POINTWISE = {
    "add one": lambda x: x + 1,
    "gelu of a line": lambda x: F.gelu(x * 1.5 + x.sin()),
    "gelu by tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu, sigmoid, tanh": lambda x: F.silu(x) + x.sigmoid() * x.tanh(),
    "exp, log": lambda x: (x.exp() + 1).log() - x.abs().log1p(),
    "powers and roots": lambda x: x.abs().sqrt() + x.pow(3) + (x.abs() + 1).rsqrt() + x.abs().pow(0.3),
    "trigonometry": lambda x: x.sin() + x.cos() + x.atan() + x.erf(),
    "clamp and where": lambda x: torch.where(x > 0, x.clamp(max=1), x.clamp(min=-0.5) * 2),
    "rounding": lambda x: x.floor() + (x * 3).round() - x.trunc() + x.frac(),
    "tests": lambda x: (x > 0, x.isnan(), x.eq(x), (x < 1) & (x > -1), x.signbit()),
    "casts": lambda x: (x.double(), x.half(), x.bfloat16(), (x * 10).to(torch.int32), x.bool()),
    "remainders": lambda x: (x.fmod(0.7), x.remainder(0.7), torch.floor_divide(x, 0.3)),
    "remainders of halves": lambda x: (x.fmod(0.7), x.remainder(0.7)),
    "numbers of the CPU": lambda x: x * torch.tensor(2.0) + torch.tensor(3),
}
JUMPS = ("casts", "rounding", "remainders")


@pytest.mark.parametrize("dtype", HALF_AND_SINGLE, ids=str)
@pytest.mark.parametrize("name", POINTWISE)
def test_pointwise(name, dtype):
    if (
        name in JUMPS
    ):  # of half types, what is between operators is rounded to f32 only, which decides where they jump
        dtype = torch.float32
    check(POINTWISE[name], floats(33, 65, dtype=dtype), reference=name not in (*JUMPS, "remainders of halves"))


@pytest.mark.parametrize("size", [1, 3, 4, 127, 128, 1000, 4096, 100003])
def test_sizes(size):
    check(lambda x: x * 2 + x.abs(), floats(size))


def test_layouts():
    def f(x, y):
        return x.t() + y, x[:, 1:] * 2, x[::2].exp(), x.t().contiguous() + 1, x.flip(1) - y.t()

    check(f, floats(48, 80), floats(80, 48))


def test_broadcasting():
    check(
        lambda x, row, column, one: x * row + column - one, floats(40, 60), floats(60), floats(40, 1), floats(1, 1)
    )


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8, torch.bool])
def test_integers(dtype):
    x = torch.randint(0, 2 if dtype == torch.bool else 100, (257,)).to(dtype)
    if dtype == torch.bool:
        check(lambda x: (x & ~x, x | x, x ^ True, x.sum(), x.any(), x.all()), x, reference=False)
    else:
        check(
            lambda x: (x * 3 + 1, x // 7, x % 7, x >> 1, x.sum(), x.amax(), x.to(torch.float32)), x, reference=False
        )


def test_division_by_zero_raises_nothing_on_a_gpu():
    check(lambda x, y: x / y, torch.tensor([1, 2, 0]), torch.tensor([0, 1, 0]))


REDUCTIONS = {
    "sum of all": lambda x: x.sum(),
    "rows": lambda x: x.sum(-1),
    "columns": lambda x: x.sum(0),
    "mean and variance": lambda x: (x.mean(-1), x.var(-1), x.std(0)),
    "extremes": lambda x: (x.amax(-1), x.amin(0), x.max(), x.argmax(-1), x.max(dim=0)),
    "norms": lambda x: (x.norm(), x.norm(dim=-1), x.abs().prod(-1)),
    "logsumexp": lambda x: x.logsumexp(-1),
    "softmax": lambda x: x.softmax(-1),
    "softmax of columns": lambda x: x.softmax(0),
    "log_softmax": lambda x: F.log_softmax(x, -1),
    "layer norm": lambda x: F.layer_norm(x, x.shape[-1:]),
    "layer norm of a sum": lambda x: F.layer_norm(x + F.gelu(x), x.shape[-1:]),
    "rms norm": lambda x: x * (x.pow(2).mean(-1, keepdim=True) + 1e-6).rsqrt(),
    "entropy": lambda x: -(x.softmax(-1) * (x.softmax(-1) + 1e-8).log()).sum(-1),
    "cumulative sum": lambda x: x.cumsum(-1),
    "any and all": lambda x: ((x > 0).any(-1), (x > -9).all(0)),
}


@pytest.mark.parametrize("sizes", [(7, 5), (64, 1024), (3, 5000), (300, 33)], ids=str)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(name, sizes):
    check(REDUCTIONS[name], floats(*sizes))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", ["rows", "columns", "softmax", "layer norm", "layer norm of a sum", "entropy"])
def test_reductions_of_half_types(name, dtype):
    check(REDUCTIONS[name], floats(33, 512, dtype=dtype))


def test_softmax_of_halves_in_single():
    check(
        lambda x: (F.softmax(x, -1, dtype=torch.float32), F.log_softmax(x, -1, dtype=torch.float32)),
        floats(9, 70, dtype=torch.float16),
        reference=False,
    )


def test_losses():
    def f(x, target):
        return F.cross_entropy(x, target), F.nll_loss(x.log_softmax(-1), target), F.mse_loss(x, x * 0.5)

    check(f, floats(50, 30), torch.randint(0, 30, (50,)), reference=False)


@pytest.mark.parametrize("dtype", HALF_AND_SINGLE, ids=str)
def test_products(dtype):
    def f(x, w, b):
        y = F.gelu(F.linear(x, w, b)) + x[:, :96]
        return y, torch.bmm(y[None], y.t()[None]), torch.addmm(b, x, w.t(), alpha=0.5)

    check(f, floats(64, 128, dtype=dtype) / 8, floats(96, 128, dtype=dtype) / 8, floats(96, dtype=dtype))


def test_indexing():
    def f(x, table, at):
        rows = F.embedding(at, table)
        return (
            rows + 1,
            x.index_select(0, at.flatten()[:5]),
            x[at.flatten() % 3],
            x.gather(1, at[:, :4] % 8),
            x[:, -1],
            x[..., None, 1:3],
            table[at, at % 4],
        )

    check(f, floats(20, 8), floats(20, 16), torch.randint(0, 20, (20, 6)))


def test_writing_by_index():
    def f(x, at, rows):
        y = x.clone()
        y[at] = rows
        y[:, 0] = 7
        y[x > 1] = 0.5
        z = torch.zeros_like(x).index_add(0, at, rows)
        return (
            y,
            z,
            torch.zeros_like(x).scatter_add(0, at[:, None].expand(-1, x.shape[1]), rows),
            x.masked_fill(x < 0, 3),
        )

    check(f, floats(12, 9), torch.tensor([3, 1, 7]), floats(3, 9))


def test_structure():
    def f(x, y):
        left, right = (x + 1).chunk(2, -1)
        return (
            torch.cat([x, y * 2], 0),
            torch.stack([left, right]),
            F.pad(x, (1, 2, 0, 3)),
            x.roll(1, 0),
            x.repeat(2, 1),
            torch.cat([left.exp(), right], 1),
            x.unfold(1, 4, 2),
            x.tril(),
            x.triu(1),
        )

    check(f, floats(6, 10), floats(4, 10))


def test_factories():
    def f(x):
        n = x.shape[1]
        at = torch.arange(n, device=x.device)
        mask = torch.ones(n, n, dtype=torch.bool, device=x.device).tril()
        return (
            at * 2,
            torch.where(mask, x[:n], torch.finfo(x.dtype).min),
            torch.zeros_like(x) + at,
            torch.full((3,), 2.5, device=x.device),
            torch.eye(4, device=x.device),
            x.new_ones(2, 2),
            torch.tensor([1.0, 2.0], device=x.device) * x[0, 0],
            torch.linspace(0, 1, 5, device=x.device),
        )

    check(f, floats(16, 12))


def test_what_cuda_means_without_a_number():
    def f(x):
        return x + torch.arange(x.shape[0], device="cuda") + torch.zeros(x.shape[0]).to("cuda")

    check(f, floats(9), reference=False)


def test_convolutions():
    weight, bias = floats(8, 3, 3, 3), floats(8)

    def f(x, weight, bias, mean, var):
        y = F.conv2d(x, weight, bias, padding=1).relu()
        y = F.batch_norm(y, mean, var, eps=1e-3)
        return F.max_pool2d(y, 2), F.avg_pool2d(y, 2), F.interpolate(y, scale_factor=2), F.adaptive_avg_pool2d(y, 1)

    check(f, floats(2, 3, 16, 16), weight, bias, floats(8), floats(8).abs() + 0.5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("form", ["plain", "causal", "mask"])
def test_attention(form, dtype):
    def f(q, k, v, mask):
        q, k, v = (x.view(2, 33, 4, 16).transpose(1, 2) for x in (q, k, v))
        y = F.scaled_dot_product_attention(
            q, k, v, attn_mask=mask if form == "mask" else None, is_causal=form == "causal"
        )
        return y.transpose(1, 2).reshape(2, 33, 64) + 1

    mask = torch.rand(2, 1, 33, 33) > 0.3
    mask[..., 0] = True
    check(f, *(floats(2, 33, 64, dtype=dtype) for _ in range(3)), mask)


def test_random_numbers_are_eagers():
    def f(x):
        y = F.dropout(x, 0.3) + torch.randn_like(x)
        return (
            y * torch.rand(x.shape[1], device=x.device),
            torch.bernoulli(x.sigmoid()),
            torch.randperm(7, device=x.device),
        )

    check(f, floats(31, 20), reference=False)
