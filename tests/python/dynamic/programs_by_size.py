"""What needs the number itself, decides by it, or raises.

Programs of `test_programs_of_sizes.py`; `x` has a row for each of `x.shape[0]`, which varies, and three columns."""

import collections
import copy
import decimal
import functools
import itertools
import json
import math
import random
import struct
import types

import numpy as np
import torch
from torch.nn import functional as F


def key_of_dict(x):
    return x * {8: 2, 0: 3, 1: 4, 2: 5}[x.shape[0]]


def key_get(x):
    return x + {8: 2}.get(x.shape[0], 7)


def in_set(x):
    return x + (1 if x.shape[0] in {1, 2} else 5)


def hash_of(x):
    return x + hash(x.shape[0])


def matching(x):
    match x.shape[0]:
        case 0:
            return x + 1
        case 2:
            return x + 2
        case n if n > 5:
            return x * n
        case _:
            return x - 1


def match_shape(x):
    match x.shape:
        case (n, 3):
            return x + n
        case _:
            return x - 1


def pow_neg(x):
    return x * x.shape[0] ** -1


def minmax(x):
    return x + min(x.shape[0], 4) + max(x.shape[0], 2, 3) + min(x.shape) + max([x.shape[0], x.shape[1]])


def sums(x):
    return x + sum(x.shape) + sum(s for s in x.shape) + sum(range(x.shape[0]))


def sorts(x):
    return x.reshape(sorted(x.shape))


def sorted_key(x):
    return (x + 1, sorted(x.shape, key=lambda s: -s))


def shape_eq(x):
    return x + 1 if x.shape == (2, 3) else x - 1


def shape_eq_size(x):
    return x + 1 if x.shape == torch.Size([2, 3]) else x - 1


def shape_lt(x):
    return x + 1 if x.shape < (2, 3) else x - 1


def shape_in(x):
    return x + 1 if x.shape in [(2, 3), (5, 3)] else x - 1


def slice_neg(x):
    return x[-x.shape[0] // 2 :] * 2


def slice_step(x):
    return x[:: max(1, x.shape[0] // 3)] + 1


def slice_rel(x):
    return x[1 : x.shape[0] - 1] * 2


def slice_both(x):
    return x[-3 : x.shape[0] // 2] * 2


def index_last(x):
    return x[x.shape[0] - 1] * 2


def index_neg(x):
    return x[-x.shape[0]] * 2


def index_over(x):
    return x[x.shape[0]]


def size_count(x):
    return x + x.shape.count(3)


def size_index(x):
    return x + x.shape.index(3)


def size_list(x):
    return x.reshape(list(x.shape)[::-1])


def size_contains(x):
    return x + 1 if 3 in x.shape and 8 in x.shape else x


def size_hash(x):
    return x * {torch.Size([2, 3]): 5}.get(x.shape, 2)


def size_repr(x):
    return (x + 1, repr(x.shape))


def fstr(x):
    return (x + 1, f"{x.shape[0]} rows of {x.shape[1]:>5} {x.shape[0]!r}")


def fmt(x):
    return (x * 2, f"{x.shape[0]:03d}", "%d" % x.shape[0], str(x.shape[0]), repr(x.shape[0]))  # noqa: UP031


def fmt_key(x):
    return x * {"n0": 2, "n2": 3}.get(f"n{x.shape[0]}", 4)


def np_sizes(x):
    return x + int(np.prod(x.shape)) + float(np.sqrt(x.shape[0])) + int(np.array(x.shape).sum())


def np_int(x):
    return x + np.int64(x.shape[0])


def math_log0(x):
    return x * math.log(x.shape[0])


def expand_n(x):
    return x[:1].expand(x.shape[0] + 1, 3) * 2


def unfold(x):
    return x.unfold(0, max(1, x.shape[0] // 2), 1) * 2


def strided(x):
    return x.contiguous().as_strided((x.shape[0] // 2, 3), (6, 1)) * 2


def split_list(x):
    return [p * 2 for p in x.split([x.shape[0] // 2, x.shape[0] - x.shape[0] // 2])]


def split_n(x):
    return [p * 2 for p in x.split(max(1, x.shape[0] // 2))]


def chunked(x):
    return [p * 2 for p in x.chunk(2)]


def enumerated(x):
    return [r * k for k, r in enumerate(x)]


def zipped(x):
    return [a * b for a, b in zip(x, x, strict=True)]


def ranged(x):
    y = x
    for k in range(0, x.shape[0], 2):
        y = y + k
    return y


def ranged_rev(x):
    return x + sum(k for k in reversed(range(x.shape[0])))


def listcomp(x):
    return torch.tensor([k * 2 for k in range(x.shape[0])]) + x.sum()


def list_mul(x):
    return (x + 1, [0] * x.shape[0])


def str_mul(x):
    return (x + 1, "a" * x.shape[0])


def bytes_n(x):
    return (x + 1, bytes(x.shape[0]))


def list_index(x):
    return x + [5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, 7][x.shape[0]]


def tuple_slice(x):
    return (x + 1, (1, 2, 3, 4, 5)[: x.shape[0]])


def floats(x):
    return x + float(x.shape[0]) + int(x.shape[0]) + complex(x.shape[0]).real


def floordiv_zero(x):
    return x + 7 // x.shape[0]


def mod_zero(x):
    return x + 7 % x.shape[0]


def compare_chain(x):
    return x + 1 if 0 < x.shape[0] < 5 else x - 1


def compare_float(x):
    return x + 1 if x.shape[0] / 2 > 2.4 else x - 1


def any_all(x):
    return x + any(s > 4 for s in x.shape) + all(s > 1 for s in x.shape)


def to_bytes(x):
    return (x, x.shape[0].to_bytes(2, "little"))


def hexed(x):
    return (x + 1, hex(x.shape[0]), bin(x.shape[0]), chr(65 + x.shape[0]))


def cat_self(x):
    return torch.cat([x] * min(x.shape[0], 2)) if x.shape[0] else x


def arange_half(x):
    return x + torch.arange(x.shape[0] / 2).sum()


def zeros_half(x):
    return torch.zeros(int(x.shape[0] / 2)) + 1


def norm2(x):
    return torch.linalg.matrix_norm(x, 2)


def vander(x):
    return torch.vander(x[:, 0].abs(), x.shape[0])


def dropout_p(x):
    return F.dropout(x, p=1 / (x.shape[0] + 1), training=False)


def repeats(x):
    return x.repeat(x.shape[0] % 3, 2)


def tile(x):
    return x.tile((2, x.shape[0] % 2 + 1))


def view_div(x):
    return x.reshape(-1, 1, x.shape[0]) * 2


def kth(x):
    return x.kthvalue((x.shape[0] + 1) // 2, 0)[0]


def amax0(x):
    return x.amax(0)


def assign_slice(x):
    y = x.clone()
    y[: x.shape[0] // 2] = x.shape[0]
    return y


def raise_if(x):
    if x.shape[0] == 2:
        raise ValueError(f"two rows: {x.shape}")
    return x + 1


def asserts(x):
    assert x.shape[0] != 1, f"not {x.shape[0]}"
    return x * 2


def break_mid(x):
    n = x.shape[0]
    y = x + n
    print(end="")
    return y * n, {"n": n}, [n, n + 1]


def break_shape(x):
    s = x.shape
    print(end="")
    return torch.ones(s) * s[0]


def returned(x):
    return x.shape[0], x.shape, x.shape[0] * 2, x.shape[0] / 2, [x.shape[0]], {"a": x.shape[1], x.shape[0]: 1}


def generators(x):
    return x + sum(k * x.shape[0] for k in (1, 2, 3))


def module_in(x):
    torch.manual_seed(0)
    m = torch.nn.Linear(3, x.shape[0])
    return m(x) if x.shape[0] else x


def deque_n(x):
    d = collections.deque(maxlen=x.shape[0])
    d.extend([1, 2, 3])
    return x + len(d)


def itertools_n(x):
    return x + sum(1 for _ in itertools.islice(itertools.count(), x.shape[0]))


def islice_rep(x):
    return x + sum(itertools.repeat(2, x.shape[0]))


def partials(x):
    return functools.partial(torch.add, x)(x.shape[0])


def maps(x):
    return x + sum(map(lambda s: s * 2, x.shape)) + sum(list(map(int, x.shape)))


def dataclass_(x):
    S = types.SimpleNamespace(n=x.shape[0])
    S.n += 1
    return x + S.n


def counter_(x):
    return (x + 1, collections.Counter([x.shape[0], 3]))


def walrus(x):
    return x + n if (n := x.shape[0]) > 2 else x - n


def string_join(x):
    return (x, "x".join(str(s) for s in x.shape), "x".join(map(str, x.shape)))


def hash_tuple(x):
    return x * (1 if (x.shape[0], 3) in {(2, 3): 1} else 2)


def decimal_(x):
    return x + float(decimal.Decimal(x.shape[0]))


def random_(x):
    r = random.Random(x.shape[0])
    return x + r.random()


def struct_(x):
    return (x, struct.pack("i", x.shape[0]))


def copy_n(x):
    return x + copy.copy(x.shape[0]) + copy.deepcopy([x.shape[0]])[0]


def json_(x):
    return (x, json.dumps({"n": x.shape[0], "s": list(x.shape)}))


def typed_int(x):
    class Index(int):
        pass

    return x + Index(x.shape[0])


def bool_int(x):
    return x + bool(x.shape[0]) + (x.shape[0] > 2) + (x.shape[0] == 2) * 3


def setdef(x):
    s = set()
    s.add(x.shape[0])
    s.add(8)
    return x + len(s)


def lshift_t(x):
    return torch.arange(3) << x.shape[0]


def rsub_t(x):
    return x.shape[0] - x, x.shape[0] / (x + 9), x.shape[0] // (x.abs() + 1), x.shape[0] % (x.abs() + 1)


def interp(x):
    return F.interpolate(x[None], scale_factor=2.0), F.interpolate(x[None], size=x.shape[0] + 2)


def interp_sum(x):
    return F.interpolate(x[None], scale_factor=1.5).sum()


def adaptive(x):
    return F.adaptive_avg_pool1d(x.T[None], max(1, x.shape[0] // 2))


def avgpool(x):
    return F.avg_pool1d(x.T[None], max(1, x.shape[0] // 2))


def conv(x):
    return F.conv1d(x.T[None], torch.ones(1, 3, min(3, max(1, x.shape[0]))), padding=x.shape[0] // 2)


def tri_idx(x):
    return torch.tril_indices(x.shape[0], x.shape[0]), torch.triu_indices(x.shape[0], 3)


def cartesian(x):
    return torch.combinations(torch.arange(x.shape[0]))


def bincounts(x):
    return torch.bincount(torch.arange(x.shape[0]), minlength=x.shape[0] + 2)


def fft_(x):
    return torch.fft.fft(x, dim=0), torch.fft.rfft(x, n=x.shape[0] + 1, dim=0), torch.fft.fftfreq(x.shape[0] + 1)


def unsq(x):
    return x.unsqueeze(x.shape[0] % 2), x.squeeze(0).shape


def dim_arg(x):
    return x.sum(x.shape[0] % 2)


def loop_tensor(x):
    y = x.new_zeros(3)
    for r in x:
        y = y + r
    return y


def while_loop_(x):
    n, y = x.shape[0], x
    while n > 1:
        y, n = y + n, n // 2
    return y


def recursion(x):
    def f(n):
        return 1 if n < 2 else n * f(n - 1)

    return x + f(x.shape[0])
