"""Results of one compiled call without an input in common: in eager each has a graph of its own, which runs and is
freed by itself."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import braze


def pair():
    torch.manual_seed(0)
    return [nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 3)) for _ in range(2)]


def gradients(*models):
    return [None if p.grad is None else p.grad.clone() for model in models for p in model.parameters()]


def one_after_the_other(compile):
    one, other = pair()
    both = compile(lambda x: (one(x), other(x)))
    for rows in (5, 5, 4, 3, 2):
        first, second = both(torch.randn(rows, 6))
        second.square().sum().backward()
        yield gradients(one, other)
        first.sum().backward()
        yield gradients(one, other)


def retained(compile):
    one, other = pair()
    both = compile(lambda x: (one(x), other(x)))
    for _ in range(3):
        first, second = both(torch.randn(5, 6))
        first.sum().backward(retain_graph=True)
        second.sum().backward()
        first.sum().backward()
        yield gradients(one, other)


def step_between(compile):
    """What is saved for the part that has run is written to."""
    one, other = pair()
    both = compile(lambda x: (one(x), other(x)))
    optimizer = torch.optim.SGD(one.parameters(), 0.1)
    for _ in range(3):
        first, second = both(torch.randn(5, 6))
        first.sum().backward()
        optimizer.step()
        second.sum().backward()
        yield gradients(one, other)


def embeddings(compile):
    """Saved places, of which the other part reads none."""
    one, other = nn.Embedding(9, 4), nn.Embedding(9, 4)
    both = compile(lambda i: (one(i).relu(), other(i + 1).sigmoid()))
    for _ in range(3):
        first, second = both(torch.randint(8, (5,)))
        second.sum().backward()
        first.square().sum().backward()
        yield gradients(one, other)


def adversaries(compile):
    """Both losses of a GAN in one compiled step."""
    maker, judge = pair()
    judge[0] = nn.Linear(3, 8)
    of_maker, of_judge = (torch.optim.Adam(model.parameters(), 0.01) for model in (maker, judge))

    def step(x, real):
        of_judge.zero_grad()
        made = maker(x)
        loss = nn.functional.softplus(judge(made.detach())).mean() + nn.functional.softplus(-judge(real)).mean()
        loss.backward()
        of_judge.step()
        of_maker.zero_grad()
        nn.functional.softplus(-judge(made)).mean().backward()
        of_maker.step()
        return loss.detach()

    step = compile(step)
    for _ in range(4):
        yield [step(torch.randn(5, 6), torch.randn(5, 3)), *gradients(maker, judge)]


PROGRAMS = [one_after_the_other, retained, step_between, embeddings, adversaries]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_backwards_of_their_own(program):
    results, compiled = [], []

    def compile(function):
        compiled.append(braze.compile(function))
        return compiled[-1]

    for way in (lambda function: function, compile):
        torch.manual_seed(1)
        results.append(list(program(way)))
    torch.testing.assert_close(*reversed(results), rtol=1e-4, atol=1e-5)
    assert compiled[0].counts()["native"] == 0, compiled[0].reasons()


def test_a_part_that_was_freed_does_not_run_again():
    one, other = pair()
    first, second = braze.compile(lambda x: (one(x), other(x)))(torch.randn(5, 6))
    first.sum().backward()
    with pytest.raises(RuntimeError, match="a second time"):
        first.sum().backward()
    second.sum().backward()
    assert all(p.grad is not None for p in other.parameters())


def test_a_part_whose_values_were_written_to():
    one, other = pair()
    first, second = braze.compile(lambda x: (one(x), other(x)))(torch.randn(5, 6))
    first.sum().backward(retain_graph=True)
    with torch.no_grad():
        one[2].weight.add_(1)
    second.sum().backward()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        first.sum().backward()


@pytest.mark.parametrize("dynamic", [None, True])
def test_a_loss_beside_logits(dynamic):
    """The backward that is compiled with the forward is that of the only number among the results."""
    model, other = nn.Linear(4, 3), nn.Linear(4, 3)
    other.load_state_dict(model.state_dict())

    def function(model, x, target):
        logits = model(x)
        return F.cross_entropy(logits, target), logits

    compiled = braze.compile(function, dynamic=dynamic)
    for k, n in enumerate((5, 5, 6, 5, 6, 7)):
        x, target = torch.randn(n, 4), torch.randint(3, (n,))
        for call, one in ((compiled, model), (function, other)):
            one.zero_grad()
            loss, logits = call(one, x, target)
            (loss if k < 4 else logits.exp().sum() if k == 4 else loss + logits.sum()).backward()
        torch.testing.assert_close(model.weight.grad, other.weight.grad, rtol=1e-4, atol=1e-5)
        if k == 0:
            _, backward = compiled.programs()
            assert "tangent0" in str(backward.graph) and "tangent1" not in str(backward.graph)
    assert compiled.counts()["native"] == 0, compiled.reasons()
