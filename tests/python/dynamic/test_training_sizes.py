"""Gradients of what has symbols for its sizes: one capture, and a program for each set of sizes."""

import pytest
import torch
from any_size import same
from torch import nn
from torch.nn import functional as F

import braze
from braze._load import C

pytestmark = pytest.mark.skipif(not hasattr(C, "CompiledFunction"), reason="no evaluator for this Python")


def gradients(function, arguments):
    leaves = [a.detach().clone().requires_grad_(a.is_floating_point()) for a in arguments]
    result = function(*leaves)
    wanted = [leaf for leaf in leaves if leaf.requires_grad]
    return result, torch.autograd.grad(result.pow(2).sum(), wanted)


def mlp(x, w):
    return torch.tanh(x @ w).sum(-1) * x.shape[0]


def attention(x, w):
    n = x.shape[0]
    q = (x @ w).view(n, 5, -1).transpose(0, 1)
    return F.scaled_dot_product_attention(q, q, q).mean(1)


def parts(x, w):
    return torch.cat([x[1:] * 2, x[0:1], x[: x.shape[0] // 2]]) @ w


def normalised(x, w):
    return F.layer_norm(x, (x.shape[1],)) @ w


def loss(x, w):
    y = F.log_softmax(x @ w, -1)
    return F.nll_loss(y, torch.zeros(x.shape[0], dtype=torch.int64)) + F.mse_loss(y, x @ w)


# Captures with dynamic=True; of those that are none here some formula of PyTorch's asks for numbers.
CAPTURES = {mlp: 1, loss: 1}


@pytest.mark.parametrize("function", [mlp, attention, parts, normalised, loss], ids=lambda f: f.__name__)
@pytest.mark.parametrize("dynamic", [None, True])
def test_one_capture_for_all_sizes(function, dynamic):
    torch.manual_seed(0)
    w = torch.randn(6, 10)
    compiled = braze.compile(function, dynamic=dynamic)
    for n in (4, 7, 12, 4, 9, 30):
        x = torch.randn(n, 6)
        (one, mine), (other, theirs) = gradients(compiled, (x, w)), gradients(function, (x, w))
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)
        for a, b in zip(mine, theirs, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-3)
            assert a.stride() == b.stride()
    counts = compiled.counts()
    assert counts["native"] == 0
    if function in CAPTURES:
        assert counts["captured"] == CAPTURES[function] + (dynamic is None)


def test_steps_of_an_optimizer():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(20, 8), nn.Flatten(0, 1), nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 4))
    twin = nn.Sequential(nn.Embedding(20, 8), nn.Flatten(0, 1), nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 4))
    twin.load_state_dict(model.state_dict())
    compiled = braze.compile(model, dynamic=True)
    steps = [torch.optim.SGD(one.parameters(), 0.1) for one in (compiled, twin)]
    for batch, length in [(2, 5), (4, 9), (3, 5), (2, 30)]:
        ids = torch.randint(0, 20, (batch, length))
        for one, step in zip((compiled, twin), steps, strict=True):
            step.zero_grad()
            one(ids).pow(2).mean().backward()
            step.step()
        for a, b in zip(model.parameters(), twin.parameters(), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
    assert compiled.forward.counts()["captured"] == 1


WEIGHT = torch.randn(6, 4, 3, 3)


def convolved(x):
    return [F.conv2d(x, WEIGHT, stride=s, padding=p, dilation=d) for s in (1, 2) for p in (0, 1) for d in (1, 2)]


def added(x):
    return [x + k for k in range(12)]


@pytest.mark.parametrize("function", [convolved, added])
@pytest.mark.parametrize("dynamic", [True, None])
def test_only_the_tensors_of_a_call_are_guarded(function, dynamic):
    """A joint graph takes more than these: of each result, what the backward is given. Guards read sizes of that in
    memory behind the tensors."""
    for _ in range(10):
        compiled = braze.compile(function, dynamic=dynamic)
        for batch, height in [(2, 8), (3, 10), (1, 16), (4, 13), (2, 9)]:
            x = torch.randn(batch, 4, height, height, requires_grad=True)
            found, expected = compiled(x), function(x)
            same(found, expected)
            same(*[torch.autograd.grad(sum(y.sin().sum() for y in ys), [x])[0] for ys in (found, expected)])
        counts = compiled.counts()
        assert (counts["native"], counts["captured"]) == (0, 2 if dynamic else 3)  # one of them for a batch of 1
