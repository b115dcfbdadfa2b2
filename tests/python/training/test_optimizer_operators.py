"""What optimizers are written with: operators on lists, fused updates, numbers that a tensor of steps decides."""

import pytest
import torch
from torch.optim import adagrad, adam, rmsprop, sgd

import braze

SIZES = [(3,), (16, 8), (5, 7, 2), ()]


def tensors(seed, dtype=torch.float32, positive=False):
    torch.manual_seed(seed)
    made = [torch.randn(size).to(dtype) for size in SIZES]
    return [t.abs() for t in made] if positive else made


def steps(n=0.0):
    return [torch.tensor(n) for _ in SIZES]


def run_adam(kind, dtype=torch.float32, **options):
    options = dict(amsgrad=True, beta1=0.9, beta2=0.999, weight_decay=0.01, eps=1e-8, maximize=False) | options
    state = [tensors(0, dtype), tensors(1, dtype), tensors(2, dtype), *[tensors(k, dtype, True) for k in (3, 4)]]
    state.append(steps(2.0))

    def step(p, g, a, s, m, n):
        foreach, fused = kind == "foreach", kind == "fused"
        scaler = dict(grad_scale=None, found_inf=None)
        m = m if options["amsgrad"] else []
        adam.adam(p, g, a, s, m, n, foreach=foreach, fused=fused, lr=0.01, **scaler, **options)

    return step, state


def run_sgd(kind, **options):
    options = dict(weight_decay=0.01, momentum=0.9, lr=0.1, dampening=0.1, nesterov=False, maximize=False) | options
    state = [tensors(0), tensors(1), tensors(2)]

    def step(p, g, m):
        sgd.sgd(p, g, list(m), foreach=kind == "foreach", fused=kind == "fused", has_sparse_grad=False, **options)

    return step, state


def run_rmsprop(kind):
    state = [tensors(0), tensors(1), tensors(2, positive=True), tensors(3), tensors(4), steps()]
    options = dict(lr=0.01, alpha=0.99, eps=1e-8, weight_decay=0.01, momentum=0.9, centered=False)
    return lambda *state: rmsprop.rmsprop(*state, foreach=kind == "foreach", **options), state


def run_adagrad(kind):
    state = [tensors(0), tensors(1), tensors(2, positive=True), steps(3.0)]
    options = dict(lr=0.01, weight_decay=0.01, lr_decay=0.1, eps=1e-8, maximize=False)
    forms = dict(foreach=kind == "foreach", fused=kind == "fused")
    return lambda *state: adagrad.adagrad(*state, has_sparse_grad=False, **forms, **options), state


CASES = {
    "adam": run_adam,
    "adamw": lambda kind: run_adam(kind, decoupled_weight_decay=True),
    "adam, maximized": lambda kind: run_adam(kind, maximize=True, amsgrad=False),
    "sgd": run_sgd,
    "sgd, nesterov": lambda kind: run_sgd(kind, nesterov=True, dampening=0.0),
    "rmsprop": run_rmsprop,
    "adagrad": run_adagrad,
}


@pytest.mark.parametrize("kind", ["single", "foreach", "fused"])
@pytest.mark.parametrize("name", CASES)
def test_a_step_is_eagers(name, kind):
    if kind == "fused" and name == "rmsprop":
        pytest.skip("PyTorch has none")
    step, state = CASES[name](kind)
    _, eager = CASES[name](kind)
    fast = braze.compile(step, fullgraph=True)
    with torch.no_grad():
        for _ in range(50):
            fast(*state)
            step(*eager)
    for ours, theirs in zip(state, eager, strict=True):
        for a, b in zip(ours, theirs, strict=True):
            torch.testing.assert_close(a, b, rtol=2e-5, atol=2e-6)
    assert fast.counts()["captured"] == 1, fast.counts()


@pytest.mark.parametrize("kind", ["single", "foreach"])
def test_half_precision(kind):
    step, state = run_adam(kind, torch.bfloat16)
    _, eager = run_adam(kind, torch.bfloat16)
    fast = braze.compile(step, fullgraph=True)
    with torch.no_grad():
        fast(*state)
        step(*eager)
    for ours, theirs in zip(state, eager, strict=True):
        for a, b in zip(ours, theirs, strict=True):
            torch.testing.assert_close(a, b, rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("infinite", [0.0, 1.0])
def test_a_scaler_skips_the_step(infinite):
    def step(p, g, a, s, n, scale, found):
        torch._fused_adam_(
            p, g, a, s, [], n, lr=0.1, beta1=0.9, beta2=0.99, weight_decay=0.0, eps=1e-8,
            amsgrad=False, maximize=False, grad_scale=scale, found_inf=found,
        )  # fmt: skip

    both = []
    for f in (step, braze.compile(step, fullgraph=True)):
        state = [tensors(0), tensors(1), tensors(2), tensors(3, positive=True), steps(1.0)]
        with torch.no_grad():
            f(*state, torch.tensor(4.0), torch.tensor(infinite))
        both.append(state)
    for theirs, ours in zip(*both, strict=True):
        for a, b in zip(ours, theirs, strict=True):
            torch.testing.assert_close(a, b)


@pytest.mark.parametrize("foreach", [False, True])
def test_gradients_are_clipped(foreach):
    def clip(parameters):
        return torch.nn.utils.clip_grad_norm_(parameters, 0.5, foreach=foreach)

    both = []
    for f in (clip, braze.compile(clip)):
        parameters = [torch.nn.Parameter(t) for t in tensors(0)]
        for p, g in zip(parameters, tensors(1), strict=True):
            p.grad = g
        norms = [f(parameters) for _ in range(3)]
        both.append([*norms, *[p.grad for p in parameters]])
    for a, b in zip(*both, strict=True):
        torch.testing.assert_close(a, b)


def lists(op, *arguments):
    def f(a, b):
        return op(a, *[b if argument is None else argument for argument in arguments])

    return f


FOREACH = {
    "add": lists(torch._foreach_add, None),
    "add scaled": lambda a, b: torch._foreach_add(a, b, alpha=0.5),
    "mul by numbers": lists(torch._foreach_mul, [1.0, 2.0, 3.0, 4.0]),
    "mul by a tensor": lambda a, b: torch._foreach_mul(a, b[3]),
    "norm": lists(torch._foreach_norm, 2),
    "lerp": lists(torch._foreach_lerp, None, 0.3),
    "max": lists(torch._foreach_maximum, None),
    "sqrt": lambda a, b: torch._foreach_sqrt(torch._foreach_abs(a)),
    "addcdiv": lambda a, b: torch._foreach_addcdiv(a, b, b, torch.tensor([1.0, 2.0, 3.0, 4.0])),
    "pow": lambda a, b: torch._foreach_pow(2.0, a),
    "clamp": lists(torch._foreach_clamp_min, 0.1),
}


@pytest.mark.parametrize("name", FOREACH)
def test_lists(name):
    f = FOREACH[name]
    a, b = tensors(0), tensors(1)
    for ours, theirs in zip(braze.compile(f, fullgraph=True)(a, b), f(a, b), strict=True):
        torch.testing.assert_close(ours, theirs)


def test_gradients_of_lists():
    def f(a, b):
        return sum(t.sum() for t in torch._foreach_mul(torch._foreach_exp(a), b))

    fast = braze.compile(f, fullgraph=True)
    results = []
    for g in (f, fast):
        a = [t.requires_grad_() for t in tensors(0)]
        results.append(torch.autograd.grad(g(a, tensors(1)), a))
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs)
