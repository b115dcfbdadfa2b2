"""Programs about graphs that are kept, hooks, views, writes and what is asked of autograd."""
# ruff: noqa: B023  Functions are called before their loop goes on.

import torch
import torch.nn.functional as F
from program_cases import attempt, case, grads_of, leaf, mlp
from torch import nn
from torch.autograd import grad
from torch.utils.checkpoint import checkpoint


@case
def undefined_inf(compile):
    f = compile(lambda x: (x.sqrt(), x * 2))
    for n in (3, 4, 5, 6):
        x = torch.zeros(n, requires_grad=True)
        a, b = f(x)
        b.sum().backward()
        yield x.grad
        x = torch.zeros(n, requires_grad=True)
        a, b = f(x)
        a.sum().backward()
        yield x.grad
        x = torch.zeros(n, requires_grad=True)
        a, b = f(x)
        (a.sum() + b.sum()).backward()
        yield x.grad


@case
def undefined_norm(compile):
    f = compile(lambda x: (x.norm(), x.pow(0.5).sum(), (x * 3).sum(), torch.log(x).mean()))
    for _ in range(3):
        for k in range(4):
            x = torch.zeros(4, requires_grad=True)
            f(x)[k].backward()
            yield x.grad


@case
def undefined_chain(compile):
    def g(x, w):
        h = x @ w
        s = h.sqrt()
        return h, s.sum(), torch.cat([h, s]).mean()

    f = compile(g)
    for n in (3, 3, 5):
        for k in range(3):
            x = torch.zeros(n, 3, requires_grad=True)
            w = torch.zeros(3, 2, requires_grad=True)
            o = f(x, w)
            o[k].sum().backward()
            yield x.grad, w.grad


@case
def shared_leaf(compile):
    w = leaf(4)
    f = compile(lambda w: ((w * w).sum(), w.exp().sum()))
    for _ in range(3):
        w.grad = None
        a, b = f(w)
        a.backward()
        yield w.grad
        b.backward()
        yield w.grad
        yield attempt(b.backward)
        yield attempt(a.backward)


@case
def shared_node(compile):
    w = leaf(4)

    def g(w):
        h = w.exp()
        return (h * h).sum(), h.sum()

    f = compile(g)
    for _ in range(3):
        w.grad = None
        a, b = f(w)
        a.backward()
        yield w.grad
        yield attempt(b.backward)
        yield w.grad


@case
def shared_nonsaving(compile):
    w = leaf(4)

    def g(w):
        h = w + 1
        return (h * h).sum(), h.sum(), h.exp().sum()

    f = compile(g)
    for _ in range(3):
        w.grad = None
        a, b, c = f(w)
        b.backward()
        yield w.grad
        b.backward()
        a.backward()
        yield w.grad
        c.backward()
        yield w.grad
        yield attempt(a.backward)
        b.backward()
        yield w.grad


@case
def multi_loss_model(compile):
    m = nn.ModuleDict(dict(body=mlp(), h1=nn.Linear(3, 2), h2=nn.Linear(3, 2)))

    def g(x):
        h = m["body"](x)
        return m["h1"](h).square().mean(), m["h2"](h).abs().mean()

    f = compile(g)
    for n in (3, 4, 5, 5):
        m.zero_grad()
        a, b = f(torch.randn(n, 4))
        a.backward(retain_graph=True)
        yield grads_of(m)
        b.backward()
        yield grads_of(m)
        m.zero_grad()
        a, b = f(torch.randn(n, 4))
        a.backward()
        yield grads_of(m)
        yield attempt(b.backward)
        m.zero_grad()
        a, b = f(torch.randn(n, 4))
        yield grad(a, list(m["h1"].parameters()))
        yield attempt(lambda: grad(b, list(m["h2"].parameters())))
        yield attempt(lambda: grad(a, list(m["body"].parameters())))


@case
def two_models(compile):
    m, n = mlp(), mlp()
    f = compile(lambda x: (m(x).sum(), n(x).sum()))
    for _ in range(3):
        x = torch.randn(3, 4, requires_grad=True)
        a, b = f(x)
        a.backward()
        yield grads_of(m), grads_of(n), x.grad
        with torch.no_grad():
            for p in m.parameters():
                p.add_(0.1)
        b.backward()
        yield grads_of(n), x.grad
        yield attempt(a.backward)


@case
def grad_of_inputs_only(compile):
    m = mlp()
    f = compile(m)
    for n in (2, 3, 4, 2):
        x = torch.randn(n, 4, requires_grad=True)
        y = f(x).sum()
        yield grad(y, x)
        yield grads_of(m)
        yield attempt(y.backward)
        x = torch.randn(n, 4, requires_grad=True)
        f(x).sum().backward(inputs=[m[0].weight])
        yield grads_of(m), x.grad
        m.zero_grad()


@case
def hooks_tensor(compile):
    m = mlp()
    f = compile(m)
    log = []
    h = m[0].weight.register_hook(lambda g: g * 2)
    for k in range(4):
        if k == 2:
            h.remove()
            h = m[2].bias.register_hook(lambda g: log.append(float(g.sum())))
        m.zero_grad()
        x = torch.randn(2, 4, requires_grad=True)
        y = f(x)
        y.register_hook(lambda g: g + 1)
        y.retain_grad()
        y.sum().backward()
        yield grads_of(m), x.grad, y.grad, tuple(log)


@case
def hooks_module(compile):
    m = mlp()
    f = compile(m)
    h = m[1].register_full_backward_hook(lambda mod, gi, go: (gi[0] * 2,))
    h2 = m[0].register_forward_hook(lambda mod, i, o: o * 1.5)
    m.register_forward_pre_hook(lambda mod, i: (i[0] + 1,))
    h4 = m[2].register_full_backward_pre_hook(lambda mod, go: (go[0] * 3,))
    for k in range(4):
        if k == 2:
            h.remove()
        if k == 3:
            h2.remove()
            h4.remove()
        m.zero_grad()
        x = torch.randn(2, 4, requires_grad=True)
        f(x).sum().backward()
        yield grads_of(m), x.grad


@case
def post_acc_hook(compile):
    m = mlp()
    f = compile(m)
    log = []
    for p in m.parameters():
        p.register_post_accumulate_grad_hook(lambda p: log.append(tuple(p.shape)))
    for _k in range(3):
        f(torch.randn(2, 4)).sum().backward()
        yield grads_of(m), len(log)


@case
def optimizer_in_backward(compile):
    m = mlp()
    f = compile(m)
    opts = {p: torch.optim.SGD([p], 0.1, foreach=False) for p in m.parameters()}

    def hook(p):
        opts[p].step()
        opts[p].zero_grad()

    for p in m.parameters():
        p.register_post_accumulate_grad_hook(hook)
    for _k in range(3):
        f(torch.ones(2, 4)).sum().backward()
        yield grads_of(m), dict(m.state_dict())


@case
def saved_hooks(compile):
    m = mlp()
    f = compile(m)
    n = [0]

    def pack(t):
        n[0] += 1
        return t * 1

    for _k in range(3):
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
            y = f(torch.ones(2, 4))
        y.sum().backward()
        yield grads_of(m)
        with torch.autograd.graph.save_on_cpu():
            y = f(torch.ones(2, 4))
        y.sum().backward()
        yield grads_of(m)


@case
def anomaly(compile):
    f = compile(lambda x: (x.sqrt() * 0).sum())
    for _k in range(3):
        x = torch.zeros(3, requires_grad=True)
        with torch.autograd.set_detect_anomaly(True):
            yield attempt(lambda: f(x).backward())[:2]


@case
def version_error(compile):
    f = compile(lambda x: x.exp() * 2)
    g = compile(lambda x, w: x * w)
    for _k in range(3):
        x = torch.ones(3, requires_grad=True)
        w = torch.ones(3, requires_grad=True)
        y = f(x)
        y.add_(1)
        y.sum().backward()
        yield x.grad
        y = g(x, w)
        with torch.no_grad():
            w.add_(1)
        yield attempt(lambda: y.sum().backward())
        y = compile(lambda x: x.exp())(x)
        y.mul_(2)
        yield attempt(lambda: y.sum().backward())


@case
def views_inplace(compile):
    def g(x, w):
        y = x * w
        v = y[:2]
        v.mul_(3)
        y[2:].add_(w[2:])
        return y, v

    f = compile(g)
    for _k in range(3):
        x, w = torch.ones(4, requires_grad=True), torch.arange(4.0).requires_grad_()
        y, v = f(x, w)
        yield y, v
        (y.sum() + v.sum()).backward()
        yield x.grad, w.grad
        y, v = f(x, w)
        v.mul_(2)
        y.sum().backward()
        yield x.grad, y


@case
def ckpt(compile):
    for r in (False, True):
        m = mlp()
        f = compile(lambda x: checkpoint(m, x, use_reentrant=r) * 2)
        g = compile(m)
        for _k in range(3):
            m.zero_grad()
            x = torch.randn(2, 4, requires_grad=True)
            f(x).sum().backward()
            yield grads_of(m), x.grad
            checkpoint(g, x, use_reentrant=r).sum().backward()
            yield grads_of(m), x.grad


@case
def func_api(compile):
    from torch.func import functional_call, jacrev, jvp, vmap
    from torch.func import grad as fg

    m = mlp()
    p = dict(m.named_parameters())

    def loss(p, x, t):
        return F.mse_loss(functional_call(m, p, (x,)), t)

    f = compile(lambda x, t: fg(loss)({k: v.detach() for k, v in p.items()}, x, t))
    g = compile(lambda x, t: vmap(fg(loss), (None, 0, 0))({k: v.detach() for k, v in p.items()}, x, t))
    h = compile(lambda x: jvp(lambda x: torch.sin(x) * x, (x,), (torch.ones_like(x),)))
    j = compile(lambda x: jacrev(lambda x: x.sin() @ x)(x))
    for _k in range(3):
        x, t = torch.randn(5, 4), torch.randn(5, 3)
        yield f(x, t)
        yield g(x, t)
        yield h(x)
        yield j(x[0])


@case
def per_sample(compile):
    from torch.func import functional_call, vmap
    from torch.func import grad as fg

    m = mlp()

    def loss(p, x, t):
        return F.cross_entropy(functional_call(m, p, (x[None],)), t[None])

    def step(x, t):
        p = {k: v.detach() for k, v in m.named_parameters()}
        return vmap(fg(loss), in_dims=(None, 0, 0))(p, x, t)

    f = compile(step)
    opt = torch.optim.SGD(m.parameters(), 0.1)
    for n in (5, 5, 5, 6):
        g = f(torch.randn(n, 4), torch.randint(3, (n,)))
        yield g
        for k, p in m.named_parameters():
            p.grad = g[k].mean(0)
        opt.step()


@case
def grad_penalty(compile):
    m = mlp()

    def step(x, r):
        a = torch.rand(x.shape[0], 1)
        z = (a * x + (1 - a) * r).detach().requires_grad_(True)
        d = m(z).sum(1)
        (g,) = grad(d.sum(), z, create_graph=True)
        return m(x).mean() - m(r).mean() + ((g.norm(2, 1) - 1) ** 2).mean()

    f = compile(step)
    for _k in range(4):
        m.zero_grad()
        loss = f(torch.randn(3, 4), torch.randn(3, 4))
        loss.backward()
        yield loss, grads_of(m)


@case
def tied(compile):
    class T(nn.Module):
        def __init__(s):
            super().__init__()
            s.e = nn.Embedding(7, 4)
            s.o = nn.Linear(4, 7, bias=False)
            s.o.weight = s.e.weight

        def forward(s, i):
            return s.o(s.e(i).relu())

    m = T()
    f = compile(m)
    o = torch.optim.Adam(m.parameters(), 0.1)
    for n in (3, 4, 5, 3):
        o.zero_grad()
        i = torch.randint(7, (2, n))
        loss = F.cross_entropy(f(i).flatten(0, 1), i.flatten())
        loss.backward()
        o.step()
        yield loss, grads_of(m), dict(m.state_dict())


@case
def rnns(compile):
    for K in (nn.RNN, nn.GRU, nn.LSTM):
        m = K(4, 5, 2, batch_first=True, bidirectional=True, dropout=0.0)
        f = compile(m)
        for n in (3, 4, 5, 3):
            x = torch.randn(2, n, 4, requires_grad=True)
            y, h = f(x)
            m.zero_grad()
            y.sum().backward(retain_graph=True)
            yield grads_of(m), x.grad
            h = h[0] if isinstance(h, tuple) else h
            h.square().sum().backward()
            yield grads_of(m), x.grad


@case
def rnn_cell_loop(compile):
    m = nn.LSTMCell(3, 4)

    def g(x):
        h = torch.zeros(2, 4)
        c = torch.zeros(2, 4)
        o = []
        for k in range(x.shape[0]):
            h, c = m(x[k], (h, c))
            o.append(h)
        return torch.stack(o), h, c

    f = compile(g)
    for n in (3, 3, 4, 5):
        m.zero_grad()
        o, h, c = f(torch.randn(n, 2, 3))
        c.sum().backward()
        yield grads_of(m), o


@case
def tbptt(compile):
    m = nn.GRUCell(3, 4)
    f = compile(m)
    h = torch.zeros(2, 4)
    for _k in range(4):
        m.zero_grad()
        h = h.detach()
        h = f(torch.randn(2, 3), h)
        h = f(torch.randn(2, 3), h)
        h.sum().backward()
        yield h, grads_of(m)


@case
def out_is_input(compile):
    f = compile(lambda x, y: (x, x * y, y.view(-1), x.detach(), x.t()))
    for _k in range(3):
        x, y = leaf(2, 2), leaf(2, 2)
        o = f(x, y)
        yield o[0] is x
        yield o
        sum(t.sum() for t in o).backward()
        yield x.grad, y.grad, o[3].requires_grad, o[4]._base is x


@case
def toggled(compile):
    m = mlp()
    f = compile(m)
    for k in range(8):
        for i, p in enumerate(m.parameters()):
            p.requires_grad_(bool((k >> (i % 3)) & 1))
        m.zero_grad()
        y = f(torch.ones(2, 4))
        yield y.requires_grad
        if y.requires_grad:
            y.sum().backward()
        yield grads_of(m)


@case
def no_grad_inside(compile):
    m = mlp()

    def g(x):
        with torch.no_grad():
            t = m(x)
        y = m(x)
        with torch.no_grad(), torch.enable_grad():
            z = (m[0].weight * 2).sum()
        return (y - t.detach()).square().sum() + y.sum(), z, t, y.argmax(1), y > 0

    f = compile(g)
    for _k in range(3):
        m.zero_grad()
        o = f(torch.randn(3, 4))
        yield o
        o[0].backward()
        yield grads_of(m)
        o[1].backward()
        yield grads_of(m)


@case
def grad_identity(compile):
    f = compile(lambda w: (w * 2).sum())
    w = leaf(3)
    for _k in range(4):
        g0 = w.grad
        f(w).backward()
        yield w.grad is g0, w.grad
    w.grad = None
    w.grad = torch.zeros(3)
    g0 = w.grad
    f(w).backward()
    yield w.grad is g0
    z = torch.zeros(3)
    a, b = leaf(3), leaf(3)
    a.grad = z
    b.grad = z
    h = compile(lambda a, b: (a * b).sum())
    h(a, b).backward()
    yield a.grad, a.grad is b.grad


@case
def same_grad_two_inputs(compile):
    f = compile(lambda a, b: a + b)
    for _k in range(3):
        a, b = leaf(3), leaf(3)
        y = f(a, b)
        y.sum().backward()
        yield a.grad, b.grad
        a.grad.add_(1)
        yield b.grad
        y = f(a, b)
        t = torch.ones(3)
        ga, gb = grad(y, [a, b], t)
        yield ga is gb, ga.data_ptr() == t.data_ptr()
