"""Numbers of NumPy's that a call is given, or that an object keeps: they vary as those of Python's do."""

import math

import numpy as np
import pytest
import torch

import braze
from braze._load import C

pytestmark = [
    pytest.mark.skipif(not hasattr(C, "CompiledFunction"), reason="no evaluator for this Python"),
    pytest.mark.usefixtures("quiet"),
]

# Of a tensor `x` and a number `k`, which is positive. Two programs are for all of them.
OF_FLOATS = """
x * k
k * x + 1
x + k, k - x, x / k, x - k
x * (k * 2) + (k + 1)
x * (1 - k), k * k
x.add(k), torch.mul(x, k), x * 2
(x + k).clamp(max=k)
x * float(k)
k + 1, k * 2.0, 2 - k, -k, abs(k), x + 1
np.sqrt(k) + 1, np.exp(-k), x * 2
x.numpy() * k, np.maximum(x.numpy(), k)
torch.tensor(k) * x
torch.full((2, 3), k), x + 1
k, x * k
x * 2 if k > 0 else x
isinstance(k, np.floating), isinstance(k, float), type(k), k.dtype, x * k
x > k, (x < k).float() * k
k.item() * x
math.sqrt(k) * x + math.exp(-k)
torch.nn.functional.layer_norm(x, (8,), eps=float(k))
""".strip().splitlines()

OF_WHOLE = """
x * k
k * x + 1
x + k, k - x
x * (k * 2) + (k + 1)
x[k]
x[:k] * 2
x[0, k] + x[k, 0]
x[k:, :k].sum()
x.numpy()[k] + 1
x * int(k)
k + 1, k * 2, 2 - k, x + 1
torch.arange(8)[k] + x
[x, x + 1, x + 2, x + 3, x + 4, x + 5, x + 6, x + 7][k]
x * 2 if k > 1 else x
isinstance(k, np.integer), type(k), x * k
np.arange(8)[k] + x
torch.tensor(k) * x
k.item() * x
""".strip().splitlines()

# Right, by whatever programs.
OTHERS = """
{k: 1}, x + 1
f"{k}", str(k), repr(k), x * 2
k in [1.0, 2.0], k == None, k != "s", x + 1
round(float(k), 1), divmod(k, 2), k // 2, k % 2, k ** 2, 2 ** k, x + 1
x ** k, x // k, x % k
hash(k), bool(k), not k, x + 1
max(k, 2), min(k, 1.5), sum([k, k]), x + 1
[k] * 2, (k, k), x + k, np.array([k, 1.0])
x.reshape(k * 0 + 64) * 1 + k
np.float32(k), np.float64(k), np.int64(k), x + 1
x.half() * k, x.double() + k, x.long() * k, (x > 0) * k
[1, 2] * int(k), x + 1
k & 1 if isinstance(k, np.integer) else k, x + 1
k > np.float32(2.5), k == 3, k >= np.int64(2), k + np.float64(1), k * np.int64(3), x + 1
torch.nn.functional.dropout(x, float(k) * 0) * k
max(k * 2, 3), f"{k * 2}", str(k + 1), repr(k * 1), (k * 2) in (4, 6), round(k * 1, 1), x + 1
np.arange(k).sum(), np.zeros(k), np.arange(k * 2), np.full((k, 2), k * 2), x + 1
torch.nn.functional.one_hot(torch.arange(3), k + 3), torch.nn.functional.layer_norm(x, (8,), eps=k)
torch.zeros((k, 2)), torch.ones(k), x.repeat(k, 1), x.expand(k, 8, 8), torch.arange(k)
np.ones((k, 3))[:k], [0, 1, 2, 3][:k], (1, 2, 3)[k - 1], range(k), list(range(k)), x + 1
x.pow(k), torch.clamp(x, k), torch.where(x > 0, k, 0.0)
k / 3, 3 / k, k - 0.1, k + 1j, x + 1
""".strip().splitlines()


def function_of(line):
    names = {"np": np, "torch": torch, "math": math}
    exec(f"def f(x, k):\n    return {line}", names)
    return names["f"]


def alike(ours, theirs):
    assert type(ours) is type(theirs), (type(ours), type(theirs))
    if isinstance(theirs, (np.ndarray, np.generic)):
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
        np.testing.assert_allclose(ours, theirs, rtol=2e-3 if theirs.dtype == np.float16 else 1e-6)
    elif isinstance(theirs, torch.Tensor):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6, equal_nan=True)
    elif isinstance(theirs, (tuple, list)):
        assert len(ours) == len(theirs)
        for one, other in zip(ours, theirs, strict=True):
            alike(one, other)
    elif isinstance(theirs, float):
        assert ours == pytest.approx(theirs, rel=1e-6, nan_ok=True)
    else:
        assert ours == theirs


def outcome(call, *arguments):
    try:
        return call(*arguments)
    except Exception as error:
        return type(error)


X = torch.randn(8, 8, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("kind", [np.float64, np.float32])
@pytest.mark.parametrize("line", OF_FLOATS)
def test_floats_vary(line, kind):
    f = function_of(line)
    fast = C.CompiledFunction(f, fullgraph=True)
    for k in (0.5, 2.25, 3.7, 0.1, 2.25, 7.0, 1.9, 4.4):
        alike(fast(X, kind(k)), f(X, kind(k)))
    assert fast.counts()["captured"] == 2, fast.reasons()


@pytest.mark.parametrize("kind", [np.int64, np.int32])
@pytest.mark.parametrize("line", OF_WHOLE)
def test_whole_numbers_vary(line, kind):
    f = function_of(line)
    fast = C.CompiledFunction(f, fullgraph=True)
    for k in (3, 5, 2, 7, 4, 6):
        alike(fast(X, kind(k)), f(X, kind(k)))
    assert fast.counts()["captured"] <= (7 if "[k]" in line or "k > 1" in line else 3), fast.reasons()


@pytest.mark.parametrize("line", OF_FLOATS + OF_WHOLE + OTHERS)
@pytest.mark.parametrize("dynamic", [None, True])
def test_of_every_kind(line, dynamic):
    f = function_of(line)
    for kind in (np.float64, np.float32, np.float16, np.int64, np.int32, np.int8, np.uint8, np.uint16, np.bool_):
        fast = braze.compile(f, dynamic=dynamic)
        for k in (3, 1, 0, 2, 5, 100):
            alike(outcome(fast, X, kind(k)), outcome(f, X, kind(k)))
    fast = braze.compile(f, dynamic=dynamic)
    for number in (
        np.float64(0.1),
        0.3,
        np.float32(0.1),
        -0.0,
        np.float64(-0.0),
        np.float64("nan"),
        np.float64("inf"),
    ):
        alike(outcome(fast, X, number), outcome(f, X, number))
        alike(outcome(fast, X, number), outcome(f, X, number))


def test_numbers_that_objects_keep():
    class Scaler:
        def __init__(self):
            self.scale, self.count = np.float32(1.0), np.int64(2)

        def step(self, x):
            self.scale = self.scale * np.float32(0.9) + 0.1
            self.count += 1
            return x * self.scale + self.count

    ours, theirs = Scaler(), Scaler()
    fast = braze.compile(ours.step)
    for _ in range(12):
        alike(fast(X), theirs.step(X))
        alike([ours.scale, ours.count], [theirs.scale, theirs.count])
    assert fast.counts()["captured"] <= 4
    assert fast.counts()["native"] == 0


def test_gradients_with_numbers():
    fast = braze.compile(lambda x, k: (x * k).sin().sum() * k)
    for k in (0.5, 1.5, 2.5, 3.5):
        grads = []
        for call in (fast, lambda x, k: (x * k).sin().sum() * k):
            with torch.enable_grad():
                x = X.clone().requires_grad_()
                call(x, np.float64(k)).backward()
            grads.append(x.grad)
        torch.testing.assert_close(*grads)
    assert fast.counts()["captured"] == 2


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16])
def test_tensors_of_one_number_are_rounded_to_their_type(kind):
    def f(x):
        filled = torch.empty(8, dtype=kind).fill_(1.1)
        return x * torch.full((), 1.1, dtype=kind), x - torch.full((8,), 0.3, dtype=kind), x * filled

    fast = braze.compile(f)
    for seed in range(3):
        x = torch.randn(8, 8, generator=torch.Generator().manual_seed(seed)).to(kind)
        for ours, theirs in zip(fast(x), f(x), strict=True):
            assert torch.equal(ours, theirs)
