"""Programs beside a thread that does nothing: what a run changes is taken back before C code may let others run."""

import collections
import threading

import pytest
import torch
import torch.nn.functional as F
from torch import nn, optim

import braze
from braze._load import C

pytestmark = pytest.mark.skipif(not hasattr(C, "CompiledFunction"), reason="no evaluator for this Python")

X = torch.arange(6.0).view(2, 3)


@pytest.fixture(autouse=True)
def another_thread():
    done = threading.Event()
    thread = threading.Thread(target=done.wait, daemon=True)
    thread.start()
    yield
    done.set()
    thread.join()


class Box:
    def __init__(self):
        self.rates, self.rate = {"lr": 0.5, "decay": 0.9}, [0.5]
        self.pair = (0.5, 0.25)
        self.deque = collections.deque([0.5], maxlen=3)


def a_float_of_a_dict(x, box):
    y = x * box.rates["lr"]
    box.rates["lr"] *= box.rates["decay"]
    y = y.sin() + box.rates["lr"]
    box.rates["lr"] = box.rates["lr"] + 0.125
    return y.exp() * box.rates["lr"], dict(box.rates)


def a_float_of_a_list(x, box):
    y = x * box.rate[0]
    box.rate[0] = box.rate[0] * 0.9
    y = y.sin() * box.rate[0]
    box.rate.append(box.rate.pop() + 1)
    return y.exp() + box.rate[-1], list(box.rate)


def a_float_of_a_tuple(x, box):
    y = x * box.pair[0] + box.pair[1]
    box.pair = (box.pair[1], box.pair[0] + 0.125)
    return (y.sin() * box.pair[0]).exp() + box.pair[1], box.pair


def entries_moved(x, box):
    y = x * box.rates["lr"]
    box.rates["lr"] = box.rates.pop("lr") * 0.9
    return (y.sin() + box.rates["lr"]).exp(), list(box.rates.items())


def a_number_that_is_put_back(x, box):
    kept = box.rates["lr"]
    box.rates["lr"] = 7.0
    y = (x * box.rates["lr"]).sin()
    box.rates["lr"] = kept
    y = y.exp() * box.rates["lr"]
    box.rates["decay"] = kept * 0.5
    return y, dict(box.rates)


PROGRAMS = [a_float_of_a_dict, a_float_of_a_list, a_float_of_a_tuple, entries_moved, a_number_that_is_put_back]


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_numbers_that_a_run_reads_and_stores(program, dynamic):
    ours, theirs, compiled = Box(), Box(), braze.compile(program, dynamic=dynamic)
    for _ in range(6):
        (got, state), (wanted, expected) = compiled(X, ours), program(X, theirs)
        torch.testing.assert_close(got, wanted)
        assert state == expected and vars(ours) == vars(theirs)
    counts = compiled.counts()
    assert counts["captured"] <= 3 and counts["native"] == 0, (counts, compiled.reasons())


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("kind", [optim.SGD, optim.Adam, optim.AdamW, optim.NAdam], ids=lambda kind: kind.__name__)
def test_whole_steps_with_a_schedule(kind, dynamic):
    def run(compile):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2))
        optimizer = kind(model.parameters(), lr=0.05)
        scheduler = optim.lr_scheduler.CosineAnnealingLR(optimizer, 20)

        def step(x, target):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), target)
            loss.backward()
            optimizer.step()
            scheduler.step()
            return loss.detach()

        step = compile(step)
        for _ in range(8):
            loss = step(torch.randn(4, 3), torch.randint(2, (4,)))
            yield loss, optimizer.param_groups[0]["lr"], [p.detach().clone() for p in model.parameters()]

    made = []

    def compile(step):
        made.append(braze.compile(step, dynamic=dynamic))
        return made[0]

    wanted = list(run(lambda step: step))
    torch.testing.assert_close(list(run(compile)), wanted, rtol=2e-5, atol=2e-6)
    counts = made[0].counts()
    assert counts["captured"] <= 3 and counts["native"] == 0, (counts, made[0].reasons())
