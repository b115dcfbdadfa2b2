"""What had no history gets one when something with a history is written into it, in eager and at each replay."""

import copy

import pytest
import torch
from torch import nn

import braze


def added_by_index(out, rows, v):
    out.index_add_(0, rows, v * 2)
    return out.sum()


def set_by_index(out, rows, v):
    out[rows] = v * 2
    return out * 1


def several(out, rows, v):
    out[rows] = out[rows] + v.exp()
    out.mul_(2)


def returned(out, rows, v):
    out.mul_(v.sum())
    return out


def view_behind(out, rows, v):
    out.add_(v.sum())
    part = out[1:]
    part.mul_(v[0])
    return part.sum()


def view_before(out, rows, v):
    """A view learns of what is written into its base."""
    part = out[1:]
    out.add_(v.sum())
    return part.sum() * 2


def view_written(out, rows, v):
    out[:2] = v[:2] * 3
    return out.sum()


def asked(out, rows, v):
    before = out.requires_grad
    out.add_(v.sum())
    return out.sum() * (2 if out.requires_grad else 3) * (5 if before else 7) * (11 if out.is_leaf else 13)


def detached(out, rows, v):
    alias = out.detach()
    out.add_(v.sum())
    return alias.sum() + out.sum()


def without_gradients(out, rows, v):
    with torch.no_grad():
        out.add_(v.sum())
    return (out * v.sum()).sum()


def saved_and_written(out, rows, v):
    """Eager refuses the backward."""
    y = out * v.sum()
    out.add_(v.sum())
    return y.sum()


def saved_by_square(out, rows, v):
    out.add_(v.sum())
    y = out * out
    out.add_(1)
    return y.sum()


def copied(out, rows, v):
    out.copy_(torch.cat([v, v[:1]]))
    return out.exp().sum()


def by_an_operator_on_lists(out, rows, v):
    torch._foreach_add_([out], [v.sum()])
    return out.exp().sum()


def by_one_on_many(out, rows, v):
    other = out.clone()
    torch._foreach_mul_([other, out], [v.sum(), v.sum() * 2])
    return other.sum()


def twice_the_same(out, rows, v):
    out.add_(v.sum()).mul_(v[0])
    out.add_(out.clone())
    return None


PROGRAMS = [
    added_by_index,
    set_by_index,
    several,
    returned,
    view_behind,
    view_before,
    view_written,
    asked,
    detached,
    without_gradients,
    saved_and_written,
    saved_by_square,
    copied,
    by_an_operator_on_lists,
    by_one_on_many,
    twice_the_same,
]
CAPTURED = {added_by_index, set_by_index, several, returned, view_behind, copied, twice_the_same, without_gradients}


def outcome(call, k):
    torch.manual_seed(k)
    v = torch.randn(3, 2, requires_grad=True)
    out = torch.rand(4, 2)
    result = call(out, torch.tensor([0, 3, 1]), v)
    loss = out.square().sum() if result is None else out.square().sum() + result.sum()
    facts = (
        out.requires_grad,
        out.is_leaf,
        out._version,
        result is out,
        result is not None and result.requires_grad,
    )
    try:
        loss.backward()
    except RuntimeError as error:
        return facts, str(error)[:60], None
    return facts, out.detach().clone(), v.grad


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_as_eager(program, dynamic):
    compiled = braze.compile(program, dynamic=dynamic)
    for k in range(4):
        theirs, ours = outcome(program, k), outcome(compiled, k)
        assert theirs[0] == ours[0]
        torch.testing.assert_close(ours[1:], theirs[1:]) if theirs[2] is not None else None
        assert theirs[2] is not None or theirs[1] == ours[1]
    if program in CAPTURED:
        assert compiled.counts()["native"] == 0, compiled.reasons()


def test_a_view_that_is_made_without_gradients():
    def function(out, v):
        with torch.no_grad():
            part = out[1:]
        out.add_(v.sum())
        return (part * 2).sum()

    compiled = braze.compile(function)
    for f in (function, compiled, compiled):
        with pytest.raises(RuntimeError, match="created in no_grad mode"):
            f(torch.zeros(4), torch.ones(3, requires_grad=True))


def test_what_has_a_history_by_now():
    """The second write goes into what the first one has given a history."""

    def step(out, v):
        out.add_(v * 2)

    results = []
    for f in (step, braze.compile(step)):
        v = torch.ones(3, requires_grad=True)
        out = torch.zeros(3)
        for _ in range(4):
            f(out, v)
        out.square().sum().backward()
        results.append((out.detach(), v.grad))
    torch.testing.assert_close(*results)


class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.route = nn.Linear(4, 3)
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3)) for _ in range(3))

    def forward(self, x):
        weights, chosen = self.route(x).softmax(-1).topk(2, -1)
        out = torch.zeros(x.shape[0], 3)
        for k, expert in enumerate(self.experts):
            rows, slot = torch.where(chosen == k)
            out.index_add_(0, rows, expert(x[rows]) * weights[rows, slot, None])
        return out


def test_mixture_of_experts():
    torch.manual_seed(0)
    plain = Experts()
    ours = copy.deepcopy(plain)
    compiled = braze.compile(ours)
    for _ in range(8):
        x = torch.randn(30, 4)
        for model, call in ((plain, plain), (ours, compiled)):
            model.zero_grad()
            call(x).square().sum().backward()
        for theirs, mine in zip(plain.parameters(), ours.parameters(), strict=True):
            torch.testing.assert_close(mine.grad, theirs.grad, rtol=1e-4, atol=1e-5)
    assert compiled.counts()["native"] == 0
    assert not any("gradients are wanted" in reason for reason in compiled.reasons())
