"""Returned views through which other results are computed: who looks at their gradients sees what comes by them."""

import functools

import pytest
import torch

import braze


def chunks(x):
    a, b = (x * 2).chunk(2)
    return (a * a).sum() + b.sum(), a, b


def rows(x):
    a, b, c = (x * 2).unbind()
    return a * a * b + c, a, c


def parts_of_an_argument(x):
    a, b = x.split([1, 2])
    return (a * a).sum() + (b**3).sum(), a, b


def view_of_a_view(x):
    y = x * 2
    a = y[:]
    b = a[1:]
    return (b * b).sum() + a.sum(), a, b


def view_of_a_view_and_base(x):
    y = x * 2
    a = y[:]
    b = a[1:]
    return (b * b).sum() + y.sum(), b, a, y


def three_in_a_row(x):
    a = (x * 2).view(3, 1)
    b = a.t()
    c = b[:, :2]
    return (c * c).sum() + (b**3).sum(), c, b, a


def view_of_a_chunk(x):
    a, b = (x * 2).chunk(2)
    c = a.view(-1, 1)
    return (c * c).sum() + b.sum(), c, a


def views_of_an_argument(x):
    a = x.view(3, 1)
    b = a[1:]
    return (b * b).sum() + a.sum(), a, b


def neighbours(x):
    y = x * 2
    a, b = y[:2], y[1:]
    return (a * a).sum() + (b**3).sum(), a, b


def only_one_leads_on(x):
    y = x * 2
    a = y[:2]
    return (y[1:] ** 2).sum(), a, a[1:]


PROGRAMS = [
    chunks,
    rows,
    parts_of_an_argument,
    view_of_a_view,
    view_of_a_view_and_base,
    three_in_a_row,
    view_of_a_chunk,
    views_of_an_argument,
    neighbours,
    only_one_leads_on,
]


def with_hooks(results):
    """By place: those of one operator's views come in another order, each with a node of its own."""
    seen = [None] * (len(results) - 1)

    def note(k, gradient):
        seen[k] = gradient.clone()
        return gradient * (k + 2)

    for k, one in enumerate(results[1:]):
        one.register_hook(functools.partial(note, k))
    return seen


def look(function, is_leaf, how):
    leaf = torch.tensor([0.3, 0.7, 1.1], requires_grad=True)
    results = function(leaf if is_leaf else leaf * 1.5)
    seen = []
    if how == "hooks":
        seen = with_hooks(results)
    elif how == "retained":
        for one in results[1:]:
            one.retain_grad()
    elif how == "asked for":
        return torch.autograd.grad(results[0], (leaf, *results[1:]), allow_unused=True)
    elif how == "written":
        with torch.no_grad():
            for one in results[1:]:
                one.mul_(1.0)
        try:
            results[0].backward()
        except RuntimeError:  # Of several views at once eager says so in other words.
            return [torch.tensor(True)]
    elif how == "all differentiated":
        sum(one.square().sum() for one in results).backward()
        return [leaf.grad]
    results[0].backward()
    return [leaf.grad, *seen, *(one.grad for one in results[1:] if one.retains_grad)]


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("how", ["hooks", "retained", "asked for", "written", "all differentiated"])
@pytest.mark.parametrize("is_leaf", [True, False])
@pytest.mark.parametrize("program", PROGRAMS)
def test_returned_views(program, is_leaf, how, dynamic):
    compiled = braze.compile(program, dynamic=dynamic)
    expected = look(program, is_leaf, how)
    for _ in range(3):
        found = look(compiled, is_leaf, how)
        assert len(found) == len(expected)
        for mine, other in zip(found, expected, strict=True):
            assert (mine is None) == (other is None)
            if other is not None:
                torch.testing.assert_close(mine, other)
    assert compiled.counts()["native"] == 0
