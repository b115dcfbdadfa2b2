"""Numbers that Python's generators draw: inputs of each call, drawn as natively, and no break."""

import random

import pytest
import torch
from compiling import compiled, same

from braze._load import C

pytestmark = pytest.mark.skipif(not hasattr(C, "CompiledFunction"), reason="no evaluator for this Python")
X = torch.arange(12.0).reshape(3, 4)
OWN = random.Random(3)


class Quarter(random.Random):
    def random(self):
        return 0.25


class Derived(random.Random):
    pass


QUARTER, DERIVED = Quarter(1), Derived(2)


def breaks(fast):
    return [segment["break"]["id"] for segment in fast.report()["segments"] if segment["break"]]


def both(function, calls=8, arguments=lambda k: (X,), before=lambda k: None):
    """The same results as natively, and generators that are left alike. Gives the compiled function."""
    states = []
    for run in (function, fast := compiled(function)):
        random.seed(7)
        OWN.seed(8)
        DERIVED.seed(9)
        seen = []
        for k in range(calls):
            before(k)
            seen.append((run(*arguments(k)), OWN.getstate(), random.getstate(), DERIVED.getstate()))
        states.append(seen)
    for (mine, *ours), (other, *theirs) in zip(*states[::-1], strict=True):
        same(mine, other)
        assert ours == theirs
    return fast


def product(x):
    return x * random.random() + 1


def of_methods_in_python(x):
    return x * random.uniform(-1, 2) + OWN.gauss(0, 1), OWN.expovariate(2.0)


def whole_numbers(x):
    return x * random.randint(1, 5) + OWN.randrange(0, 100, 5), random.getrandbits(3)


def in_a_loop(x):
    for i in range(3):
        x = x + random.random() * i
    return x


def seeded(x, k=3):
    random.seed(k)
    return x * random.random(), random.randint(0, 9)


def of_two(x):
    return x * random.random() + OWN.random(), DERIVED.uniform(1, 2), QUARTER.uniform(1, 2), DERIVED.randint(1, 3)


def window(x):
    i, j = random.randint(0, x.shape[0] - 2), random.randint(0, x.shape[1] - 2)
    return x[i : i + 2, j : j + 2] * 2


@pytest.mark.parametrize("function", [product, whole_numbers, in_a_loop, of_two])
def test_one_program_draws_anew(function):
    fast = both(function)
    assert fast.counts() == {"captured": 1, "replayed": 7, "native": 0}, fast.reasons()
    assert breaks(fast) == []


def test_what_a_generator_keeps_is_another_program():
    """random.gauss() draws two numbers at a time."""
    fast = both(of_methods_in_python, calls=12)
    assert fast.counts()["captured"] <= 3
    assert breaks(fast) == []


def skips(x):
    if random.random() < 0.5:
        return x + 1
    return x * 2 if random.random() < 0.5 else x * 3


def chooses(x):
    return random.choice([torch.sin, torch.cos, torch.exp])(x) + 1


@pytest.mark.parametrize("function", [skips, chooses])
def test_each_way_is_a_program(function):
    fast = both(function, calls=24)
    assert fast.counts() == {"captured": 3, "replayed": 21, "native": 0}, fast.reasons()
    assert breaks(fast) == []


class Layers(torch.nn.Module):
    def __init__(self, count):
        super().__init__()
        torch.manual_seed(0)
        self.layers = torch.nn.ModuleList([torch.nn.Linear(4, 4) for _ in range(count)])

    def forward(self, x):
        for layer in self.layers:
            if self.training and random.uniform(0, 1) < 0.3:
                continue
            x = layer(x)
        return x


def test_layers_left_out_in_training():
    module = Layers(2)
    fast = both(module.forward, calls=20)
    assert fast.counts()["captured"] <= 4 and fast.counts()["native"] == 0, fast.reasons()
    assert breaks(fast) == []


def test_many_ways_are_told_as_a_break():
    fast = both(Layers(8).forward, calls=30)
    # Behind the first of these, what is drawn is another number each time.
    assert "random_numbers" in breaks(fast) and set(breaks(fast)) <= {"random_numbers", "one_of_many"}
    assert fast.counts()["replayed"] > 20


def test_a_number_that_must_be_known_is_no_program_of_its_own():
    def text(x):
        return x + 1, f"{random.random():.3f}"

    def seeds(x):
        torch.manual_seed(random.randint(0, 2**31))
        return x + torch.rand(4)

    for function in (text, seeds, lambda x: (x + 1, random.getrandbits(100), random.randbytes(3))):
        fast = both(function, calls=12)
        assert fast.counts()["captured"] <= 3
        assert fast.counts()["native"] <= 1


def test_seeds():
    fast = both(seeded)
    assert fast.counts()["captured"] == 1
    both(seeded, arguments=lambda k: (X, k))


def test_sizes_that_numbers_decide():
    both(window, calls=20)
    both(lambda x: random.sample(range(8), 2), calls=12)

    def shuffled(x):
        rows = [x, x + 1, x + 2]
        random.shuffle(rows)
        return torch.stack(rows)

    both(shuffled, calls=20)


def test_fullgraph():
    fast = C.CompiledFunction(product, fullgraph=True)
    random.seed(1)
    ours = [fast(X) for _ in range(3)]
    random.seed(1)
    same(ours, [product(X) for _ in range(3)])


def test_gradients():
    weight = torch.nn.Parameter(torch.ones(4))

    def loss(x):
        weight.grad = None
        return (x * weight * random.random()).sum()

    def trained(run):
        random.seed(2)
        gradients = []
        for _ in range(4):
            run(X).backward()
            gradients.append(weight.grad)
        return gradients

    same(trained(compiled(loss)), trained(loss))


def test_an_error_behind_a_draw():
    def f(x, i):
        return x[i] * random.random()

    fast = compiled(f)
    for run in (fast, f):
        random.seed(4)
        drawn = []
        for k in (0, 1, 2, 9, 1, 9, 0):
            try:
                drawn.append(run(X, torch.tensor([k])))
            except IndexError:
                drawn.append(random.random())
        if run is fast:
            ours = drawn
    same(ours, drawn)


def test_generators_that_are_replaced(monkeypatch):
    module = torch.nn.Module()
    module.one = module.other = None

    def f(x):
        return x * module.one.random() + module.other.random()

    def before(k):
        if k == 0:
            module.one, module.other = random.Random(1), random.Random(2)
        if k == 3:
            module.other = module.one
        if k == 5:
            module.other = random.Random(4)

    both(f, before=before)

    def patched(k):
        if k == 3:
            monkeypatch.setattr(Derived, "random", lambda self: 0.5, raising=False)
        if k == 5:
            monkeypatch.setattr(Derived, "getrandbits", lambda self, bits: 1, raising=False)
        if k == 0:
            monkeypatch.undo()

    both(lambda x: (x * DERIVED.random(), DERIVED.randint(0, 5)), before=patched)
