"""Branches on tensors of which one way only raises: the program checks the condition, and where it does not hold,
the call is done over natively, with eager's error.

PYTEST_DONT_REWRITE: pytest would make the assertions of the compiled functions something else.
"""

from __future__ import annotations

import pytest
import torch
from torch import nn

import braze


def outcome(function, *args):
    try:
        return function(*args)
    except Exception as error:
        return type(error), str(error)


def same(got, wanted):
    if isinstance(wanted, torch.Tensor):
        torch.testing.assert_close(got, wanted, equal_nan=True)
    else:
        assert got == wanted, (got, wanted)


def holds_for(function, *calls, native: int):
    """Each call does what it does in eager; all but `native` of them ran compiled, as one graph."""
    compiled = braze.compile(function, fullgraph=True)
    for args in calls:
        mine = [a.clone() if isinstance(a, torch.Tensor) else a for a in args]
        wanted, got = outcome(function, *args), outcome(compiled, *mine)
        same(got, wanted)
        for a, b in zip(args, mine, strict=True):
            same(b, a)
    counts = compiled.counts()
    assert counts["native"] == native and counts["captured"] + counts["replayed"] == len(calls) - native, counts
    return compiled


GOOD, BAD = torch.tensor([1.0, 2.0]), torch.tensor([1.0, -2.0])


def test_assert_statement():
    def fn(x):
        y = x.exp()
        assert x.min() > 0, "all must be positive"
        return y + 1

    holds_for(fn, (GOOD,), (GOOD,), (BAD,), (GOOD,), native=1)


def test_message_is_made_of_the_tensor():
    def fn(x):
        if x.min() <= 0:
            where = x.argmin().item()
            raise ValueError(f"element {where} of {tuple(x.shape)} is {x.min().item()}")
        return x.log()

    holds_for(fn, (GOOD,), (BAD,), (GOOD,), native=1)


def test_first_call_fails():
    def fn(x):
        assert (x > 0).all()
        return x * 2

    compiled = holds_for(fn, (BAD,), (GOOD,), (GOOD,), native=1)
    assert compiled.counts()["native"] == 1


@pytest.mark.parametrize(
    ("value", "fails"),
    [
        (torch.tensor(0.0), True),
        (torch.tensor(-0.0), True),
        (torch.tensor(float("nan")), False),
        (torch.tensor(0.25), False),
        (torch.tensor(0.25, dtype=torch.bfloat16), False),
        (torch.tensor(0, dtype=torch.uint8), True),
        (torch.tensor(7), False),
        (torch.tensor([[True]]), False),
        (torch.tensor([[False]]), True),
    ],
)
def test_truth_of_each_type(value, fails):
    def fn(x):
        assert x
        return x.float() + 1

    def other(x):
        if x:
            raise KeyError("true")
        return x.float() + 1

    holds_for(fn, (value,), (value,), native=2 if fails else 0)
    holds_for(other, (value,), (value,), native=0 if fails else 2)


def test_several_elements_are_eagers_error():
    def fn(x):
        assert x, "ambiguous"
        return x + 1

    compiled = braze.compile(fn)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="Boolean value of Tensor with more than one value is ambiguous"):
            compiled(GOOD)


def test_nothing_happens_twice():
    seen = []

    def fn(x):
        seen.append(len(seen))
        x.add_(1)
        assert x.sum() > 0, "negative"
        seen.append("after")
        return x * 2

    compiled = braze.compile(fn, fullgraph=True)
    for start, length in ((GOOD, 2), (GOOD, 4), (-GOOD * 9, 5), (GOOD, 7)):
        x, y = start.clone(), start.clone()
        got = outcome(compiled, x)
        assert len(seen) == length
        del seen[length - (1 if length == 5 else 2) :]
        wanted = outcome(fn, y)
        assert len(seen) == length
        torch.testing.assert_close(x, y)
        assert isinstance(got, tuple) == isinstance(wanted, tuple)


def test_random_numbers_are_drawn_once():
    def fn(x):
        noise = torch.rand(2)
        assert x.min() > 0
        return x + noise

    compiled = braze.compile(fn)
    for x in (GOOD, GOOD, BAD, GOOD):
        torch.manual_seed(3)
        wanted, state = outcome(fn, x), torch.get_rng_state()
        torch.manual_seed(3)
        got = outcome(compiled, x)
        assert torch.equal(torch.get_rng_state(), state)
        assert isinstance(wanted, tuple) or torch.equal(got, wanted)


def test_what_a_handler_catches_is_a_break():
    def fn(x):
        try:
            if x.min() < 0:
                raise ValueError("negative")
            y = x + 1
        except ValueError:
            y = x - 1
        return y * 2

    compiled = braze.compile(fn)
    for x in (GOOD, BAD, GOOD, BAD):
        assert torch.equal(compiled(x), fn(x))
    assert compiled.counts()["native"] == 0


def test_with_blocks_see_errors():
    class Noting:
        def __enter__(self):
            return self

        def __exit__(self, kind, *rest):
            noted.append(kind)
            return kind is KeyError

    def fn(x, kind):
        with Noting():
            y = x + 1
            if x.min() < 0:
                raise kind("negative")
        return y

    compiled = braze.compile(fn)
    for x in (GOOD, GOOD, BAD, GOOD):
        for kind in (ValueError, KeyError):
            noted: list = []
            wanted, first = outcome(fn, x, kind), noted
            noted = []
            got = outcome(compiled, x, kind)
            assert noted == first
            same(got, wanted)


def test_in_helpers_loops_and_beside_breaks():
    def check(x, name):
        if not torch.isfinite(x).all():
            raise ValueError(f"{name} is not finite")
        return x

    def fn(xs):
        total = torch.zeros(2)
        for k, x in enumerate(xs):
            total = total + check(x, f"part {k}")
        print("", end="")
        assert total.sum() < 100, "too large"
        return check(total * 2, "the total")

    compiled = braze.compile(fn)
    inf = torch.tensor([float("inf"), 1.0])
    for xs in ([GOOD, GOOD], [GOOD, inf], [GOOD, GOOD * 100], [GOOD, GOOD]):
        wanted, got = outcome(fn, xs), outcome(compiled, xs)
        same(got, wanted)


def test_training():
    layer = nn.Linear(2, 2)

    def fn(x):
        y = layer(x)
        assert torch.isfinite(y).all(), "not finite"
        loss = y.square().sum()
        assert loss > 0
        return loss

    compiled = braze.compile(fn, fullgraph=True)
    for x in (GOOD, GOOD, torch.tensor([float("nan"), 1.0]), BAD):
        layer.zero_grad()
        wanted = outcome(fn, x)
        if isinstance(wanted, torch.Tensor):
            wanted.backward()
            gradient = layer.weight.grad.clone()
            layer.zero_grad()
        got = outcome(compiled, x)
        if isinstance(wanted, torch.Tensor):
            got.backward()
            torch.testing.assert_close(got, wanted)
            torch.testing.assert_close(layer.weight.grad, gradient)
        else:
            assert got == wanted
    assert compiled.counts()["native"] == 1


def test_sizes_that_vary():
    def fn(x):
        assert (x > 0).all(), f"{x.shape[0]} elements"
        return x.sum() / x.shape[0]

    holds_for(fn, *((torch.rand(n) + 0.1,) for n in (3, 4, 7, 9)), (-torch.ones(5),), native=1)


def test_distributions_validate_their_arguments(monkeypatch):
    monkeypatch.setattr(torch.distributions.Distribution, "_validate_args", True)  # whatever ran before

    def fn(mean, scale, x):
        normal = torch.distributions.Normal(mean, scale)
        return normal.log_prob(x) + normal.entropy()

    one = torch.ones(2)
    holds_for(fn, (GOOD, one, one), (BAD, one, one), (GOOD, -one, one), (GOOD, one, one * float("nan")), native=2)

    def categorical(logits, x):
        return torch.distributions.Categorical(logits=logits).log_prob(x)

    holds_for(categorical, (GOOD, torch.tensor(1)), (GOOD, torch.tensor(0)), (GOOD, torch.tensor(5)), native=1)


def test_assert_functions_of_torch():
    def checked(x):
        torch._assert(x.min() > 0, "positive")
        return x + 1

    def later(x):
        torch._assert_async(x.min() > 0)
        torch._assert_async((x < 10).all(), "small")
        return x + 1

    for fn in (checked, later):
        holds_for(fn, (GOOD,), (BAD,), (GOOD * 9,), (GOOD,), native=1 if fn is checked else 2)


def test_programs_raise_without_eager():
    def fn(x):
        torch._assert_async(x.min() > 0, "positive")
        return x + 1

    program = braze.trace(fn, GOOD)
    assert torch.equal(program(GOOD), GOOD + 1)
    with pytest.raises(braze.Error, match="Expected Tensor with single nonzero value, but got zero"):
        program(BAD)
    assert torch.equal(program(GOOD), GOOD + 1)


@pytest.mark.parametrize(
    "check",
    [
        lambda k: torch._check(k < 2, lambda: f"k is {k}"),
        lambda k: torch._check(k < 2),
        lambda k: torch._check_value(k < 2, lambda: "too many"),
        lambda k: torch._assert(k < 2, "too many"),
        lambda k: {1: 0}[k],
    ],
)
def test_what_the_function_raises_itself_is_no_refusal(check):
    """Nor under fullgraph=True, on the first call and later ones."""

    def fn(x, k):
        check(k)
        return x + k

    holds_for(fn, (GOOD, 1), (GOOD, 2), (GOOD, 1), (GOOD, 3), native=2)
    holds_for(fn, (GOOD, 2), (GOOD, 1), (GOOD, 1), native=1)


def test_assertion_about_a_number():
    def fn(x, k):
        assert k < 2, f"{k} of {tuple(x.shape)}"
        return x + k

    holds_for(fn, (GOOD, 1), (GOOD, 2), (GOOD, 1), native=1)
