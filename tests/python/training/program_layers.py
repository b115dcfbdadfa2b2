"""Programs that train layers and losses which no model of the other programs has, with what their state does."""
# ruff: noqa: B023  Functions are called before their loop goes on.

import copy

import torch
import torch.nn.functional as F
from program_cases import attempt, case, grads_of, in_halves, leaf, mlp, values_of
from torch import nn
from torch.nn.utils import parametrizations, rnn


def parametrised(wrap):
    def program(compile):
        model = nn.Sequential(wrap(nn.Linear(4, 4)), nn.Tanh(), nn.Linear(4, 2))
        optimizer, f = torch.optim.SGD(model.parameters(), 0.1), compile(model)
        for k in range(5):
            model.train(k != 3)
            optimizer.zero_grad()
            f(torch.randn(3, 4)).square().mean().backward()
            optimizer.step()
            yield dict(model.state_dict())

    return program


for wrap in (parametrizations.spectral_norm, parametrizations.weight_norm, parametrizations.orthogonal):
    program = parametrised(wrap)
    program.__name__ = f"parametrised_by_{wrap.__name__}"
    case(program)


@case
def means_over_all_batches(compile):
    model = nn.Sequential(nn.Conv1d(2, 3, 1), nn.BatchNorm1d(3, momentum=None), nn.ReLU())
    f = compile(model)
    for k in range(6):
        model.train(k not in (2, 4))
        model.zero_grad()
        f(torch.randn(4, 2, 5)).sum().backward()
        yield grads_of(model), dict(model.state_dict())


def recurrent(layer):
    def program(compile):
        model = layer(3, 4, num_layers=2, bidirectional=True, batch_first=True, dropout=0.2)

        def packed(x, lengths):
            given = rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
            return rnn.pad_packed_sequence(model(given)[0], batch_first=True)[0]

        f, g = compile(lambda x: model(x)[0]), compile(packed)
        for k in range(3):
            model.zero_grad()
            f(torch.randn(2, 5, 3)).square().sum().backward()
            g(torch.randn(3, 5, 3), torch.tensor([5, 2, 3 + k % 2])).square().sum().backward()
            yield grads_of(model)

    return program


for layer in (nn.LSTM, nn.GRU, nn.RNN):
    program = recurrent(layer)
    program.__name__ = f"packed_and_padded_{layer.__name__}"
    case(program)


def embedded(**how):
    def program(compile):
        model = nn.Embedding(6, 3, **how)
        f, optimizer = compile(lambda i: model(i).square().sum()), torch.optim.SGD(model.parameters(), 0.1)
        for _ in range(4):
            optimizer.zero_grad()
            f(torch.randint(6, (5,))).backward()
            yield model.weight.grad.to_dense(), model.weight.grad.is_sparse
            optimizer.step()
            yield model.weight.detach().clone()

    return program


EMBEDDINGS = {
    "padding": {"padding_idx": 1},
    "a_largest_norm": {"max_norm": 0.5},
    "sparse_gradients": {"sparse": True},
    "frequencies": {"scale_grad_by_freq": True},
}
for name, how in EMBEDDINGS.items():
    program = embedded(**how)
    program.__name__ = f"embedding_with_{name}"
    case(program)


@case
def bags_of_embeddings(compile):
    for mode in ("sum", "mean", "max"):
        model = nn.EmbeddingBag(6, 3, mode=mode)
        f = compile(lambda i, offsets: model(i, offsets).square().sum())
        for _ in range(3):
            model.zero_grad()
            f(torch.randint(6, (7,)), torch.tensor([0, 2, 2, 5])).backward()
            yield grads_of(model)


# ---- losses


@case
def losses_of_values(compile):
    losses = [
        nn.L1Loss(),
        nn.SmoothL1Loss(),
        nn.HuberLoss(delta=0.3),
        nn.KLDivLoss(reduction="batchmean"),
        nn.BCEWithLogitsLoss(pos_weight=torch.full((3,), 2.0)),
        nn.PoissonNLLLoss(),
        nn.MultiLabelSoftMarginLoss(),
    ]
    for loss in losses:
        for reduction in (loss.reduction, "none"):
            loss = copy.copy(loss)
            loss.reduction = reduction
            f = compile(lambda x, y: loss(x, y).sum())
            for _ in range(2):
                x, y = leaf(4, 3), torch.rand(4, 3).requires_grad_()
                f(x, y).backward()
                yield x.grad, y.grad


@case
def losses_of_classes(compile):
    losses = [
        nn.CrossEntropyLoss(label_smoothing=0.1),
        nn.CrossEntropyLoss(ignore_index=1),
        nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 3.0])),
        nn.NLLLoss(),
        nn.MultiMarginLoss(),
        lambda x, y: F.cross_entropy(x, (x.detach() + y[:, None]).softmax(1)),
    ]
    for loss in losses:
        f = compile(lambda x, y: loss(x, y))
        for targets in ([0, 1, 2, 1], [1, 1, 1, 1], [2, 0, 0, 1]):
            x = leaf(4, 3)
            f(x, torch.tensor(targets)).backward()
            yield x.grad


@case
def losses_of_pairs(compile):
    losses = [
        lambda a, b, c: nn.TripletMarginLoss()(a, b, c),
        lambda a, b, c: nn.CosineEmbeddingLoss()(a, b, c[:, 0].sign()),
        lambda a, b, c: nn.MarginRankingLoss()(a[:, 0], b[:, 0], c[:, 0].sign()),
        lambda a, b, c: nn.HingeEmbeddingLoss()(a * c, b.detach().sign()),
        lambda a, b, c: nn.GaussianNLLLoss()(a, b, c.exp()),
        lambda a, b, c: (torch.cdist(a, b) * c[:, :1]).sum(),
        lambda a, b, c: (F.cosine_similarity(a, b) * F.pairwise_distance(b, c)).sum(),
    ]
    for loss in losses:
        f = compile(loss)
        for _ in range(2):
            tensors = [leaf(4, 3) for _ in range(3)]
            f(*tensors).backward()
            yield [one.grad for one in tensors]


@case
def products_with_zeros(compile):
    functions = [
        lambda x: x.cumprod(0).sum(),
        lambda x: x.prod(),
        lambda x: x.prod(0).sum(),
        lambda x: torch.logcumsumexp(x, 0).sum(),
        lambda x: x.cummax(0)[0].sum(),
        lambda x: torch.linalg.det(x @ x.t() + torch.eye(3)),
    ]
    for function in functions:
        f = compile(function)
        for k in range(4):
            x = torch.randn(3, 3)
            x[:k, 1] = 0
            x.requires_grad_()
            f(x).backward()
            yield x.grad


# ---- steps


@case
def groups_and_frozen_layers(compile):
    model = mlp()
    groups = [{"params": model[0].parameters(), "lr": 0.01}, {"params": model[2].parameters(), "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, 0.02)

    def step(x):
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    f = compile(step)
    for k in range(8):
        model[0].requires_grad_(not 3 <= k < 6)
        yield f(torch.randn(3, 4)), values_of(model)


@case
def hooks_of_steps(compile):
    model, seen, handle = mlp(), [], None
    optimizer = torch.optim.SGD(model.parameters(), 0.1)

    def step(x):
        optimizer.zero_grad(set_to_none=False)
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    f = compile(step)
    for k in range(6):
        if k == 2:
            handle = optimizer.register_step_pre_hook(lambda *args: seen.append(1))
        if k == 4:
            handle.remove()
            optimizer.register_step_post_hook(lambda *args: [p.data.mul_(0.9) for p in model.parameters()] and None)
        yield f(torch.randn(3, 4)), values_of(model), len(seen)


@in_halves
def scaled_steps_with_infinities(compile):
    model = mlp()
    f, optimizer = compile(lambda x: model(x).square().mean()), torch.optim.Adam(model.parameters(), 1e-2)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10, growth_interval=2)
    for k in range(7):
        with torch.autocast("cpu", torch.float16, cache_enabled=k % 2 == 0):
            loss = f(torch.randn(3, 4) * (1e6 if k in (2, 5) else 1))
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        yield values_of(model), scaler.get_scale(), scaler.state_dict()["_growth_tracker"]


@case
def gradients_that_do_not_fit(compile):
    w = leaf(3)
    f, g = compile(lambda x: (x * w).sum()), compile(lambda x: x * w)
    for _ in range(3):
        yield attempt(lambda: f(torch.randn(3)).backward(torch.ones(2)))
        yield attempt(lambda: f(torch.randn(3)).backward(torch.ones((), dtype=torch.float64)))
        yield attempt(lambda: g(torch.randn(3)).backward()), w.grad
        yield attempt(lambda: torch.autograd.grad(f(torch.randn(3)), leaf(2)))
