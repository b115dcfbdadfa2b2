"""Loops and functions whose way depends on tensors' values: solvers, searches, stopping early, sampling.

What is computed between two decisions is compiled, wherever the state lies, and found again in the next iteration
and in the next call.
"""

import collections
import dataclasses
import functools
import types

import pytest
import torch
from compiling import compiled, same
from test_breaks import segments

from braze._load import C

pytestmark = pytest.mark.skipif(not hasattr(C, "CompiledFunction"), reason="no evaluator for this Python")


@pytest.fixture(autouse=True)
def no_grad():
    with torch.no_grad():
        yield


def inputs(number, size=4):
    return torch.rand(size, generator=torch.Generator().manual_seed(number)) + 0.1


def newton(x):
    y = torch.ones_like(x)
    for k in range(20):  # noqa: B007
        step = (y * y - x) / (2 * y)
        y = y - step
        if step.abs().max() < 1e-4:
            break
    return y, k


def while_with_assert(x):
    y, n = torch.ones_like(x), 0
    while ((y * y - x).abs() > 1e-4).any():
        y = 0.5 * (y + x / y)
        n += 1
        assert n < 100
    return y, n


def line_search(x):
    def loss(v):
        return ((v - 1) ** 2).sum() + v.pow(4).sum()

    step, gradient = 1.0, 2 * (x - 1) + 4 * x**3
    while loss(x - step * gradient) > loss(x) - 1e-4 * step * (gradient * gradient).sum():
        step *= 0.5
    return x - step * gradient, step


def adaptive_steps(x):
    t, h, y, accepted = 0.0, 0.1, x, []
    while t < 1:
        k1 = -y
        k2 = -(y + h * k1)
        error = (h * (k2 - k1) / 2).abs().max().item()
        if error < 1e-3:
            y, t = y + h * (k1 + k2) / 2, t + h
            accepted.append(h)
            h = min(h * 1.5, 1 - t + 1e-9)
        else:
            h *= 0.5
            continue
    return y, accepted


def stopping_early(x):
    best, patience, w, losses = float("inf"), 0, torch.zeros_like(x), []
    for _ in range(30):
        w = w + 0.3 * (x - w)
        loss = ((x - w) ** 2).sum().item()
        losses.append(loss)
        if loss < best - 1e-3:
            best, patience = loss, 0
        else:
            patience += 1
            if patience > 2:
                break
    return w, best, losses


def raising_within(x):
    failures, y = 0, x
    for _ in range(6):
        try:
            y = y * 1.7
            if y.max() > 3:
                raise ValueError("too large")
            y = y + 0.1
        except ValueError:
            y, failures = y / 4, failures + 1
    return y, failures


class State:
    def __init__(self, x):
        self.x = x
        if x.sum() > 1.5:
            self.kind = "large"
        else:
            self.kind = "small"
        self.n, self.y = 0, x * 2

    def step(self):
        moved = self.y + self.x * self.x.cos()
        self.y = moved
        if moved.max() > 3:
            return False
        self.n += 1
        return True


def an_object_with_state(x):
    state = State(x)
    while state.step():
        pass
    return state.y, state.n, state.kind


Rung = collections.namedtuple("Rung", "y t dt")


def advance(rung):
    y, t, dt = rung
    new = y - dt * y
    error = ((new - y).abs() / (1 + y.abs())).max()
    if error < 0.05:
        return Rung(new, t + dt, dt * 1.2)
    return Rung(y, t, dt * 0.5)


def named_tuples(x):
    rung, n = Rung(x, torch.zeros(()), torch.tensor(0.1)), 0
    while rung.t < 1:
        assert n < 1000, n
        rung = advance(rung)
        n += 1
    return tuple(rung), n


@dataclasses.dataclass(slots=True)
class Slotted:
    y: torch.Tensor
    done: bool = False


def halve(slotted):
    half = slotted.y * 0.5
    slotted.y = half + half.sin() * 0.01
    if half.norm() < 0.1:
        slotted.done = True


def a_dataclass_with_slots(x):
    slotted, n = Slotted(x), 0
    while not slotted.done:
        halve(slotted)
        n += 1
    return slotted.y, n


def closures(x):
    w = [torch.zeros_like(x)]

    def step():
        gradient = (w[0] - x) * 2
        w[0] = w[0] - 0.25 * gradient
        return bool(gradient.norm() < 1e-3)

    n = 0
    while not step():
        n += 1
    return w[0], n


class Held:
    def __init__(self, y):
        self.y = y


def shrink(by, held):
    held.y = held.y * by + held.y.sin() * 0.01
    return bool(held.y.abs().max() >= 0.05)


def partials(x):
    held = Held(x)
    go_on = functools.partial(shrink, 0.7)
    n = 0
    while go_on(held):
        n += 1
    return held.y, n


PROGRAMS = {
    function.__name__: function
    for function in (
        newton,
        while_with_assert,
        line_search,
        adaptive_steps,
        stopping_early,
        raising_within,
        an_object_with_state,
        named_tuples,
        a_dataclass_with_slots,
        closures,
        partials,
    )
}
#: Segments that end at a break, for one line that breaks: the first iteration's, another one's, and as many again
#: where a number that the loop carries was found to be another one.
MOST = 4


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_lies_between_decisions_is_compiled_once(name):
    function = PROGRAMS[name]
    for number in range(8):
        function(inputs(number))
    fast = compiled(function)
    for number in range(100, 106):
        same(fast(inputs(number)), function(inputs(number)))
    known = len(segments(fast))
    counts = fast.report()["operators"]
    for number in range(100, 106):
        same(fast(inputs(number)), function(inputs(number)))
    assert len(segments(fast)) == known
    assert fast.counts()["native"] == 0
    places = collections.Counter(
        (one["break"]["file"], one["break"]["line"]) for one in segments(fast) if one["break"]
    )
    assert max(places.values()) <= MOST, places
    # What runs natively asks for a value, by an operator or two.
    native = fast.report()["operators"]["native"] - counts["native"]
    compiled_ones = fast.report()["operators"]["compiled"] - counts["compiled"]
    assert native <= compiled_ones, fast.report()["operators"]["reasons"]


def test_the_way_out_of_a_loop_leaves_its_iterations_compiled():
    """From the break on, the last iteration has nothing to compute: that says nothing of the others."""

    def f(x, n):
        total, k = x, 0
        while True:
            k += 1
            if total.sum() > 1e6:
                return total
            if k > n:
                return total, k
            total = total * 1.5 + x

    fast = compiled(f)
    x = inputs(0)
    for n in (1, 2, 6, 6, 6):
        same(fast(x, n), f(x, n))
    before = fast.report()["operators"]
    same(fast(x, 6), f(x, 6))
    after = fast.report()["operators"]
    assert after["compiled"] - before["compiled"] >= 6 * 2


def test_numbers_that_were_read_vary_at_once():
    def f(x):
        scale = x.abs().max().item()
        y = x / scale
        print(end="")
        return y * scale + scale

    fast = compiled(f)
    for number in range(5):
        same(fast(inputs(number)), f(inputs(number)))
    assert len(segments(fast)) == 3, [one["line"] for one in segments(fast)]


def test_numbers_that_were_read_decide():
    """Whatever looks at one otherwise is about this value alone."""

    def f(x):
        largest = x.max().item()
        y = x * largest
        if largest > 0.9:
            y = y + 1
        return y, f"{largest:.3f}", round(largest, 1)

    fast = compiled(f)
    for number in range(12):
        same(fast(inputs(number)), f(inputs(number)))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -0.0, 1e300, 65504.0, 1e-310])
def test_special_numbers_that_were_read(value):
    def f(x):
        number = x.sum().item()
        return torch.ones(3, dtype=torch.float64) * number, torch.ones(3) + number, number

    fast = compiled(f)
    for one in (torch.tensor([0.5]), torch.tensor([value], dtype=torch.float64), torch.tensor([1.5])):
        for _ in range(2):
            mine, theirs = fast(one), f(one)
            for a, b in zip(mine, theirs, strict=True):
                torch.testing.assert_close(torch.as_tensor(a), torch.as_tensor(b), rtol=0, atol=0, equal_nan=True)


# ---- state that changes between calls


def test_state_behind_objects_is_read_at_each_call():
    class Settings:
        def __init__(self):
            self.scale, self.limit, self.kinds = torch.tensor(2.0), 3.0, ["a"]

        def apply(self, held):
            y = held.y * self.scale
            if y.sum() > self.limit:
                y = y - self.limit
            return y + len(self.kinds)

    settings = Settings()

    def f(x):
        return settings.apply(types.SimpleNamespace(y=x))

    fast = compiled(f)
    changes = (
        lambda: None,
        lambda: setattr(settings, "scale", torch.tensor(3.0)),
        lambda: setattr(settings, "limit", 1.0),
        lambda: settings.kinds.append("b"),
        lambda: settings.scale.mul_(0.1),
        lambda: setattr(settings, "scale", 0.5),
        lambda: setattr(Settings, "apply", lambda self, held: held.y * -1),
    )
    for change in changes:
        change()
        for number in range(3):
            same(fast(inputs(number)), f(inputs(number)))


def test_named_tuples_of_other_classes_and_tensors():
    Other = collections.namedtuple("Other", "t y dt")

    def f(rung):
        return advance(rung), rung.y

    fast = compiled(f)
    x = inputs(3)
    given = (
        Rung(x, torch.zeros(()), torch.tensor(0.1)),
        Rung(x, torch.zeros(()), torch.tensor(0.9)),
        Other(torch.zeros(4), x, torch.tensor(0.1)),
        Rung(x.double(), torch.zeros(()), torch.tensor(0.1)),
        Rung(x[:2], torch.zeros(()), torch.tensor(0.1)),
        (x, torch.zeros(()), torch.tensor(0.1)),
    )
    for one in (*given, *given):
        if type(one) is tuple:
            with pytest.raises(AttributeError):
                fast(one)
        else:
            same(fast(one), f(one))


def test_looking_for_tensors_runs_no_code_of_the_users():
    class Loud:
        def __getattribute__(self, name):
            raise AssertionError(name)

        __hash__ = None

        def __eq__(self, other):
            raise AssertionError("asked")

    class Deep:
        pass

    root = node = Deep()
    for _ in range(3000):
        node.next = Deep()
        node = node.next
    node.next = root
    loud = Loud()
    many = {k: [loud, k] for k in range(5000)}

    def look(value, x):
        return x if value is None else value

    def f(x):
        if x.sum() > 0:
            return look(loud, x) is loud, look(root, x) is root, look(many, x) is many
        return x

    fast = compiled(f)
    for number in range(4):
        assert fast(inputs(number)) == (True, True, True)


# ---- two tensors that were told apart, and are one tensor at a later call


def read_both(a, b):
    return a * 2 + b, a - b


def write_one(a, b):
    a.add_(1)
    return a * 2, b * 3


def write_a_third(a, b, c):
    c.mul_(2)
    return a + b + c


def put_an_attribute(a, b):
    a.note = "mine"
    return a + b, getattr(b, "note", "none")


def put_into_an_attribute(a, b):
    a.notes = [1]
    b.notes = [2]
    return a + b, len(a.notes), a.notes[0]


def ask_which(a, b):
    return a + b if a is b else a - b


def ask_for_keys(a, b):
    return a + b, len({a, b}), {a: 1, b: 2}[a]


def hand_on(a, b):
    return a, b, a + b, [a, b]


def view_both(a, b):
    return a[:1], b.view(2, 2), a.t() if a.dim() > 1 else a.unsqueeze(0)


def move_shape(a, b):
    c = a.detach()
    c.unsqueeze_(0)
    return c + 1, b.dim()


def differentiate(a, b):
    with torch.enable_grad():
        p = a.detach().requires_grad_()
        return torch.autograd.grad((p * b).sum(), p)[0]


PAIRS = (
    read_both,
    write_one,
    put_an_attribute,
    put_into_an_attribute,
    ask_which,
    ask_for_keys,
    hand_on,
    view_both,
    move_shape,
    differentiate,
)


def outcome(function, arguments):
    result = function(*arguments)
    places = [
        next((k for k, one in enumerate(arguments) if one is value), None)
        if isinstance(value, torch.Tensor)
        else value
        for value in (result if isinstance(result, tuple) else (result,))
    ]
    return result, [p if not isinstance(p, list) else len(p) for p in places], [a.clone() for a in arguments]


@pytest.mark.parametrize("function", PAIRS, ids=lambda function: function.__name__)
@pytest.mark.parametrize("behind_a_break", [False, True])
@pytest.mark.parametrize("tracked", [False, True])
def test_two_tensors_that_become_one(function, behind_a_break, tracked):
    def f(a, b):
        if behind_a_break:
            print(end="")
        return function(a, b)

    def pairs():
        one, base = inputs(1), inputs(2, 9)
        yield inputs(3), inputs(4)
        yield one, one
        yield inputs(5), inputs(6)
        yield base[:4], base[4:8]
        yield base[:4], base[:4]
        yield base[:4], base[1:5]
        yield one, one
        yield inputs(7), inputs(8)

    fast = compiled(f)
    tracks = tracked and function not in (write_one, move_shape)
    for _ in range(2):
        for ours, native in zip(pairs(), pairs(), strict=True):
            if tracks and not any(one._is_view() for one in ours):
                for one in (*ours, *native):
                    one.requires_grad_()
            same(outcome(fast, ours), outcome(f, native))


def test_one_that_is_written_beside_two_that_become_one():
    fast = compiled(write_a_third)

    def triples():
        x, y = inputs(1), inputs(2)
        yield inputs(3), inputs(4), inputs(5)
        yield x, x, inputs(6)
        yield y, inputs(7), y
        yield x, x, x

    for _ in range(3):
        for ours, native in zip(triples(), triples(), strict=True):
            same(fast(*ours), write_a_third(*native))
            same(ours, native)


# ---- counters and numbers that a loop carries


def test_a_counter_has_one_program_for_all_iterations():
    def f(x, n):
        total, k = x, 0
        while total.sum() < 1e9:
            total = total * 2 + k
            k += 1
            if k == n:
                break
        return total, k

    fast = compiled(f)
    for n in (7, 3, 7, 5, 9, 1, 2):
        same(fast(inputs(0), n), f(inputs(0), n))
    loops = [one for one in segments(fast) if one["break"] and one["replays"] > 1]
    assert len(loops) <= 4, [(one["line"], one["replays"]) for one in segments(fast)]


@pytest.mark.parametrize("start", [-3, -1, 0, 1, 2])
def test_counters_that_become_sizes(start):
    def f(x, steps):
        k, parts = start, []
        for _ in range(steps):
            print(end="")
            parts.append(x[: max(k, 0)] * k)
            if k in (1, 2):
                parts.append(x.expand(k, -1, -1).sum(0) if k else x)
            if k >= 0:
                parts.append(torch.ones(k, 2) * k + torch.ones(1, 2))
            k += 1
        return parts, k

    fast = compiled(f)
    x = torch.rand(5, 3)
    for steps in (6, 2, 6, 4):
        same(fast(x, steps), f(x, steps))
