"""Programs about models, losses, and what changes between calls."""
# ruff: noqa: B023  Functions are called before their loop goes on.

import torch
import torch.nn.functional as F
from program_cases import attempt, case, grads_of, leaf, mlp
from torch import nn
from torch.autograd import grad
from torch.utils.checkpoint import checkpoint


@case
def detach_middle(compile):
    m, n = mlp(), nn.Linear(3, 2)
    f = compile(lambda x: (lambda h: (n(h.detach()).sum(), h.square().sum()))(m(x)))
    for _k in range(3):
        m.zero_grad()
        n.zero_grad()
        a, b = f(torch.randn(2, 4))
        a.backward()
        yield grads_of(m), grads_of(n)
        b.backward()
        yield grads_of(m), grads_of(n)


@case
def vae(compile):
    e, d = nn.Linear(4, 6), nn.Linear(3, 4)

    def step(x):
        mu, lv = e(x).chunk(2, 1)
        z = mu + torch.randn_like(mu) * (lv / 2).exp()
        r = d(z)
        return F.mse_loss(r, x, reduction="sum"), -0.5 * (1 + lv - mu.pow(2) - lv.exp()).sum(), z.detach()

    f = compile(step)
    for n in (3, 3, 4, 5):
        e.zero_grad()
        d.zero_grad()
        a, b, z = f(torch.randn(n, 4))
        (a + 0.1 * b).backward()
        yield a, b, z, grads_of(e), grads_of(d)
        e.zero_grad()
        d.zero_grad()
        a, b, z = f(torch.randn(n, 4))
        b.backward()
        yield grads_of(e), grads_of(d)


@case
def teacher_student(compile):
    t, s = mlp(), mlp()
    t.requires_grad_(False)
    f = compile(lambda x: F.kl_div(F.log_softmax(s(x), -1), F.softmax(t(x), -1), reduction="batchmean"))
    for n in (2, 3, 4):
        s.zero_grad()
        x = torch.randn(n, 4, requires_grad=True)
        f(x).backward()
        yield grads_of(s), grads_of(t), x.grad


@case
def multi_out_one_grad_none(compile):
    f = compile(lambda a, b: (a.sin(), (a * b).sum(), b.cos()))
    for _k in range(3):
        a, b = leaf(3), leaf(3)
        o = f(a, b)
        yield grad([o[0].sum(), o[1]], [a, b], allow_unused=True)
        o = f(a, b)
        yield grad(o[0].sum(), [a, b], allow_unused=True)
        o = f(a, b)
        yield attempt(lambda: grad(o[0].sum(), [b]))
        o = f(a, b)
        yield grad(o[2], [b], torch.ones(3))
        o = f(a, b)
        o[0].backward(torch.ones(3), inputs=[a])
        yield a.grad, b.grad


@case
def materialize(compile):
    f = compile(lambda a, b: (a * b, a + b))
    for _k in range(3):
        a, b = leaf(3), leaf(3)
        x, y = f(a, b)
        yield grad(x, [a, b], torch.ones(3), retain_graph=True, materialize_grads=True)
        yield grad(y, [a], torch.ones(3))
        yield attempt(lambda: grad(x, [a], torch.ones(3)))


@case
def is_grads_batched(compile):
    f = compile(lambda a: a.exp() * 2)
    for _k in range(2):
        a = leaf(3)
        yield attempt(lambda: grad(f(a), a, torch.eye(3), is_grads_batched=True))


@case
def hook_on_output(compile):
    f = compile(lambda x: (x.exp(), x.sin()))
    for _k in range(3):
        x = leaf(3)
        a, b = f(x)
        log = []
        a.register_hook(lambda g: g * 2)
        b.register_hook(lambda g: log.append(g.clone()))
        (a * b).sum().backward()
        yield x.grad, tuple(log)


@case
def retain_grad_on_arg(compile):
    f = compile(lambda h: h.exp() * h)
    for _k in range(3):
        x = leaf(3)
        h = x * 2
        h.retain_grad()
        h.register_hook(lambda g: g * 3)
        f(h).sum().backward()
        yield h.grad, x.grad


@case
def shared_params_list(compile):
    layer = nn.Linear(4, 4)
    m = nn.Sequential(layer, nn.ReLU(), layer, nn.ReLU(), layer)
    f = compile(m)
    for _k in range(3):
        m.zero_grad()
        f(torch.randn(2, 4)).sum().backward()
        yield grads_of(m)


@case
def param_swap(compile):
    m = mlp()
    f = compile(m)
    for k in range(5):
        if k == 2:
            m[0].weight = nn.Parameter(torch.randn(6, 4))
        if k == 3:
            m[2] = nn.Linear(6, 3)
        if k == 4:
            m[0].weight.data = torch.randn(6, 4)
        m.zero_grad()
        f(torch.ones(2, 4)).sum().backward()
        yield grads_of(m)


@case
def grad_set(compile):
    m = mlp()
    f = compile(m)
    for k in range(4):
        f(torch.ones(2, 4)).sum().backward()
        yield grads_of(m)
        if k == 1:
            m[0].weight.grad = None
        if k == 2:
            m[0].bias.grad = torch.full((6,), 5.0)


@case
def eval_train(compile):
    m = nn.Sequential(nn.Linear(4, 6), nn.Dropout(0.5), nn.BatchNorm1d(6), nn.Linear(6, 2))
    f = compile(m)
    for k in range(6):
        m.train(k % 2 == 0)
        m.zero_grad()
        f(torch.randn(4, 4)).sum().backward()
        yield grads_of(m), dict(m.state_dict())


@case
def conv_train(compile):
    m = nn.Sequential(
        nn.Conv2d(2, 4, 3, padding=1),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(4, 3, 3),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
    )
    f = compile(m)
    for n in (2, 3, 4, 2):
        m.zero_grad()
        x = torch.randn(n, 2, 8, 8, requires_grad=True)
        f(x).square().sum().backward()
        yield grads_of(m), x.grad


@case
def attention(compile):
    m = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    f = compile(m)
    for n in (3, 4, 5, 3):
        m.zero_grad()
        x = torch.randn(2, n, 8, requires_grad=True)
        f(x).square().mean().backward()
        yield grads_of(m), x.grad


@case
def mha_weights(compile):
    m = nn.MultiheadAttention(8, 2, batch_first=True)
    f = compile(lambda x: m(x, x, x, need_weights=True))
    for n in (3, 4, 3):
        m.zero_grad()
        x = torch.randn(2, n, 8, requires_grad=True)
        o, w = f(x)
        w.square().sum().backward()
        yield grads_of(m), x.grad, o


@case
def embed_bag(compile):
    m = nn.EmbeddingBag(9, 4, mode="sum")
    e = nn.Embedding(9, 4, padding_idx=0, scale_grad_by_freq=False)
    f = compile(lambda i: (m(i), e(i)))
    for n in (2, 3, 4):
        m.zero_grad()
        e.zero_grad()
        a, b = f(torch.randint(9, (n, 3)))
        b.sum().backward()
        yield grads_of(m), grads_of(e)
        a.square().sum().backward()
        yield grads_of(m), grads_of(e)


@case
def sparse_emb(compile):
    e = nn.Embedding(9, 4, sparse=True)
    f = compile(e)
    for n in (2, 3):
        e.zero_grad()
        f(torch.randint(9, (n,))).sum().backward()
        yield e.weight.grad.to_dense()


@case
def under_no_grad_then_grad(compile):
    m = mlp()
    f = compile(m)
    for k in range(6):
        x = torch.ones(2, 4)
        if k % 2:
            with torch.no_grad():
                y = f(x)
            yield y
        else:
            m.zero_grad()
            f(x).sum().backward()
            yield grads_of(m)
    with torch.inference_mode():
        yield f(x)


@case
def f64_gradcheck(compile):
    f = compile(lambda x, w: (torch.tanh(x @ w), (x.sum() * w).exp()))
    x, w = (
        torch.randn(2, 3, dtype=torch.float64, requires_grad=True),
        torch.randn(3, 2, dtype=torch.float64, requires_grad=True),
    )
    yield torch.autograd.gradcheck(f, (x, w))


@case
def noncontig_tangents(compile):
    f = compile(lambda x, w: (x @ w, (x * 2).t()))
    for _k in range(3):
        x, w = leaf(3, 4), leaf(4, 5)
        a, b = f(x, w)
        yield grad([a, b], [x, w], [torch.randn(5, 3).t(), torch.ones(1).expand(4, 3)])


@case
def retain_many(compile):
    m = mlp()
    f = compile(m)
    x = torch.randn(2, 4)
    y = f(x)
    for k in range(3):
        m.zero_grad()
        y[:, k].sum().backward(retain_graph=True)
        yield grads_of(m)
    yield grad(y.sum(), list(m.parameters()))
    yield attempt(lambda: y.sum().backward())


@case
def jac_rows(compile):
    f = compile(lambda x: (x.sin(), x.prod() * x))
    for _k in range(2):
        x = leaf(3)
        a, b = f(x)
        for i in range(3):
            yield grad(a[i], x, retain_graph=True)
            yield grad(b[i], x, retain_graph=True)


@case
def freeze_mid(compile):
    m = mlp()
    f = compile(m)
    o = torch.optim.SGD([p for p in m.parameters()], 0.1, momentum=0.9)
    for k in range(6):
        m[0].requires_grad_(k % 2 == 0)
        o.zero_grad()
        f(torch.ones(2, 4)).sum().backward()
        o.step()
        yield grads_of(m), dict(m.state_dict())


@case
def bf16_model(compile):
    m = mlp().bfloat16()
    f = compile(m)
    for n in (2, 3, 4):
        m.zero_grad()
        f(torch.randn(n, 4).bfloat16()).float().square().sum().backward()
        yield grads_of(m)


@case
def custom_fn_state(compile):
    class Fn(torch.autograd.Function):
        calls = [0]

        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x.exp())
            Fn.calls[0] += 1
            return x.exp()

        @staticmethod
        def backward(ctx, g):
            Fn.calls[0] += 10
            return g * ctx.saved_tensors[0]

    f = compile(lambda x: Fn.apply(x * 2).sum())
    for _k in range(3):
        x = leaf(3)
        f(x).backward()
        yield x.grad, Fn.calls[0]


@case
def ckpt_dropout(compile):

    m = nn.Sequential(nn.Linear(4, 6), nn.Dropout(0.5), nn.Linear(6, 3))
    f = compile(lambda x: checkpoint(m, x, use_reentrant=False).sum())
    for _k in range(3):
        m.zero_grad()
        x = torch.randn(3, 4, requires_grad=True)
        f(x).backward()
        yield grads_of(m), x.grad


@case
def in_place_after(compile):
    f = compile(lambda x: (x.relu(), x.sigmoid()))
    for _k in range(3):
        x = leaf(3)
        a, b = f(x)
        a.add_(1)
        yield attempt(lambda: b.sum().backward()), x.grad
        yield attempt(lambda: a.sum().backward())


@case
def lazy_scalar_outputs(compile):
    m = mlp()
    f = compile(lambda x: {"loss": m(x).mean(), "logits": m(x), "n": x.shape[0]})
    for n in (2, 3, 4, 2):
        m.zero_grad()
        o = f(torch.randn(n, 4))
        o["loss"].backward()
        yield grads_of(m), o["n"]


@case
def accumulate_partial(compile):
    a, b = nn.Linear(3, 2), nn.Linear(3, 2)
    f = compile(lambda x: (a(x).sum(), b(x).square().sum(), (a(x) * b(x)).sum()))
    for k in range(3):
        o = f(torch.randn(2, 3))
        sum(o[i] for i in range(3) if i != k).backward()
        yield grads_of(a), grads_of(b)
