"""What a backward of one of several results does not come to in eager: its leaves have no gradient, none of their
hooks run, and who asks for their gradients is told."""

import pytest
import torch
from torch import nn
from torch.autograd import grad

import braze


def leaf(*sizes):
    return torch.randn(*sizes).requires_grad_()


def raised(call, *args, **kwargs):
    """What it returns, or what it says."""
    try:
        return call(*args, **kwargs)
    except RuntimeError as error:
        return str(error)


def told(tensor, name, seen, post=False):
    tensor.register_hook(lambda g: seen.append((name, None if g is None else g.clone())))
    if post:
        tensor.register_post_accumulate_grad_hook(lambda t: seen.append((name, "accumulated", t.grad.clone())))


def apart(a, b):
    return a.exp(), b.square()


def partly(a, b):
    return a.exp(), (a * b).sin()


def crosswise(a, b):
    return a.exp() * 2, (a * b).sin(), b.cos()


def one_leaf(a, b):
    return a.exp(), a.sin(), b * 2


def chained(a, b):
    h = a.exp()
    return h, h * b, (h * b).sum()


def a_number_beside(a, b):
    return (a * b).mean(), a.exp(), b.cos() * a


FUNCTIONS = [apart, partly, crosswise, one_leaf, chained, a_number_beside]


def hooks(f):
    for k in range(len(f(leaf(3), leaf(3)))):
        seen = []
        a, b = leaf(3), leaf(3)
        told(a, "a", seen, post=True)
        told(b, "b", seen, post=True)
        f(a, b)[k].sum().backward()
        yield sorted(seen, key=lambda one: one[0]), a.grad, b.grad


def hooks_of_results(f):
    """Those of others are not run."""
    for k in range(len(f(leaf(3), leaf(3)))):
        seen = []
        results = f(leaf(3), leaf(3))
        for number, result in enumerate(results):
            if number >= k:
                told(result, number, seen)
                result.retain_grad()
        results[k].sum().backward()
        yield seen, [one.grad for one in results[k:]]


def asked_for(f):
    for k in range(len(f(leaf(3), leaf(3)))):
        for names in ("a", "b", "ab"):
            for options in ({}, {"allow_unused": True}, {"allow_unused": True, "materialize_grads": True}):
                inputs = {"a": leaf(3), "b": leaf(3)}
                results = f(**inputs)
                yield raised(grad, results[k].sum(), [inputs[name] for name in names], **options)


def several(f):
    """Of some results at once, with what is asked for in either order."""
    a, b = leaf(3), leaf(3)
    results = f(a, b)
    count = len(results)
    for first in range(count):
        for second in range(count):
            if first != second:
                of = [results[first].sum(), results[second].sum()]
                yield raised(grad, of, [b, a], allow_unused=True, retain_graph=True)
                torch.autograd.backward(of, retain_graph=True)
                yield a.grad.clone(), None if b.grad is None else b.grad.clone()


def one_after_the_other(f):
    count = len(f(leaf(3), leaf(3)))
    for first in range(count):
        for second in range(count):
            for retains in (False, True):
                a, b = leaf(3), leaf(3)
                results = f(a, b)
                results[first].sum().backward(retain_graph=retains)
                yield a.grad, b.grad
                a.grad = b.grad = None
                error = raised(results[second].sum().backward)
                # Eager may get as far as to what was freed.
                yield error, (a.grad, b.grad) if error is None else None
                yield raised(results[second].sum().backward)


def dropped(f):
    """Other results are gone when one has its backward."""
    count = len(f(leaf(3), leaf(3)))
    for k in range(count):
        a, b = leaf(3), leaf(3)
        result = f(a, b)[k]
        result.sum().backward(retain_graph=True)
        first = grad(result.sum(), (a, b), create_graph=True, allow_unused=True)
        total = sum(one.square().sum() for one in first if one is not None) + 0 * (a + b).sum()
        second = grad(total, (a, b))
        yield a.grad, b.grad, first, second


def through_a_history(f):
    """Inputs that were computed."""
    for k in range(len(f(leaf(3), leaf(3)))):
        seen = []
        a, b = leaf(3), leaf(3)
        x, y = a * 2, b.tanh()
        told(x, "x", seen)
        told(y, "y", seen)
        told(a, "a", seen)
        told(b, "b", seen)
        f(x, y)[k].sum().backward()
        yield seen, a.grad, b.grad


def calls_in_a_row(f):
    a, b = leaf(3), leaf(3)
    x, y = a, b
    losses = []
    for _ in range(5):
        x, y, *_ = f(x * 0.1, y * 0.1)
        losses.append(x.sum())
        losses.append(y.sum())
    yield grad(sum(losses[::2]), (a, b), allow_unused=True, retain_graph=True)
    yield grad(sum(losses), (a, b), allow_unused=True)


def one_that_is_not_differentiable(f):
    """As places are, beside others."""
    compile = braze.compile if hasattr(f, "counts") else lambda function: function
    f = compile(lambda a, b: (a.max(0).values, b.max(0).indices, b.exp()))
    seen = []
    a, b = leaf(3, 2), leaf(3, 2)
    told(a, "a", seen)
    told(b, "b", seen)
    first, places, _ = f(a, b)
    first.sum().backward()
    yield seen, a.grad, b.grad, places


PROGRAMS = [
    hooks,
    hooks_of_results,
    asked_for,
    several,
    one_after_the_other,
    dropped,
    through_a_history,
    calls_in_a_row,
    one_that_is_not_differentiable,
]


def same(ours, theirs):
    if isinstance(theirs, tuple | list):
        assert len(ours) == len(theirs), (ours, theirs)
        for one, other in zip(ours, theirs, strict=True):
            same(one, other)
    elif isinstance(theirs, torch.Tensor):
        assert isinstance(ours, torch.Tensor), (ours, theirs)
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)
    else:
        assert ours == theirs, (ours, theirs)


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_as_eager(program, function, dynamic):
    torch.manual_seed(1)
    expected = list(program(function))
    torch.manual_seed(1)
    compiled = braze.compile(function, dynamic=dynamic)
    same(list(program(compiled)), expected)
    assert compiled.counts()["native"] == 0, compiled.reasons()


def test_hooks_run_in_eagers_order():
    """Weights lead to two losses, biases to one."""

    def train(compile):
        torch.manual_seed(0)
        model = nn.Sequential(*(nn.Linear(3, 3) for _ in range(4)))

        def losses(x):
            return model(x).square().mean(), sum(p.square().sum() for p in model.parameters() if p.dim() > 1)

        seen = []
        for name, parameter in model.named_parameters():
            told(parameter, name, seen)
        f = compile(losses)
        for _ in range(2):
            first, second = f(torch.randn(2, 3))
            (first + second).backward()
            first, second = f(torch.randn(2, 3))
            first.backward()
            second.backward()
        return seen

    same(train(braze.compile), train(lambda function: function))


def test_many_calls_are_dropped_one_by_one():
    """Each owns the one before it."""
    f = braze.compile(lambda a, b: (a * 1.5, (a * b).sin()))
    x, y = leaf(2), leaf(2)
    for _ in range(20_000):
        x, y = f(x, y)
    del x, y
