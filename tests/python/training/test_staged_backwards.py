"""Gradients handed out before the backward has ended, to whoever waits for them: everything else about a backward
stays as it is."""

import pytest
import torch
from program_cases import assert_same, attempt
from staged_models import DEPTH, WIDTH, stack, step
from torch import nn

import braze


class Sides:
    """The same program on a model in eager and on one that is compiled, each with hooks on its parameters."""

    def __init__(self, hook=None, make=stack, dynamic=None):
        self.eager, self.model = make(), make()
        self.compiled = braze.compile(self.model, dynamic=dynamic)
        self.logs = [], []
        for model, log in zip((self.eager, self.model), self.logs, strict=True):
            for name, p in model.named_parameters():
                p.register_post_accumulate_grad_hook(self.hook_of(name, log, hook))

    @staticmethod
    def hook_of(name, log, hook):
        def run(p):
            log.append(name)
            if hook:
                hook(p, name)

        return run

    def check(self, program, times=3):
        for k in range(times):
            outcomes = []
            for model, call in ((self.eager, self.eager), (self.model, self.compiled)):
                torch.manual_seed(k)
                x = torch.randn(6 + k, WIDTH, requires_grad=True)
                outcomes.append((program(call, x, k), x.grad, {n: p.grad for n, p in model.named_parameters()}))
            assert_same(outcomes[1], outcomes[0])
            assert_same(list(self.model.parameters()), list(self.eager.parameters()))
            for model in (self.eager, self.model):
                model.zero_grad()
        assert self.compiled.counts()["native"] == 0, self.compiled.reasons()


def layer_of(name):
    return int(name.split(".")[0])


@pytest.mark.parametrize("dynamic", [None, True])
def test_an_optimizer_steps_within_the_backward(dynamic):
    sides = Sides(lambda p, _: step(p), dynamic=dynamic)
    sides.check(lambda f, x, k: f(x).square().mean().backward())
    layers = [layer_of(name) for name in sides.logs[1][-2 * (DEPTH + 1) :]]
    assert sorted(sides.logs[0]) == sorted(sides.logs[1])
    # As in eager, but within a stage.
    assert all(later <= earlier + 8 for earlier, later in zip(layers, layers[1:], strict=False)), layers
    assert layers[0] >= 10 and layers[-1] <= 8, layers


def test_gradients_come_before_the_backward_has_ended():
    sides = Sides()
    for call, log in zip((sides.eager, sides.compiled), sides.logs, strict=True):
        x = torch.randn(5, WIDTH, requires_grad=True)
        x.register_hook(lambda _, log=log: log.append("input"))
        call(x).sum().backward()
        assert len(log) == 2 * (DEPTH + 1) + 1
        assert log.index("input") > 8, log


PROGRAMS = {
    "kept": lambda f, x, k: [f(x).sum().backward(retain_graph=True) for _ in range(2)],
    "twice": lambda f, x, k: (lambda y: (y.backward(), attempt(y.backward)))(f(x).sum()),
    "kept_and_twice": lambda f, x, k: (
        lambda y: (y.backward(retain_graph=True), y.backward(), attempt(y.backward))
    )(f(x).sum()),
    "some_inputs": lambda f, x, k: torch.autograd.grad(f(x).sum(), x),
    "input_then_all": lambda f, x, k: (
        lambda y: (torch.autograd.grad(y, x, retain_graph=True), y.backward(), attempt(y.backward))
    )(f(x).sum()),
    "backward_to_some": lambda f, x, k: f(x).sum().backward(inputs=[x]),
    "differentiated": lambda f, x, k: (
        torch.autograd.grad(f(x).sum(), x, create_graph=True)[0].square().sum().backward()
    ),
    "batched": lambda f, x, k: (
        lambda y: torch.autograd.grad(
            y, x, torch.eye(8)[:, None].expand(8, x.shape[0], 8), is_grads_batched=True, retain_graph=True
        )
    )(f(x)),
    "no_result_is_used": lambda f, x, k: f(x).detach().sum(),
    "only_dropped": lambda f, x, k: f(x) is None,
    "a_tangent_of_zeros": lambda f, x, k: f(x).backward(torch.zeros(x.shape[0], 8)),
    "a_transposed_tangent": lambda f, x, k: f(x).t().square().sum().backward(),
    "input_without_gradient": lambda f, x, k: f(x.detach()).square().sum().backward(),
    "two_calls": lambda f, x, k: (f(x) * f(x * 0.5)).sum().backward(),
    "one_after_the_other": lambda f, x, k: f(torch.cat([f(x)] * (WIDTH // 8), 1)).sum().backward(),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_as_eager(name):
    Sides().check(PROGRAMS[name])


@pytest.mark.parametrize("name", ["kept", "two_calls", "some_inputs", "twice"])
def test_as_eager_for_all_sizes(name):
    Sides(dynamic=True).check(PROGRAMS[name])


def test_hooks_on_saved_tensors():
    def program(f, x, k):
        with torch.autograd.graph.save_on_cpu():
            y = f(x).sum()
        y.backward()

    Sides().check(program)


def test_anomaly_mode():
    def program(f, x, k):
        loss = f(x).square().mean()
        with torch.autograd.detect_anomaly(check_nan=True):
            loss.backward()

    with pytest.warns(UserWarning, match="Anomaly"):
        Sides().check(program)


@pytest.mark.parametrize("at", ["16.bias", "8.weight", "0.bias"])
def test_a_hook_raises(at):
    """What came later in the backward has not happened, and the graph is gone, or there for the next backward."""
    raises = []

    def hook(p, name):
        if name == at and raises:
            raise ValueError(name)

    sides = Sides(hook)

    def program(f, x, k):
        y = f(x).sum()
        raises.append(1)
        first = attempt(lambda: y.backward(retain_graph=True))
        raises.clear()
        for one in (sides.eager, sides.model):
            one.zero_grad()
        x.grad = None
        return first, attempt(y.backward), attempt(y.backward)

    sides.check(program)


def test_a_hook_writes_to_what_is_read_later():
    models = []

    def hook(p, name):
        if name == "16.weight":
            for model in models:
                with torch.no_grad():
                    model[2].weight.mul_(0.5)

    sides = Sides(hook)
    for model, call in ((sides.eager, sides.eager), (sides.model, sides.compiled)):
        models[:] = [model]
        y = call(torch.ones(3, WIDTH, requires_grad=True)).sum()
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.backward()


def test_a_hook_runs_another_backward():
    within = []

    def hook(p, name):
        if name in ("14.weight", "6.bias") and within:
            within.pop().backward()

    sides = Sides(hook)

    def program(f, x, k):
        within[:] = [f(x * 0.25).sum(), f(x * 0.5).sum()]
        f(x).sum().backward()

    sides.check(program)


def test_hooks_come_and_go():
    sides = Sides()
    sides.check(lambda f, x, k: f(x).sum().backward())
    for model in (sides.eager, sides.model):
        for p in model.parameters():
            p._post_accumulate_grad_hooks.clear()
    sides.check(lambda f, x, k: f(x).sum().backward())
    for model in (sides.eager, sides.model):
        for p in model.parameters():
            p.register_post_accumulate_grad_hook(step)
    sides.check(lambda f, x, k: f(x).square().mean().backward())


class Tied(nn.Module):
    """A weight that the first and the last layers share, scales between them, and two results."""

    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.randn(WIDTH, WIDTH) * 0.05)
        self.scales = nn.ParameterList(torch.rand(WIDTH) + 0.5 for _ in range(DEPTH))
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(DEPTH))

    def forward(self, x):
        x = x @ self.table
        for scale, layer in zip(self.scales, self.layers, strict=True):
            x = x + torch.tanh(layer(x) * scale) * scale
        logits = x @ self.table.t()
        return logits.square().mean(), logits


def tied():
    torch.manual_seed(1)
    return Tied()


TIED_PROGRAMS = {
    "loss": lambda f, x, k: f(x)[0].backward(),
    "logits": lambda f, x, k: f(x)[1].mean().backward(),
    "both": lambda f, x, k: sum(one.mean() for one in f(x)).backward(),
    "one_then_the_other": lambda f, x, k: (
        lambda loss, logits: (loss.backward(retain_graph=True), logits.mean().backward(), attempt(loss.backward))
    )(*f(x)),
    "the_other_is_gone": lambda f, x, k: (lambda loss, logits: (loss.backward(), attempt(logits.mean().backward)))(
        *f(x)
    ),
}


@pytest.mark.parametrize("stepped", [False, True])
@pytest.mark.parametrize("name", TIED_PROGRAMS)
def test_tied_weights(name, stepped):
    if stepped and name in ("one_then_the_other", "the_other_is_gone"):
        pytest.skip("a graph whose weights are stepped does not run twice")
    Sides((lambda p, _: step(p)) if stepped else None, make=tied).check(TIED_PROGRAMS[name])


class Within(Tied):
    """Results of which others are computed: states between the layers, a view, and what a loss is made of."""

    def forward(self, x):
        x = x @ self.table
        states = []
        for scale, layer in zip(self.scales, self.layers, strict=True):
            x = x + torch.tanh(layer(x) * scale) * scale
            states.append(x)
        logits = x @ self.table.t()
        return logits.square().mean(), logits, states[2], states[5].t()


def within():
    torch.manual_seed(1)
    return Within()


def looked_at(f, x, k, backward):
    loss, logits, early, late = f(x)
    seen = []
    logits.retain_grad()
    early.register_hook(lambda g: seen.append(g.clone()))
    late.register_hook(lambda g: g * 0.5)
    return backward(loss, logits, early, late), logits.grad, seen


INNER_PROGRAMS = {
    "nobody_looks": lambda f, x, k: f(x)[0].backward(),
    "loss": lambda f, x, k: looked_at(f, x, k, lambda loss, *_: loss.backward()),
    "early": lambda f, x, k: looked_at(f, x, k, lambda loss, logits, early, late: early.mean().backward()),
    "all": lambda f, x, k: looked_at(f, x, k, lambda *all: sum(one.square().mean() for one in all).backward()),
    "kept": lambda f, x, k: looked_at(
        f, x, k, lambda loss, *_: (loss.backward(retain_graph=True), loss.backward(), attempt(loss.backward))
    ),
    "asked_for": lambda f, x, k: (
        lambda loss, logits, early, late: (
            torch.autograd.grad(loss, (early, logits), retain_graph=True),
            torch.autograd.grad(logits.mean(), (early, x), retain_graph=True),
            loss.backward(),
            attempt(early.mean().backward),
        )
    )(*f(x)),
    "sometimes": lambda f, x, k: (
        looked_at(f, x, k, lambda loss, *_: loss.backward()) if k % 2 else f(x)[0].backward()
    ),
    "a_result_alone": lambda f, x, k: (lambda late: late.square().mean().backward())(f(x)[3]),
}


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("name", INNER_PROGRAMS)
def test_results_that_others_are_computed_from(name, dynamic):
    Sides(make=within, dynamic=dynamic).check(INNER_PROGRAMS[name])


def test_stages_where_nobody_looks_at_results_within():
    sides = Sides(lambda p, _: step(p), make=within)
    sides.check(lambda f, x, k: f(x)[0].backward())
    late = [n for n in sides.logs[1] if n.startswith("layers.7")]
    assert sides.logs[1].index(late[0]) < sides.logs[1].index("layers.0.weight"), sides.logs[1]


def test_data_is_given_before_and_within_the_backward():
    def hook(p, name):
        p.data = p.data - 0.1 * p.grad

    sides = Sides(hook, make=tied)

    def program(f, x, k):
        loss, _ = f(x)
        if k:
            model = sides.eager if f is sides.eager else sides.model
            for scale in model.scales:
                scale.data = scale.data * 0.5
        loss.backward()

    sides.check(program)
