"""Programs that want gradients, entirely or in part: call by call they are eager's."""

import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import braze
from braze._load import C

pytestmark = pytest.mark.skipif(not hasattr(C, "CompiledFunction"), reason="no evaluator for this Python")

PROGRAMS = {}


def program(make):
    """Of a function, and of what gives the arguments of its i-th call."""
    PROGRAMS[make.__name__] = make
    return make


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.Linear(4, 4)
        self.bn = nn.BatchNorm1d(4)
        self.act = nn.ReLU(inplace=True)
        self.register_buffer("ema", torch.zeros(4))
        self.drop = nn.Dropout(0.5, inplace=True)

    def forward(self, x):
        h = self.act(self.bn(self.l(x)))
        with torch.no_grad():
            self.ema.mul_(0.9).add_(h.mean(0) * 0.1)
        return self.drop(h)


@program
def train_step():
    n = Net()
    o = torch.optim.SGD(n.parameters(), 0.1, momentum=0.9)

    def step(x):
        o.zero_grad()
        loss = n(x).pow(2).sum()
        loss.backward()
        o.step()
        return (
            loss.detach(),
            n.ema.clone(),
            [p.detach().clone() for p in n.parameters()],
            [p.grad.clone() for p in n.parameters()],
        )

    return step, lambda i: (torch.randn(3, 4),)


@program
def inner_compiled():
    n = Net()

    cn = braze.compile(n)

    def step(x):
        n.zero_grad()
        cn(x).pow(2).sum().backward()
        return [p.grad.clone() for p in n.parameters()]

    return step, lambda i: (torch.randn(3, 4),)


@program
def helper_views():
    def helper(h):
        h.mul_(2)
        return h

    ch = braze.compile(helper)
    w = torch.ones(4, requires_grad=True)

    def step(x):
        h = w * x
        a = ch(h)
        b = ch(h.view(2, 2))
        return torch.autograd.grad((a.sum() + b.sum()), [w])[0]

    return step, lambda i: (torch.arange(4.0) + i,)


@program
def checkpoint():
    from torch.utils.checkpoint import checkpoint

    n = Net()

    def step(x):
        n.zero_grad()
        checkpoint(n, x, use_reentrant=False).sum().backward()
        return [p.grad.clone() for p in n.parameters()]

    return step, lambda i: (torch.randn(3, 4),)


@program
def checkpoint_re():
    from torch.utils.checkpoint import checkpoint

    n = Net()

    def step(x):
        n.zero_grad()
        checkpoint(n, x, use_reentrant=True).sum().backward()
        return [p.grad.clone() for p in n.parameters()]

    return step, lambda i: (torch.randn(3, 4).requires_grad_(),)


@program
def saved_modified_raises():
    w = torch.ones(4, requires_grad=True)

    def step(x):
        h = w * x
        s = h.sigmoid()
        with torch.no_grad():
            s.mul_(2)
        return torch.autograd.grad(s.sum(), [w])[0]

    return step, lambda i: (torch.randn(4),)


@program
def saved_modified_in_helper_raises():
    w = torch.ones(4, requires_grad=True)

    def scale(s):
        s.mul_(2)

    def step(x):
        h = w * x
        s = h.sigmoid()
        with torch.no_grad():
            scale(s)
        return torch.autograd.grad(s.sum(), [w])[0]

    return step, lambda i: (torch.randn(4),)


@program
def history_into_buffer_in_helper():
    buf = torch.zeros(4)
    w = torch.ones(4, requires_grad=True)

    def put(b, v):
        b.copy_(v)
        return b

    def step(x):
        b = buf.clone()
        put(b, w * x)
        return torch.autograd.grad(b.sum(), [w])[0], b.detach()

    return step, lambda i: (torch.randn(4),)


@program
def leaf_via_detach_add():
    w = torch.ones(4, requires_grad=True)
    v = w.view(2, 2)

    def f(x):
        return v.detach() * x, (w * 2).detach(), w.detach().add_(1).sum()

    return f, lambda i: (torch.randn(2, 2),)


@program
def custom_fn_writes():
    w = torch.ones(4, requires_grad=True)

    class Fn(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            ctx.save_for_backward(a)
            b.add_(1)
            return a * b

        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_tensors[0] * 2, None

    def step(x):
        y = Fn.apply(w * x, x)
        return torch.autograd.grad(y.sum(), [w])[0], x.clone()

    return step, lambda i: (torch.arange(4.0) + i,)


@program
def modes():
    w = torch.ones(4, requires_grad=True)

    def step(x):
        with torch.no_grad():
            a = w * x
        with torch.enable_grad():
            b = (w * x).sum()
        b.backward()
        g = w.grad.clone()
        w.grad = None
        return a, g

    return step, lambda i: (torch.randn(4),)


@program
def set_grad_call():
    w = nn.Parameter(torch.ones(4))

    def f(x):
        torch.set_grad_enabled(False)
        y = w * x
        torch.set_grad_enabled(True)
        return y * 2, (w * x)

    return f, lambda i: (torch.randn(4),)


@program
def hook_inplace():
    seen = []
    w = torch.ones(4, requires_grad=True)

    def hook(g):
        seen.append(1)
        return g * 2

    def step(x):
        h = w * x
        h.register_hook(hook)
        h2 = F.relu(h, inplace=True)
        (g,) = torch.autograd.grad(h2.sum(), [w])
        return g, len(seen)

    return step, lambda i: (torch.randn(4),)


@program
def stored_grad_tensor():
    w = torch.ones(4, requires_grad=True)
    h = [None]

    def f(x):
        h[0] = w * x
        return x * 2

    def outer(x):
        return f(x), h[0]

    return outer, lambda i: (torch.randn(4),)


@program
def requires_grad_inside():

    def f(x):
        y = x * 2
        y.requires_grad_()
        z = y * x
        z.sum().backward()
        return y.grad

    return f, lambda i: (torch.randn(4),)


@program
def augmented():
    w = torch.ones(4, requires_grad=True)

    def inner(h, x):
        h[1:3] += x[1:3]
        h /= 2
        h **= 2
        return h

    def f(x):
        h = w * x
        inner(h, x)
        return torch.autograd.grad(h.sum(), [w])[0]

    return f, lambda i: (torch.randn(4),)


@program
def lstm():
    n = nn.LSTM(4, 4)

    def f(x):
        n.zero_grad()
        o, _ = n(x)
        o.sum().backward()
        return n.weight_ih_l0.grad.clone()

    return f, lambda i: (torch.randn(3, 2, 4),)


@program
def chunk_writes():
    w = torch.ones(4, requires_grad=True)

    def split(h):
        a, b = h.chunk(2)
        a.mul_(2)
        b.add_(1)
        return a, b

    def f(x):
        h = w * x
        try:
            a, b = split(h)
        except RuntimeError as e:
            return str(e)[:40]
        return torch.autograd.grad(h.sum(), [w])[0]

    return f, lambda i: (torch.randn(4),)


@program
def arequires_grad_gets_history():
    x0 = torch.ones(4)
    w = torch.ones(4, requires_grad=True)

    def put(x):
        x.mul_(w)
        return x.requires_grad

    def f():
        x = x0.clone()
        a = put(x)
        return a, x.requires_grad, x

    return f, lambda i: ()


@program
def func_grad():
    w = torch.ones(4, requires_grad=True)

    def f(x):
        return torch.func.grad(lambda v: (v * x).sum())(w.detach()), torch.func.vjp(lambda v: v * x, w.detach())[0]

    return f, lambda i: (torch.randn(4),)


@program
def inference_then_out():
    w = torch.ones(4, requires_grad=True)

    def f(x):
        with torch.inference_mode():
            y = w * x
        z = y.clone()
        return z + 1, y.is_inference(), z.is_inference()

    return f, lambda i: (torch.randn(4),)


@program
def inference_break():
    w = torch.ones(4, requires_grad=True)

    def f(x):
        with torch.inference_mode():
            y = w * x
            if y.sum() > 1e9:
                return y
            z = y * 2
        return z, z.is_inference()

    return f, lambda i: (torch.randn(4),)


@program
def inference_mutate():

    def f(x):
        with torch.inference_mode():
            x.add_(1)
            y = x * 2
        return y * 1, x.clone(), x.is_inference(), y.is_inference()

    return f, lambda i: (torch.randn(4),)


def outcomes(make, compile):
    torch.manual_seed(0)
    function, arguments = make()
    function = compile(function)
    seen = []
    for number in range(5):
        torch.manual_seed(number)
        try:
            seen.append(function(*arguments(number)))
        except RuntimeError as error:
            seen.append(str(error)[:60])
    return seen


def alike(ours, theirs):
    if isinstance(theirs, torch.Tensor):
        return ours.requires_grad == theirs.requires_grad and torch.allclose(ours, theirs, atol=1e-5)
    if isinstance(theirs, (tuple, list)):
        return len(ours) == len(theirs) and all(map(alike, ours, theirs))
    return ours == theirs


@pytest.mark.parametrize("make", PROGRAMS.values(), ids=PROGRAMS)
def test_as_eager(make):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = outcomes(make, lambda function: function)
        assert alike(outcomes(make, braze.compile), expected)
