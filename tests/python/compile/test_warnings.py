"""warnings.warn() in compiled functions: each call warns as natively, and there is one graph."""

# ruff: noqa: B028  (where a warning is shown is what is tested)

import re
import sys
import warnings

import pytest
import torch
import torch.nn.functional as F

import braze
from braze._load import C

pytestmark = pytest.mark.skipif(not hasattr(C, "CompiledFunction"), reason="no evaluator for this Python")
X = torch.randn(1, 2, 4, 4)
PATTERN = re.compile("of size", re.IGNORECASE)  # As filters compile it; from here on `re` knows it.
GRID = torch.rand(1, 4, 4, 2)


class Own(UserWarning):
    pass


def plain(x):
    warnings.warn("one")
    return x * 2


def of_a_class(x):
    warnings.warn("two", Own)
    return x * 2


def deprecated(x):
    warnings.warn("three", DeprecationWarning, stacklevel=1)
    return x * 2


def warns_of_its_caller(x):
    warnings.warn(f"of size {x.shape[0]}", category=Own, stacklevel=2)
    return x * 3


def at_the_caller(x):
    return warns_of_its_caller(x) + 1


def in_a_loop(x):
    for _ in range(3):
        warnings.warn("again")
        x = x * 2
    return x


def in_torch(x):
    return F.grid_sample(x, GRID) * 2


def in_torch_for_its_caller(x):
    return F.softmax(x) + F.mse_loss(x, x[:, :1])


def between_prints(x):
    sys.stdout.write("")
    warnings.warn("first")
    return x + 1


def quiet(x):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.warn("never")
    return x * 2


def caught(x):
    try:
        warnings.warn("caught", Own)
    except Own:
        return x * 5
    return x * 7


def with_filters_of_its_own(x):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.filterwarnings("error", message=PATTERN.pattern, category=Own)
        y = torch.sin(x) @ x.mT
    return y + 1


def that_records_nothing(x):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        y = x * 2
    return y + len(seen)


def before_filters_of_its_own(x):
    warnings.warn("before")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return x * 2


def with_nested_filters(x):
    for action in ("ignore", "error"):
        with warnings.catch_warnings():
            warnings.simplefilter(action)
            with warnings.catch_warnings():
                warnings.resetwarnings()
                x = x * 2
    return x


WHOLE = [
    *(plain, of_a_class, deprecated, at_the_caller, in_a_loop, in_torch, in_torch_for_its_caller, caught),
    *(with_filters_of_its_own, that_records_nothing, before_filters_of_its_own, with_nested_filters),
]


def at_the_caller_of_all(x):
    warnings.warn("above", stacklevel=2)
    return x + 1


def an_object(x):
    warnings.warn(Own("made"))
    return x + 1


def recorded(x):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        warnings.warn("in")
    return x * len(seen)


def with_a_source(x):
    warnings.warn("source", Own, 1, x)
    return x + 1


def behind_filters_of_its_own(x):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        y = x * 2
    warnings.warn("behind")
    return y


def an_operator_that_warns(x):
    y = x * 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        y = y + x[0, 0, 0, :1].std().isnan()
    return y + x[0, 0, 0, :1].std().isnan()


def an_operator_that_is_heard(x):
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        y = x[0, 0, 0, :1].std()
    return x + y.isnan()


def a_break_among_filters(x):
    y = x * 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        y = y + 1
        sys.stdout.write("")
        warnings.warn("never")
        y = y * 3
    warnings.warn("behind")
    return y + 1


def filters_that_stay(x):
    saved = warnings.filters[:]
    warnings.simplefilter("ignore")
    y = x * 2
    warnings.warn("never")
    warnings.filters[:] = saved
    warnings._filters_mutated()
    warnings.warn("behind")
    return y


IN_PARTS = [
    *(quiet, at_the_caller_of_all, an_object, recorded, with_a_source, between_prints, behind_filters_of_its_own),
    *(an_operator_that_warns, an_operator_that_is_heard, a_break_among_filters, filters_that_stay),
]


def told(call, action):
    """What four calls give, and which warnings each of them shows, where."""
    for namespace in (globals(), F.__dict__):
        namespace.pop("__warningregistry__", None)
    outcomes = []
    with warnings.catch_warnings(record=True) as seen:
        warnings.resetwarnings()
        if action:
            warnings.simplefilter(action)
        for _ in range(4):
            try:
                result = call(X)
            except Warning as warning:
                result = repr(warning)
            outcomes.append((result, [(str(one.message), one.category, one.filename, one.lineno) for one in seen]))
            seen.clear()
    return outcomes


def assert_alike(ours, theirs):
    for (result, shown), (expected, natively) in zip(ours, theirs, strict=True):
        assert shown == natively
        torch.testing.assert_close(result, expected) if torch.is_tensor(expected) else result == expected


@pytest.mark.parametrize("action", ["default", "always", "ignore", "once", "module", "error", None])
@pytest.mark.parametrize("function", WHOLE + IN_PARTS)
def test_warnings(function, action):
    compiled = braze.compile(function)
    assert_alike(told(compiled, action), told(function, action))
    if function in WHOLE and action != "error":
        assert compiled.report()["first_break"] is None
        assert compiled.counts() == {"captured": 1, "replayed": 3, "native": 0}


@pytest.mark.parametrize("function", [plain, at_the_caller, in_torch, caught])
def test_filters_that_change(function):
    """Also to exceptions and back, without being captured anew."""
    compiled = braze.compile(function)
    for action in ("default", "error", "ignore", "always", "error", "default"):
        assert_alike(told(compiled, action), told(function, action))
    assert compiled.counts()["captured"] <= 2


def test_a_registry_that_is_cleared():
    compiled = braze.compile(plain)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("default")
        globals().pop("__warningregistry__", None)
        for _ in range(3):
            compiled(X)
        assert len(seen) == 1
        globals()["__warningregistry__"].clear()
        compiled(X)
        assert len(seen) == 2
    assert compiled.counts()["replayed"] == 3


def test_what_shows_warnings_is_replaced(monkeypatch):
    """By what does more than that: the function must not run behind its back."""
    shown = []

    def f(x):
        warnings.warn("one")
        return x * len(shown)

    compiled = braze.compile(f)
    torch.testing.assert_close(compiled(X), X * 0)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        for k in range(3):
            monkeypatch.setattr(
                warnings, "showwarning", lambda message, *rest, k=k, **names: shown.append((k, str(message)))
            )
            torch.testing.assert_close(compiled(X), X * (k + 1))
    assert shown == [(0, "one"), (1, "one"), (2, "one")]


@pytest.mark.parametrize("count", [1, 3])
def test_a_list_of_warnings_that_the_function_reads(count):
    def f(x):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            for _ in range(count):
                warnings.warn("w")
        return x * len(seen)

    compiled = braze.compile(f)
    for _ in range(3):
        torch.testing.assert_close(compiled(X), X * count)

    def g(x):
        for _ in range(count):
            warnings.warn("w")
        return x * len(outer)

    compiled = braze.compile(g)
    for _ in range(3):
        with warnings.catch_warnings(record=True) as outer:
            warnings.simplefilter("always")
            torch.testing.assert_close(compiled(X), X * count)


def test_gradients():
    def f(x):
        warnings.warn("trained")
        return F.grid_sample(x, GRID).sum()

    compiled = braze.compile(f)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for _ in range(3):
            x, y = X.clone().requires_grad_(), X.clone().requires_grad_()
            compiled(x).backward()
            f(y).backward()
            torch.testing.assert_close(x.grad, y.grad)
    assert len(seen) == 12
    assert compiled.counts()["native"] == 0 and compiled.report()["first_break"] is None
