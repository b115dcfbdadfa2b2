"""Random programs against eager. BRAZE_RANDOM_PROGRAMS: how many. `python random_programs.py` looks for more."""

import os

import conditioning
import oracle
import pytest
import random_programs
import torch

COUNT = int(os.environ.get("BRAZE_RANDOM_PROGRAMS", "300"))
BATCH = 25


@pytest.mark.parametrize("first", range(0, COUNT, BATCH))
def test_random_programs(first):
    random_programs.check(range(first, min(first + BATCH, COUNT)))


def test_programs_are_reproducible():
    assert random_programs.program(7).repro() == random_programs.program(7).repro()


def test_shrinking_keeps_only_what_fails():
    """A made-up failure: any program with a cumsum in it."""
    seed = next(s for s in range(200) if "cumsum" in random_programs.program(s).text())
    small = random_programs.shrunk(
        random_programs.program(seed), lambda p: "made up" if "cumsum" in p.text() else None
    )
    assert small.is_valid()
    assert sum("cumsum" in line for line in small.lines) == 1
    assert len(small.lines) <= 4


def off_by(part):
    """A function whose program, being traced first after eager has run once, has results off by `part` of them."""
    calls = []

    def changing(x):
        calls.append(None)
        return torch.tanh(x) * (1 + part if len(calls) == 2 else 1)

    return changing


def test_rounding_explains_what_later_operators_amplify():
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(8, 33, generator=generator)
    # An ulp of 1e15 is 1e8 turns of the circle.
    oracle.check(lambda x: torch.cos(torch.logsumexp(x * 1e15, -1)), (x,), amplified=True)
    # The error of one sine, 272 times.
    equal = torch.full((16, 17), 0.7)
    oracle.check(
        lambda x: (torch.sin(torch.log_softmax(x.unsqueeze(-1) * x.new_ones(2), -1)).sum() - 1) ** 2,
        (equal,),
        amplified=True,
    )
    # Which zero is the largest is nobody's promise.
    zeros = torch.tensor([[0.0, -0.0] * 20, [-0.0, 0.0] * 20])
    oracle.check(lambda x: torch.atan2(x.amax(1), x.sum(1) - 1), (zeros,), amplified=True)
    # Partial sums are larger than the largest float, or not, by their order.
    oracle.check(lambda x: (x.sign() * 3e38).mean(), (x,), amplified=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_rounding_explains_no_error(dtype):
    x = torch.linspace(0.5, 2, 40, dtype=dtype)
    oracle.check(off_by(0), (x,), amplified=True)
    with pytest.raises(oracle.Mismatch):
        oracle.check(off_by(64 * torch.finfo(dtype).eps), (x,), amplified=True)


def test_nudged_runs_keep_what_is_exact():
    x = torch.arange(-8.0, 8).view(4, 4) / 4
    with conditioning.Nudged(3):
        exact = [x * x + x, x > x.t(), x.amax(0), x.where(x > 0, -x)]
        inexact = x.exp()
    assert all(torch.equal(a, b) for a, b in zip(exact, [x * x + x, x > x.t(), x.amax(0), x.abs()], strict=True))
    steps = (inexact - x.exp()) / (torch.finfo(torch.float32).eps * x.exp())
    assert steps.any()
    assert steps.abs().max() <= 2
