"""A backward that finds a tensor written to: the error has eager's words, leaves whose gradients eager's backward
has reached before have them, and hooks of those have run."""
# ruff: noqa: B023  Functions are called before their loop goes on.

import pytest
import torch
import torch.nn.functional as F
from program_cases import assert_same
from torch import nn

import braze


def raised(call):
    try:
        call()
    except RuntimeError as error:
        return str(error)
    return "nothing"


def layers():
    torch.manual_seed(0)
    return nn.ModuleList([nn.Linear(4, 4), nn.LayerNorm(4), nn.PReLU(4), nn.BatchNorm1d(4), nn.GroupNorm(2, 4)])


def chain(model):
    def function(x):
        h = model[0](x)
        for layer in model[1:]:
            h = layer(h).tanh()
        return h

    return function


PARAMETERS = [name for name, _ in layers().named_parameters()]


def written_parameter(name, model, function, wanted):
    parameters = dict(model.named_parameters())
    log = []
    for key, p in parameters.items():
        p.register_post_accumulate_grad_hook(lambda _, key=key: log.append(key))
    for n in (3, 3, 5):
        model.zero_grad()
        x = torch.linspace(-1, 1, n * 4).reshape(n, 4).requires_grad_()
        loss = function(x).square().mean()
        with torch.no_grad():
            parameters[name].mul_(1.5)
        inputs = None if wanted is None else [parameters[key] for key in wanted]
        text = raised(lambda: loss.backward(inputs=inputs))
        yield text, {key: p.grad for key, p in parameters.items()}, x.grad, list(log)
        log.clear()


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("name", PARAMETERS)
def test_gradients_before_the_error(name, dynamic):
    for wanted in (None, ["0.weight"], ["4.weight", "2.weight"]):
        model, other = layers(), layers()
        compiled = braze.compile(chain(other), dynamic=dynamic)
        expected = list(written_parameter(name, model, chain(model), wanted))
        assert_same(list(written_parameter(name, other, compiled, wanted)), expected)
        assert compiled.counts()["native"] == 0


OPERATORS = {
    "layer_norm": lambda x, w, b: F.layer_norm(x, (4,), w, b),
    "group_norm": lambda x, w, b: F.group_norm(x, 2, w, b),
    "batch_norm": lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True),
    "prelu": lambda x, w, b: F.prelu(x, w) + b,
    "gather": lambda x, w, b: x.gather(1, torch.tensor([[0, 1], [1, 2]])) + w[:2],
    "linear": lambda x, w, b: F.linear(x, w[None], b[:1]),
    "where": lambda x, w, b: torch.where(x > w, x, b),
}


@pytest.mark.parametrize("needs", ["x", "xw", "xb", "xwb", "w", "wb"])
@pytest.mark.parametrize("name", OPERATORS)
def test_conditions(name, needs):
    """What a node saves may depend on what else requires grad."""

    def outcomes(function):
        for written in "xwb":
            given = {"x": torch.ones(3, 4), "w": torch.full((4,), 0.5), "b": torch.full((4,), 0.25)}
            for key in needs:
                given[key].requires_grad_()
            y = function(*given.values())
            if not y.requires_grad:
                yield None
                continue
            with torch.no_grad():
                given[written].add_(1)
            yield raised(y.sum().backward), [one.grad for one in given.values()]

    assert_same(list(outcomes(braze.compile(OPERATORS[name]))), list(outcomes(OPERATORS[name])))


def test_words_of_results_and_of_what_has_a_history():
    def function(x):
        y = (x * 2).exp()
        return y, y.t() * y.t(), x.sin()

    def outcomes(function):
        for k in range(3):
            for n in (3, 3, 4):
                w = torch.ones(n, 4, requires_grad=True)
                x = w * 0.5
                results = function(x)
                with torch.no_grad():
                    (x if k == 2 else results[k]).zero_()
                yield raised(results[1].sum().backward), raised(results[2].sum().backward), w.grad

    assert_same(list(outcomes(braze.compile(function))), list(outcomes(function)))


def test_an_error_is_no_end():
    """The graph was to be kept: when the version is eager's again, the backward runs."""

    def outcomes(function):
        w, x = torch.ones(4, requires_grad=True), torch.ones(3, 4, requires_grad=True)
        y = function(x, w)
        for version in (1, 0):
            torch._C._autograd._unsafe_set_version_counter((w,), (version,))
            yield raised(lambda: y.backward(retain_graph=True)), x.grad, w.grad

    def function(x, w):
        return (F.layer_norm(x, (4,), w) * x).sum()

    assert_same(list(outcomes(braze.compile(function))), list(outcomes(function)))


def test_a_leaf_that_waits_for_others():
    """A leaf that is used outside of the function too has all of its gradient, or none."""

    def outcomes(function):
        for inside_first in (True, False):
            w, v = torch.ones(4, requires_grad=True), torch.ones(4, requires_grad=True)
            x = torch.ones(3, 4, requires_grad=True)
            if not inside_first:
                other = (v * 2).sum()
            y = function(x, w, v)
            if inside_first:
                other = (v * 2).sum()
            with torch.no_grad():
                w.add_(1)
            yield raised((y + other).backward), x.grad, w.grad, v.grad

    def function(x, w, v):
        return ((F.layer_norm(x, (4,), w) + 1) * v).sum()

    expected, actual = list(outcomes(function)), list(outcomes(braze.compile(function)))
    # Where eager has the sum of both, the function's own part is not given alone.
    assert_same([one[:3] for one in actual], [one[:3] for one in expected])
    for ours, theirs in zip(actual, expected, strict=True):
        assert ours[3] is None or torch.equal(ours[3], theirs[3])


PICKED = {
    "take_along_dim": lambda x, i: torch.take_along_dim(x, i, 0),
    "take_along_dim of fewer": lambda x, i: torch.take_along_dim(x, i[:1], 0),
    "gather": lambda x, i: x.gather(0, i),
    "index_select": lambda x, i: x.index_select(0, i[0]),
    "index": lambda x, i: x[i[0]],
}


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("name", PICKED)
def test_indices_that_are_written_to(name, dynamic):
    """Eager saves some, and copies of others."""

    def outcomes(function):
        for n in (3, 3, 5):
            x, i = torch.arange(n * 4.0).reshape(n, 4).requires_grad_(), torch.arange(n * 4).reshape(n, 4) % n
            y = function(x, i)
            i.zero_()
            yield raised(y.sum().backward), x.grad

    compiled = braze.compile(PICKED[name], dynamic=dynamic)
    assert_same(list(outcomes(compiled)), list(outcomes(PICKED[name])))
