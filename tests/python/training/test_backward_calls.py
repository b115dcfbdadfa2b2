"""What can be done with the history of a compiled function's results: as with eager's."""

import copy
import gc
import weakref

import backward_writes  # noqa: F401  its cases
import pytest
import torch
from against_eager import close
from backward_cases import CASES, block, case, gradients, raised
from torch import nn
from torch.autograd import grad

import braze


@case
def accumulates(compile):
    m = block()
    f = compile(m)
    for _ in range(3):
        f(torch.ones(2, 4)).sum().backward()
    return gradients(m)


@case
def twice_with_retain_graph(compile):
    m = block()
    y = compile(m)(torch.ones(2, 4)).sum()
    y.backward(retain_graph=True)
    first = gradients(m)
    y.backward()
    return first, gradients(m)


@case
def twice_without(compile):
    y = compile(block())(torch.ones(2, 4)).sum()
    y.backward()
    return raised(y.backward)


@case
def of_some_inputs(compile):
    m = block()
    x = torch.ones(2, 4, requires_grad=True)
    f = compile(m)
    y = f(x)
    a = grad(y.sum(), [x, m[0].weight], retain_graph=True)
    b = grad(y.pow(2).sum(), [m[2].bias], retain_graph=True)
    y.sum().backward(inputs=[m[0].bias])
    return a, b, gradients(m), x.grad


@case
def of_an_unused_input(compile):
    f = compile(lambda a, b: (a * 2, b.detach() * a))
    a, b = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
    return grad(f(a, b)[0].sum(), [a, b], allow_unused=True)


@case
def of_one_of_two_outputs(compile):
    """What the other one alone depends on has no gradient, not zeros."""
    f = compile(lambda a, b: (a * 2, b.exp()))
    a, b = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
    x, y = f(a, b)
    x.sum().backward()
    first = a.grad.clone(), b.grad
    y.sum().backward() if False else None
    return first


@case
def outputs_one_after_the_other(compile):
    f = compile(lambda a, b: (a * b, (a + b).exp()))
    a, b = torch.ones(3, requires_grad=True), torch.full((3,), 2.0, requires_grad=True)
    x, y = f(a, b)
    x.sum().backward(retain_graph=True)
    first = a.grad.clone(), b.grad.clone()
    y.sum().backward()
    return first, a.grad, b.grad


@case
def tangents_of_any_layout(compile):
    f = compile(lambda a: a * a)
    a = torch.arange(6.0).reshape(2, 3).requires_grad_()
    y = f(a)
    g1 = grad(y, a, torch.ones(3, 2).t(), retain_graph=True)[0]
    g2 = grad(y, a, torch.ones(1, 1).expand(2, 3), retain_graph=True)[0]
    g3 = grad(y.t(), a, torch.arange(6.0).reshape(3, 2))[0]
    return g1, g2, g3


@case
def gradients_own_their_memory(compile):
    f = compile(lambda a, b: a + b)
    a, b = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
    g = torch.ones(3)
    f(a, b).backward(g)
    a.grad.mul_(5)
    f(a, b).backward(g)
    return a.grad, b.grad, g


@case
def tensor_hooks(compile):
    seen = []
    m = block()
    x = torch.ones(2, 4, requires_grad=True)
    f = compile(m)
    for k in range(3):
        y = f(x)
        if k == 1:
            x.register_hook(lambda g: seen.append(("x", g.sum().item())))
            m[0].weight.register_hook(lambda g: g * 2)
        y.register_hook(lambda g: seen.append(("y", g.sum().item())))
        y.sum().backward()
    return seen, gradients(m), x.grad


@case
def post_accumulate_hooks(compile):
    m = block()
    f = compile(m)
    seen = []
    for number, p in enumerate(m.parameters()):
        p.register_post_accumulate_grad_hook(lambda p, number=number: seen.append((number, p.grad.sum().item())))
    for _ in range(2):
        f(torch.ones(2, 4)).sum().backward()
    return sorted(seen), gradients(m)


@case
def optimizer_in_backward(compile):
    m = block()
    f = compile(m)

    def step(p):
        with torch.no_grad():
            p -= 0.1 * p.grad
        p.grad = None

    for p in m.parameters():
        p.register_post_accumulate_grad_hook(step)
    losses = []
    for _ in range(3):
        loss = f(torch.ones(2, 4)).pow(2).sum()
        losses.append(loss.item())
        loss.backward()
    return losses, list(m.parameters())


@case
def retained_gradients(compile):
    m = block()
    y = compile(m)(torch.ones(2, 4))
    y.retain_grad()
    y.pow(2).sum().backward()
    return y.grad, gradients(m)


@case
def saved_tensor_hooks(compile):
    m = block()
    f = compile(m)
    packed = []

    def pack(t):
        packed.append(tuple(t.shape))
        return t.numpy(force=True).copy()

    def call():
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda a: torch.from_numpy(a)):
            y = f(torch.ones(2, 4))
        y.sum().backward()

    call()
    call()
    return gradients(m), len(packed) > 0


@case
def save_on_cpu(compile):
    m = block()
    f = compile(m)
    with torch.autograd.graph.save_on_cpu():
        y = f(torch.ones(2, 4))
    y.sum().backward()
    return gradients(m)


@case
def views_of_results(compile):
    def f(x):
        h = x * 2
        return h, h[0], h.view(-1), h.t().exp()

    g = compile(f)
    x = torch.arange(6.0).reshape(2, 3).requires_grad_()
    a, b, c, d = g(x)
    b.mul_(10)  # A view: its base sees it, and the other view.
    (a.sum() + c.pow(2).sum() + d.sum()).backward()
    return a, b, c, x.grad, b._base is a, c._base is a


@case
def views_of_hidden_results(compile):
    f = compile(lambda x: ((x * 2).view(-1), (x * 3)[1]))
    x = torch.arange(6.0).reshape(2, 3).requires_grad_()
    a, b = f(x)
    (a.exp().sum() + b.sum()).backward()
    return a, b, x.grad, a._is_view(), tuple(a._base.shape)


@case
def views_of_inputs(compile):
    f = compile(lambda x: (x.t(), x[0], x.exp()))
    w = torch.arange(6.0).reshape(2, 3).requires_grad_()
    x = w * 1
    a, b, c = f(x)
    b.mul_(3)
    (a.sum() + b.sum() + c.sum()).backward()
    return a, b, x, w.grad, a._base is x


@case
def inputs_as_results(compile):
    f = compile(lambda x, y: (x, y, x * y))
    x, y = torch.ones(3, requires_grad=True), torch.ones(3)
    a, b, c = f(x, y)
    (a + b + c).sum().backward()
    return a is x, b is y, x.grad


@case
def detached_results(compile):
    f = compile(lambda x: (x * 2, (x * 2).detach(), x.argmax(), (x > 0)))
    x = torch.ones(3, requires_grad=True)
    a, b, c, d = f(x)
    a.sum().backward()
    return [t.requires_grad for t in (a, b, c, d)], x.grad


@case
def detached_view_of_a_result(compile):
    def f(x):
        h = x * 2
        return h, h.detach()

    g = compile(f)
    x = torch.ones(3, requires_grad=True)
    a, b = g(x)
    b.zero_()
    return a, b, a.requires_grad, b.requires_grad, a._version


@case
def the_same_result_twice(compile):
    def f(x):
        h = x * 2
        return h, h, {"h": h}

    g = compile(f)
    x = torch.ones(3, requires_grad=True)
    a, b, c = g(x)
    (a + b).sum().backward()
    return a is b, c["h"] is a, x.grad


@case
def without_grad_mode(compile):
    m = block()
    f = compile(m)
    y = f(torch.ones(2, 4))
    with torch.no_grad():
        z = f(torch.ones(2, 4))
    with torch.inference_mode():
        u = f(torch.ones(2, 4))
    v = f(torch.ones(2, 4))
    return [t.requires_grad for t in (y, z, u, v)], u.is_inference(), y, z, u.clone(), v


@case
def create_graph_once(compile):
    """create_graph=True without a second derivative."""
    m = block()
    x = torch.ones(2, 4, requires_grad=True)
    (g,) = grad(compile(m)(x).sum(), x, create_graph=True)
    return g.detach(), g.requires_grad


@case
def shared_parameters(compile):
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(7, 4)
            self.head = nn.Linear(4, 7, bias=False)
            self.head.weight = self.embed.weight

        def forward(self, ids):
            return self.head(self.embed(ids).tanh())

    torch.manual_seed(0)
    m = Tied()
    f = compile(m)
    for _ in range(2):
        f(torch.tensor([[1, 2, 3]])).pow(2).sum().backward()
    return gradients(m)


@case
def functional_call(compile):
    m = block()
    f = compile(lambda weights, x: torch.func.functional_call(m, weights, (x,)))
    weights = {name: p.detach().clone().requires_grad_() for name, p in m.named_parameters()}
    f(weights, torch.ones(2, 4)).sum().backward()
    return [w.grad for w in weights.values()], gradients(m)


@case
def anomaly_mode(compile):
    m = block()
    f = compile(m)
    with torch.autograd.detect_anomaly(check_nan=True):
        y = f(torch.ones(2, 4))
        y.sum().backward()
    return gradients(m)


def checkpointed(compile, use_reentrant):
    m = block()
    f = compile(m)
    x = torch.ones(2, 4, requires_grad=True)
    for _ in range(2):
        torch.utils.checkpoint.checkpoint(f, x, use_reentrant=use_reentrant).pow(2).sum().backward()
    return gradients(m), x.grad


@case
def checkpointed_without_reentry(compile):
    return checkpointed(compile, use_reentrant=False)


@case
def checkpointed_with_reentry(compile):
    return checkpointed(compile, use_reentrant=True)


@case
def checkpoint_inside(compile):
    a, b = block(), nn.Linear(3, 3)

    def f(x):
        return b(torch.utils.checkpoint.checkpoint(a, x, use_reentrant=False)).sum()

    torch.manual_seed(3)
    b.reset_parameters()
    g = compile(f)
    for _ in range(3):
        g(torch.ones(2, 4)).backward()
    return gradients(a), gradients(b)


@case
def module_hooks(compile):
    seen = []
    m = block()
    m[1].register_full_backward_hook(lambda module, gi, go: seen.append((gi[0].sum().item(), go[0].sum().item())))
    m[2].register_forward_hook(lambda module, args, out: out * 2)
    f = compile(m)
    for _ in range(2):
        f(torch.ones(2, 4)).pow(2).sum().backward()
    return seen, gradients(m)


@case
def pieces_around_breaks(compile):
    m, n = block(), nn.Linear(3, 3)
    torch.manual_seed(5)
    n.reset_parameters()
    said = []

    def f(x):
        h = m(x)
        said.append(str(h.sum().item())[:4])
        h = n(h).relu()
        if h.sum() > -1:
            h = h * 2
        return h.exp()

    g = compile(f)
    for _ in range(3):
        g(torch.ones(2, 4)).sum().backward()
    return gradients(m), gradients(n), said


@case
def backward_inside(compile):
    m = block()

    def step(x):
        m.zero_grad()
        loss = m(x).pow(2).mean()
        loss.backward()
        return loss.detach()

    f = compile(step)
    return [(f(torch.ones(2, 4) * k), gradients(m)) for k in range(3)]


@case
def gradient_inside(compile):
    m = block()

    def step(x):
        y = m(x).pow(2).mean()
        return torch.autograd.grad(y, [m[0].weight, x])

    f = compile(step)
    return [f((torch.ones(2, 4) * k).requires_grad_()) for k in range(3)]


@case
def threads(compile):
    import threading

    m = block()
    f = compile(m)
    f(torch.ones(2, 4)).sum().backward()
    m.zero_grad()
    found = [None] * 4

    def work(k):
        x = torch.full((2, 4), float(k), requires_grad=True)
        (found[k],) = grad(f(x).pow(2).sum(), x)

    workers = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    [w.start() for w in workers]
    [w.join() for w in workers]
    return found


def alike(ours, theirs, what="result"):
    if isinstance(theirs, torch.Tensor):
        assert ours.requires_grad == theirs.requires_grad, what
        close(ours, theirs, what)
    elif isinstance(theirs, (tuple, list)):
        assert len(ours) == len(theirs), what
        for k, (a, b) in enumerate(zip(ours, theirs, strict=True)):
            alike(a, b, f"{what}[{k}]")
    elif isinstance(theirs, float):
        assert ours == pytest.approx(theirs, rel=1e-4, abs=1e-5), what
    else:
        assert ours == theirs, what


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CASES)
def test_as_eager(name):
    theirs = CASES[name](lambda f: f)
    alike(CASES[name](braze.compile), theirs)


def test_second_derivatives_inside_are_eagers():
    w = torch.ones(4, requires_grad=True)

    def f(x):
        h = (w * x).pow(3).sum()
        (g,) = torch.autograd.grad(h, [w], create_graph=True)
        return torch.autograd.grad(g.sum(), [w])[0]

    torch.testing.assert_close(braze.compile(f)(torch.ones(4)), f(torch.ones(4)))


def test_the_history_is_brazes():
    f = braze.compile(block())
    assert f(torch.ones(2, 4)).grad_fn.name() == "BrazeBackward"
    assert f.counts() == {"captured": 1, "replayed": 0, "native": 0}


def test_saved_tensors_are_let_go():
    f = braze.compile(lambda x: (x * x).sum())
    w = torch.ones(1000, requires_grad=True)
    for _ in range(2):
        x = w * 2
        y = f(x)
        held = weakref.ref(x)
        del x
        assert held() is not None
        y.backward()
        gc.collect()
        assert held() is None


def test_no_hook_runs_while_tracing():
    calls = []
    m = block()
    for p in m.parameters():
        p.register_hook(lambda g: calls.append(type(g)))
    f = braze.compile(m)
    y = f(torch.ones(2, 4))
    assert calls == []
    y.sum().backward()
    assert len(calls) == 4


def test_nothing_of_the_users_changes_while_tracing():
    m = block()
    before = copy.deepcopy(m.state_dict())
    versions = [p._version for p in m.parameters()]
    braze.compile(m)(torch.ones(2, 4))
    assert all(p.grad is None for p in m.parameters())
    assert [p._version for p in m.parameters()] == versions
    assert all(torch.equal(a, b) for a, b in zip(m.state_dict().values(), before.values(), strict=True))
