"""A training step as one compiled function, and an optimizer's step alone: replayed after a few captures, with
eager's parameters, states and rates."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn, optim

import braze

FORMS = {
    f"{name}{'' if foreach else ', one by one'}": (name, dict(lr=0.05, foreach=foreach, **more))
    for name, more in {
        "SGD": dict(momentum=0.9, nesterov=True, weight_decay=0.01),
        "Adam": {},
        "AdamW": dict(amsgrad=True),
        "RMSprop": dict(momentum=0.5),
        "Adagrad": {},
        "Adamax": dict(weight_decay=0.1),
        "RAdam": dict(weight_decay=0.1, decoupled_weight_decay=True),
        "ASGD": dict(t0=3, weight_decay=0.1),
        "NAdam": {},
        "Adadelta": {},
        "Rprop": {},
    }.items()
    for foreach in (True, False)
}
FORMS |= {f"{name}, fused": (name, dict(lr=0.05, fused=True)) for name in ("SGD", "Adam", "AdamW", "Adagrad")}
FORMS |= {"RAdam, maximized": ("RAdam", dict(maximize=True)), "Adamax, maximized": ("Adamax", dict(maximize=True))}


def model_and_optimizer(name):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3))
    kind, settings = FORMS[name]
    return model, getattr(optim, kind)(model.parameters(), **settings)


def state_of(model, optimizer):
    state = [t for row in optimizer.state_dict()["state"].values() for t in row.values()]
    return [t.detach().clone() for t in (*model.parameters(), *state) if isinstance(t, torch.Tensor)]


def whole(name, compile):
    model, optimizer = model_and_optimizer(name)
    scheduler = optim.lr_scheduler.CosineAnnealingLR(optimizer, 20)

    def step(x, t):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), t)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        scheduler.step()
        return loss.detach(), norm

    step = compile(step)
    for _ in range(9):
        found = step(torch.randn(5, 4), torch.randint(3, (5,)))
        yield [*found, *state_of(model, optimizer), torch.tensor(optimizer.param_groups[0]["lr"])]


def alone(name, compile):
    model, optimizer = model_and_optimizer(name)
    step = compile(optimizer.step)
    for _ in range(9):
        optimizer.zero_grad()
        model(torch.randn(5, 4)).square().sum().backward()
        step()
        yield state_of(model, optimizer)


def both_ways(program, name, **how):
    compiled = []

    def compile(function):
        compiled.append(braze.compile(function, **how))
        return compiled[-1]

    expected = list(program(name, lambda function: function))
    found, counts = [], []
    for one in program(name, compile):
        found.append(one)
        counts.append(compiled[0].counts())
    # Optimizers that divide by the gradient's size make its last bits, other ones on each processor, larger.
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=2e-5)
    return counts


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("name", FORMS)
def test_whole_step(name, dynamic):
    counts = both_ways(whole, name, dynamic=dynamic)
    assert counts[-1]["native"] == 0
    assert counts[-1]["captured"] <= 3
    assert counts[-1]["replayed"] >= 6


@pytest.mark.parametrize("name", FORMS)
def test_step_alone(name):
    """The first one makes the state, and runs natively."""
    counts = both_ways(alone, name)
    assert counts[-1]["native"] <= 1
    assert counts[-1]["captured"] <= 2
    assert counts[2]["replayed"] >= 1, counts[2]


def test_gradients_of_a_global_model_are_arguments():
    """Each step has others, wherever the model is reached from."""
    names = {"model": nn.Linear(4, 3), "F": F, "torch": torch}
    code = """
def step(x):
    model.zero_grad()
    model(x).square().sum().backward()
    return [p.grad.norm() for p in model.parameters()]
"""
    exec(code, names)
    kept, step = [], braze.compile(names["step"])
    for _ in range(5):
        x = torch.randn(5, 4)
        found = step(x)
        kept.append([p.grad for p in names["model"].parameters()])
        torch.testing.assert_close(found, [g.norm() for g in kept[-1]])
    assert step.counts()["captured"] <= 2
    assert step.counts()["replayed"] >= 3


@pytest.mark.parametrize("dynamic", [None, True])
def test_batch_norm_that_averages_all_batches(dynamic):
    """Its count of batches is a number of the graph, of which nothing is compiled anew."""
    torch.manual_seed(0)
    plain = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6, momentum=None), nn.ReLU(), nn.Linear(6, 2))
    ours = copy.deepcopy(plain)
    compiled = braze.compile(ours, dynamic=dynamic)
    for k in range(8):
        if k == 6:
            plain.eval(), ours.eval()
        x = torch.randn(5, 4)
        for model, call in ((plain, plain), (ours, compiled)):
            model.zero_grad()
            call(x).square().sum().backward()
        for theirs, mine in zip(plain.state_dict().values(), ours.state_dict().values(), strict=True):
            torch.testing.assert_close(mine, theirs)
        for theirs, mine in zip(plain.parameters(), ours.parameters(), strict=True):
            torch.testing.assert_close(mine.grad, theirs.grad, rtol=1e-4, atol=1e-5)
    assert compiled.counts() == {"captured": 2, "replayed": 6, "native": 0}
