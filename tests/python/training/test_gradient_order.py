"""Hooks of leaves run in eager's order."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import braze


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.head = nn.Embedding(7, 4), nn.Linear(4, 7)
        self.head.weight = self.embedding.weight

    def forward(self, x):
        return self.head(self.embedding(x.abs().long() % 7).tanh())


class Branches(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(4, 4), nn.Linear(4, 4), nn.Bilinear(4, 4, 2)

    def forward(self, x):
        return self.c(self.a(x), self.b(x) + self.a(x).relu())


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerDecoderLayer(4, 2, 8, dropout=0.0)

    def forward(self, x):
        return self.layer(x, x.flip(0))


MODELS = {
    "mlp": lambda: nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.LayerNorm(4), nn.PReLU(), nn.Linear(4, 1)),
    "deep": lambda: nn.Sequential(*[nn.Linear(4, 4) for _ in range(12)]),
    "convolutions": lambda: nn.Sequential(nn.Conv1d(3, 4, 2), nn.BatchNorm1d(4), nn.ReLU(), nn.Conv1d(4, 2, 1)),
    "lstm": lambda: nn.LSTM(4, 5, 2, bidirectional=True),
    "encoder": lambda: nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0),
    "decoder": Decoder,
    "tied": Tied,
    "branches": Branches,
    "stages": lambda: nn.Sequential(
        nn.Linear(4, 300), *[nn.Sequential(nn.Tanh(), nn.Linear(300, 300)) for _ in range(8)]
    ),
}


def loss_of(model, x):
    result = model(x)
    result = result[0] if isinstance(result, tuple) else result
    return F.mse_loss(result, torch.zeros_like(result))


def seen(model, function, kind):
    order = []
    hooks = []
    for name, p in model.named_parameters():
        if p.requires_grad:
            hooks.append(getattr(p, f"register_{kind}")(lambda given, name=name: order.append(name)))
    function(model, torch.linspace(-3, 3, 24).view(2, 3, 4)).backward()
    for hook in hooks:
        hook.remove()
    return order


@pytest.mark.parametrize("kind", ["hook", "post_accumulate_grad_hook"])
@pytest.mark.parametrize("name", MODELS)
def test_as_eager(name, kind):
    model = MODELS[name]()
    compiled = braze.compile(loss_of)
    parameters = list(model.parameters())
    for frozen in (set(), {0}, {1, len(parameters) - 1}):
        for k, p in enumerate(parameters):
            p.requires_grad_(k not in frozen)
        expected = seen(model, loss_of, kind)
        assert len(expected) == len(parameters) - len(frozen)
        assert [seen(model, compiled, kind) for _ in range(3)] == [expected] * 3, frozen
