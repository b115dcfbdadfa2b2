"""Tensors without dimensions on the CPU beside tensors of a GPU: numbers of each call, within one graph."""

import pytest
import torch
from on_gpu import needs_gpu

import braze

pytestmark = needs_gpu


def looked_up(x, s):
    out = torch.zeros_like(x)
    out[0] = x[1] * s
    return out


FORMS = {
    "product": lambda x, s: x * s + 1,
    "reversed": lambda x, s: s / (x.abs() + 1) - s,
    "comparison": lambda x, s: torch.where(x > s, x, x * s),
    "where": lambda x, s: torch.where(x > 0, s, x),
    "filled": lambda x, s: x.masked_fill(x > 0, s),
    "addcmul": lambda x, s: torch.addcmul(x, x, s),
    "power": lambda x, s: x.abs() ** s,
    "in place": lambda x, s: x.clone().mul_(s).add_(s).relu_(),
    "computed": lambda x, s: x * (1 - s * s).sqrt() - s.exp(),
    "reduced": lambda x, s: (x * s).sum(0) + (x - s).softmax(1).amax(0),
    "stored": looked_up,
    "many": lambda x, s: sum((x * (s + k) for k in range(40)), x),
}


@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64], ids=str)
@pytest.mark.parametrize("form", FORMS)
def test_numbers(form, dtype, mode):
    compiled = braze.compile(FORMS[form], mode=mode)
    for k in range(6):
        x = torch.randn(40, 33, generator=torch.manual_seed(k)).cuda()
        s = torch.tensor(0.1 * k + 0.2).to(dtype)
        wanted = FORMS[form](x, s)
        result = compiled(x, s)
        assert result.dtype == wanted.dtype and result.device == wanted.device
        torch.testing.assert_close(result, wanted)
    counts = compiled.counts()
    assert counts["native"] == 0 and counts["captured"] <= 2, (counts, compiled.reasons())


def test_a_number_that_the_function_changes():
    def stepped(x, steps):
        steps += 1
        return x / (1 - 0.9**steps)

    compiled, mine, theirs = braze.compile(stepped), torch.tensor(0.0), torch.tensor(0.0)
    x = torch.randn(100, device="cuda")
    for _ in range(6):
        torch.testing.assert_close(compiled(x, mine), stepped(x, theirs))
        torch.testing.assert_close(mine, theirs)
    assert compiled.counts()["native"] == 0, compiled.reasons()


def test_gradients():
    def loss(x, temperature):
        return (x / temperature).softmax(-1).square().sum()

    compiled = braze.compile(loss)
    for k in range(4):
        x = torch.randn(8, 10, generator=torch.manual_seed(k)).cuda().requires_grad_()
        t = torch.tensor(1.0 + k, requires_grad=True)
        wanted = torch.autograd.grad(loss(x, t), (x, t))
        found = torch.autograd.grad(compiled(x, t), (x, t))
        for a, b in zip(found, wanted, strict=True):
            assert a.device == b.device
            torch.testing.assert_close(a, b)


def test_what_eager_refuses():
    for function in (
        lambda x, s: torch.stack([x.sum(), s]),
        lambda x, s: x.index_select(0, s.long()),
        lambda x, s: s.add_(x.sum()),
    ):
        x, s = torch.randn(4, 4, device="cuda"), torch.tensor(1.0)
        try:
            wanted = function(x, s.clone())
        except Exception as error:
            with pytest.raises(type(error)):
                braze.compile(function)(x, s.clone())
        else:
            torch.testing.assert_close(braze.compile(function)(x, s.clone()), wanted)


KINDS = {
    "Adam": {},
    "AdamW": {},
    "Adamax": {},
    "NAdam": {},
    "RAdam": {},
    "Adagrad": {},
    "RMSprop": {"momentum": 0.9},
    "SGD": {"momentum": 0.9},
    "Adadelta": {},
    "ASGD": {},
    "Rprop": {},
}


@pytest.mark.parametrize("foreach", [None, False], ids=["foreach", "loop"])
@pytest.mark.parametrize("kind", KINDS)
def test_optimizers(kind, foreach):
    def net():
        torch.manual_seed(0)
        return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4)).cuda()

    nets = [net(), net()]
    optimizers = [
        getattr(torch.optim, kind)(one.parameters(), lr=0.01, foreach=foreach, **KINDS[kind]) for one in nets
    ]
    step = braze.compile(optimizers[0].step)
    for k in range(8):
        x = torch.randn(16, 8, generator=torch.manual_seed(k)).cuda()
        for one in nets:
            one.zero_grad()
            one(x).square().sum().backward()
        step()
        optimizers[1].step()
        for a, b in zip(nets[0].parameters(), nets[1].parameters(), strict=True):
            torch.testing.assert_close(a, b)
    counts = step.counts()
    # RAdam and ASGD decide by values of their steps, Adamax gives a list of them where numbers are wanted.
    if kind not in ("RAdam", "ASGD") and (kind, foreach) != ("Adamax", None):
        # The first call makes the optimizer's state.
        assert counts["native"] <= 1 and counts["captured"] <= 3, (counts, step.reasons())
