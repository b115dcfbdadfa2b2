"""Known recipes of training."""

import copy
import functools

import torch
import torch.nn.functional as F
from program_cases import attempt, case, grads_of, leaf, mlp, values_of
from torch import func as T
from torch import nn
from torch.nn.utils import clip_grad_norm_


def told(t):
    return None if t is None else (t.clone(), tuple(t.stride()), str(t.dtype))


@case
def ensembles(compile):
    ms = [mlp() for _ in range(3)]
    ps, bs = T.stack_module_state(ms)
    base = copy.deepcopy(ms[0]).to("meta")
    f = compile(
        lambda p, b, x: T.vmap(lambda q, c, z: T.functional_call(base, (q, c), (z,)), in_dims=(0, 0, None))(p, b, x)
    )
    for _ in range(3):
        y = f(ps, bs, torch.randn(2, 4))
        y.sum().backward()
        yield y, {k: told(v.grad) for k, v in ps.items()}


@case
def maml(compile):
    m = mlp()
    o = torch.optim.SGD(m.parameters(), 0.1)

    def inner(p, x, y):
        return F.mse_loss(T.functional_call(m, p, (x,)), y)

    f = compile(inner)
    for _ in range(3):
        p = dict(m.named_parameters())
        o.zero_grad()
        for _ in range(2):
            g = torch.autograd.grad(f(p, torch.randn(3, 4), torch.randn(3, 3)), list(p.values()), create_graph=True)
            p = {k: v - 0.1 * d for (k, v), d in zip(p.items(), g, strict=False)}
        f(p, torch.randn(3, 4), torch.randn(3, 3)).backward()
        yield [told(g) for g in grads_of(m).values()]
        o.step()


@case
def gan(compile):
    G, D = mlp(), nn.Sequential(nn.Linear(3, 5), nn.LeakyReLU(0.2), nn.Linear(5, 1))
    g, d = compile(G), compile(D)
    og, od = torch.optim.Adam(G.parameters(), 0.01), torch.optim.Adam(D.parameters(), 0.01)
    for _ in range(4):
        z = torch.randn(5, 4)
        od.zero_grad()
        fake = g(z)
        real = torch.randn(5, 3)
        a = torch.rand(5, 1)
        mix = (a * real + (1 - a) * fake.detach()).requires_grad_()
        (gp,) = torch.autograd.grad(d(mix).sum(), mix, create_graph=True)
        ld = d(fake.detach()).mean() - d(real).mean() + ((gp.norm(dim=1) - 1) ** 2).mean()
        ld.backward()
        od.step()
        og.zero_grad()
        lg = -d(fake).mean()
        lg.backward()
        og.step()
        yield ld.detach(), lg.detach(), values_of(G), values_of(D)


@case
def dqn(compile):
    q = mlp()
    t = copy.deepcopy(q).requires_grad_(False)
    f, ft = compile(q), compile(t)
    o = torch.optim.RMSprop(q.parameters(), 0.01)
    for k in range(6):
        s, n, a, r = torch.randn(5, 4), torch.randn(5, 4), torch.randint(3, (5, 1)), torch.randn(5)
        with torch.no_grad():
            y = r + 0.9 * ft(n).max(1).values
        cost = F.smooth_l1_loss(f(s).gather(1, a).squeeze(1), y)
        o.zero_grad()
        cost.backward()
        clip_grad_norm_(q.parameters(), 1.0)
        o.step()
        if k % 2:
            t.load_state_dict(q.state_dict())
        yield cost.detach(), values_of(q), values_of(t)


@case
def reinforce(compile):
    m = mlp()
    f = compile(m)
    o = torch.optim.Adam(m.parameters(), 0.01)
    for _ in range(4):
        logs = []
        for _ in range(3):
            d = torch.distributions.Categorical(logits=f(torch.randn(1, 4)))
            a = d.sample()
            logs.append(d.log_prob(a))
        cost = -(torch.cat(logs) * torch.randn(3)).sum()
        o.zero_grad()
        cost.backward()
        o.step()
        yield cost.detach(), values_of(m)


@case
def vae(compile):
    e, d = nn.Linear(4, 6), nn.Linear(3, 4)

    def loss(x):
        mu, lv = e(x).chunk(2, -1)
        q = torch.distributions.Normal(mu, (lv / 2).exp())
        z = q.rsample()
        return (
            F.mse_loss(d(z), x) + torch.distributions.kl_divergence(q, torch.distributions.Normal(0.0, 1.0)).mean()
        )

    f = compile(loss)
    o = torch.optim.AdamW([*e.parameters(), *d.parameters()], 0.01)
    for n in (3, 3, 5, 3):
        o.zero_grad()
        cost = f(torch.randn(n, 4))
        cost.backward()
        o.step()
        yield cost.detach(), values_of(e), values_of(d)


@case
def contrastive(compile):
    m = mlp()

    def loss(a, b):
        x, y = F.normalize(m(a), dim=-1), F.normalize(m(b), dim=-1)
        s = x @ y.t() / 0.1
        return (F.cross_entropy(s, torch.arange(len(s))) + F.cross_entropy(s.t(), torch.arange(len(s)))) / 2

    f = compile(loss)
    for n in (3, 4, 3):
        m.zero_grad()
        f(torch.randn(n, 4), torch.randn(n, 4)).backward()
        yield [told(g) for g in grads_of(m).values()]


@case
def differentiable_optimizer(compile):
    for cls in (torch.optim.SGD, torch.optim.Adam, torch.optim.RMSprop, torch.optim.Adagrad):
        w = leaf(3)
        p = w.clone()
        o = cls([p.detach().requires_grad_()], lr=0.1, differentiable=True)
        q = o.param_groups[0]["params"][0]
        step = compile(o.step)
        for _ in range(3):
            q.grad = torch.randn(3)
            yield attempt(step), told(q.detach())


@case
def graph_kept_over_calls(compile):
    m = mlp()
    compile(m)
    h = torch.zeros(2, 3)
    c = compile(lambda x, h: torch.tanh(m(x) + h))
    for k in range(7):
        h = c(torch.randn(2, 4), h)
        if k % 3 == 2:
            m.zero_grad()
            h.sum().backward()
            yield [told(g) for g in grads_of(m).values()]
            h = h.detach()


@case
def several_backwards_retain(compile):
    m = mlp()
    f = compile(m)
    for _ in range(2):
        y = f(torch.randn(3, 4))
        a, b = y.square().sum(), y.sum()
        a.backward(retain_graph=True)
        yield [told(g) for g in grads_of(m).values()]
        b.backward()
        yield [told(g) for g in grads_of(m).values()]
        yield attempt(a.backward), attempt(b.backward), [told(g) for g in grads_of(m).values()]


@case
def non_float_and_undefined(compile):
    a = leaf(4)

    def g(x, use):
        return a * x, (a > 0), (a * 2).long(), a.detach(), None if use else a.sum(), x

    f = compile(g)
    for k in range(4):
        o = f(torch.randn(4), k % 2 == 0)
        yield [None if t is None else (t.requires_grad, t.dtype) for t in o]
        a.grad = None
        o[0].sum().backward()
        yield told(a.grad)


@case
def complex_training(compile):
    a = torch.randn(3, dtype=torch.complex64, requires_grad=True)
    f = compile(lambda x: (a * x).abs().sum() + torch.fft.rfft(x * a.real).abs().sum())
    for _ in range(3):
        a.grad = None
        f(torch.randn(3)).backward()
        yield told(a.grad)


@case
def double_half_mix(compile):
    m = nn.Linear(4, 3).double()
    f = compile(lambda x: m(x.double()).float().half().float().sum())
    for _ in range(3):
        x = leaf(2, 4)
        f(x).backward()
        yield told(x.grad), [told(g) for g in grads_of(m).values()]


@case
def accumulation_with_dtype_grads(compile):
    m = mlp().bfloat16()
    f = compile(m)
    for _k in range(4):
        f(torch.randn(3, 4).bfloat16()).sum().backward()
        yield [told(g) for g in grads_of(m).values()]


@case
def requires_grad_inside(compile):
    def g(x):
        y = (x * 2).detach().requires_grad_()
        z = (y**3).sum()
        (d,) = torch.autograd.grad(z, y, create_graph=True)
        return d, z

    f = compile(g)
    for n in (3, 3, 4):
        d, z = f(torch.randn(n))
        yield d, z, d.requires_grad


@case
def backward_inside_with_hooks(compile):
    m = mlp()
    log = []
    m[0].weight.register_hook(lambda g: log.append(1) or g * 2)

    def step(x):
        m.zero_grad()
        cost = m(x).square().mean()
        cost.backward()
        return cost.detach()

    f = compile(step)
    for n in (3, 3, 4):
        yield f(torch.randn(n, 4)), [told(g) for g in grads_of(m).values()], list(log)


@case
def hooks_inside(compile):
    a = leaf(3)

    def g(x):
        y = a * x
        y.register_hook(lambda t: t * 2)
        z = y.exp()
        z.retain_grad()
        return z, y

    f = compile(g)
    for _ in range(3):
        z, y = f(torch.randn(3))
        a.grad = None
        z.sum().backward()
        yield told(a.grad), told(z.grad)


@case
def loops_and_branches(compile):
    m = mlp()
    f = compile(
        lambda x, n, flag: (
            functools.reduce(lambda y, _: torch.tanh(m(y).sum(-1, keepdim=True) + y), range(n), x) if flag else m(x)
        )
    )
    for n, flag in ((1, True), (3, True), (3, False), (2, True), (1, True), (3, True)):
        m.zero_grad()
        f(torch.randn(2, 4), n, flag).sum().backward()
        yield [told(g) for g in grads_of(m).values()]


@case
def data_dependent_loss(compile):
    m = mlp()

    def g(x):
        y = m(x)
        cost = y.square().mean()
        if cost > 1:
            cost = cost.sqrt()
        k = int(y.argmax())
        return cost + y.flatten()[k] + cost.item() * y.mean()

    f = compile(g)
    for s in (1.0, 3.0, 0.1, 5.0):
        m.zero_grad()
        f(torch.randn(2, 4) * s).backward()
        yield [told(g) for g in grads_of(m).values()]
