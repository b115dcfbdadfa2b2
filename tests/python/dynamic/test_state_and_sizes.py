"""Sizes that vary in programs with state, branches, views, writes and other arguments that vary.

Each program is made twice; one is compiled, and every call gives what the other gives, arguments included.
"""

import pytest
import torch
from any_size import same
from torch import nn
from torch.nn import functional as F

import braze
from braze._load import C

pytestmark = [
    pytest.mark.skipif(not hasattr(C, "CompiledFunction"), reason="no evaluator for this Python"),
    pytest.mark.usefixtures("no_grad"),
]

SIZES = (8, 12, 20, 7, 1, 0, 2, 8, 33)


def tensors(*shapes):
    return [
        lambda shape=shape: (
            torch.randn(shape, generator=torch.Generator(torch.get_default_device()).manual_seed(sum(shape))),
        )
        for shape in shapes
    ]


def rows(*sizes):
    return tensors(*((size, 6) for size in sizes))


def pairs(*sizes):
    return [lambda a=a, b=b: (torch.arange(6.0 * a).view(a, 6), torch.arange(6.0 * b).view(b, 6)) for a, b in sizes]


def numbers(x, *values):
    return [lambda value=value: (x.clone(), value) for value in values]


def is_at_break():
    print(end="")


# ---- what is kept over calls
def counted():
    state = {"n": 0, "seen": []}

    def f(x):
        state["n"] += x.shape[0]
        state["seen"].append(x.shape[1])
        return x * state["n"], len(state["seen"])

    return f


def concatenated():
    state = {"cache": None}

    def f(x):
        state["cache"] = x if state["cache"] is None else torch.cat([state["cache"], x], 0)
        return state["cache"] * 2, state["cache"].shape[0]

    return f


def written_cache():
    cache, position = torch.zeros(64, 6), [0]

    def f(x):
        n = x.shape[0]
        cache[position[0] : position[0] + n] = x
        position[0] += n
        return cache[: position[0]].sum(0), position[0]

    return f


class Attributes(nn.Module):
    def __init__(self):
        super().__init__()
        self.total = 0
        self.last = None

    def forward(self, x):
        self.total = self.total + x.shape[0]
        last, self.last = self.last, x.shape[0]
        return x / (self.total + 1) + (0 if last is None else last)


def nonlocal_sum():
    total = 0

    def f(x):
        nonlocal total
        total += x.shape[0]
        return x + total

    return f


class MaskCache(nn.Module):
    def __init__(self):
        super().__init__()
        self.mask = None

    def forward(self, x):
        n = x.shape[0]
        if self.mask is None or self.mask.shape[0] < n:
            self.mask = torch.ones(n, n).tril()
        return self.mask[:n, :n] @ x


def list_of_shapes():
    shapes = []

    def f(x):
        shapes.append(tuple(x.shape))
        return x + len(shapes), shapes[-1], sum(shape[0] for shape in shapes)

    return f


def across_a_break():
    def f(x):
        n = x.shape[0]
        y = x * n
        is_at_break()
        return y + n, y.shape, n // 2

    return f


def containers_across_a_break():
    def f(x):
        sizes, table, pair = [x.shape[0], x.shape[1]], {"n": x.shape[0]}, (x.shape[0], x)
        is_at_break()
        return x.new_zeros(sizes[0], table["n"]), pair[0] + sizes[1], sizes

    return f


# ---- forms of arguments
def strided(n, kind):
    def make():
        base = torch.randn(n * 4, 12, generator=torch.Generator(torch.get_default_device()).manual_seed(n))
        forms = {
            "rows": lambda: base[:n, :6].contiguous(),
            "transposed": lambda: base.view(12, n * 4)[:6, :n].t(),
            "steps": lambda: base[::2, ::2][:n],
            "offset": lambda: base[1 : n + 1, 3:9],
            "expanded": lambda: base[:1, :6].expand(n, 6),
        }
        return (forms[kind](),)

    return make


def images(n, side, is_last):
    x = torch.randn(n, 3, side, side, generator=torch.Generator(torch.get_default_device()).manual_seed(n + side))
    return lambda: ((x.to(memory_format=torch.channels_last) if is_last else x).clone(),)


def convolved():
    weight = torch.randn(4, 3, 3, 3, generator=torch.Generator(torch.get_default_device()).manual_seed(0))
    return lambda x: (F.conv2d(x, weight, padding=1), x * 2, F.max_pool2d(x, 2))


def written_by_slices():
    def f(x):
        x[x.shape[0] // 2 :] += 1
        x[:, 0] = x.shape[0]
        x[-1:] *= 2
        x[::2, 1:3].zero_()
        return x.sum()

    return f


def written_by_views():
    def f(x):
        y = x.t()
        y[:3].mul_(2)
        flat = x.view(-1)
        flat[: x.shape[0]].fill_(5)
        return y, x, flat.shape

    return f


# ---- branches
def branches():
    def f(x):
        n = x.shape[0]
        if n == 0:
            return x.sum()
        if n % 2 == 0 and n > 10:
            return x.view(2, -1)
        if n in (7, 9):
            return x * 7
        return x[::2] if n > 4 else x.t()

    return f


def halved():
    def f(x):
        while x.shape[0] > 4:
            half = x.shape[0] // 2
            x = x[:half] + x[-half:]
        return x

    return f


def shapes_of_shapes():
    def f(x):
        n = x.shape[0]
        return (
            x.view(n // 2, 2, 6) if n % 2 == 0 else x,
            x.unfold(0, 3, 2) if n >= 3 else x,
            x.new_zeros(max(n - 5, 0), min(x.shape)),
        )

    return f


def refused():
    def f(x):
        if x.shape[0] > 15:
            raise ValueError(f"too long: {x.shape[0]}")
        return x.view(-1, 4, 6)

    return f


def caught():
    def f(x):
        try:
            return x.view(x.shape[0] // 4, 4, 6) if x.shape[0] % 4 == 0 else [1, 2, 3][x.shape[0]]
        except IndexError as error:
            return x * 2, str(error)

    return f


def windows():
    def f(x):
        n, c = x.shape
        padding = (-n) % 4
        w = F.pad(x, (0, 0, 0, padding)).view(-1, 4, c)
        return w.mean(1), w.reshape(-1, c)[:n], padding

    return f


# ---- what models do
def positions():
    table = nn.Embedding(64, 6)
    table.weight.data = torch.arange(384.0).view(64, 6)
    return lambda x, start: table(torch.arange(start, start + x.shape[0])) + x


def rotated():
    def f(x):
        n, d = x.shape
        frequencies = 1.0 / (100 ** (torch.arange(0, d, 2).float() / d))
        angles = torch.outer(torch.arange(n).float(), frequencies)
        turns = torch.polar(torch.ones_like(angles), angles)
        return torch.view_as_real(torch.view_as_complex(x.reshape(n, -1, 2)) * turns).flatten(1)

    return f


def relative():
    table = torch.arange(100.0)

    def f(x):
        place = torch.arange(x.shape[0])
        return table[place[:, None] - place[None] + x.shape[0] - 1]

    return f


def convnet():
    torch.manual_seed(0)
    layers = nn.Conv2d(3, 4, 3, 2, 1), nn.BatchNorm2d(4), nn.ReLU(), nn.AdaptiveAvgPool2d((2, 2)), nn.Flatten()
    return nn.Sequential(*layers, nn.Linear(16, 3)).eval()


def recurrent():
    torch.manual_seed(0)
    return nn.GRU(6, 5, batch_first=True).eval()


def up_and_down():
    torch.manual_seed(0)
    down, up = nn.Conv2d(2, 4, 3, 2, 1), nn.Conv2d(4, 2, 3, 1, 1)
    return lambda x: up(F.interpolate(down(x).relu(), size=x.shape[2:])) + x


def trained():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 3))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)

    def f(x):
        with torch.enable_grad():
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), torch.arange(x.shape[0]) % 3)
            loss.backward()
            optimizer.step()
        return loss.detach(), model[0].weight.detach().clone()

    return f


def differentiated():
    def f(x):
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            y = (x * torch.linspace(0, 1, x.shape[0])[:, None]).softmax(0).pow(2).sum() * x.shape[0]
            return torch.autograd.grad(y, x)[0]

    return f


class Held:
    __slots__ = ("n", "shape")

    def __init__(self, x):
        self.n = x.shape[0]
        self.shape = x.shape

    @property
    def half(self):
        return self.n // 2

    def __eq__(self, other):
        return self.n == other.n

    def __hash__(self):
        return hash(self.n)


def generated():
    def f(x):
        def halves(n):
            while n > 1:
                yield n
                n //= 2

        return x * sum(halves(x.shape[0])), list(halves(x.shape[0]))

    return f


def by_keywords():
    def made(x, *, n, m=2, **rest):
        return x.new_zeros(n, m) + rest.get("z", 0)

    return lambda x: made(x, n=x.shape[0], z=x.shape[1], m=x.shape[0] // 2)


def plain(function):
    return lambda: function


NINE = torch.arange(54.0).view(9, 6)
THREE_D = ((2, 3, 4), (3, 4, 5), (0, 3, 4), (2, 0, 4), (2, 3, 0), (1, 3, 4), (2, 1, 1), (5, 2, 2))
PROGRAMS = {
    "counted": (counted, rows(*SIZES)),
    "concatenated": (concatenated, rows(3, 1, 1, 1, 2, 1, 1)),
    "a cache that is written": (written_cache, rows(3, 1, 1, 1, 2, 1, 1, 5)),
    "attributes": (Attributes, rows(8, 12, 20, 7, 9, 11, 13)),
    "nonlocal": (nonlocal_sum, rows(4, 5, 6, 7, 8)),
    "a cache of masks": (MaskCache, rows(4, 3, 8, 6, 12, 1, 2, 20, 5)),
    "a list of shapes": (list_of_shapes, rows(4, 5, 6, 4, 5)),
    "across a break": (across_a_break, rows(*SIZES)),
    "containers across a break": (containers_across_a_break, rows(*SIZES)),
    "two sizes that part": (
        plain(lambda x, y: (x.sum(0) + y.sum(0), x.shape == y.shape, x.shape[0] - y.shape[0])),
        pairs((8, 8), (9, 9), (10, 10), (8, 9), (9, 8), (7, 7), (1, 1), (1, 5), (0, 0), (5, 5)),
    ),
    "sizes that are broadcast": (
        plain(lambda x, y: x + y),
        pairs((8, 8), (9, 9), (9, 1), (1, 9), (7, 1), (1, 1), (7, 8), (0, 1), (0, 0), (12, 12)),
    ),
    "strides that vary": (
        plain(lambda x: (x * 2, x.stride(), x.is_contiguous(), x.reshape(-1))),
        [
            strided(n, kind)
            for n, kind in (
                *((8, "rows"), (9, "rows"), (8, "transposed"), (9, "transposed"), (10, "transposed"), (8, "steps")),
                *((12, "steps"), (8, "offset"), (7, "offset"), (5, "expanded"), (6, "expanded"), (1, "transposed")),
                *((1, "steps"), (0, "offset"), (7, "rows")),
            )
        ],
    ),
    "layouts that vary": (
        convolved,
        [
            images(*form)
            for form in ((2, 8, 0), (3, 10, 0), (2, 8, 1), (3, 10, 1), (4, 12, 1), (1, 8, 1), (2, 4, 1))
        ],
    ),
    "written by slices": (written_by_slices, rows(*SIZES)),
    "written by views": (written_by_views, rows(*SIZES)),
    "out=": (
        plain(lambda x, out: (torch.add(x, 1, out=out), out.shape)),
        pairs((8, 8), (9, 9), (7, 7), (10, 10), (1, 1)),
    ),
    "branches": (branches, rows(8, 12, 14, 7, 9, 3, 0, 1, 2, 16, 5)),
    "halved": (halved, rows(8, 9, 16, 33, 3, 1, 0, 70)),
    "shapes of shapes": (shapes_of_shapes, rows(*SIZES)),
    "refused": (refused, rows(8, 12, 4, 7, 20, 16, 9, 0, 2)),
    "caught": (caught, rows(8, 12, 4, 7, 20, 2, 1, 0)),
    "windows": (windows, rows(*SIZES)),
    "chunks": (plain(lambda x: [*x.chunk(3), *x.split(4)]), rows(9, 12, 13, 3, 1, 8, 20)),
    "an int": (
        plain(lambda x, k: (x[:k], x * k, x.repeat(k, 1), x.new_zeros(k, 2), k + 1)),
        numbers(NINE, 2, 3, 4, 1, 0, 9, 20, True, False, 5),
    ),
    "a float": (
        plain(lambda x, k: (x * k, x + k, k * 2, x.clamp(max=k))),
        numbers(NINE, 2.0, 3.5, float("inf"), -0.0, 0.0, 7.0, 1, 2, True, 5.5),
    ),
    "an int below 0": (
        plain(lambda x, k: (x[k:], x.roll(k, 0), x.select(0, k), x.narrow(0, 0, abs(k)))),
        numbers(NINE, 1, 2, 3, -1, -2, -9, 0, 8, -10, 9),
    ),
    "an int and a size": (
        plain(lambda x, k: (x.shape[0] == k, x[:k].shape[0] < k, x * (x.shape[0] - k))),
        [
            lambda n=n, k=k: (torch.ones(n, 6), k)
            for n, k in ((8, 8), (9, 9), (10, 10), (8, 9), (9, 8), (5, 3), (3, 5), (1, 1), (0, 0))
        ],
    ),
    "positions": (
        positions,
        [
            lambda n=n, start=start: (torch.ones(n, 6), start)
            for n, start in ((8, 0), (9, 0), (1, 9), (1, 10), (1, 11), (3, 12), (2, 1), (0, 5))
        ],
    ),
    "rotated": (rotated, rows(*SIZES)),
    "relative positions": (relative, rows(4, 5, 9, 1, 7)),
    "a causal mask": (
        plain(
            lambda q: F.scaled_dot_product_attention(
                q, q, q, attn_mask=torch.full((q.shape[-2], q.shape[-2]), float("-inf")).triu(1)
            )
        ),
        tensors(*((2, 2, n, 8) for n in (4, 5, 9, 1, 7, 16))),
    ),
    "a convnet": (convnet, tensors((2, 3, 8, 8), (3, 3, 9, 11), (1, 3, 8, 8), (4, 3, 16, 10), (2, 3, 2, 2))),
    "a recurrent net": (recurrent, tensors((2, 5, 6), (3, 7, 6), (1, 4, 6), (2, 1, 6), (4, 9, 6))),
    "up and down": (up_and_down, tensors((2, 2, 8, 8), (2, 2, 10, 12), (1, 2, 8, 8), (3, 2, 7, 13), (2, 2, 2, 2))),
    "global pooling": (
        plain(
            lambda x: (
                F.avg_pool2d(x, x.shape[2:]),
                F.max_pool2d(x, x.size()[2:]),
                F.avg_pool2d(x, (x.shape[2], 1)),
            )
        ),
        tensors((2, 2, 8, 8), (2, 2, 10, 12), (1, 2, 8, 8), (3, 2, 7, 13), (2, 2, 2, 2), (2, 2, 12, 10)),
    ),
    "trained": (trained, rows(8, 12, 20, 7, 3, 2)),
    "differentiated": (differentiated, rows(8, 12, 20, 7, 1, 2)),
    "held by an object": (
        plain(lambda x: (x[: Held(x).half], Held(x).shape, Held(x) == Held(x * 2), Held(x).n)),
        rows(*SIZES),
    ),
    "generated": (generated, rows(8, 12, 4, 7)),
    "by keywords": (by_keywords, rows(*SIZES)),
    "scattered": (
        plain(
            lambda x: torch.zeros(x.shape[0], dtype=torch.long).scatter_add_(
                0, torch.arange(x.shape[0]) // 2, torch.ones(x.shape[0], dtype=torch.long)
            )
        ),
        rows(*SIZES),
    ),
    "tensors of numbers": (
        plain(
            lambda x: (
                torch.tensor(x.shape[0]),
                torch.tensor([x.shape[0], 3]),
                torch.tensor([x.shape[0] / 2, 1]),
                torch.tensor(x.shape),
                torch.tensor([[x.shape[0], 1.5], [2, x.shape[1]]], dtype=torch.float64),
                torch.tensor([True, False, x.shape[0]]),
                torch.tensor(x.shape[0], dtype=torch.float16),
                torch.as_tensor(x.shape[0]),
                torch.asarray([x.shape[0]]),
                x.new_tensor([x.shape[0]]),
                x.long().new_tensor(x.shape[0] / 2),
                x * torch.tensor(x.shape[0]),
            )
        ),
        rows(*SIZES),
    ),
    "reductions": (
        plain(lambda x: (x.sum(), x.mean(0), x.std(0) if x.shape[0] > 1 else x, x.cumsum(0), x.prod(0))),
        rows(*SIZES),
    ),
    "three dimensions": (
        plain(
            lambda x: (x @ x.transpose(-1, -2), x.permute(2, 0, 1).contiguous(), x.flatten(1) if x.shape[0] else x)
        ),
        tensors(*THREE_D),
    ),
    "einsum": (
        plain(lambda x: (torch.einsum("abc,abd->acd", x, x), torch.einsum("abc->cab", x))),
        tensors(*THREE_D),
    ),
    "types that vary": (
        plain(lambda x: (x * 2, x.sum(), x.float() / x.shape[0])),
        [
            lambda n=n, dtype=dtype: (torch.ones(n, 6, dtype=dtype),)
            for n, dtype in (
                *((8, torch.float32), (9, torch.float32), (9, torch.float64), (10, torch.float64)),
                *((7, torch.int64), (11, torch.int64), (5, torch.bfloat16), (6, torch.float32)),
            )
        ],
    ),
    "ranks that vary": (
        plain(lambda x: (x.sum(-1), x.shape, x.ndim * x.shape[0])),
        tensors((8,), (9,), (8, 2), (9, 2), (9, 3), (2, 3, 4), (2, 5, 4), (10,), (7, 7)),
    ),
    "nested": (
        plain(
            lambda d, parts: (
                d["a"] + parts[0].shape[0],
                [t * 2 for t in parts],
                {k: v.shape for k, v in d.items()},
            )
        ),
        [
            lambda n=n: ({"a": torch.ones(n, 2), "b": torch.ones(2, n)}, [torch.ones(n), torch.ones(n + 1)])
            for n in (3, 4, 5, 1, 0, 9)
        ],
    ),
    "ragged": (
        plain(lambda parts: nn.utils.rnn.pad_sequence(parts, True)),
        [
            lambda ns=ns: ([torch.ones(n, 2) for n in ns],)
            for ns in ((3, 4), (5, 2), (6, 6), (7, 1), (3, 4, 5), (8, 9))
        ],
    ),
}
#: The most captures with dynamic=True, where every size above 1 is served by one program; the others branch.
FEW = {
    **{"attributes": 3, "nonlocal": 2, "across a break": 4, "written by views": 3, "out=": 2, "rotated": 3},
    **{"relative positions": 2, "a causal mask": 2, "a convnet": 3, "a recurrent net": 3, "up and down": 3},
    **{"trained": 2, "differentiated": 2, "held by an object": 3, "scattered": 3, "tensors of numbers": 3},
    **{
        "reductions": 4,
        "ranks that vary": 4,
        "nested": 4,
        "a cache that is written": 3,
        "containers across a break": 4,
    },
}


def call(function, arguments):
    torch.manual_seed(0)
    try:
        return function(*arguments)
    except (RuntimeError, IndexError, ValueError, TypeError) as error:
        return type(error)


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("name", PROGRAMS)
def test_every_call_is_as_eager(name, dynamic):
    make, calls = PROGRAMS[name]
    mine, function = make(), make()
    compiled = braze.compile(mine.forward if isinstance(mine, nn.Module) else mine, dynamic=dynamic)
    for arguments in calls:
        ours, theirs = arguments(), arguments()
        same(call(compiled, ours), call(function, theirs))
        same(ours, theirs)
    if dynamic and name in FEW:
        assert compiled.counts()["captured"] <= FEW[name]
