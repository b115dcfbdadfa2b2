"""What one program does for every number of rows above 1.

Programs of `test_programs_of_sizes.py`; `x` has a row for each of `x.shape[0]`, which varies, and three columns."""

import collections
import fractions
import math
import operator

import numpy as np
import torch
from torch.nn import functional as F


def isinst(x):
    return x * 2 if isinstance(x.shape[0], int) else x


def is_type(x):
    return x * 2 if type(x.shape[0]) is int else x


def boolean(x):
    return x + 1 if x.shape[0] else x - 1


def notted(x):
    return (x + 1, not x.shape[0])


def bits(x):
    return x + (x.shape[0] & 6) + (x.shape[0] | 1) + (x.shape[0] ^ 3) + (~x.shape[0])


def shifts(x):
    return x + (x.shape[0] << 2) + (x.shape[0] >> 1) + (1 << x.shape[0])


def pows(x):
    return x + x.shape[0] ** 2 + 2 ** x.shape[0] + pow(x.shape[0], 3, 7)


def rounds(x):
    return x + round(x.shape[0] / 3) + round(x.shape[0]) + round(x.shape[0], -1)


def shape_ne(x):
    return x + 1 if x.shape != (0, 3) else x - 1


def slice_out(x):
    return x[x.shape[0] + 3 :] + 1


def slice_beyond(x):
    return x[: x.shape[0] * 2] + 1


def size_numel(x):
    return x + x.shape.numel() + x.size().numel()


def size_add(x):
    return x.new_ones(x.shape + (2,)) + x[..., None]


def size_slice(x):
    return torch.ones(x.shape[:1]) + x.sum(1)


def size_neg(x):
    return x + x.shape[-2]


def size_star(x):
    return torch.zeros(*x.shape) + x


def size_mul(x):
    return x + len(x.shape * 2)


def np_arange(x):
    return x + torch.from_numpy(np.arange(x.shape[0], dtype=np.float32))[:, None]


def math_fns(x):
    return (
        x
        + math.sqrt(x.shape[0])
        + math.floor(x.shape[0] / 2)
        + math.ceil(x.shape[0] / 3)
        + math.log(x.shape[0] + 1)
        + math.gcd(x.shape[0], 4)
        + math.prod(x.shape)
    )


def isqrt(x):
    return x + math.isqrt(x.shape[0]) + math.comb(x.shape[0], 2) + math.factorial(x.shape[0])


def empty_numel(x):
    return x + torch.empty(x.shape[0]).numel()


def expand_neg(x):
    return x[:, None].expand(-1, x.shape[0], -1) * 2


def size_call(x):
    return x + x.size(-1) + x.size(0) + x.size()[0]


def lens(x):
    return x + len(x)


def truediv(x):
    return x / x.shape[0]


def is_same(x):
    n = x.shape[0]
    m = n
    return x + 1 if n is m else x


def index_op(x):
    return x + operator.index(x.shape[0])


def attrs(x):
    return x + x.shape[0].real + x.shape[0].numerator + x.shape[0].bit_length() + x.shape[0].denominator


def negs(x):
    return x + -x.shape[0] + +x.shape[0] + abs(-x.shape[0])


def arange_float(x):
    return torch.arange(0.0, x.shape[0], 0.5)


def linspace_n(x):
    return torch.linspace(0, 1, x.shape[0])[:, None] + x


def full_half(x):
    return torch.full((3,), x.shape[0] / 2) + x


def full_n(x):
    return torch.full((x.shape[0], 3), x.shape[0]) + x


def eye_n(x):
    return torch.eye(x.shape[0]) @ x


def tensor_n(x):
    return torch.tensor(x.shape[0]) + torch.tensor([x.shape[0] / 2, 1.0]).sum() + x


def scalar_t(x):
    return torch.scalar_tensor(x.shape[0] / 4) + x


def onehot(x):
    return F.one_hot(torch.arange(x.shape[0]), x.shape[0] + 1)


def pads(x):
    return F.pad(x, (0, x.shape[0] // 2, 1, x.shape[0] % 2))


def repeat_inter(x):
    return x.repeat_interleave(2, 0)


def rolls(x):
    return x.roll(x.shape[0] // 2, 0)


def view_neg(x):
    return x.reshape(x.shape[0] * 3).view(3, -1) * 2


def flat(x):
    return x.flatten() * x.numel()


def stacked(x):
    return torch.stack([x, x * x.shape[0]])


def topk(x):
    return x.topk(max(1, min(2, x.shape[0])), 0)[0] if x.shape[0] else x


def cumsums(x):
    return x.cumsum(0)[: x.shape[0] // 2]


def tri(x):
    return torch.tril(torch.ones(x.shape[0], x.shape[0]), x.shape[0] // 2)


def mean0(x):
    return x.mean(0), x.std(0), x.var(0, correction=0)


def norm_div(x):
    return x.norm() / x.shape[0] ** 0.5


def softm(x):
    return x.softmax(0) * x.shape[0]


def where_idx(x):
    return torch.where(torch.arange(x.shape[0])[:, None] < x.shape[0] // 2, x, -x)


def assign_neg(x):
    y = x.clone()
    y[-1:] = 0
    return y


def try_div(x):
    try:
        return x * (10 // x.shape[0])
    except ZeroDivisionError:
        return x - 5


def closure(x):
    n = x.shape[0]

    def inner(y):
        return y + n

    return inner(x) + (lambda: n * 2)()


def namedt(x):
    P = collections.namedtuple("P", "a b")
    p = P(x.shape[0], x.shape[1])
    return x + p.a * p.b


def module_attr(x):
    m = torch.nn.Identity()
    m.n = x.shape[0]
    return m(x) + m.n


def dict_vals(x):
    d = {"n": x.shape[0]}
    d["m"] = d["n"] * 2
    return x + d["m"] + len(d)


def ternary_none(x):
    return x + (x.shape[0] or 10)


def fraction_(x):
    return x + float(fractions.Fraction(x.shape[0], 3))


def unpack(x):
    n, m = x.shape
    *a, b = x.shape
    return x + n * m + b + len(a)


def pow_t(x):
    return x ** x.shape[0]


def cmp_t(x):
    return x < x.shape[0], x == x.shape[0]


def int_t(x):
    return x.long() + x.shape[0], x.long() * x.shape[0], x.long() // (x.shape[0] + 1), x.to(torch.int8) + x.shape[0]


def layernorm(x):
    return F.layer_norm(x, x.shape), F.layer_norm(x.T, (x.shape[0],))


def einsum_(x):
    return torch.einsum("ij,kj->ik", x, x)


def sdpa(x):
    return F.scaled_dot_product_attention(x[None], x[None], x[None], is_causal=True)


def cdist_(x):
    return torch.cdist(x, x)


def meshes(x):
    return torch.meshgrid(torch.arange(x.shape[0]), torch.arange(3), indexing="ij")


def diag_emb(x):
    return torch.diag_embed(x), torch.diagonal(x), torch.diag(x[:, 0])


def fliprot(x):
    return x.flip(0), torch.rot90(x), x.T.contiguous()


def windows(x):
    return torch.hann_window(x.shape[0]), torch.bartlett_window(x.shape[0] + 1)


def searchs(x):
    return torch.searchsorted(torch.arange(x.shape[0]).float(), x)


def scatter_(x):
    return torch.zeros(x.shape[0] + 1, 3).scatter_add(0, torch.zeros(x.shape[0], 3, dtype=torch.long), x)


def gather_(x):
    return x.gather(0, torch.zeros(1, 3, dtype=torch.long)) if len(x) else x


def masked(x):
    return x.masked_fill(torch.ones_like(x).bool().tril(x.shape[0] // 2), x.shape[0])


def clamps(x):
    return x.clamp(-x.shape[0] / 4, x.shape[0] / 4)


def nonzero_(x):
    return x.nonzero().shape[0] + x


def item_(x):
    return x[: int(x.abs().sum().item()) % (x.shape[0] + 1)]


def seq_mask(x):
    return (torch.arange(x.shape[0])[None] < torch.tensor([1, 2, 3])[:, None]).float() @ x


def pos_emb(x):
    n = x.shape[0]
    p = torch.arange(n)[:, None] / 10000 ** (torch.arange(3) / 3)
    return x + p.sin()


def divmods(x):
    a, b = divmod(x.shape[0], 3)
    return x + a * 10 + b


def rdivmod(x):
    return x + divmod(17, x.shape[0] + 1)[1]
