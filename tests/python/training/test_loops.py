"""Small training loops over some steps: losses are eager's within tolerance, and always their own bit for bit."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import braze

LOOPS = {}


def loop(make):
    """`make(compile)` gives a function of the step's number that gives its losses."""
    LOOPS[make.__name__] = make
    return make


def mlp(*widths):
    layers = []
    for a, b in zip(widths, widths[1:], strict=False):
        layers += [nn.Linear(a, b), nn.GELU()]
    return nn.Sequential(*layers[:-1])


@loop
def mlp_with_sgd(compile):
    model = mlp(8, 32, 32, 4)
    optimizer = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9, weight_decay=1e-3)
    f = compile(model)

    def step(k):
        x, y = torch.randn(16, 8), torch.randint(0, 4, (16,))
        optimizer.zero_grad()
        loss = F.cross_entropy(f(x), y)
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


@loop
def whole_step_compiled(compile):
    model = mlp(8, 32, 4)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2)

    def one(x, y):
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    f = compile(one)

    def step(k):
        return f(torch.randn(16, 8), torch.randn(16, 4)).item()

    return step


@loop
def convnet_with_batch_norm(compile):
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.MaxPool2d(2),
        nn.Conv2d(8, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.AdaptiveAvgPool2d(1),
        nn.Flatten(), nn.Linear(8, 5),
    )  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    f = compile(model)

    def step(k):
        model.train(k % 4 != 3)
        out = f(torch.randn(4, 3, 8, 8))
        loss = F.cross_entropy(out, torch.randint(0, 5, (4,)))
        if model.training:
            optimizer.zero_grad(set_to_none=k % 2 == 0)
            loss.backward()
            optimizer.step()
        return loss.item()

    return step


@loop
def dropout_and_scheduler(compile):
    model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Dropout(0.3), nn.Linear(32, 1))
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)
    f = compile(model)

    def step(k):
        optimizer.zero_grad()
        loss = f(torch.randn(16, 8)).pow(2).mean()
        loss.backward()
        optimizer.step()
        scheduler.step()
        return loss.item()

    return step


@loop
def transformer_block(compile):
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(17, 16)
            self.layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.1, batch_first=True, norm_first=True)
            self.head = nn.Linear(16, 17)

        def forward(self, ids):
            mask = nn.Transformer.generate_square_subsequent_mask(ids.shape[1])
            return self.head(self.layer(self.embed(ids), src_mask=mask, is_causal=True))

    model = Block()
    optimizer = torch.optim.AdamW(model.parameters(), 3e-3)
    f = compile(model)

    def step(k):
        ids = torch.randint(0, 17, (4, 9))
        optimizer.zero_grad()
        loss = F.cross_entropy(f(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.item()

    return step


@loop
def recurrent(compile):
    class Reader(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn = nn.GRU(6, 12, batch_first=True)
            self.head = nn.Linear(12, 2)

        def forward(self, x):
            return self.head(self.rnn(x)[0][:, -1])

    model = Reader()
    optimizer = torch.optim.RMSprop(model.parameters(), 1e-2)
    f = compile(model)

    def step(k):
        optimizer.zero_grad()
        loss = F.cross_entropy(f(torch.randn(5, 4, 6)), torch.randint(0, 2, (5,)))
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


@loop
def autoencoder(compile):
    class Vae(nn.Module):
        def __init__(self):
            super().__init__()
            self.encode, self.decode = nn.Linear(10, 8), nn.Linear(4, 10)

        def forward(self, x):
            mean, log = self.encode(x).chunk(2, dim=1)
            z = mean + torch.randn_like(mean) * (0.5 * log).exp()
            divergence = -0.5 * (1 + log - mean.pow(2) - log.exp()).sum(1).mean()
            return F.binary_cross_entropy_with_logits(self.decode(z), x) + 0.1 * divergence

    model = Vae()
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    f = compile(model)

    def step(k):
        optimizer.zero_grad()
        loss = f(torch.rand(8, 10))
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


@loop
def two_networks_against_each_other(compile):
    generator, critic = mlp(4, 16, 6), mlp(6, 16, 1)
    optimizers = [torch.optim.Adam(m.parameters(), 1e-3, betas=(0.5, 0.9)) for m in (generator, critic)]
    g, c = compile(generator), compile(critic)

    def step(k):
        fake = g(torch.randn(8, 4))
        optimizers[1].zero_grad()
        real_loss = F.softplus(-c(torch.randn(8, 6))).mean()
        fake_loss = F.softplus(c(fake.detach())).mean()
        (real_loss + fake_loss).backward()
        optimizers[1].step()
        optimizers[0].zero_grad()
        loss = F.softplus(-c(fake)).mean()
        loss.backward()
        optimizers[0].step()
        return real_loss.item(), fake_loss.item(), loss.item()

    return step


@loop
def contrastive(compile):
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = mlp(6, 12, 4), mlp(5, 12, 4)
            self.scale = nn.Parameter(torch.tensor(2.0))

        def forward(self, x, y):
            scores = F.normalize(self.a(x), dim=-1) @ F.normalize(self.b(y), dim=-1).t() * self.scale.exp()
            labels = torch.arange(len(x))
            return (F.cross_entropy(scores, labels) + F.cross_entropy(scores.t(), labels)) / 2

    model = Two()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
    f = compile(model)

    def step(k):
        optimizer.zero_grad()
        loss = f(torch.randn(7, 6), torch.randn(7, 5))
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


@loop
def accumulation_with_clipping(compile):
    model = mlp(8, 16, 3)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    f = compile(model)

    def step(k):
        total = 0.0
        for _ in range(3):
            loss = F.cross_entropy(f(torch.randn(4, 8)), torch.randint(0, 3, (4,))) / 3
            loss.backward()
            total += loss.item()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        optimizer.zero_grad()
        return total, norm.item()

    return step


@loop
def autocast_with_scaler(compile):
    model = mlp(8, 32, 4)
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    scaler = torch.amp.GradScaler("cpu", init_scale=128.0)
    f = compile(model)

    def step(k):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = F.mse_loss(f(torch.randn(16, 8)).float(), torch.randn(16, 4))
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return loss.item()

    return step


@loop
def layers_frozen_on_the_way(compile):
    model = mlp(8, 16, 16, 4)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    f = compile(model)

    def step(k):
        model[0].requires_grad_(k % 4 < 2)
        optimizer.zero_grad()
        loss = f(torch.randn(6, 8)).pow(2).mean()
        loss.backward()
        assert (model[0].weight.grad is not None) == (k % 4 < 2)
        optimizer.step()
        return loss.item()

    return step


@loop
def ragged_batches(compile):
    model = mlp(8, 16, 4)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    f = compile(model)

    def step(k):
        optimizer.zero_grad()
        loss = f(torch.randn((8, 8, 3)[k % 3], 8)).pow(2).mean()
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def losses(make, compile, steps=10):
    torch.manual_seed(1)
    step = make(compile)
    found = []
    for k in range(steps):
        torch.manual_seed(1000 + k)
        found.append(step(k))
    return found


def flat(values):
    return [each for value in values for each in (value if isinstance(value, tuple) else (value,))]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", LOOPS)
def test_losses(name):
    theirs = losses(LOOPS[name], copy_of)
    ours = losses(LOOPS[name], braze.compile)
    tolerance = 2e-2 if "autocast" in name else 1e-4
    assert flat(ours) == pytest.approx(flat(theirs), rel=tolerance, abs=tolerance)
    assert losses(LOOPS[name], braze.compile) == ours


def copy_of(model):
    return model


def test_models_are_compiled():
    """Of a loop around a compiled model, every call of it runs as a program."""
    compiled = []

    def compile(model):
        compiled.append(braze.compile(model))
        return compiled[-1]

    for name in (
        "mlp_with_sgd",
        "convnet_with_batch_norm",
        "dropout_and_scheduler",
        "transformer_block",
        "autoencoder",
    ):
        losses(LOOPS[name], compile, 5)
        assert compiled[-1].counts()["native"] == 0, (name, compiled[-1].reasons())
        assert compiled[-1].operators()["native"] == 0, name


def test_copies_train_alike():
    model = mlp(4, 8, 2)
    other = copy.deepcopy(model)
    f = braze.compile(model)
    for each, call in ((model, f), (other, other)):
        optimizer = torch.optim.SGD(each.parameters(), 0.1)
        for k in range(4):
            torch.manual_seed(k)
            optimizer.zero_grad()
            call(torch.randn(5, 4)).pow(2).sum().backward()
            optimizer.step()
    for a, b in zip(model.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
