"""Backends that run eager's operators, and compilers of one's own, where gradients are wanted."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import braze


def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.GELU(), nn.Dropout(0.1), nn.Linear(8, 3))


def loss_of(model, x):
    return F.cross_entropy(model(x), torch.arange(len(x)) % 3)


def graph_module(module, examples):
    return module.forward


BACKENDS = {
    "eager": "eager",
    "aot_eager": "aot_eager",
    "custom": graph_module,
    "aot_autograd": braze.aot_autograd(graph_module),
}


def partly(model, x):
    with torch.no_grad():
        scale = model[0].weight.abs().mean() + x.mean()
    y = model[0](x) * scale
    return y * y.detach() + y.data * 2, y.sum(dim=1), scale


def views(model, x):
    y = model[0](x)
    y[:, 0] += 1
    y.view(-1)[2:5].mul_(2)
    return y, y.t(), y[1]


def stopped(model, x):
    """Histories that end: read and written without, by factories, under no_grad, as results."""
    h = model[0](x)
    with torch.no_grad():
        moved = h * 2
        made = torch.zeros_like(h)
        made.add_(h)
    noise = torch.empty_like(h).bernoulli_(0.5)
    noise.mul_(h)
    kept = h.sin()
    kept.detach().add_(1)
    return h * h.detach(), moved, made * h, noise, kept * 2, h.detach(), torch.ones_like(h) * x.sum(), h.sign()


def losses(model, x):
    return loss_of(model, x), x + 1


def second(model, x):
    y = model(x).pow(2).sum()
    return y * 2, y


@pytest.mark.parametrize("function", [partly, stopped, views, losses, second], ids=lambda f: f.__name__)
@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients(backend, function):
    ours, theirs = net().eval(), net().eval()
    compiled = braze.compile(function, backend=BACKENDS[backend])
    for step in range(4):
        x = torch.randn(5, 6)
        one = x.clone().requires_grad_(step != 2)
        other = x.clone().requires_grad_(step != 2)
        torch.manual_seed(step)
        got = compiled(ours, one)
        torch.manual_seed(step)
        expected = function(theirs, other)
        for a, b in zip(got, expected, strict=True):
            assert a.requires_grad == b.requires_grad and (a.grad_fn is None) == (b.grad_fn is None)
            torch.testing.assert_close(a, b)
        sum(a.sum() for a in got if a.requires_grad).backward()
        sum(a.sum() for a in expected if a.requires_grad).backward()
        for a, b in zip([one, *ours.parameters()], [other, *theirs.parameters()], strict=True):
            assert (a.grad is None) == (b.grad is None)
            if a.grad is not None:
                torch.testing.assert_close(a.grad, b.grad)
    assert compiled.counts()["native"] == 0 and compiled.counts()["replayed"] >= 1, compiled.reasons()


@pytest.mark.parametrize("backend", BACKENDS)
def test_training(backend):
    both = []
    for compiles in (False, True):
        model = net()
        optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
        f = braze.compile(loss_of, backend=BACKENDS[backend]) if compiles else loss_of
        torch.manual_seed(1)
        values = []
        for _ in range(12):
            optimizer.zero_grad()
            loss = f(model, torch.randn(9, 6))
            loss.backward()
            optimizer.step()
            values.append(loss.detach())
        both.append([*values, *model.parameters()])
        if compiles:
            assert f.counts()["replayed"] >= 10, (f.counts(), f.reasons())
    for a, b in zip(*both, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=0)


@pytest.mark.parametrize("backend", [name for name in BACKENDS if name != "aot_autograd"])  # It has none.
def test_second_derivatives(backend):
    def f(x):
        return (x.sin() * x.exp()).sum()

    compiled = braze.compile(f, backend=BACKENDS[backend])
    for _ in range(3):
        x = torch.randn(5, requires_grad=True)
        results = []
        for function in (compiled, f):
            (first,) = torch.autograd.grad(function(x), x, create_graph=True)
            results.append(torch.autograd.grad(first.pow(2).sum(), x)[0])
        torch.testing.assert_close(*results)
    assert compiled.counts()["native"] == 0


@pytest.mark.parametrize("backend", [name for name in BACKENDS if name != "aot_autograd"])
def test_an_input_that_is_detached_first(backend):
    """A composite operator of PyTorch's reads `x.detach()` before x."""
    compiled = braze.compile(lambda x: x.nanmean(), backend=BACKENDS[backend])
    for _ in range(3):
        x = torch.randn(5, requires_grad=True)
        compiled(x).backward()
        torch.testing.assert_close(x.grad, torch.full((5,), 0.2))
    assert compiled.counts()["native"] == 0, compiled.reasons()


@pytest.mark.parametrize("backend", BACKENDS)
def test_writes_that_give_an_input_a_history(backend):
    def f(x, w):
        x.mul_(w)
        return x + 1

    compiled = braze.compile(f, backend=BACKENDS[backend])
    for _ in range(3):
        data = torch.randn(4)
        w = torch.randn(4, requires_grad=True)
        v = w.detach().clone().requires_grad_()
        one, other = data.clone(), data.clone()
        a, b = compiled(one, w), f(other, v)
        assert one.requires_grad and one.grad_fn is not None
        (a.sum() + one.sum()).backward()
        (b.sum() + other.sum()).backward()
        torch.testing.assert_close(w.grad, v.grad)
