"""Gradients of torch.cond: the branch that is not taken gives none, whatever it would have computed."""

import pytest
import torch
from torch import nn

import braze
from braze._load import C

pytestmark = pytest.mark.skipif(not hasattr(C, "CompiledFunction"), reason="no evaluator for this Python")
WEIGHT = torch.ones(3, requires_grad=True)


def branch(pred, true_fn, false_fn, operands=()):
    """What torch.cond means; in eager it compiles its branches by itself."""
    return true_fn(*operands) if pred else false_fn(*operands)


class Two(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.one, self.other = nn.Linear(3, 3), nn.Linear(3, 3)


TWO = Two()
PROGRAMS = {
    "a square root": lambda cond, x, i: cond(i > 0, lambda a: a.sqrt(), lambda a: a * 0, (x,)),
    "a logarithm": lambda cond, x, i: cond(i > 0, lambda a: a.log(), lambda a: a - 1, (x,)),
    "a quotient": lambda cond, x, i: cond(i > 0, lambda a, b: b / (a + 6), lambda a, b: a * b, (x, x + 1)),
    "both sides": lambda cond, x, i: cond(i > 0, lambda a: a.sqrt(), lambda a: (-a).sqrt(), (x,)),
    "a tuple": lambda cond, x, i: sum(cond(i > 0, lambda a: (a.sqrt(), a), lambda a: (a, a * 2), (x,))),
    "nested": lambda cond, x, i: cond(
        i > 0, lambda a: cond(i > 1, lambda b: b.log(), lambda b: b.sqrt(), (a,)), lambda a: a * 2, (x,)
    ),
    "a global": lambda cond, x, i: cond(i > 0, lambda a: a.sqrt() * WEIGHT, lambda a: a * WEIGHT, (x,)),
    "a closure": lambda cond, x, i: cond(i > 0, lambda a: a * x.sqrt(), lambda a: a * 3, (x * 2,)),
    "layers": lambda cond, x, i: cond(i > 0, lambda a: TWO.one(a.sqrt()), lambda a: TWO.other(a), (x,)),
    "transposed": lambda cond, x, i: cond(i > 0, lambda a: a.sqrt(), lambda a: a * 2, (x.expand(2, 3),)).sum(0),
    "no gradients": lambda cond, x, i: cond(i > 0, lambda a: a.sqrt(), lambda a: a * 2, (x.detach(),)) * x,
}


def outcome(function, x, i):
    for leaf in (WEIGHT, *TWO.parameters()):
        leaf.grad = None
    x = x.clone().requires_grad_()
    result = function(x, torch.tensor(i))
    result.sum().backward()
    return [result.detach(), x.grad, WEIGHT.grad, *[p.grad for p in TWO.parameters()]]


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_other_branch_gives_no_gradient(name):
    program = PROGRAMS[name]
    compiled = braze.compile(lambda x, i: program(torch.cond, x, i) + 1)
    x = torch.tensor([1.0, 4.0, 6.0])
    for given, i in ((x, 1), (x - 7, 0), (-x, 0), (x, 1), (x, 2), (-x, 0)):
        ours = outcome(compiled, given, i)
        theirs = outcome(lambda x, i: program(branch, x, i) + 1, given, i)
        for one, other in zip(ours, theirs, strict=True):
            if other is None:
                assert one is None or not one.any()  # A leaf of the branch that was not taken.
            else:
                torch.testing.assert_close(one, other, equal_nan=True)
    assert compiled.counts()["native"] == 0
    assert compiled.counts()["replayed"] >= 3
