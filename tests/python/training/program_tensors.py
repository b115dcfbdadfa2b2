"""What happens to tensors around a compiled function: leaves, views, results, gradients."""

import copy
import math

import torch
import torch.nn.functional as F
from program_cases import attempt, batches, case, grads_of, leaf, mlp, values_of
from torch import nn


def told(t):
    return None if t is None else (t.clone(), tuple(t.stride()), str(t.dtype))


@case
def parameter_list_and_dict(compile):
    class M(nn.Module):
        def __init__(s):
            super().__init__()
            s.l = nn.ParameterList([torch.randn(3) for _ in range(3)])
            s.d = nn.ParameterDict({"a": torch.randn(3)})

        def forward(s, x):
            for p in s.l:
                x = x * p
            return x + s.d["a"]

    m = M()
    f = compile(m)
    for k in range(6):
        if k == 2:
            m.l.append(nn.Parameter(torch.ones(3) * 2))
        if k == 3:
            m.d["a"] = nn.Parameter(torch.ones(3))
        if k == 4:
            m.l[0].requires_grad_(False)
        if k == 5:
            m.l[1] = m.l[2]
        m.zero_grad()
        f(torch.randn(2, 3)).sum().backward()
        yield [told(g) for g in grads_of(m).values()]


@case
def buffers_in_training(compile):
    class M(nn.Module):
        def __init__(s):
            super().__init__()
            s.register_buffer("n", torch.zeros(()))
            s.register_buffer("avg", torch.zeros(3))
            s.w = nn.Parameter(torch.ones(3))

        def forward(s, x):
            if s.training:
                s.n += 1
                s.avg.lerp_(x.detach().mean(0), 1 / s.n)
                with torch.no_grad():
                    s.w.clamp_(-2, 2)
            return (x - s.avg) * s.w

    m = M()
    f = compile(m)
    for k in range(6):
        if k == 3:
            m.eval()
        if k == 4:
            m.train()
            m.n = torch.zeros(())
        m.zero_grad()
        y = f(torch.randn(4, 3))
        yield y, attempt(lambda: y.sum().backward()), told(m.w.grad), m.n.clone(), m.avg.clone(), m.w._version  # noqa: B023


@case
def grads_in_function_arguments(compile):
    m = mlp()

    def clip(ps, c):
        n = torch.stack([p.grad.norm() for p in ps if p.grad is not None]).norm()
        for p in ps:
            if p.grad is not None:
                p.grad.mul_((c / (n + 1e-6)).clamp(max=1))
        return n

    clip = compile(clip)
    f = compile(m)
    for k in range(5):
        m.zero_grad(set_to_none=True)
        m[0].weight.requires_grad_(k != 2)
        f(torch.randn(3, 4)).square().sum().backward()
        if k == 3:
            m[0].bias.grad = None
        yield clip(list(m.parameters()), 0.1), [told(g) for g in grads_of(m).values()]


@case
def grad_read_in_compiled(compile):
    a = leaf(3)

    def g(x):
        if a.grad is None:
            return (a * x).sum()
        return (a * x * a.grad.detach().abs()).sum()

    f = compile(g)
    for k in range(6):
        f(torch.randn(3)).backward()
        yield told(a.grad)
        if k == 3:
            a.grad = None


@case
def manual_sgd_inside(compile):
    ws = [leaf(4, 3), leaf(3)]

    def step(x, lr):
        cost = (torch.tanh(x @ ws[0] + ws[1])).square().mean()
        gs = torch.autograd.grad(cost, ws)
        with torch.no_grad():
            for w, g in zip(ws, gs, strict=False):
                w -= lr * g
        return cost.detach()

    step = compile(step)
    for k in range(6):
        yield (
            step(torch.randn(5, 4), 0.1 / (k + 1)),
            [w.detach().clone() for w in ws],
            [w._version for w in ws],
            [w.requires_grad for w in ws],
        )


@case
def data_writes(compile):
    m = mlp()
    f = compile(m)
    for k in range(6):
        y = f(torch.randn(3, 4))
        if k == 1:
            m[0].weight.data.mul_(2)
        if k == 2:
            m[0].weight.data = torch.randn(6, 4)
        if k == 3:
            m[2].weight.data = m[2].weight.data.clone()
        m.zero_grad()
        yield attempt(lambda: y.square().sum().backward()), [told(g) for g in grads_of(m).values()]  # noqa: B023


@case
def detach_variants(compile):
    a = leaf(4)
    f = compile(
        lambda x: (
            a.detach() * x,
            (a * x).detach_(),
            (a * x).data,
            a.clone().detach().requires_grad_() * x,
            (a * x).requires_grad_(),
            a.sin().detach().add_(1) + a,
        )
    )
    for _ in range(3):
        o = f(torch.randn(4))
        yield [(t, t.requires_grad, t.is_leaf) for t in o]
        a.grad = None
        (o[4].sum() + o[5].sum() + o[3].sum()).backward()
        yield told(a.grad)


@case
def retain_grad_outside(compile):
    a = leaf(3)
    f = compile(lambda x: (a * x, (a * x).exp()))
    for _ in range(3):
        y, z = f(torch.randn(3))
        y.retain_grad()
        z.retain_grad()
        a.grad = None
        (y.sum() * z.sum()).backward()
        yield told(y.grad), told(z.grad), told(a.grad)


@case
def outputs_views_of_inputs(compile):
    a = leaf(4, 3)
    f = compile(lambda x: (a.t(), a[1], a.view(12), x, a, x.t(), a.expand(2, 4, 3)))
    for _ in range(3):
        x = leaf(4, 3)
        o = f(x)
        yield [(t, t.requires_grad, t._is_view(), t.is_leaf, t is a, t is x) for t in o]
        a.grad = None
        sum(t.square().sum() for t in o).backward()
        yield told(a.grad), told(x.grad)


@case
def inplace_on_input_with_history(compile):
    a = leaf(3)

    def g(y, x):
        y.mul_(x)
        y[0] = 0
        return y.sum()

    f = compile(g)
    for _k in range(4):
        y = a * 1
        r = f(y, torch.randn(3))
        yield r, y._version, y
        a.grad = None
        (r + y.square().sum()).backward()
        yield told(a.grad)


@case
def inplace_on_view_input(compile):
    a = leaf(4)

    def g(v, x):
        v.add_(x).exp_()
        return v * 2

    f = compile(g)
    for _k in range(4):
        b = a * 1
        v = b[1:3]
        r = f(v, torch.randn(2))
        yield r, b, b._version, v._version
        a.grad = None
        (r.sum() + b.sum()).backward()
        yield told(a.grad)


@case
def write_to_no_history_input(compile):
    a = leaf(3)

    def g(buf):
        buf.add_(a)
        return buf * 2

    f = compile(g)
    for _k in range(4):
        buf = torch.zeros(3)
        r = f(buf)
        yield buf.requires_grad, r, buf
        a.grad = None
        (r.sum() + buf.sum()).backward()
        yield told(a.grad)


@case
def index_put_and_scatter(compile):
    a, b = leaf(5, 3), leaf(2, 3)

    def g(i):
        y = a.clone()
        y[i] = b
        y.index_add_(0, i, b * 2)
        z = y.scatter(0, i[:, None].expand(2, 3), b.sin())
        return z, y.index_select(0, i), torch.take_along_dim(y, i[:, None], 0)

    f = compile(g)
    for i in ([0, 1], [2, 2], [4, 0]):
        a.grad = b.grad = None
        o = f(torch.tensor(i))
        sum(t.square().sum() for t in o).backward()
        yield told(a.grad), told(b.grad)


@case
def hooks_toggle_on_inputs(compile):
    a = leaf(3)
    f = compile(lambda x: (a * x).exp().sum())
    log = []
    for k in range(6):
        x = leaf(3) if k % 2 else (leaf(3) * 2)
        h = x.register_hook(lambda g: log.append(round(g.sum().item(), 3)) or g.clamp(max=0.1)) if k > 1 else None
        a.grad = None
        f(x).backward()
        yield told(a.grad), told(x.grad) if x.is_leaf else None, list(log)
        if h and k == 4:
            h.remove()


@case
def hook_raises(compile):
    m = mlp()
    f = compile(m)
    for k in range(4):
        h = m[0].bias.register_hook((lambda g: 1 / 0) if k % 2 else (lambda g: None))
        m.zero_grad()
        yield attempt(lambda: f(torch.randn(3, 4)).sum().backward()), [told(g) for g in grads_of(m).values()]
        h.remove()


@case
def hook_wrong_shape(compile):
    m = mlp()
    f = compile(m)
    for _k in range(2):
        h = m[0].bias.register_hook(lambda g: torch.ones(2))
        m.zero_grad()
        yield attempt(lambda: f(torch.randn(3, 4)).sum().backward())
        h.remove()


@case
def wrong_tangents(compile):
    m = mlp()
    f = compile(m)
    for _k in range(2):
        y = f(torch.randn(3, 4))
        yield (
            attempt(y.backward),
            attempt(y.backward, torch.ones(2, 2)),
            attempt(y.backward, torch.ones(3, 3).double()),
            attempt(lambda: torch.autograd.grad(y, [torch.ones(1)], torch.ones(3, 3))),  # noqa: B023
        )
        yield attempt(y.backward, torch.ones(1, 3).expand(3, 3)), [told(g) for g in grads_of(m).values()]


@case
def tangents_layouts(compile):
    m = nn.Conv2d(3, 4, 3)
    f = compile(lambda x: m(x).relu())
    for k in range(4):
        x = leaf(2, 3, 5, 5)
        y = f(x)
        t = [
            torch.ones(2, 4, 3, 3),
            torch.ones(2, 4, 3, 3).to(memory_format=torch.channels_last),
            torch.ones(()).expand(2, 4, 3, 3),
            torch.randn(3, 3, 4, 2).permute(3, 2, 1, 0),
        ][k]
        m.zero_grad()
        y.backward(t)
        yield told(x.grad), [told(g) for g in grads_of(m).values()]


@case
def lazy_and_materialized(compile):
    m = nn.Sequential(nn.LazyLinear(5), nn.ReLU(), nn.LazyLinear(2))
    f = compile(m)
    for k in range(3):
        m.zero_grad() if k else None
        f(torch.randn(3, 4)).sum().backward()
        yield [told(g) for g in grads_of(m).values()]


@case
def double_compile_shared_params(compile):
    enc = nn.Linear(4, 4)
    a, b = nn.Linear(4, 2), nn.Linear(4, 3)
    f, g = compile(lambda x: a(enc(x).relu())), compile(lambda x: b(enc(x).relu()))
    ps = [*enc.parameters(), *a.parameters(), *b.parameters()]
    o = torch.optim.Adam(ps, 0.01)
    for k in range(4):
        x = torch.randn(3, 4)
        o.zero_grad()
        (f(x).sum() if k % 2 else f(x).sum() + g(x).square().sum()).backward()
        o.step()
        yield [told(p.grad) for p in ps], [p.detach().clone() for p in ps]


@case
def straight_through(compile):
    a = leaf(5)
    f = compile(lambda x: ((a * x).round() - a * x).detach() + a * x)
    for _ in range(3):
        a.grad = None
        f(torch.randn(5)).square().sum().backward()
        yield told(a.grad)


@case
def gumbel_and_samples(compile):
    a = leaf(4, 3)
    f = compile(
        lambda: (
            F.gumbel_softmax(a, hard=True),
            torch.bernoulli(a.sigmoid()),
            a + torch.randn_like(a),
            torch.multinomial(a.softmax(-1).detach(), 1),
        )
    )
    for _ in range(3):
        a.grad = None
        o = f()
        yield o
        (o[0].sum(0)[0] + o[2].square().sum()).backward()
        yield told(a.grad), torch.rand(1)


@case
def grad_scaler_manual(compile):
    m = mlp().half().float()
    f = compile(lambda x, s: m(x).sum() * s)
    for s in (1.0, 2.0, 4.0, 1024.0, 65536.0):
        m.zero_grad()
        f(torch.randn(2, 4), s).backward()
        yield [told(g) for g in grads_of(m).values()]


@case
def cumulative_state_objects(compile):
    class Trainer:
        def __init__(s):
            s.m = mlp()
            s.o = torch.optim.AdamW(s.m.parameters(), 0.01)
            s.n = 0
            s.best = math.inf
            s.hist = []

        def step(s, x, y):
            cost = F.cross_entropy(s.m(x), y)
            s.o.zero_grad()
            cost.backward()
            s.o.step()
            s.n += 1
            v = cost.item()
            s.best = min(s.best, round(v, 3))
            s.hist.append(round(v, 3))
            return round(v, 3)

    t = Trainer()
    step = compile(t.step)
    for x, y in batches(5):
        yield step(x, y), t.n, t.best, list(t.hist), values_of(t.m)


@case
def accumulation_ragged(compile):
    m = mlp()
    f = compile(m)
    o = torch.optim.SGD(m.parameters(), 0.1, momentum=0.9)
    for k, n in enumerate((1, 3, 0, 5, 2, 1, 4)):
        (F.cross_entropy(f(torch.randn(n, 4)), torch.randint(3, (n,)), reduction="sum") / 4).backward()
        if k % 3 == 2:
            o.step()
            yield [told(g) for g in grads_of(m).values()]
            o.zero_grad(set_to_none=k > 3)
    yield values_of(m)


@case
def jvp_duals_around(compile):
    import torch.autograd.forward_ad as fw

    a = leaf(3)
    f = compile(lambda x: (a * x).sin())
    for _k in range(3):
        with fw.dual_level():
            y = f(fw.make_dual(torch.randn(3), torch.ones(3)))
            yield fw.unpack_dual(y).tangent, y.detach()
        a.grad = None
        f(torch.randn(3)).sum().backward()
        yield told(a.grad)


@case
def functional_api(compile):
    m = mlp()
    f = compile(lambda x: m(x).square().sum())
    from torch.autograd import functional as A

    for _ in range(2):
        x = torch.randn(2, 4)
        yield (
            A.jacobian(f, x),
            A.hessian(f, x),
            A.vhp(f, x, torch.ones(2, 4))[1],
            A.hvp(f, x, torch.ones(2, 4))[1],
            A.vjp(f, x)[1],
            A.jvp(f, x, torch.ones(2, 4))[1],
        )


@case
def gradcheck_of_compiled(compile):
    m = mlp().double()
    f = compile(lambda x: m(x).tanh())
    x = torch.randn(2, 4).double().requires_grad_()
    yield (
        torch.autograd.gradcheck(f, (x,)),
        torch.autograd.gradgradcheck(f, (x,)),
        torch.autograd.gradcheck(f, (x,), check_batched_grad=True),
    )


@case
def threads_backward(compile):
    import threading

    m = mlp()
    f = compile(m)
    f(torch.randn(3, 4)).sum().backward()
    ys = [f(torch.randn(3, 4)).sum() for _ in range(4)]
    m.zero_grad()
    for t in [threading.Thread(target=y.backward) for y in ys]:
        t.start()
        t.join()
    yield [told(g) for g in grads_of(m).values()]


@case
def deepcopy_and_pickle_results(compile):
    m = mlp()
    f = compile(m)
    y = f(torch.randn(3, 4))
    yield attempt(copy.deepcopy, y)
    n = copy.deepcopy(m)
    g = compile(n)
    for _ in range(3):
        n.zero_grad()
        g(torch.randn(3, 4)).sum().backward()
        yield [told(q) for q in grads_of(n).values()], [told(q) for q in grads_of(m).values()]


@case
def pruning(compile):
    from torch.nn.utils import prune

    m = mlp()
    f = compile(m)
    for k in range(5):
        if k == 1:
            prune.l1_unstructured(m[0], "weight", 0.3)
        if k == 3:
            prune.remove(m[0], "weight")
        m.zero_grad()
        f(torch.randn(3, 4)).sum().backward()
        yield {n: told(g) for n, g in grads_of(m).items()}


@case
def vector_to_parameters(compile):
    from torch.nn.utils import parameters_to_vector, vector_to_parameters

    m = mlp()
    f = compile(m)
    for _k in range(4):
        v = parameters_to_vector(m.parameters())
        vector_to_parameters(v.detach() * 0.9, m.parameters())
        m.zero_grad()
        f(torch.randn(3, 4)).sum().backward()
        yield [told(g) for g in grads_of(m).values()], values_of(m)


@case
def freeze_bn_finetune(compile):
    m = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 2))
    f = compile(m)
    for k in range(5):
        m.train()
        if k >= 2:
            m[1].eval()
            [p.requires_grad_(False) for p in m[1].parameters()]
        if k >= 3:
            [p.requires_grad_(False) for p in m[0].parameters()]
        m.zero_grad()
        f(torch.randn(2, 3, 6, 6)).square().sum().backward()
        yield [told(g) for g in grads_of(m).values()], dict(m.named_buffers())
