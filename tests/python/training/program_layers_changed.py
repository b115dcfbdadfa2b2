"""Layers that are changed between steps, recurrent nets, checkpoints, autocast, and transforms."""

import contextlib
import math

import torch
import torch.nn.functional as F
from program_cases import attempt, batches, case, grads_of, leaf, mlp, values_of
from torch import func as T
from torch import nn
from torch.nn.utils import clip_grad_norm_, clip_grad_value_, parametrize
from torch.nn.utils import parametrizations as P
from torch.nn.utils import rnn as R
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts


def told(t):
    return None if t is None else (t.clone(), tuple(t.stride()), str(t.dtype))


def add(name, program, rounds=False):
    program.__name__ = name
    if rounds:
        program.rounds = True
    case(program)


@case
def toggling_and_freezing(compile):
    m = mlp()
    f = compile(m)
    for k in range(10):
        for j, p in enumerate(m.parameters()):
            p.requires_grad_((k >> (j % 3)) & 1 == 0)
        x = torch.randn(3, 4, requires_grad=k % 4 == 3)
        y = f(x)
        m.zero_grad()
        yield y.requires_grad, attempt(lambda: y.sum().backward()), grads_of(m), told(x.grad)  # noqa: B023


@case
def swapping_parameters(compile):
    m = mlp()
    f = compile(m)
    o = torch.optim.SGD(m.parameters(), 0.1)
    for k in range(6):
        if k == 1:
            m[0].weight = nn.Parameter(torch.randn(6, 4))
        if k == 2:
            m[2].weight.data = torch.randn(6, 3).t()
        if k == 3:
            m[0] = nn.Linear(4, 6)
        if k == 4:
            m[2].bias = None
        if k == 5:
            m.register_parameter("extra", nn.Parameter(torch.ones(1)))
            m[0].weight = m[0].weight
        m.zero_grad()
        f(torch.randn(3, 4)).square().sum().backward()
        yield [told(g) for g in grads_of(m).values()]
        o.step()
        yield values_of(m)


@case
def tying(compile):
    class T(nn.Module):
        def __init__(s):
            super().__init__()
            s.e = nn.Embedding(7, 4)
            s.o = nn.Linear(4, 7, bias=False)

        def forward(s, i):
            return s.o(s.e(i).tanh())

    m = T()
    f = compile(m)
    for k in range(6):
        if k == 2:
            m.o.weight = m.e.weight
        if k == 4:
            m.o.weight = nn.Parameter(m.e.weight.detach().clone())
        m.zero_grad()
        f(torch.randint(7, (5,))).square().sum().backward()
        yield [told(g) for g in grads_of(m).values()]


@case
def embedding_kinds(compile):
    for kw in (
        dict(sparse=True),
        dict(max_norm=0.5),
        dict(padding_idx=1),
        dict(scale_grad_by_freq=True),
        dict(max_norm=0.5, norm_type=1.0, padding_idx=2),
        dict(sparse=True, padding_idx=0),
    ):
        m = nn.Embedding(6, 3, **kw)
        f = compile(lambda i: m(i).sin())  # noqa: B023
        opt = torch.optim.SparseAdam(m.parameters()) if kw.get("sparse") else torch.optim.SGD(m.parameters(), 0.1)
        for _ in range(3):
            i = torch.randint(6, (2, 4))
            opt.zero_grad()
            f(i).square().sum().backward()
            yield m.weight.grad.is_sparse, m.weight.grad.to_dense(), m.weight._version
            opt.step()
            yield values_of(m)


@case
def embedding_bag(compile):
    for mode in ("sum", "mean", "max"):
        m = nn.EmbeddingBag(6, 3, mode=mode)
        f = compile(lambda i, o: m(i, o).sin())  # noqa: B023
        for _ in range(3):
            m.zero_grad()
            f(torch.randint(6, (7,)), torch.tensor([0, 3, 5])).sum().backward()
            yield told(m.weight.grad)


def rnns(kind, kw):
    def program(compile):
        m = kind(4, 5, **kw)
        f = compile(lambda x, h: m(x, h))
        g = compile(lambda x: m(x))
        d = (2 if kw.get("bidirectional") else 1) * kw.get("num_layers", 1)
        for n in (3, 3, 4):
            x = leaf(2, n, 4) if kw.get("batch_first") else leaf(n, 2, 4)
            h = leaf(d, 2, 5)
            c = leaf(d, 2, 5)
            m.zero_grad()
            o, s = f(x, (h, c) if kind is nn.LSTM else h)
            (o.sin().sum() + (s[0] if kind is nn.LSTM else s).sum()).backward()
            yield o, s, told(x.grad), told(h.grad), told(c.grad), [told(q) for q in grads_of(m).values()]
            p = R.pack_padded_sequence(
                torch.randn(2, n, 4) if kw.get("batch_first") else torch.randn(n, 2, 4),
                torch.tensor([n, 2]),
                batch_first=kw.get("batch_first", False),
            )
            m.zero_grad()
            o, s = g(p)
            o.data.sum().backward()
            yield o.data, [told(q) for q in grads_of(m).values()]

    return program


for kind in (nn.RNN, nn.LSTM, nn.GRU):
    for k, kw in enumerate([dict(), dict(batch_first=True, bidirectional=True), dict(num_layers=2, dropout=0.3)]):
        add(f"rnn_{kind.__name__}{k}", rnns(kind, kw))


def parametrized(name, wrap):
    def program(compile):
        m = nn.Sequential(wrap(nn.Linear(4, 6)), nn.Tanh(), nn.Linear(6, 3))
        f = compile(m)
        o = torch.optim.SGD(m.parameters(), 0.1)
        for k in range(6):
            if k == 4:
                m.eval()
            if k == 5:
                m.train()
            o.zero_grad()
            y = f(torch.randn(3, 4))
            y.square().sum().backward()
            yield y, [told(g) for g in grads_of(m).values()]
            o.step()
            yield values_of(m), dict(m.named_buffers())

    add("parametrized_" + name, program)


parametrized("weight_norm", P.weight_norm)
parametrized("spectral", P.spectral_norm)
parametrized("orthogonal", P.orthogonal)
parametrized("old_wn", nn.utils.weight_norm)
parametrized("old_sn", nn.utils.spectral_norm)


class Sym(nn.Module):
    def forward(s, w):
        return w.triu() + w.triu(1).transpose(-1, -2)

    def right_inverse(s, w):
        return w.triu()


@case
def parametrize_cached_added_removed(compile):
    m = nn.Linear(4, 4)
    f = compile(lambda x: m(m(x)))
    for k in range(8):
        if k == 2:
            parametrize.register_parametrization(m, "weight", Sym())
        if k == 6:
            parametrize.remove_parametrizations(m, "weight", leave_parametrized=True)
        m.zero_grad()
        with parametrize.cached() if k in (3, 4) else contextlib.nullcontext():
            y = f(torch.randn(2, 4))
        y.sum().backward()
        yield y, [told(g) for g in grads_of(m).values()]


@case
def batchnorm_toggles(compile):
    for cls, shape in ((nn.BatchNorm1d, (4, 3)), (nn.BatchNorm2d, (2, 3, 4, 4)), (nn.InstanceNorm2d, (2, 3, 4, 4))):
        m = cls(3, affine=True, track_running_stats=True)
        f = compile(lambda x: m(x).sin())  # noqa: B023
        for k in range(9):
            if k == 2:
                m.momentum = 0.5
            if k == 3:
                m.momentum = None
            if k == 4:
                m.eval()
            if k == 5:
                m.train()
                m.track_running_stats = False
            if k == 6:
                m.track_running_stats = True
                m.reset_running_stats()
            if k == 7:
                m.eps = 0.1
            if k == 8:
                m.running_mean = None
                m.running_var = None
            x = leaf(*shape)
            m.zero_grad()
            f(x).square().sum().backward()
            yield told(x.grad), [told(g) for g in grads_of(m).values()], dict(m.named_buffers())


@case
def dropout_p_changes(compile):
    m = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.AlphaDropout(0.2), nn.FeatureAlphaDropout(0.1))
    f = compile(m)
    for k in range(9):
        if k == 2:
            m[1].p = 0.1
        if k == 3:
            m[1].p = 0.0
        if k == 4:
            m[1].p = 1.0
        if k == 5:
            m[1].inplace = True
            m[1].p = 0.3
        if k == 6:
            m.eval()
        if k == 7:
            m[1].train()
        if k == 8:
            m.train()
            torch.manual_seed(4)
        m.zero_grad()
        y = f(torch.randn(3, 4))
        y.square().sum().backward()
        yield y, [told(g) for g in grads_of(m).values()], torch.rand(1)


def ckpt(name, run, whole=True):
    def program(compile):
        m = nn.Sequential(nn.Linear(4, 6), nn.GELU(), nn.Dropout(0.3), nn.Linear(6, 4))
        f = compile(lambda x: run(m, x))
        g = compile(m)
        for _k, n in enumerate((3, 3, 4, 3)):
            for h in (f, lambda x: run(g, x)):
                x = leaf(n, 4)
                m.zero_grad()
                y = h(x)
                torch.rand(2)
                y.square().sum().backward()
                yield y, told(x.grad), [told(q) for q in grads_of(m).values()], torch.rand(1)

    add("ckpt_" + name, program, rounds="cast" in name)


ckpt("plain", lambda m, x: checkpoint(m, x, use_reentrant=False))
ckpt("reentrant", lambda m, x: checkpoint(m, x, use_reentrant=True))
ckpt(
    "nested", lambda m, x: checkpoint(lambda z: checkpoint(m, z, use_reentrant=False).sin(), x, use_reentrant=False)
)
ckpt(
    "no_rng", lambda m, x: checkpoint(m, x, use_reentrant=False, preserve_rng_state=False, determinism_check="none")
)


def cast(m, x):
    with torch.autocast("cpu", torch.bfloat16):
        return checkpoint(m, x, use_reentrant=False).float()


ckpt("autocast", cast)


def castin(m, x):
    def r(z):
        with torch.autocast("cpu", torch.bfloat16):
            return m(z)

    return checkpoint(r, x, use_reentrant=False).float()


ckpt("autocast_inside", castin)

ckpt(
    "selective",
    lambda m, x: checkpoint(
        m,
        x,
        use_reentrant=False,
        context_fn=lambda: create_selective_checkpoint_contexts([torch.ops.aten.addmm.default]),
    ),
)
ckpt("early_stop_off", lambda m, x: checkpoint(m, x, use_reentrant=False, early_stop=False))


def amp(name, dt, body):
    def program(compile):
        m = mlp()
        f = compile(m)
        o = torch.optim.SGD(m.parameters(), 0.1)
        for k, (x, y) in enumerate(batches(5)):
            o.zero_grad()
            r = body(f, x, y, k, dt)
            r.backward()
            yield r, [told(g) for g in grads_of(m).values()]
            o.step()

    add("amp_" + name, program, rounds=True)


def nested(f, x, y, k, dt):
    with torch.autocast("cpu", dt):
        a = f(x)
        with torch.autocast("cpu", enabled=k % 2 == 0, dtype=dt):
            b = f(x + 1)
        return F.cross_entropy(a + b, y)


for dt in (torch.bfloat16, torch.float16):
    amp("nested" + str(dt)[6:], dt, nested)


@case
def scaler_with_infs(compile):
    m = mlp()
    f = compile(m)
    o = torch.optim.Adam(m.parameters(), 0.01)
    s = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=2)
    for k, (x, y) in enumerate(batches(8)):
        o.zero_grad()
        cost = F.cross_entropy(f(x * (math.inf if k in (2, 5) else 1)), y)
        s.scale(cost).backward()
        s.unscale_(o)
        n = clip_grad_norm_(m.parameters(), 0.5)
        s.step(o)
        s.update()
        yield cost.detach(), n, s.get_scale(), values_of(m)


@case
def whole_step_with_scaler(compile):
    m = mlp()
    o = torch.optim.SGD(m.parameters(), 0.1, momentum=0.9)
    s = torch.amp.GradScaler("cpu", init_scale=8.0, growth_interval=2)

    def step(x, y):
        o.zero_grad()
        cost = F.cross_entropy(m(x), y)
        s.scale(cost).backward()
        s.unscale_(o)
        clip_grad_value_(m.parameters(), 0.1)
        s.step(o)
        s.update()
        return cost.detach()

    step = compile(step)
    for x, y in batches(6):
        yield step(x, y), values_of(m), s.get_scale()


@case
def ema_swa(compile):
    from torch.optim.swa_utils import SWALR, AveragedModel, get_ema_multi_avg_fn, update_bn

    m = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Linear(6, 3))
    f = compile(m)
    o = torch.optim.SGD(m.parameters(), 0.1)
    e = AveragedModel(m, multi_avg_fn=get_ema_multi_avg_fn(0.9))
    w = AveragedModel(m, use_buffers=True)
    fe = compile(e)
    sch = SWALR(o, 0.05, anneal_epochs=2)
    for x, y in batches(5):
        o.zero_grad()
        F.cross_entropy(f(x), y).backward()
        o.step()
        e.update_parameters(m)
        w.update_parameters(m)
        sch.step()
        with torch.no_grad():
            yield fe(x), values_of(e), values_of(w)
    update_bn([torch.randn(4, 4)], e)
    yield dict(e.named_buffers())


def fn(name, run):
    def program(compile):
        m = mlp()
        params = {k: v.detach() for k, v in m.named_parameters()}
        fm = compile(m)
        inside = compile(lambda x: run(m, params, x))
        for n in (3, 3, 4):
            x = torch.randn(n, 4)
            yield attempt(lambda: inside(x))  # noqa: B023
            yield attempt(lambda: run(fm, params, x))  # noqa: B023
        yield grads_of(m)

    add("func_" + name, program)


fn("grad", lambda m, p, x: T.grad(lambda z: m(z).sum())(x))
fn("grad_and_value", lambda m, p, x: T.grad_and_value(lambda z: m(z).square().sum())(x))
fn("vjp", lambda m, p, x: T.vjp(m, x)[1](torch.ones(len(x), 3)))
fn("jvp", lambda m, p, x: T.jvp(m, (x,), (torch.ones_like(x),)))
fn("vmap", lambda m, p, x: T.vmap(m)(x))
fn("per_sample", lambda m, p, x: T.vmap(T.grad(lambda z: m(z).sum()))(x))
fn("jacrev", lambda m, p, x: T.jacrev(lambda z: m(z).sum(0))(x))
fn("jacfwd", lambda m, p, x: T.jacfwd(lambda z: m(z).sum(0))(x))
fn("hessian", lambda m, p, x: T.hessian(lambda z: m(z).sum())(x[0]))
fn("grad_grad", lambda m, p, x: T.grad(lambda z: T.grad(lambda q: m(q).square().sum())(z).sin().sum())(x))
fn("linearize", lambda m, p, x: T.linearize(m, x)[1](torch.ones_like(x)))
fn("vmap_random", lambda m, p, x: T.vmap(lambda z: F.dropout(m(z), 0.5), randomness="different")(x))
