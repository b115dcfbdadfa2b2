"""Expressions that do with sizes what Python and PyTorch do with numbers, of `test_expressions_by_size.py`.

`x` has a row for each of `x.shape[0]`, which varies, and three columns."""

import dataclasses
import functools
import itertools
import math
import operator
import sys
import types

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F


@dataclasses.dataclass
class Box:
    n: int
    m: int = 3

    @property
    def area(self):
        return self.n * self.m


class Layer(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.n = n

    def forward(self, x):
        return x * self.n


ATEN = torch.ops.aten


def handed_on(function, *operands, **keywords):
    return function(*operands, **keywords)


def gen(x):
    for s in x.shape:
        yield s * 2


def kw_only(x, *, n, m=2):
    return x * n + m


def two(x, a, b=0):
    return x + a * 2 - b


def add_all(x, *sizes):
    for s in sizes:
        x = x + s
    return x


def _match(x):
    match x.shape:
        case (0, _):
            return x + 1
        case (n, 3):
            return x * n
        case _:
            return x - 1


def _match_list(x):
    match [x.shape[0], x.shape[1], 2]:
        case [n, *rest] if n > 4:
            return x * rest[0]
        case [n, 3, two]:
            return x * n - two
    return x


def _store(x):
    y = x.clone()
    y[: x.shape[0] // 2, 1:] = x.shape[0] / 2
    y[x.shape[0] // 2 :] += x.shape[0]
    return y


def _checked(x):
    torch._check(x.shape[0] != 11, lambda: f"not {x.shape[0]}")
    return x * 2


# One program does for every number of rows above 1.
FOR_ALL = {
    "close or no number": lambda x: torch.isclose(x.detach().log(), x.log() + 1e-7, equal_nan=True),
    "close to a row or no number": lambda x: torch.isclose(
        x[:, :1].where(x[:, :1] > 0, math.nan), x.where(x > 0, math.nan), 0.0, 0.0, True
    ),
    "sum of a generator": lambda x: x + sum(k * x.shape[0] for k in (1, 2, 3)),
    "sum with a start": lambda x: x + sum((k * x.shape[0] for k in (1, 2)), x.shape[1]),
    "sum of a map": lambda x: x + sum(map(lambda s: s * 2, x.shape)),
    "sum of floats": lambda x: x + sum(s / 4 for s in x.shape),
    "sum of a generator function": lambda x: x + sum(gen(x)),
    "sum of nothing": lambda x: x + sum(s for s in ()),
    "sum of tensors": lambda x: sum(x * s for s in x.shape),
    "max with a default": lambda x: x + max((s for s in x.shape if s > 1000), default=x.shape[0]),
    "all of sizes": lambda x: x + all(x.shape),
    "any of sizes": lambda x: x + any([x.shape[0], 0]),
    "reduce by a lambda": lambda x: x + functools.reduce(lambda a, b: a * b + 1, x.shape),
    "math.prod": lambda x: x + math.prod(x.shape) + math.prod([2, *x.shape]),
    "math.gcd": lambda x: x + math.gcd(x.shape[0], 6),
    "math.hypot": lambda x: x + math.hypot(x.shape[0], 3),
    "a list comprehension": lambda x: x.reshape([s * 1 for s in x.shape]),
    "a tuple of a generator": lambda x: x.new_ones(tuple(s + 1 for s in x.shape)),
    "a dict comprehension": lambda x: x + sum({k: s for k, s in enumerate(x.shape)}.values()),
    "zip of sizes": lambda x: x + sum(a * b for a, b in zip(x.shape, (2, 3), strict=True)),
    "enumerate sizes": lambda x: x + sum(k * s for k, s in enumerate(x.shape)),
    "chained sizes": lambda x: x + sum(itertools.chain(x.shape, (1, 2))),
    "a partial": lambda x: functools.partial(torch.add, x)(x.shape[0]),
    "a partial with a keyword": lambda x: functools.partial(torch.add, x, alpha=2)(x.shape[0]),
    "a partial that holds the size": lambda x: functools.partial(torch.mul, other=x.shape[0])(x),
    "a partial of a method": lambda x: functools.partial(x.reshape, -1)(x.shape[1]),
    "a partial of a function": lambda x: functools.partial(two, b=x.shape[0])(x, 2),
    "unpacked operands": lambda x: torch.add(*(x, x.shape[0])),
    "unpacked sizes": lambda x: torch.zeros(*(x.shape[0], 3)) + x,
    "unpacked keywords": lambda x: torch.full(**{"size": (x.shape[0], 3), "fill_value": x.shape[0]}) + x,
    "unpacked both": lambda x: torch.clamp(*(x,), **{"max": x.shape[0]}),
    "unpacked into Python": lambda x: add_all(x, *x.shape),
    "keywords of operators": lambda x: (
        torch.add(x, other=x.shape[0], alpha=2) - torch.mul(input=x, other=x.shape[0])
    ),
    "rounding mode": lambda x: torch.div(x, x.shape[0] + 1, rounding_mode="floor"),
    "pow by keyword": lambda x: torch.pow(x.abs(), exponent=x.shape[0]),
    "keyword only": lambda x: kw_only(x, n=x.shape[0], m=x.shape[1]),
    "operator.add": lambda x: operator.add(x, x.shape[0]),
    "operator.mul of sizes": lambda x: x + operator.mul(x.shape[0], 3) + operator.floordiv(x.shape[0], 2),
    "methodcaller": lambda x: operator.methodcaller("reshape", -1)(x) * x.shape[0],
    "itemgetter": lambda x: x + operator.itemgetter(0)(x.shape) * 2,
    "attrgetter": lambda x: x + operator.attrgetter("shape")(x)[0],
    "floor division by a tensor": lambda x: x.shape[0] // (x.abs() + 1),
    "to the power of a tensor": lambda x: x.shape[0] ** x.clamp(0, 2),
    "divided by a tensor": lambda x: x.shape[0] / (x.abs() + 1),
    "minus a tensor": lambda x: x.shape[0] - x,
    "shifted by a size": lambda x: torch.arange(3) << x.shape[0],
    "shifted right": lambda x: torch.arange(300, 303) >> x.shape[0],
    "a size shifted by a tensor": lambda x: x.shape[0] << torch.arange(3),
    "bits of a tensor": lambda x: (
        torch.arange(3) & x.shape[0],
        torch.arange(3) | x.shape[0],
        x.shape[0] ^ torch.arange(3),
    ),
    "ints by ints": lambda x: (x.shape[0] // torch.arange(1, 4), x.shape[0] % torch.arange(1, 4)),
    "in place": lambda x: x.clone().add_(x.shape[0]).mul_(x.shape[0] / 2).sub_(1),
    "addcmul": lambda x: torch.addcmul(x, x, x, value=x.shape[0]),
    "lerp": lambda x: torch.lerp(x, -x, 1 / (x.shape[0] + 1)),
    "addmm": lambda x: torch.addmm(x, x, torch.eye(3), beta=x.shape[0], alpha=2),
    "compare": lambda x: (x > x.shape[0], x.ne(x.shape[0]), torch.eq(x, x.shape[0]), x.shape[0] <= x),
    "threshold": lambda x: F.threshold(x, 1 / (x.shape[0] + 1), x.shape[0]),
    "leaky relu": lambda x: F.leaky_relu(x, 1 / (x.shape[0] + 1)),
    "hardtanh": lambda x: F.hardtanh(x, -x.shape[0] / 8, x.shape[0] / 8),
    "softplus": lambda x: F.softplus(x, beta=x.shape[0] + 1),
    "temperature": lambda x: (x / math.sqrt(x.shape[0] + 1)).softmax(-1),
    "fill": lambda x: torch.full_like(x, x.shape[0]),
    "a scalar tensor": lambda x: x * torch.tensor(x.shape[0]).float().sqrt(),
    "tensor of sizes": lambda x: torch.tensor(x.shape) * 2,
    "tensor of floats": lambda x: torch.tensor([s / 2 for s in x.shape]) + x,
    "normal": lambda x: torch.zeros_like(x).normal_(0, 0) + x.shape[0],
    "masked fill": lambda x: x.masked_fill(x > 0, x.shape[0]),
    "where": lambda x: torch.where(x > 0, x, x.shape[0]),
    "where of floats": lambda x: torch.where(x > 0, x, 1 / (x.shape[0] + 1)),
    "cross entropy smoothing": lambda x: (
        F.cross_entropy(x, torch.zeros(x.shape[0], dtype=torch.long), label_smoothing=0.1) if len(x) else x
    ),
    "norm by p": lambda x: x.norm(p=2) / max(x.shape[0], 1) ** 0.5,
    "arange back": lambda x: torch.arange(x.shape[0], 0, -1),
    "arange between": lambda x: torch.arange(x.shape[0], x.shape[0] * 2 + 1),
    "arange of floats": lambda x: torch.arange(x.shape[0], dtype=torch.float64) / 3,
    "linspace": lambda x: torch.linspace(-1, 1, x.shape[0])[:, None] + x,
    "linspace to n": lambda x: torch.linspace(0, x.shape[0], 5),
    "logspace": lambda x: torch.logspace(0, 1, x.shape[0]),
    "eye": lambda x: torch.eye(x.shape[0], x.shape[0] + 1),
    "tril of ones": lambda x: torch.ones(x.shape[0], x.shape[0]).tril(-1),
    "tril indices": lambda x: torch.tril_indices(x.shape[0], x.shape[0]),
    "windows": lambda x: (torch.hann_window(x.shape[0] + 1), torch.hamming_window(x.shape[0] + 2, periodic=False)),
    "one hot": lambda x: F.one_hot(torch.arange(x.shape[0]), x.shape[0] + 1),
    "randn": lambda x: torch.randn(x.shape[0], 3) + x,
    "rand like": lambda x: torch.rand_like(x) + x,
    "randperm": lambda x: x[torch.randperm(x.shape[0])],
    "randint": lambda x: torch.randint(0, 10, (x.shape[0],)),
    "randint to n": lambda x: torch.randint(x.shape[0] + 1, (3,)),
    "empty strided": lambda x: torch.empty_strided((x.shape[0], 3), (3, 1)).fill_(1) + x,
    "cartesian": lambda x: torch.cartesian_prod(torch.arange(x.shape[0]), torch.arange(3)),
    "match a shape": lambda x: _match(x),
    "a size as an attribute": lambda x: Box(x.shape[0]).area * x,
    "a namespace": lambda x: types.SimpleNamespace(n=x.shape[0]).n * x,
    "a layer": lambda x: Layer(x.shape[0])(x),
    "numel": lambda x: x * x.numel() + x.nelement(),
    "strides": lambda x: x * x.stride(0) + x.T.contiguous().stride()[0],
    "dims": lambda x: x * x.dim() + x.ndim + len(x.shape) + len(x),
    "size plus size": lambda x: x.new_ones(x.shape + torch.Size([2])),
    "size times two": lambda x: x.new_ones(x.shape * 2),
    "size sliced": lambda x: x.new_ones(x.shape[::-1]),
    "torch.Size of sizes": lambda x: x.new_ones(torch.Size([x.shape[0], 2])),
    "a list times two": lambda x: x.new_ones([x.shape[0]] * 2),
    "unflatten": lambda x: x.flatten().unflatten(0, (x.shape[0], -1)) if len(x) else x,
    "view of more": lambda x: x.view(x.shape[0], 1, 3).expand(-1, 2, -1).reshape(x.shape[0] * 2, 3),
    "negative size": lambda x: x[-x.shape[0] :] * 2,
    "slice beyond": lambda x: x[: x.shape[0] + 5] * 2,
    "slice behind": lambda x: x[x.shape[0] + 5 :] * 2,
    "slice far below": lambda x: x[-100:] * 2,
    "slice from minus n - 3": lambda x: x[-x.shape[0] - 3 :] * 2,
    "slice of halves": lambda x: torch.cat([x[x.shape[0] // 2 :], x[: x.shape[0] // 2]]),
    "select last": lambda x: x.select(0, x.shape[0] - 1) * 2 if len(x) else x,
    "index_fill": lambda x: x.index_fill(1, torch.tensor([0]), x.shape[0]),
    "n / 2": lambda x: x * (x.shape[0] / 2),
    "sqrt": lambda x: x / math.sqrt(x.shape[0] + 1),
    "round": lambda x: x + round(x.shape[0] / 4) + round(x.shape[0] * 0.3, 1),
    "trunc": lambda x: x + math.trunc(x.shape[0] / 3),
    "log2": lambda x: x + math.log2(x.shape[0] + 1) + math.exp(-x.shape[0]),
    "fmod": lambda x: x + math.fmod(x.shape[0], 3) + math.copysign(2, x.shape[0]),
    "float floor division": lambda x: x + x.shape[0] // 2.0 + x.shape[0] % 2.5,
    "divmod by a float": lambda x: x + divmod(x.shape[0], 2.5)[1],
    "bool": lambda x: x + bool(x.shape[0]) + (not x.shape[0]),
    "float infinity": lambda x: x + 1 if x.shape[0] < float("inf") else x,
    "pow": lambda x: x + pow(x.shape[0], 2) + x.shape[0] ** 0.5 + 2.0 ** (x.shape[0] % 3),
    "divmod": lambda x: x + divmod(x.shape[0], 3)[0] + divmod(x.shape[0] + 1, 4)[1],
    "ceil by negation": lambda x: x + -(-x.shape[0] // 4),
    "bit length": lambda x: x + x.shape[0].bit_length() + x.shape[0].bit_count(),
    "next power of two": lambda x: x.new_ones(1 << (x.shape[0] - 1).bit_length()) if len(x) else x,
    "or": lambda x: x * (x.shape[0] or 5) + (x.shape[0] and 2),
    "is None": lambda x: x + 1 if x.shape[0] is None else x - 1,
    # Operators as objects, given sizes in each way of calling.
    "an operator's overload": lambda x: ATEN.view.default(x * 2, [x.shape[0] * 3]),
    "an operator by keyword": lambda x: ATEN.slice(x * 2, dim=0, start=0, end=x.shape[0]) + 1,
    "an operator, unpacked": lambda x: ATEN.expand.default(*(x[None] * 2, [2, x.shape[0], 3])),
    "an operator, handed on": lambda x: add_all(handed_on(ATEN.sum.dim_IntList, x, [0]), x.shape[0]),
    "an operator, held": lambda x: functools.partial(ATEN.new_zeros.default, x)([x.shape[0], 2]) + x[:, :2],
    "an operator that makes a tensor": lambda x: ATEN.arange(x.shape[0])[:, None] + x,
    "an operator that fills": lambda x: ATEN.full.default([x.shape[0], 3], x.shape[0]) * x,
    "products with a size": lambda x: ATEN.mul(x, x.shape[0]) + ATEN.mul.Tensor(x, x.shape[0] + 1),
    "a sum with a size": lambda x: ATEN.add.Scalar(x, x.shape[0]) - ATEN.sub(x, x.shape[0], alpha=2),
    "products with a float": lambda x: ATEN.mul.Tensor(x, math.sqrt(x.shape[0])) + ATEN.div(x, 1.5 + x.shape[0]),
    # Answers of a number's class.
    "hasattr": lambda x: x * (2 if hasattr(x.shape[0], "rows") else 3) + hasattr(x.shape[0] / 2, "hex"),
    "getattr with another": lambda x: x * getattr(x.shape[0], "rows", x.shape[0] + 1),
    "special methods": lambda x: x * x.shape[0].__add__(3) + x.shape[0].__index__() - x.shape[0].__rsub__(1),
    "special methods of a float": lambda x: x * (x.shape[0] / 2).__mul__(3.0) + (x.shape[0] / 4).__float__(),
    "getattr of a float": lambda x: x * getattr(x.shape[0] / 4, "rows", 2.5),
    "sym_float": lambda x: x + torch.sym_float(x.shape[0]) / 2,
    "sym_sqrt": lambda x: x + torch._sym_sqrt(x.shape[0]),
    "sym_int": lambda x: x + torch.sym_int(x.shape[0] / 2),
    "sym_sum": lambda x: x + torch.sym_sum([x.shape[0], x.shape[1], 2]),
    "_check_is_size": lambda x: (torch._check_is_size(x.shape[0]), x * 2)[1],
    "_check_type": lambda x: (torch._check_type(x.shape[0] >= 0), x * 2)[1],
    "broadcast tensors": lambda x: torch.broadcast_tensors(x, x[:1])[1] * 2 if len(x) else x,
    "numpy": lambda x: x + torch.from_numpy(np.ones((x.shape[0], 3), dtype=np.float32)),
    "result type": lambda x: torch.promote_types(x.dtype, torch.float64) == torch.float64 and x * 2,
    "adaptive pool": lambda x: F.adaptive_avg_pool1d(x.T[None], 2) if len(x) else x,
    "convolution": lambda x: F.conv1d(x.T[None], torch.ones(1, 3, 3), padding=1),
    "convolution, same": lambda x: F.conv1d(x.T[None], torch.ones(1, 3, 3), padding="same"),
    "unfold": lambda x: x.unfold(0, 2, 1) if len(x) > 1 else x,
    "unfold of images": lambda x: F.unfold(x[None, None], (2, 2)) if len(x) > 1 else x,
    "interpolate": lambda x: F.interpolate(x.T[None], size=x.shape[0] * 2) if len(x) else x,
    "pixel shuffle": lambda x: F.pixel_shuffle(x[:, None, None].expand(-1, 4, 2, 3), 2),
    "fold": lambda x: (
        F.fold(x.T.reshape(1, 3, -1).expand(1, 3, x.shape[0]), (x.shape[0], 1), (1, 1)) if len(x) else x
    ),
    "layer norm": lambda x: F.layer_norm(x, x.shape[1:]),
    "layer norm of all": lambda x: F.layer_norm(x, tuple(x.shape)),
    "instance norm": lambda x: F.instance_norm(x.T[None]) if len(x) > 1 else x,
    "bilinear": lambda x: F.bilinear(x, x, torch.ones(2, 3, 3)),
    "embedding": lambda x: F.embedding(torch.arange(x.shape[0]) % 4, torch.arange(12.0).view(4, 3)) + x,
    "embedding bag": lambda x: (
        F.embedding_bag(torch.arange(x.shape[0]) % 4, torch.ones(4, 3), torch.tensor([0])) if len(x) else x
    ),
    "attention": lambda x: F.scaled_dot_product_attention(
        x[None, None], x[None, None], x[None, None], is_causal=True
    ),
    "attention with a mask": lambda x: F.scaled_dot_product_attention(
        x[None], x[None], x[None], torch.ones(x.shape[0], x.shape[0], dtype=torch.bool).tril()
    ),
    "repeat interleave": lambda x: x.repeat_interleave(torch.tensor([1, 2, 1]), dim=1),
    "repeat n": lambda x: x[:1].repeat(x.shape[0], 1),
    "tile n": lambda x: x[:1].tile((x.shape[0], 2)),
    "chunks": lambda x: [p * 2 for p in x.chunk(3, 1)],
    "unbind columns": lambda x: [p * x.shape[0] for p in x.unbind(1)],
    "stack": lambda x: torch.stack([x] * 3, 1) * x.shape[0],
    "block diag": lambda x: torch.block_diag(x, x),
    "kron": lambda x: torch.kron(x, torch.ones(2, 1)),
    "outer": lambda x: torch.outer(x[:, 0], x[:, 1]),
    "tensordot": lambda x: torch.tensordot(x, x, dims=([0], [0])),
    "trapezoid": lambda x: torch.trapezoid(x, dim=0) if len(x) else x,
    "cumulative": lambda x: (x.cumsum(0), x.cumprod(0), x.logcumsumexp(0)),
    "fft": lambda x: torch.fft.fft(x, dim=0).abs() if len(x) else x,
    "rfft": lambda x: torch.fft.rfft(x, dim=0).real if len(x) else x,
    "irfft": lambda x: torch.fft.irfft(torch.fft.rfft(x, dim=0), n=x.shape[0], dim=0) if len(x) else x,
    "fftshift": lambda x: torch.fft.fftshift(x, dim=0),
    "quantile": lambda x: x.quantile(0.5, 0) if len(x) else x,
    "histc": lambda x: torch.histc(x, 4, -1, 1),
    "searchsorted": lambda x: torch.searchsorted(torch.arange(x.shape[0]).float(), x),
    "bucketize": lambda x: torch.bucketize(x, torch.linspace(-1, 1, 4)),
    "scatter": lambda x: torch.zeros(x.shape[0], 4).scatter(
        1, torch.zeros(x.shape[0], 1, dtype=torch.long), x.shape[0]
    ),
    "index_add": lambda x: torch.zeros(2, 3).index_add(0, torch.arange(x.shape[0]) % 2, x),
    "take along": lambda x: x.take_along_dim(x.argsort(0), 0),
    "gather": lambda x: x.gather(1, torch.arange(x.shape[0])[:, None] % 3),
    "put": lambda x: x.clone().index_put_(
        (torch.arange(x.shape[0]), torch.arange(x.shape[0]) % 3), torch.tensor(2.0)
    ),
    "diagonals": lambda x: (x.diagonal() * 2, torch.diag_embed(x) + x.shape[0], x.diag(1)),
    "rolls": lambda x: x.roll((x.shape[0] // 2, 1), (0, 1)),
    "flips": lambda x: x.flip(0) + x.fliplr(),
    "rot90": lambda x: torch.rot90(x, 3),
    "movement": lambda x: x.T.contiguous().view(-1) * x.shape[0],
    "meshgrid": lambda x: torch.meshgrid(torch.arange(x.shape[0]), torch.arange(2), indexing="ij")[0] * 2,
    "einsum": lambda x: torch.einsum("ni,mi->nm", x, x) / max(1, x.shape[0]),
    "baddbmm": lambda x: torch.baddbmm(x[None], x[None], torch.eye(3)[None], beta=x.shape[0]),
    "solve": lambda x: torch.linalg.solve(x.T @ x + torch.eye(3), x.T),
    "cholesky": lambda x: torch.linalg.cholesky(x @ x.T + torch.eye(x.shape[0])),
    "matrix power": lambda x: torch.linalg.matrix_power(x.T @ x / 9, 2),
    "inverse": lambda x: torch.linalg.inv(x @ x.T + torch.eye(x.shape[0])),
    "renorm": lambda x: x.renorm(2, 0, 1.0 + x.shape[0] / 8),
    "nll": lambda x: F.nll_loss(x.log_softmax(1), torch.arange(x.shape[0]) % 3) if len(x) else x,
    "positions": lambda x: x + torch.stack([torch.arange(x.shape[0]).float() / (k + 1) for k in range(3)], 1).sin(),
}

# Decided by the size, or in need of the number itself.
BY_SIZE = {
    "sum of a filtered generator": lambda x: x + sum(s for s in x.shape if s > 2),
    "max of a generator": lambda x: x + max(s + 1 for s in x.shape),
    "min of a generator": lambda x: x + min(s * 2 for s in x.shape),
    "max by a key": lambda x: x + max(x.shape, key=lambda s: -s),
    "min by a key": lambda x: x + min([x.shape[1], x.shape[0]], key=lambda s: s % 4),
    "sorted": lambda x: x.reshape(sorted(x.shape)),
    "sorted, reverse": lambda x: x.reshape(sorted(x.shape, reverse=True)),
    "sorted by a key": lambda x: x.reshape(sorted(x.shape, key=lambda s: -s)),
    "sorted of a generator": lambda x: x.reshape(sorted(s for s in x.shape)),
    "a list is sorted": lambda x: (lambda sizes: (sizes.sort(), x.reshape(sizes))[1])([x.shape[0], x.shape[1]]),
    "any": lambda x: x + any(s > 4 for s in x.shape),
    "accumulate": lambda x: x + list(itertools.accumulate(x.shape))[-1],
    "accumulate a product": lambda x: x + list(itertools.accumulate(x.shape, operator.mul))[-1],
    "reduce by max": lambda x: x + functools.reduce(max, x.shape),
    "map int": lambda x: x + sum(list(map(int, x.shape))),
    "map int, unpacked": lambda x: torch.ones(*map(int, x.shape)) + x,
    "map float": lambda x: x + list(map(float, x.shape))[0],
    "map of mul": lambda x: x + sum(map(operator.mul, x.shape, (2, 3))),
    "tuple of a map": lambda x: x.reshape(tuple(map(int, x.shape))),
    "reversed sizes": lambda x: x.reshape(list(reversed(x.shape))),
    "filter of sizes": lambda x: x + sum(filter(lambda s: s > 2, x.shape)),
    "starmap": lambda x: x + sum(itertools.starmap(lambda a, b: a * b, [(x.shape[0], 2), (x.shape[1], 3)])),
    "unpacked into a method": lambda x: x.mul(*[x.shape[0]]),
    "operator.getitem": lambda x: operator.getitem(x, slice(0, x.shape[0] // 2)) * 2,
    "remainder by a tensor": lambda x: x.shape[0] % (x.abs() + 1),
    "in place operators": lambda x: (lambda y: (y.__iadd__(x.shape[0]), y)[1])(x.clone()),
    "maximum": lambda x: torch.maximum(x, torch.tensor(x.shape[0] / 8)),
    "arange to a half": lambda x: torch.arange(x.shape[0] / 2),
    "arange with a step": lambda x: torch.arange(0, x.shape[0], 2),
    "vander": lambda x: torch.vander(x[:, 0].abs(), x.shape[0]),
    "bincount": lambda x: torch.bincount(torch.arange(x.shape[0]), minlength=x.shape[0] + 2),
    "combinations": lambda x: torch.combinations(torch.arange(x.shape[0])),
    "sum of dim n % 2": lambda x: x.sum(x.shape[0] % 2),
    "mean of dim": lambda x: x.mean(dim=x.shape[0] % 2, keepdim=True),
    "argmax of dim": lambda x: x.argmax(x.shape[0] % 2) if len(x) else x,
    "softmax of dim": lambda x: x.softmax(x.shape[0] % 2),
    "cat of dim": lambda x: torch.cat([x, x], dim=x.shape[0] % 2),
    "transpose of dim": lambda x: x.transpose(0, x.shape[0] % 2).contiguous(),
    "median of dim": lambda x: x.median(x.shape[0] % 2)[0] if len(x) else x,
    "match a list": lambda x: _match_list(x),
    "shape below": lambda x: x + 1 if x.shape < (6, 3) else x - 1,
    "shape among": lambda x: x + 1 if x.shape in [(2, 3), (5, 3)] else x - 1,
    "count in a shape": lambda x: x + x.shape.count(3),
    "index in a shape": lambda x: x + [*x.shape].index(3),
    "key of a dict": lambda x: x + {8: 2}.get(x.shape[0], 7),
    "key in a dict": lambda x: x + (3 if x.shape[0] in {8: 2, 5: 1} else 4),
    "named key": lambda x: x + {"a": 1, 8: 2}.get(x.shape[0], 7),
    "member of a set": lambda x: x + (x.shape[0] in {5, 8}),
    "element size": lambda x: x * x.element_size() * x.shape[0] + x.nbytes,
    "slice of minus one": lambda x: x[:-1] * 2,
    "slice with a step": lambda x: x[::2] * 2,
    "slice with slice()": lambda x: x[slice(1, x.shape[0])] * 2,
    "ellipsis": lambda x: x[..., : x.shape[0] // 2] * 2,
    "none and slices": lambda x: x[None, : x.shape[0] // 2, None] * 2,
    "narrow": lambda x: x.narrow(0, x.shape[0] // 2, x.shape[0] - x.shape[0] // 2) * 2,
    "stores into a slice": lambda x: _store(x),
    "ceil": lambda x: x.new_ones(math.ceil(x.shape[0] / 4), 2),
    "floor": lambda x: x.new_ones(math.floor(x.shape[0] / 4), 2),
    "int of a product": lambda x: x.new_ones(int(x.shape[0] * 0.5), 2),
    "is_integer": lambda x: x + (x.shape[0] / 2).is_integer(),
    "float compare": lambda x: x + 1 if x.shape[0] * 0.5 >= 1.5 else x - 1,
    "abs and neg": lambda x: x + abs(x.shape[0] - 6) - -x.shape[0],
    "rounded up": lambda x: F.pad(x, (0, 0, 0, (8 - x.shape[0] % 8) % 8)),
    "clamped": lambda x: x[: max(0, min(x.shape[0] - 1, 6))] * 2,
    "ternary": lambda x: x * (2 if x.shape[0] > 6 else 3),
    "between": lambda x: x * (2 if 3 <= x.shape[0] < 9 else 3),
    "one of three": lambda x: x * (2 if x.shape[0] in (1, 2, 3) else 3),
    "equal sizes": lambda x: x @ x.T if x.shape[0] != x.shape[1] else x @ x,
    "is": lambda x: x + 1 if x.shape[0] is x.shape[0] else x,
    "repeat interleave n": lambda x: x[:2].repeat_interleave(x.shape[0] % 3 + 1, 0),
    "sym_max": lambda x: x + torch.sym_max(x.shape[0], 4) + torch.sym_min(x.shape[0], 4),
    "sym_not": lambda x: x + 1 if torch.sym_not(x.shape[0] > 4) else x,
    "sym_ite": lambda x: x + torch.sym_ite(x.shape[0] > 4, x.shape[0], 2),
    "_check": lambda x: _checked(x),
    "_check_value": lambda x: (torch._check_value(x.shape[0] < 11, lambda: "many"), x * 2)[1],
    "_check_index": lambda x: (torch._check_index(x.shape[0] != 5), x * 2)[1],
    "broadcast shapes": lambda x: x.new_ones(torch.broadcast_shapes(x.shape, (1, 3))),
    "pools": lambda x: F.avg_pool1d(x.T[None], 2) if len(x) > 1 else x,
    "pool of all": lambda x: F.avg_pool1d(x.T[None], x.shape[0]) if len(x) else x,
    "max pool of all": lambda x: F.max_pool1d(x.T[None], x.shape[0]) if len(x) else x,
    "cosine": lambda x: F.cosine_similarity(x[:, None], x[None], -1),
    "pdist": lambda x: F.pdist(x),
    "cdist": lambda x: torch.cdist(x, x[: x.shape[0] // 2]),
    "split": lambda x: [p * 2 for p in x.split(2)],
    "split in two": lambda x: [p * 2 for p in x.split([x.shape[0] // 2, x.shape[0] - x.shape[0] // 2])],
    "tensor split": lambda x: [p * 2 for p in x.tensor_split(2)],
    "diff": lambda x: x.diff(dim=0, n=1) if len(x) else x,
    "triplet": lambda x: F.triplet_margin_loss(x, x + 1, -x, margin=x.shape[0] / 4) if len(x) else x,
}

if sys.version_info >= (3, 12):  # `sum` compensates for the rounding of floats there.
    BY_SIZE["sum of floats"] = FOR_ALL.pop("sum of floats")
