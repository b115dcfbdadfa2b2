"""Numbers that Python computes of sizes: floats, rounded ints and comparisons, one program for all of them."""

import math

import pytest
import torch
from torch import nn

import braze
from braze._load import C

pytestmark = [
    pytest.mark.skipif(not hasattr(C, "CompiledFunction"), reason="no evaluator for this Python"),
    pytest.mark.usefixtures("no_grad"),
]

SIZES = (4, 6, 20, 8, 33, 5, 16, 64, 7, 1, 0, 4)


def same(one, other):
    assert type(one) is type(other)
    if isinstance(one, torch.Tensor):
        assert one.dtype == other.dtype
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6, equal_nan=True)
    elif isinstance(one, (tuple, list)):
        assert len(one) == len(other)
        for a, b in zip(one, other, strict=True):
            same(a, b)
    else:
        assert one == other and repr(one) == repr(other)  # To the last bit.


def captures(function, calls, dynamic=None):
    compiled = braze.compile(function, dynamic=dynamic)
    for call in calls:
        try:
            wanted = function(*call)
        except (ValueError, ZeroDivisionError, RuntimeError, IndexError) as error:
            with pytest.raises(type(error)):
                compiled(*call)
            continue
        same(compiled(*call), wanted)
    return compiled.counts()["captured"]


def rows(sizes=SIZES):
    return [(torch.randn(n, 6),) for n in sizes]


PROGRAMS = {
    "scaled by a root": lambda x: x * (1 / math.sqrt(x.shape[0])),
    "divided by a root": lambda x: x / math.sqrt(x.shape[0]),
    "negative power": lambda x: x * x.shape[0] ** -0.5,
    "float(n)": lambda x: x + float(x.shape[0]),
    "n / 2": lambda x: x * (x.shape[0] / 2) - x.shape[0] / 3,
    "n / x": lambda x: x.shape[0] / (x.abs() + 1),
    "f / x": lambda x: (x.shape[0] / 3) / (x.abs() + 1),
    "logarithms": lambda x: (x * math.log(x.shape[0]), x + math.log2(x.shape[0])),
    "functions": lambda x: (
        x * math.exp(-x.shape[0] / 10),
        x * math.sin(x.shape[0]),
        x + math.tanh(x.shape[0] / 9),
    ),
    "returned": lambda x: (x + 1, x.shape[0] / 2, math.sqrt(x.shape[0]), float(x.shape[0]), -x.shape[0] / 3),
    "returned in containers": lambda x: (x + 1, [x.shape[0] / 7, (x.shape[0] * 0.1,)], round(x.shape[0] / 3, 2)),
    "round": lambda x: x[: round(x.shape[0] / 2)],
    "int of a product": lambda x: x[: int(x.shape[0] * 0.5)] * 2,
    "int of a product that rounds": lambda x: x[: int(x.shape[0] * 0.7)] * 2,
    "int of a quotient": lambda x: x[: int(x.shape[0] / 3) + 1] * int(x.shape[0] / 2),
    "ceil": lambda x: x[: math.ceil(x.shape[0] / 2)] + 1,
    "floor": lambda x: x[: math.floor(x.shape[0] / 3) + 1] + 1,
    "ceil of a fraction": lambda x: torch.zeros(math.ceil(x.shape[0] * 0.75), 2),
    "isqrt": lambda x: x[: math.isqrt(x.shape[0])],
    "bits": lambda x: (x[: x.shape[0] >> 1], x[: (x.shape[0] & 3) + 1], x.shape[0] << 1, x.shape[0] ** 2),
    "xor and or": lambda x: (x + 1, x.shape[0] ^ 5, x.shape[0] | 1, ~x.shape[0], +x.shape[0]),
    "bit_length": lambda x: x[: x.shape[0].bit_length() - 1],
    "abs": lambda x: (x * 2, abs(x.shape[0] - 3), abs(3 - x.shape[0])),
    "min and max": lambda x: x * min(x.shape[0] / 2, 100.0) + max(1.5, x.shape[0] / 8),
    "dropout's scale": lambda x: x / (1 - 1 / (x.shape[0] + 1)),
    "operators": lambda x: (torch.mul(x, 1 / x.shape[0]), torch.add(x, x.shape[0] / 2), x.div(x.shape[0] / 3)),
    "comparisons with tensors": lambda x: (x < x.shape[0] / 8, x.ge(1 / x.shape[0])),
    "integers": lambda x: (x.long() * (x.shape[0] / 2), x.long() + x.shape[0] / 4),
    "doubles": lambda x: x.double() * math.sqrt(x.shape[0]) / 3,
    "kept": lambda x: x * {"scale": x.shape[0] / 2}["scale"] + [x.shape[0] / 3][0],
    "of two sizes": lambda x: x.sum() * (x.shape[0] / x.shape[1]) + math.hypot(*x.shape),
}


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("name", PROGRAMS)
def test_one_program_for_all_sizes(name, dynamic):
    if name == "min and max":  # A branch.
        captures(PROGRAMS[name], rows(), dynamic)
        return
    # What is for 0 and 1 is for itself.
    assert captures(PROGRAMS[name], rows([n for n in SIZES if n > 1]), dynamic) == (1 if dynamic else 2)
    captures(PROGRAMS[name], rows(), dynamic)


def test_a_comparison_is_a_guard():
    def f(x):
        return x + 1 if x.shape[0] / 2 > 7.5 else x - 1

    assert captures(f, rows((4, 6, 15, 16, 20, 17, 5, 14)), True) == 2


def test_truth_is_a_guard():
    def f(x):
        return x + 1 if x.shape[0] / 2 - 3 else x - 1

    assert captures(f, rows((4, 6, 20, 6, 8)), True) == 2


def test_who_looks_specialises():
    def f(x):
        table = {x.shape[0] / 2: 3}
        return (
            x * table.get(3.0, 1),
            f"{x.shape[0] / 4}",
            x.shape[0] / 2 in (2.0, 3.0),
            (x.shape[0] / 2, 1) == (3.0, 1),
        )

    captures(f, rows((4, 6, 20, 6, 8)))
    captures(f, rows((4, 6, 20, 6, 8)), True)


def test_a_zero_below_zero():
    def f(x):
        return x * (-0.0 * (x.shape[0] - 4)), math.copysign(1.0, 0.0 * (4 - x.shape[0]))

    captures(f, rows((4, 6, 20, 4, 3)), True)


def test_what_raises_raises():
    def f(x):
        return x * math.log(x.shape[0] - 5)

    captures(f, rows((8, 6, 20, 5, 4, 9)), True)
    captures(lambda x: x * (1 / (x.shape[0] - 5)), rows((8, 6, 20, 5, 4, 9)), True)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_types_take_the_number_in_full(dtype):
    def f(x):
        return x * (1 / x.shape[0]), x / math.sqrt(x.shape[0]), x * x.shape[0], x + x.shape[0]

    compiled = braze.compile(f, dynamic=True)
    for n in (4, 6, 20, 7, 33):
        x = torch.randn(n, 9).to(dtype)
        for one, other in zip(compiled(x), f(x), strict=True):
            assert torch.equal(one, other)
    assert compiled.counts()["captured"] == 1


class Attention(nn.Module):
    """Scores are scaled by how many keys there are."""

    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(16, 48)

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        scores = q @ k.transpose(-1, -2) / math.sqrt(k.shape[-2])
        return torch.softmax(scores * math.log(k.shape[-2]), -1) @ v


def test_attention():
    assert (
        captures(Attention().eval(), [(torch.randn(b, n, 16),) for b, n in ((2, 4), (3, 6), (5, 9), (2, 33))]) == 2
    )


def test_gradients():
    def f(x, w):
        return ((x @ w) * x.shape[0] ** -0.5).tanh().sum() / math.sqrt(x.shape[0])

    compiled = braze.compile(f)
    with torch.enable_grad():
        for n in (4, 6, 20, 8, 33):
            x, w = torch.randn(n, 6), torch.randn(6, 3, requires_grad=True)
            (one,) = torch.autograd.grad(compiled(x, w), w)
            (other,) = torch.autograd.grad(f(x, w), w)
            torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)
    assert compiled.counts()["captured"] == 2


def test_guards_are_readable():
    compiled = braze.compile(lambda x: x + 1 if math.sqrt(x.shape[0]) > 2.5 else x, dynamic=True)
    compiled(torch.randn(9, 6))
    assert any("math.sqrt(x_0) > 2.5 == True" in guard for guard in compiled.guards()[0])
