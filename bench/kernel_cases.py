"""The kernels of kernels.py: one operation or one fused chain each, for inputs of any size.

A kernel is built for a number of bytes: that of its largest input, rounded to a shape of its kind (a matrix of up
to 1024 columns, a batch of images). Matrices are f32 unless the name says otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional as F

Sample = tuple[Callable[..., Any], tuple]


@dataclass(frozen=True)
class Kernel:
    """`build(bytes)` gives a function and its arguments. `streams`: memory should bound it, so that for large
    inputs it is held to a memcpy; the rest is bound by arithmetic (exponentials, error functions) or a chain.
    """

    name: str
    build: Callable[[int], Sample]
    streams: bool = True


def _columns(elements: int) -> int:
    """1024, and for less than 64 K elements about the square root: a power of two."""
    return 1024 if elements >= 2**16 else 1 << (elements.bit_length() - 1) // 2


def matrix(size: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    elements = max(size // dtype.itemsize, 16)
    columns = _columns(elements)
    shape = (elements // columns, columns)
    if dtype.is_floating_point:
        return torch.randn(shape, dtype=torch.float32).to(dtype)
    return torch.randint(0, 100, shape, dtype=dtype)


def images(size: int) -> torch.Tensor:
    """(batch, channels, side, side): 64 channels of 32x32, or 4 of 8x8 where that is too much."""
    channels, side = (64, 32) if size >= 2**19 else (4, 8)
    return torch.randn(max(size // (4 * channels * side * side), 1), channels, side, side)


def of_matrix(fn: Callable[..., Any], *extra: Callable[[torch.Tensor], Any], dtype=torch.float32):
    """fn(matrix, ...): `extra` makes the other arguments from the matrix."""

    def build(size: int) -> Sample:
        x = matrix(size, dtype)
        return fn, (x, *(make(x) for make in extra))

    return build


def of_images(fn: Callable[..., Any], *extra: Callable[[torch.Tensor], Any]):
    def build(size: int) -> Sample:
        x = images(size)
        return fn, (x, *(make(x) for make in extra))

    return build


def like(x: torch.Tensor) -> torch.Tensor:
    return torch.randn_like(x)


def row(x: torch.Tensor) -> torch.Tensor:
    return torch.randn(x.shape[-1], dtype=x.dtype)


def column(x: torch.Tensor) -> torch.Tensor:
    return torch.randn(x.shape[0], 1, dtype=x.dtype)


def channel(x: torch.Tensor) -> torch.Tensor:
    return torch.rand(x.shape[1]) + 0.5


def mask(x: torch.Tensor) -> torch.Tensor:
    return torch.rand(x.shape) < 0.9


def classes(x: torch.Tensor) -> torch.Tensor:
    return torch.randint(0, x.shape[1], (x.shape[0],))


def rows_of(x: torch.Tensor) -> torch.Tensor:
    """As many random row numbers as there are rows."""
    return torch.randint(0, x.shape[0], (x.shape[0],))


def chain(length: int) -> Callable[..., torch.Tensor]:
    """`length` cheap pointwise operations on two matrices."""
    steps = [
        lambda x, y: x + y,
        lambda x, y: x * 1.5,
        lambda x, y: torch.relu(x),
        lambda x, y: x - y,
        lambda x, y: x.abs(),
        lambda x, y: torch.maximum(x, y),
        lambda x, y: x * y,
        lambda x, y: x + 0.25,
        lambda x, y: x.clamp(-4, 4),
        lambda x, y: -x,
    ]

    def fn(x, y):
        for step in steps[:length]:
            x = step(x, y)
        return x

    return fn


def entropy(x):
    p = torch.softmax(x, dim=-1)
    return -(p * torch.log(p + 1e-9)).sum(dim=-1)


def rms_norm(x, weight):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * weight


def heads(x):
    """(B, T, H, D) -> (B, H, T, D) in memory, 16 columns a head."""
    return x.view(1, x.shape[0], -1, 16).transpose(1, 2).contiguous()


def batched_transpose(x):
    """(B, R, C) -> (B, C, R) in memory; batches of up to 64 rows."""
    return x.view(-1, min(64, x.shape[0]), x.shape[1]).transpose(1, 2).contiguous()


def cross_entropy(x, target):
    return F.cross_entropy(x, target)


def selected(x):
    return torch.where(x > 0.5, x, x.clamp(-1, 1)).masked_fill(x < -2, 0.0)


def batch_norm(x, mean, variance, weight):
    return F.batch_norm(x, mean, variance, weight, None)


def gather_indices(x: torch.Tensor) -> torch.Tensor:
    return torch.randint(0, x.shape[1], x.shape)


FLOAT16, BFLOAT16 = torch.float16, torch.bfloat16
KERNELS: dict[str, Kernel] = {
    kernel.name: kernel
    for kernel in [
        *(Kernel(f"pointwise-{n}", of_matrix(chain(n), like)) for n in (1, 2, 4, 10)),
        Kernel("pointwise-4-bf16", of_matrix(chain(4), like, dtype=BFLOAT16)),
        Kernel("pointwise-4-f16", of_matrix(chain(4), like, dtype=FLOAT16)),
        Kernel("hardswish", of_matrix(F.hardswish)),
        Kernel("silu", of_matrix(F.silu), streams=False),
        Kernel("gelu-tanh", of_matrix(lambda x: F.gelu(x, approximate="tanh")), streams=False),
        Kernel("gelu-erf", of_matrix(F.gelu), streams=False),
        Kernel("softplus-mish", of_matrix(lambda x: F.softplus(x) + F.mish(x)), streams=False),
        Kernel("cast-f32-bf16", of_matrix(lambda x: x.to(BFLOAT16))),
        Kernel("cast-f16-f32", of_matrix(lambda x: x.float(), dtype=FLOAT16)),
        Kernel("cast-u8-f32", of_matrix(lambda x: x.float() / 255, dtype=torch.uint8)),
        Kernel("broadcast-row", of_matrix(lambda x, b: x + b, row)),
        Kernel("broadcast-column", of_matrix(lambda x, b: x * b, column)),
        Kernel("transpose", of_matrix(lambda x: x.t().contiguous())),
        Kernel("transpose-batched", of_matrix(batched_transpose)),
        Kernel("permute-heads", of_matrix(heads)),
        Kernel("permute-channels-last", of_images(lambda x: x.permute(0, 2, 3, 1).contiguous())),
        Kernel("cat", of_matrix(lambda x, y: torch.cat([x, y], dim=-1), like)),
        Kernel("pad", of_images(lambda x: F.pad(x, (1, 1, 1, 1)))),
        Kernel("slice", of_matrix(lambda x: x[:, : x.shape[1] // 2] * 2)),
        Kernel("flip", of_matrix(lambda x: x.flip(-1))),
        Kernel("roll", of_matrix(lambda x: x.roll(3, -1))),
        Kernel("gather", of_matrix(lambda x, i: x.gather(1, i), gather_indices), streams=False),
        Kernel("embedding", of_matrix(lambda table, i: F.embedding(i, table) * 2, rows_of)),
        Kernel("index-select", of_matrix(lambda x, i: x.index_select(0, i), rows_of)),
        Kernel("sum-inner", of_matrix(lambda x: x.sum(-1))),
        Kernel("sum-outer", of_matrix(lambda x: x.sum(0))),
        Kernel("sum-images", of_images(lambda x: x.sum((0, 2, 3)))),
        Kernel("sum-all", of_matrix(lambda x: x.sum())),
        Kernel("argmax", of_matrix(lambda x: x.argmax(-1))),
        Kernel("cumsum", of_matrix(lambda x: x.cumsum(-1)), streams=False),
        Kernel("softmax", of_matrix(lambda x: x.softmax(-1))),
        Kernel("log-softmax", of_matrix(lambda x: x.log_softmax(-1))),
        Kernel("layer-norm", of_matrix(lambda x, w, b: F.layer_norm(x, w.shape, w, b), row, row)),
        Kernel("rms-norm", of_matrix(rms_norm, row)),
        Kernel("group-norm", of_images(lambda x, w: F.group_norm(x, 4, w), channel)),
        Kernel("batch-norm", of_images(batch_norm, channel, channel, channel)),
        Kernel("entropy", of_matrix(entropy), streams=False),
        Kernel("var-mean", of_matrix(lambda x: torch.var_mean(x, dim=-1))),
        Kernel("norm", of_matrix(lambda x: torch.linalg.vector_norm(x, dim=-1))),
        Kernel("logsumexp", of_matrix(lambda x: x.logsumexp(-1))),
        Kernel("dropout-mask", of_matrix(lambda x, keep: x * keep * (1 / 0.9), mask)),
        Kernel("cross-entropy", of_matrix(cross_entropy, classes)),
        Kernel("where-clamp-fill", of_matrix(selected)),
        Kernel("upsample-nearest", of_images(lambda x: F.interpolate(x, scale_factor=2))),
        Kernel("avg-pool", of_images(lambda x: F.avg_pool2d(x, 2))),
    ]
}
