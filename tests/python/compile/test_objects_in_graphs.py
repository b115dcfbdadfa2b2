"""Objects of Python's and PyTorch's libraries in one graph: made, asked, given, and changed afterwards."""

from __future__ import annotations

import collections
import functools
import types

import pytest
import torch
from torch import distributions
from torch.utils import _pytree as pytree

import braze

X = torch.tensor([0.2, 0.3, 0.5])


def outcome(function, *args):
    torch.manual_seed(0)
    try:
        return function(*args)
    except Exception as error:
        return type(error), str(error)


def same(got, wanted):
    if isinstance(wanted, torch.Tensor):
        torch.testing.assert_close(got, wanted, equal_nan=True)
        assert got.stride() == wanted.stride()
    else:
        assert got == wanted


def check(function, *calls, captures=1):
    """One graph; as in eager for each of the calls; at most so many programs."""
    compiled = braze.compile(function, fullgraph=True)
    for args in calls:
        same(outcome(compiled, *args), outcome(function, *args))
    assert compiled.counts()["native"] == 0
    assert compiled.counts()["captured"] <= captures, compiled.counts()
    return compiled


def test_slices_are_arguments():
    def fn(x, s):
        return x[s] * 2

    check(fn, *((X, slice(0, 2)) for _ in range(4)))
    check(fn, (X, slice(1)), (X, slice(1)), (X, slice(None, None, 2)), (X, slice(1)), captures=2)
    check(lambda x, s: x + [1.0, 2.0, 3.0][s][0], (X, slice(0, 2)), (X, slice(1, 2)), (X, slice(1, 2)), captures=3)
    check(lambda x, d: x[d["rows"]], (X, {"rows": slice(0, 2)}), (X, {"rows": slice(0, 2)}))
    check(lambda x, s: x + s.start, (X, slice(1, 2)), (X, slice(1, 5)))


def test_slices_in_globals_and_tuples():
    table = {"where": (slice(0, 1), None)}

    def fn(x):
        return x.view(3, 1)[table["where"]] + 1

    compiled = check(fn, (X,), (X,))
    table["where"] = (slice(1, 3), None)
    same(compiled(X), fn(X))


def test_functions_in_sets():
    plain, frozen = {torch.add, torch.mul}, frozenset([torch.add, len])

    def fn(x, f):
        return x + (1 if f in plain else 2) + (10 if f in frozen else 20)

    compiled = check(fn, (X, torch.add), (X, torch.mul), (X, torch.sub), (X, len), captures=4)
    plain.add(torch.sub)
    same(compiled(X, torch.sub), fn(X, torch.sub))
    plain.discard(torch.add)
    same(compiled(X, torch.add), fn(X, torch.add))


def helper():
    return 1


def test_classes_and_python_functions_in_sets():
    known = {helper, int}

    def fn(x, what):
        return x * (2 if what in known else 3)

    compiled = check(fn, (X, helper), (X, int), (X, str), (X, helper), captures=3)
    known.clear()
    same(compiled(X, helper), fn(X, helper))


def test_tensors_as_keys_of_dicts_that_are_made():
    weight, other = (
        torch.nn.Parameter(X.clone(), requires_grad=False),
        torch.nn.Parameter(X + 1, requires_grad=False),
    )

    def fn(x):
        by_weight = collections.defaultdict(list)
        by_weight[weight].append(x)
        by_weight[other].append(x + 1)
        by_weight[weight].append(x * 2)
        sizes = collections.defaultdict(lambda: 3)
        return by_weight[weight][1] + by_weight[other][0] * len(by_weight[weight]) + sizes[other]

    check(fn, (X,), (X,))

    def raises(x):
        return {weight: x}[other]

    compiled = braze.compile(raises)
    for _ in range(2):
        with pytest.raises(KeyError):
            compiled(X)


TREES = {
    "tuple_of_list": (X, [X + 1]),
    "nested": [X, (X + 1, [X + 2, (X + 3,)])],
    "dict": {"a": (X, X + 1), "b": {"c": [X + 2], "d": ()}},
    "shared": [[X, X + 1]] * 2,
}


@pytest.mark.parametrize("name", sorted(TREES))
def test_trees(name):
    def fn(tree):
        leaves, spec = pytree.tree_flatten(tree)
        return pytree.tree_unflatten([leaf * 2 for leaf in leaves], spec)

    compiled = braze.compile(fn, fullgraph=True)
    for _ in range(3):
        got, wanted = compiled(TREES[name]), fn(TREES[name])
        assert pytree.tree_structure(got) == pytree.tree_structure(wanted)
        torch.testing.assert_close(pytree.tree_leaves(got), pytree.tree_leaves(wanted))
    assert compiled.counts() == {"captured": 1, "replayed": 2, "native": 0}


def test_sets_of_lists_and_dicts():
    def of_tensors(x, y):
        members = set([x, y, x])
        return x * len(members) + (1 if y in members else 0)

    check(of_tensors, (X, X + 1), (X, X + 1))
    check(lambda x, d: x + len(set(d)) + ("a" in set(d)), (X, {"a": X, "b": X}), (X, {"a": X, "b": X}))
    compiled = check(lambda x, d: x + ("a" in set(d)), (X, {"a": X}))
    same(compiled(X, {"b": X}), X)


def test_namespaces_that_are_made():
    def fn(x):
        state = types.SimpleNamespace(scale=2.0, shift=x + 1)
        state.scale *= 3
        state.extra = state.shift.sum()
        return x * state.scale + state.extra, hasattr(state, "missing")

    compiled = braze.compile(fn, fullgraph=True)
    for _ in range(3):
        got, wanted = compiled(X), fn(X)
        torch.testing.assert_close(got[0], wanted[0])
        assert got[1] is False
    with pytest.raises(TypeError):
        braze.compile(lambda x: types.SimpleNamespace(1))(X)


def test_namespaces_that_are_returned():
    def fn(x):
        return types.SimpleNamespace(value=x + 1, name="n")

    compiled = braze.compile(fn)
    for _ in range(3):
        got = compiled(X)
        assert type(got) is types.SimpleNamespace and got.name == "n"
        assert torch.equal(got.value, X + 1)
        got.name = "changed"


def test_legacy_constructor_of_tensors():
    check(lambda x: x.new(2, 3).fill_(4), (X,), (X,))
    check(lambda x: x.new(x.size()).zero_() + x, (X,), (X,))
    check(lambda x, n: x.new(n).fill_(1.0), (X, 3), (X, 4), (X, 5), captures=3)
    check(lambda x: x.new(*x.size()).zero_() + x, (X,), (X,))
    check(lambda x: (x + 1).new(*(x + 1).shape).fill_(2.0) * x, (X,), (X,))
    check(lambda x: (x > 0).new(*[2, 3]).fill_(True), (X,), (X,))
    check(lambda x, n: (x + 1).new(*n).fill_(1.0), (X, (3, 2)), (X, (4,)), captures=2)
    for fn in (lambda x: x.new([1.0, 2.0]), lambda x: x.new(), lambda x: x.new((2, 3))):
        compiled = braze.compile(fn)
        for _ in range(2):
            same(outcome(compiled, X), outcome(fn, X))


class Lazy(property):
    """A property of a class of its own, as torch.distributions has for supports."""

    is_discrete = False


class Holder:
    factor = 2.0

    @Lazy
    def scaled(self):
        return self.factor * 3

    @scaled.setter
    def scaled(self, value):
        self.factor = value / 3


def test_subclasses_of_property():
    holder = Holder()

    def fn(x, h):
        return x * h.scaled

    compiled = check(fn, (X, holder), (X, holder))
    holder.factor = 5.0
    same(compiled(X, holder), fn(X, holder))
    Lazy.__get__ = lambda self, instance, owner=None: 7.0
    try:
        same(compiled(X, holder), fn(X, holder))
    finally:
        del Lazy.__get__
    same(compiled(X, holder), fn(X, holder))
    old = Holder.scaled
    Holder.scaled = Lazy(lambda self: 11.0)
    try:
        same(compiled(X, holder), fn(X, holder))
    finally:
        Holder.scaled = old

    def writes(x, h):
        h.scaled = 6.0
        return x * h.factor

    compiled = braze.compile(writes)
    for _ in range(3):
        holder.factor = 1.0
        same(compiled(X, holder), X * 2.0)
        assert holder.factor == 2.0


ONE = torch.ones(3)
DISTRIBUTIONS = {
    "beta": lambda x: distributions.Beta(x, x + 1).rsample(),
    "bernoulli": lambda x: distributions.Bernoulli(x).log_prob(ONE),
    "bernoulli_sample": lambda x: distributions.Bernoulli(x).sample((2,)),
    "categorical": lambda x: distributions.Categorical(logits=x).log_prob(torch.tensor(1)),
    "categorical_sample": lambda x: distributions.Categorical(probs=x).sample((2,)),
    "cauchy": lambda x: distributions.Cauchy(x, ONE).rsample(),
    "dirichlet": lambda x: distributions.Dirichlet(x).entropy(),
    "dirichlet_sample": lambda x: distributions.Dirichlet(x).rsample((3,)),
    "exponential": lambda x: distributions.Exponential(x).rsample(),
    "gamma": lambda x: distributions.Gamma(x, x).log_prob(x),
    "independent": lambda x: distributions.Independent(distributions.Normal(x, ONE), 1).log_prob(x),
    "kl": lambda x: distributions.kl_divergence(distributions.Normal(x, ONE), distributions.Normal(-x, ONE)),
    "laplace": lambda x: distributions.Laplace(x, ONE).cdf(x),
    "lognormal": lambda x: distributions.LogNormal(x, ONE).log_prob(x),
    "mixture": lambda x: distributions.MixtureSameFamily(
        distributions.Categorical(x), distributions.Normal(x, ONE)
    ).log_prob(torch.tensor(0.5)),
    "normal": lambda x: distributions.Normal(x, ONE).rsample(),
    "one_hot": lambda x: distributions.OneHotCategorical(probs=x).sample(),
    "poisson": lambda x: distributions.Poisson(x).log_prob(ONE),
    "relaxed": lambda x: distributions.RelaxedBernoulli(torch.tensor(0.5), probs=x).rsample(),
    "student": lambda x: distributions.StudentT(x).log_prob(x),
    "uniform": lambda x: distributions.Uniform(x, x + 1).log_prob(x + 0.5),
}


@pytest.fixture
def validated(monkeypatch):
    """The first call of torch.compile in a process, perhaps another test's, switches validation off for all that
    follows."""
    monkeypatch.setattr(distributions.Distribution, "_validate_args", True)


@pytest.mark.usefixtures("validated")
@pytest.mark.parametrize("name", sorted(DISTRIBUTIONS))
def test_distributions(name):
    fn = DISTRIBUTIONS[name]
    outcome(fn, X)  # torch.distributions notes which formula of a divergence it has found.
    compiled = check(fn, (X,), (X,), (X.flip(0),))
    bad = torch.tensor([-1.0, float("nan"), 2.0])
    same(outcome(compiled, bad), outcome(fn, bad))
    same(outcome(compiled, X), outcome(fn, X))
    assert compiled.counts()["native"] == 1


@pytest.fixture
def deterministic():
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


def test_deterministic_algorithms(deterministic):
    index = torch.tensor([0, 0, 2])
    check(lambda x: (x.exp() + 1).softmax(0).sum(), (X,), (X,))
    check(lambda x: torch.empty(2, 3), (X,), (X,))
    check(lambda x: torch.empty(4, dtype=torch.int16).bool(), (X,), (X,))
    check(lambda x: x.new_empty(3) + torch.empty_like(x), (X,), (X,))
    check(lambda x: x.index_put((index,), x + 1), (X,), (X,))
    check(lambda x: x.index_put((index,), x + 1, accumulate=True), (X,), (X,))
    check(lambda x: x.clone().scatter_(0, index, x + 1), (X,), (X,))
    check(lambda x: x.index_copy(0, index, x + 1), (X,), (X,))

    def refused(x):
        return x.clone().put_(index, x)

    compiled = braze.compile(refused)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="put_ does not have a deterministic implementation"):
            compiled(X)


def test_switching_to_deterministic_algorithms():
    compiled = braze.compile(lambda x: torch.empty(3).fill_(1) + x)
    assert torch.equal(compiled(X), X + 1)
    torch.use_deterministic_algorithms(True)
    try:
        assert torch.equal(compiled(X), X + 1)
        assert compiled.counts()["captured"] == 2
    finally:
        torch.use_deterministic_algorithms(False)
    assert torch.equal(compiled(X), X + 1)
    assert compiled.counts() == {"captured": 2, "replayed": 1, "native": 0}


def test_a_function_that_counts_its_calls():
    """In an attribute of its own: a number that varies, as an object's does."""

    def counted(function):
        @functools.wraps(function)
        def wrapper(*args):
            wrapper.count += 1
            wrapper.rate *= 0.5
            return function(*args) * wrapper.count + wrapper.rate

        wrapper.count, wrapper.rate = 0, 1.0
        return wrapper

    plain, ours = counted(torch.sin), counted(torch.sin)
    compiled = braze.compile(ours)
    x = torch.rand(4)
    for _ in range(8):
        torch.testing.assert_close(compiled(x), plain(x))
        assert (ours.count, ours.rate) == (plain.count, plain.rate)
    assert compiled.counts()["native"] == 0 and compiled.counts()["replayed"] >= 5


def test_an_object_whose_class_is_compiled():
    """What is written in the class as compiled is called through objects of it: with arguments by name, unpacked,
    of a class in a class, and under fullgraph."""

    @braze.compile
    class Scaled:
        def __init__(self, factor):
            self.factor = factor

        def __call__(self, x, *, shift=0.0):
            return x * self.factor + shift

    class Doubled(Scaled):
        pass

    class Layer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(3, 3)

        @braze.compile
        def __call__(self, x):
            return self.linear(x).relu()

    scaled, doubled, layer = Scaled(3.0), Doubled(2.0), Layer()

    def f(x, *rest, **named):
        return scaled(x, *rest) + doubled(x, **named) - layer(*(x, *rest))

    fast = braze.compile(f, fullgraph=True)
    x = torch.randn(2, 3)
    with torch.no_grad():
        for shift in (0.5, 0.5, 0.5):
            torch.testing.assert_close(fast(x, shift=shift), f(x, shift=shift))
        assert fast.counts() == {"captured": 1, "replayed": 2, "native": 0}
        doubled.factor = 5.0
        torch.testing.assert_close(fast(x, shift=0.5), f(x, shift=0.5))
        was = Scaled.__call__
        Scaled.__call__ = lambda self, x, shift=0.0: x - self.factor
        try:
            torch.testing.assert_close(fast(x, shift=0.5), f(x, shift=0.5))
        finally:
            Scaled.__call__ = was
