"""autograd.Functions whose backward reads numbers by name: part of the graph, as long as nobody changes them
between the forward and the backward."""

import gc
import weakref

import late_constants
import pytest
import torch

import braze
from braze import _late_reads

EPS = 0.5
SHAPE = (1, 2.0, "x")


class Settings:
    EPS = 0.75
    names = ["a"]

    @staticmethod
    def scaled(gradient):
        return gradient * EPS * Settings.EPS


def with_default(gradient, eps=1.25, *, more=2.0):
    return gradient * eps + more


def halved(gradient):
    return gradient / 2


class Answers(type):
    factor = 3.0

    def __getattr__(cls, name):
        return Answers.factor


class Asked(metaclass=Answers):
    pass


def closed_over(eps):
    return lambda gradient: gradient * eps


def closed_over_later():
    read = lambda gradient: gradient * eps  # noqa: E731
    eps = 2.5
    return read


READS = {
    "global": lambda gradient: gradient * EPS,
    "tuple": lambda gradient: gradient * SHAPE[1],
    "class": lambda gradient: gradient * Settings.EPS,
    "static method": Settings.scaled,
    "static method by its class": lambda gradient: Settings.scaled(gradient),
    "module": lambda gradient: gradient * late_constants.EPS,
    "parameter": closed_over(1.5),
    "variable": closed_over_later(),
    "default": lambda gradient: with_default(gradient),
    "function": lambda gradient: halved(gradient),
    "builtin": lambda gradient: gradient * len("ab"),
    "several": lambda gradient: gradient * EPS + late_constants.EPS * Settings.EPS,
}


def function_of(read):
    class Reading(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * EPS

        @staticmethod
        def backward(ctx, gradient):
            return read(gradient) * ctx.saved_tensors[0]

    return Reading.apply


def gradients(f, sizes=(3, 3, 5, 1, 4), again=False):
    torch.manual_seed(0)
    for n in sizes:
        x = torch.randn(n, 2, requires_grad=True)
        (gradient,) = torch.autograd.grad(f(x).sin().sum(), x, create_graph=again)
        yield gradient
        if again:
            yield torch.autograd.grad(gradient.square().sum(), x)[0]


@pytest.mark.parametrize("dynamic", [None, True, False])
@pytest.mark.parametrize("name", READS)
def test_numbers_by_name(name, dynamic):
    apply = function_of(READS[name])
    f = braze.compile(lambda x: apply(x) * 2, dynamic=dynamic)
    expected = list(gradients(lambda x: apply(x) * 2))
    torch.testing.assert_close(list(gradients(f)), expected)
    assert f.operators()["native"] == 0


def test_second_derivatives():
    apply = function_of(READS["class"])
    f = braze.compile(lambda x: apply(x) * 2)
    expected = list(gradients(lambda x: apply(x) * 2, again=True))
    torch.testing.assert_close(list(gradients(f, again=True)), expected)


def test_another_number_is_another_program(monkeypatch):
    apply = function_of(READS["global"])
    f = braze.compile(lambda x: apply(x) * 2)
    for eps in (0.5, 0.5, 2.0, 3.0, 0.5):
        monkeypatch.setitem(globals(), "EPS", eps)
        expected = list(gradients(lambda x: apply(x) * 2, (3, 3)))
        torch.testing.assert_close(list(gradients(f, (3, 3))), expected)
    assert f.operators()["native"] == 0


CHANGES = {
    "global": lambda patch: patch.setitem(globals(), "EPS", 4.0),
    "class": lambda patch: patch.setattr(Settings, "EPS", 4.0),
    "module": lambda patch: patch.setattr(late_constants, "EPS", -0.25),
    "static method": lambda patch: patch.delattr(Settings, "EPS"),
    "default": lambda patch: patch.setattr(with_default, "__defaults__", (0.25,)),
    "function": lambda patch: patch.setitem(globals(), "halved", lambda gradient: gradient * 3),
    "builtin": lambda patch: patch.setitem(globals(), "len", lambda text: 5),
}
CHANGED = {"default": "with_default.__defaults__", "function": "halved", "builtin": "len"}


@pytest.mark.parametrize("results", [1, 2])
@pytest.mark.parametrize("name", CHANGES)
def test_changed_in_between(name, results, monkeypatch):
    """Eager would compute with the new number, of which the program knows nothing: it says so."""
    monkeypatch.setattr(_late_reads, "_changing", set())
    apply = function_of(READS[name])
    f = braze.compile(lambda x: (apply(x) * 2, x.sin())[:results])
    for _ in range(2):
        x = torch.randn(3, 2, requires_grad=True)
        sum(one.sum() for one in f(x)).backward()
    x = torch.randn(3, 2, requires_grad=True)
    loss = sum(one.sum() for one in f(x))
    with monkeypatch.context() as patch:
        CHANGES[name](patch)
        with pytest.raises(
            RuntimeError, match=f"{CHANGED.get(name, 'EPS')}, which the backward of Reading reads, has changed"
        ):
            loss.backward()
        assert x.grad is None
    # What reads it runs natively from now on.
    f = braze.compile(lambda x: apply(x) * 2)
    x = torch.randn(3, 2, requires_grad=True)
    loss = f(x).sum()
    with monkeypatch.context() as patch:
        if name != "static method":
            CHANGES[name](patch)
        found = torch.autograd.grad(loss, x, retain_graph=True)
        torch.testing.assert_close(found, torch.autograd.grad((apply(x) * 2).sum(), x))
    assert f.operators()["native"] > 0


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_backends_that_run_operators(backend, monkeypatch):
    apply = function_of(READS["global"])
    f = braze.compile(lambda x: apply(x) * 2, backend=backend)
    for eps in (0.5, 4.0, 0.5):
        x = torch.randn(3, 2, requires_grad=True)
        loss = f(x).sum()
        with monkeypatch.context() as patch:
            patch.setitem(globals(), "EPS", eps)
            (gradient,) = torch.autograd.grad(loss, x)
        torch.testing.assert_close(gradient, 2 * eps * x.detach().expand(3, 2))


LIKELY_TO_CHANGE = {
    "list": lambda gradient: gradient * len(Settings.names),
    "class of a class": lambda gradient: gradient * Asked.anything,
    "dict of a module": lambda gradient: gradient * late_constants.NAMES["changed"],
}


@pytest.mark.parametrize("name", LIKELY_TO_CHANGE)
def test_what_may_change_runs_natively(name):
    apply = function_of(LIKELY_TO_CHANGE[name])
    f = braze.compile(lambda x: apply(x) * 2)
    list(gradients(f))
    assert f.operators()["native"] > 0


def test_keeps_nothing_alive():
    """Neither the function nor the class that it reads is kept by what is compiled."""

    def run():
        class Local:
            EPS = 0.5

        def read(gradient):
            return gradient * Local.EPS

        apply = function_of(read)
        f = braze.compile(lambda x: apply(x) * 2)
        list(gradients(f))
        native = f.operators()["native"]
        return native, weakref.ref(read), weakref.ref(Local)

    native, *references = run()
    gc.collect()
    assert native == 0
    assert [one() for one in references] == [None, None]
