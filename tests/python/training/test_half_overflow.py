"""f16 holds nothing beyond 65,504: what is infinite in eager, on the way too, is infinite in a fused kernel, or a
GradScaler would take a step that eager's skips."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import braze

FUNCTIONS = {
    "product, converted": lambda x: (x * x).float(),
    "product, scaled": lambda x: x * x * 1e-3,
    "sum": lambda x: x.sum().float(),
    "sum along": lambda x: x.sum(0) * 0.001,
    "difference of sums": lambda x: x + x * 250 - x,
    "mean of squares": lambda x: x.square().mean().sqrt(),
    "exp": lambda x: x.exp().float(),
    "root of a product": lambda x: (x * 300).sqrt(),
    "relu": lambda x: torch.relu(x * x) - 1,
    "clamp": lambda x: (x * x).clamp(max=100),
    "sigmoid": lambda x: (x * x).sigmoid(),
    "softmax": lambda x: F.softmax(x * x, 0),
    "layer norm": lambda x: F.layer_norm(x * x, (4,)),
    "matmul": lambda x: (x @ x.T) * 1e-3,
    "power": lambda x: x.pow(3).float() * 1e-5,
    "mse": lambda x: F.mse_loss(x, -x),
    "quotient": lambda x: (x / 1e-3).float(),
    "addcmul": lambda x: torch.addcmul(x, x, x).float(),
    "gelu": lambda x: F.gelu(x * x).float(),
    "reciprocal": lambda x: (x * 1e-8).reciprocal().float(),
    "lerp": lambda x: torch.lerp(x, x * x, 0.5).float(),
    "select": lambda x: torch.where(x > 0, x * x, x).float(),
    "cat": lambda x: torch.cat([x * x, x]).float(),
    "transposed": lambda x: (x * x).T.contiguous().float(),
    "maximum": lambda x: torch.maximum(x * x, x).float(),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_infinite_where_eager_is(name):
    function = FUNCTIONS[name]
    compiled = braze.compile(function)
    for _ in range(3):
        for value, scale in ((300.0, 1.0), (1e-3, 6e4), (200.0, 40.0)):
            found = []
            for f in (function, compiled):
                x = (torch.linspace(0.9, 1, 16).reshape(4, 4) * value).half().requires_grad_()
                y = f(x)
                (y.float().sum() * scale).backward()
                found.append((y.detach(), x.grad))
            for theirs, ours in zip(*found, strict=True):
                torch.testing.assert_close(ours, theirs, rtol=1e-2, atol=1e-3, equal_nan=True)
    assert compiled.counts()["native"] == 0


def test_gradient_of_a_bias():
    """A sum of 100,000 in f16, which becomes a parameter's gradient in f32."""
    model = nn.Linear(4, 4)
    function = braze.compile(model)
    for _ in range(3):
        grads = []
        for f in (model, function):
            model.zero_grad()
            with torch.autocast("cpu", torch.float16):
                y = f(torch.ones(100, 4))
            (y.float().sum() * 1000).backward()
            grads.append(model.bias.grad)
        assert grads[0].isinf().all()
        assert grads[1].isinf().all()


def test_the_scaler_skips_the_same_steps():
    scales = []
    for compile in (lambda f: f, braze.compile):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0**18, growth_interval=2)
        optimizer = torch.optim.SGD(model.parameters(), 0.001)
        forward = compile(model)
        scales.append([])
        for _ in range(12):
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.float16):
                loss = forward(torch.randn(64, 4)).float().square().sum()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            scales[-1].append(scaler.get_scale())
    assert scales[0] == scales[1]
    assert scales[0][0] < 2.0**18
