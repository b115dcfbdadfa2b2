"""Programs that train in half precision, and models whose parts change, are shared or work against each other."""
# ruff: noqa: B023  Functions are called before their loop goes on.

import torch
import torch.nn.functional as F
from program_cases import attempt, batches, case, grads_of, in_halves, leaf, mlp, values_of
from torch import nn, optim
from torch.nn.utils import prune

# ---- precision


@in_halves
def scaled_loss(compile):
    model = mlp()
    optimizer = optim.SGD(model.parameters(), 0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=16.0, growth_interval=2)
    f = compile(lambda x, t: F.cross_entropy(model(x), t))
    for k, (x, t) in enumerate(batches(8)):
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            loss = f(x * float("inf") if k == 4 else x, t)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        yield loss, values_of(model), scaler.get_scale()


@in_halves
def scaled_step(compile):
    model = mlp()
    optimizer = optim.AdamW(model.parameters(), 0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=16.0, growth_interval=2)

    def step(x, t):
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            loss = F.cross_entropy(model(x), t)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return loss.detach()

    step = compile(step)
    for k, (x, t) in enumerate(batches(8)):
        yield step(x * float("inf") if k == 4 else x, t), values_of(model), scaler.get_scale()


@in_halves
def autocast_comes_and_goes(compile):
    model = mlp()
    f = compile(lambda x: model(x).square().mean())
    for k in range(6):
        model.zero_grad()
        with torch.autocast("cpu", torch.bfloat16 if k < 4 else torch.float16, enabled=k % 2 == 1):
            loss = f(torch.randn(3, 4))
        loss.backward()
        yield loss, grads_of(model)


@in_halves
def autocast_within(compile):
    model = mlp()

    def g(x, enabled):
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            h = model[0](x)
        with torch.autocast("cpu", enabled=False):
            return model[2](model[1](h.float())).square().mean()

    f = compile(g)
    for k in range(5):
        model.zero_grad()
        f(torch.randn(3, 4), k % 2 == 0).backward()
        yield grads_of(model)


@in_halves
def halves(compile):
    model = mlp().bfloat16()
    masters = [p.detach().float() for p in model.parameters()]

    def step(x):
        model.zero_grad()
        loss = model(x).float().square().mean()
        loss.backward()
        with torch.no_grad():
            for p, m in zip(model.parameters(), masters, strict=True):
                m.sub_(p.grad.float(), alpha=0.1)
                p.copy_(m)
        return loss.detach()

    step = compile(step)
    for x, _ in batches(5):
        yield step(x.bfloat16()), values_of(model)


# ---- models


@case
def norms_in_train_and_eval(compile):
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 3))
    f, optimizer = compile(model), optim.SGD(model.parameters(), 0.1)
    for k, (x, t) in enumerate(batches(8)):
        model.train(k % 4 != 3)
        optimizer.zero_grad()
        loss = F.cross_entropy(f(x), t)
        loss.backward()
        optimizer.step()
        yield loss, [b.clone() for b in model.buffers()], [b._version for b in model.buffers()]


@case
def norms_of_one_row(compile):
    model = nn.BatchNorm1d(4)
    f = compile(model)
    for n in (3, 1, 3, 2):
        yield attempt(lambda: f(torch.randn(n, 4)).sum()), model.running_mean, model.num_batches_tracked


@case
def weights_tied_to_an_embedding(compile):
    embedding, head = nn.Embedding(7, 4), nn.Linear(4, 7, bias=False)
    head.weight = embedding.weight
    optimizer = optim.AdamW(embedding.parameters(), 0.1)
    f = compile(lambda ids: F.cross_entropy(head(embedding(ids)).flatten(0, 1), ids.flatten()))
    for n in (3, 3, 4, 5):
        optimizer.zero_grad()
        loss = f(torch.randint(7, (2, n)))
        loss.backward()
        optimizer.step()
        yield loss, embedding.weight, head.weight is embedding.weight


@case
def weights_are_untied(compile):
    a, b = nn.Linear(4, 4), nn.Linear(4, 4)
    b.weight = a.weight
    f = compile(lambda x: b(torch.tanh(a(x))).square().sum())
    for k in range(6):
        if k == 3:
            b.weight = nn.Parameter(a.weight.detach() * 2)
        a.zero_grad(), b.zero_grad()
        f(torch.randn(3, 4)).backward()
        yield a.weight.grad, b.weight.grad


@case
def two_networks_against_each_other(compile):
    made, judge = (
        nn.Sequential(nn.Linear(2, 4), nn.Tanh()),
        nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1)),
    )
    of_made, of_judge = optim.Adam(made.parameters(), 0.05), optim.Adam(judge.parameters(), 0.05)

    def train_judge(real, noise):
        of_judge.zero_grad()
        loss = F.softplus(-judge(real)).mean() + F.softplus(judge(made(noise).detach())).mean()
        loss.backward()
        of_judge.step()
        return loss.detach()

    def train_made(noise):
        of_made.zero_grad()
        loss = F.softplus(-judge(made(noise))).mean()
        loss.backward()
        of_made.step()
        return loss.detach()

    train_judge, train_made = compile(train_judge), compile(train_made)
    for _ in range(5):
        yield train_judge(torch.randn(6, 4), torch.randn(6, 2)), train_made(torch.randn(6, 2))
        yield values_of(made), values_of(judge), grads_of(judge)


@case
def accumulation_with_a_rest(compile):
    model = mlp()
    optimizer = optim.SGD(model.parameters(), 0.1)
    f = compile(lambda x, t: F.cross_entropy(model(x), t) / 3)
    for k, n in enumerate((5, 5, 5, 5, 5, 2)):
        f(torch.randn(n, 4), torch.randint(3, (n,))).backward()
        if k % 3 == 2:
            optimizer.step()
            optimizer.zero_grad()
        yield values_of(model), grads_of(model)


@case
def ragged_batches(compile):
    model, head = nn.GRU(4, 5, batch_first=True), nn.Linear(5, 3)
    f = compile(lambda x, mask, t: F.cross_entropy(head(model(x)[0])[mask], t))
    g = compile(lambda x, mask: (head(model(x)[0]).square().sum(-1) * mask).sum() / mask.sum())
    for n, length in ((2, 3), (2, 4), (3, 5), (1, 2), (2, 3)):
        x, mask = torch.randn(n, length, 4), torch.rand(n, length) > 0.4
        mask[:, 0] = True
        model.zero_grad(), head.zero_grad()
        f(x, mask, torch.randint(3, (int(mask.sum()),))).backward()
        yield grads_of(model), grads_of(head)
        g(x, mask.float()).backward()
        yield grads_of(model)


@case
def contrast_within_the_batch(compile):
    a, b, temperature = nn.Linear(4, 3), nn.Linear(5, 3), nn.Parameter(torch.tensor(0.1))

    def g(x, y):
        scores = F.normalize(a(x), dim=1) @ F.normalize(b(y), dim=1).t() / temperature
        at = torch.arange(len(x))
        return (F.cross_entropy(scores, at) + F.cross_entropy(scores.t(), at)) / 2

    f = compile(g)
    for n in (4, 4, 5, 6):
        a.zero_grad(), b.zero_grad()
        temperature.grad = None
        f(torch.randn(n, 4), torch.randn(n, 5)).backward()
        yield grads_of(a), grads_of(b), temperature.grad


@case
def a_target_network(compile):
    online, target = mlp(), mlp()
    target.load_state_dict(online.state_dict())
    optimizer = optim.Adam(online.parameters(), 0.05)

    def step(state, action, reward, following):
        with torch.no_grad():
            wanted = reward + 0.9 * target(following).max(1).values
        loss = F.smooth_l1_loss(online(state).gather(1, action[:, None])[:, 0], wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    step = compile(step)
    for k in range(6):
        yield step(torch.randn(5, 4), torch.randint(3, (5,)), torch.randn(5), torch.randn(5, 4)), values_of(online)
        if k % 2:
            target.load_state_dict(online.state_dict())


@case
def policy_gradients(compile):
    policy = mlp()

    def g(states, actions, returns):
        chosen = torch.distributions.Categorical(logits=policy(states))
        return -(chosen.log_prob(actions) * returns).mean() - 0.01 * chosen.entropy().mean()

    f = compile(g)
    for n in (4, 4, 6):
        policy.zero_grad()
        f(torch.randn(n, 4), torch.randint(3, (n,)), torch.randn(n)).backward()
        yield grads_of(policy)


@case
def layers_are_dropped_at_random(compile):
    layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])

    def g(x, kept):
        for layer, keep in zip(layers, kept, strict=True):
            if keep:
                x = x + torch.tanh(layer(x))
        return x.square().sum()

    f = compile(g)
    for kept in ([1, 1, 1], [1, 0, 1], [0, 1, 0], [0, 0, 0], [1, 0, 1]):
        layers.zero_grad()
        x = leaf(3, 4)
        f(x, [bool(k) for k in kept]).backward()
        yield [p.grad for p in layers.parameters()], x.grad


@case
def a_model_grows(compile):
    model = nn.Sequential(nn.Linear(4, 4))
    f = compile(lambda x: model(x).square().sum())
    for k in range(5):
        if k in (2, 4):
            model.append(nn.Linear(4, 4))
        model.zero_grad()
        f(torch.randn(3, 4)).backward()
        yield grads_of(model)


@case
def parametrized_weights(compile):
    layer = nn.utils.parametrizations.weight_norm(nn.Linear(4, 4))
    model = nn.Sequential(layer, nn.Tanh(), nn.utils.parametrizations.orthogonal(nn.Linear(4, 4)))
    f, optimizer = compile(lambda x: model(x).square().sum()), optim.SGD(model.parameters(), 0.1)
    for x, _ in batches(4):
        optimizer.zero_grad()
        loss = f(x)
        loss.backward()
        optimizer.step()
        yield loss, grads_of(model)


@case
def pruned_weights(compile):
    model = mlp()
    f = compile(lambda x: model(x).square().sum())
    for k in range(6):
        if k == 2:
            prune.l1_unstructured(model[0], "weight", 0.5)
        if k == 4:
            prune.remove(model[0], "weight")
        model.zero_grad()
        f(torch.randn(3, 4)).backward()
        yield grads_of(model)


@case
def flat_parameters(compile):
    model = mlp()
    f = compile(lambda x: model(x).square().sum())
    for _ in range(4):
        flat = nn.utils.parameters_to_vector(model.parameters()).detach() * 0.9
        nn.utils.vector_to_parameters(flat, model.parameters())
        model.zero_grad()
        f(torch.randn(3, 4)).backward()
        yield grads_of(model)


@case
def low_rank_adapters(compile):
    base, a, b = (
        nn.Linear(4, 4).requires_grad_(False),
        nn.Parameter(torch.randn(2, 4)),
        nn.Parameter(torch.zeros(4, 2)),
    )
    optimizer = optim.AdamW([a, b], 0.1)

    def step(x, merged):
        optimizer.zero_grad()
        weight = base.weight + b @ a if merged else None
        y = F.linear(x, weight, base.bias) if merged else base(x) + x @ a.t() @ b.t()
        loss = y.square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    step = compile(step)
    for k, (x, _) in enumerate(batches(6)):
        yield step(x, k % 2 == 0), a, b, base.weight.grad
