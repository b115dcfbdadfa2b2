"""`torch.func` over compiled functions and within them: eager's results, or eager itself with a reason."""

import copy
import functools
import warnings

import pytest
import torch
from torch import nn
from torch.autograd import forward_ad
from torch.func import (
    functional_call,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    stack_module_state,
    vjp,
    vmap,
)

import braze


def scalar(x, w):
    return ((x @ w).tanh() * x.sum()).pow(2).mean()


def vector(x, w):
    return torch.softmax(x @ w, dim=-1) + x[..., :1].sin()


X, W = torch.linspace(-1, 1, 12).reshape(3, 4), torch.linspace(0.5, -0.7, 20).reshape(4, 5)

# By name: what is compiled, and what transforms it.
TRANSFORMS = {
    "grad": lambda f: grad(f)(X, W),
    "grad of both": lambda f: grad(f, argnums=(0, 1))(X, W),
    "grad and value": lambda f: grad_and_value(f)(X, W),
    "grad of grad": lambda f: grad(lambda x: grad(f)(x, W).pow(2).sum())(X),
    "per-sample gradients": lambda f: vmap(grad(f, argnums=1), in_dims=(0, None))(X, W),
}
OF_VECTORS = {
    "vmap": lambda f: vmap(f, in_dims=(0, None))(X, W),
    "vmap of vmap": lambda f: vmap(vmap(f, in_dims=(0, None)), in_dims=(0, None))(X.expand(2, 3, 4), W),
    "jvp": lambda f: jvp(lambda x: f(x, W), (X,), (X.cos(),)),
    "vjp": lambda f: (lambda value, pull: (value, pull(torch.ones_like(value))))(*vjp(f, X, W)),
    "jacrev": lambda f: jacrev(f)(X, W),
    "jacfwd": lambda f: jacfwd(f)(X, W),
    "hessian": lambda f: hessian(lambda x: f(x, W).sum())(X),
}
CASES = [(name, scalar, TRANSFORMS[name]) for name in TRANSFORMS] + [
    (name, vector, OF_VECTORS[name]) for name in OF_VECTORS
]
cases = pytest.mark.parametrize(
    ("function", "transform"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)


def same(ours, theirs):
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


@cases
def test_of_a_compiled_function(function, transform):
    compiled = braze.compile(function)
    for _ in range(3):
        same(transform(compiled), transform(function))
    # Without a transform it is as ever.
    for _ in range(3):
        same(compiled(X, W), function(X, W))


@cases
def test_within_a_compiled_function(function, transform):
    compiled = braze.compile(lambda scale: [transform(function), X * scale])
    for scale in (torch.tensor(1.0), torch.tensor(2.0), torch.tensor(3.0)):
        same(compiled(scale), [transform(function), X * scale])


@cases
def test_a_compiled_function_that_has_programs_is_transformed(function, transform):
    compiled = braze.compile(function)
    w = W.clone().requires_grad_()
    for _ in range(2):
        same(compiled(X, W), function(X, W))
        compiled(X, w).sum().backward()
    same(transform(compiled), transform(function))


def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 2))


@pytest.mark.parametrize("within", [False, True])
def test_functional_call(within):
    model = net()
    if within:
        call = braze.compile(lambda parameters, x: functional_call(model, parameters, (x,)))
    else:
        compiled = braze.compile(model)
        call = lambda parameters, x: functional_call(compiled, parameters, (x,))  # noqa: E731
    for k in range(4):
        names = dict(model.named_parameters())
        own = {name: (p.detach() * (1 + k)).requires_grad_() for name, p in names.items()}
        others = {name: p.detach().clone().requires_grad_() for name, p in own.items()}
        prefix = "" if within else "_orig_mod."
        has_prefix = not within and any(name.startswith(prefix) for name, _ in compiled.named_parameters())
        ours = call({(prefix if has_prefix else "") + name: p for name, p in own.items()}, X)
        theirs = functional_call(model, others, (X,))
        same(ours, theirs)
        ours.sum().backward()
        theirs.sum().backward()
        for name in own:
            same(own[name].grad, others[name].grad)
            assert names[name].grad is None


def test_an_ensemble():
    models = [net() for _ in range(3)]
    for k, model in enumerate(models):
        nn.init.constant_(model[0].bias, 0.1 * k)
    parameters, buffers = stack_module_state(models)
    base = net()

    def run(parameters, buffers, x):
        return functional_call(base, (parameters, buffers), (x,))

    compiled = braze.compile(lambda x: vmap(run, in_dims=(0, 0, None))(parameters, buffers, x))
    for k in range(3):
        x = X + k
        same(compiled(x), torch.stack([model(x) for model in models]))


def test_tangents_that_come_from_outside():
    """A tensor with a tangent is nothing that a graph takes; without one it is replayed again."""
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
    compiled = braze.compile(model)
    for call in range(6):
        x = torch.randn(3, 4)
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(x, x.cos()) if call % 2 else x
            ours, theirs = (forward_ad.unpack_dual(each(dual)).tangent for each in (compiled, model))
            assert (ours is None) == (theirs is None) == (call % 2 == 0)
            torch.testing.assert_close(ours, theirs)
        torch.testing.assert_close(compiled(dual), model(x))  # The level is over, and the tangent gone.
    counts = compiled.counts()
    assert counts["native"] == 3 and counts["captured"] <= 2 and counts["replayed"] >= 7, (
        counts,
        compiled.reasons(),
    )


def rows_of(x):
    y = x.exp()
    return (y * 2).sum(-1) + x.mul(3).sin().mean(-1)


DERIVATIVES = {
    "jacobian": lambda f, x: torch.autograd.functional.jacobian(f, x, vectorize=True),
    "jacobian forward": lambda f, x: torch.autograd.functional.jacobian(
        f, x, vectorize=True, strategy="forward-mode"
    ),
    "hessian": lambda f, x: torch.autograd.functional.hessian(lambda y: f(y).sum(), x, vectorize=True),
    "hessian forward": lambda f, x: torch.autograd.functional.hessian(
        lambda y: f(y).sum(), x, vectorize=True, outer_jacobian_strategy="forward-mode"
    ),
}


@pytest.mark.parametrize("name", DERIVATIVES)
def test_many_derivatives_at_once(name):
    """torch.autograd has a vmap of its own, whose tensors have no memory either."""
    expected = DERIVATIVES[name](rows_of, X)
    for compiled in (
        functools.partial(DERIVATIVES[name], braze.compile(rows_of)),
        functools.partial(braze.compile(DERIVATIVES[name]), rows_of),
    ):
        for _ in range(3):
            torch.testing.assert_close(compiled(X), expected)


def functionalized(function):
    """As PyTorch's own tests of functionalization write it: the wrappers have the keys of what they wrap."""

    def to_functional(x):
        wrapped = torch._to_functional_tensor(x)
        wrapped.requires_grad = x.requires_grad
        return wrapped

    def called(x):
        wrapped = to_functional(x)
        torch._enable_functionalization(reapply_views=True)
        try:
            y = function(wrapped)
        finally:
            torch._disable_functionalization()
        torch._sync(wrapped)
        torch._sync(y)
        return torch._from_functional_tensor(wrapped), torch._from_functional_tensor(y)

    return called


def test_functional_tensors():
    def function(x):
        y = torch.empty_strided((2, 2), (5, 1))
        y.copy_(x)
        x.view(-1).add_(y.sum())
        return y

    for compiled in (braze.compile(functionalized(function)), functionalized(braze.compile(function))):
        for call in range(3):
            x = torch.ones(2, 2) + call
            for ours, theirs in zip(compiled(x), functionalized(function)(x), strict=True):
                same(ours, theirs)
                assert ours.stride() == theirs.stride()


def test_nested_tensors_run_natively():
    def function(x):
        return x * 2, x.sin()

    compiled = braze.compile(function)
    for _ in range(3):
        with warnings.catch_warnings(action="ignore"):
            nested = torch.nested.nested_tensor([torch.ones(2, 3), torch.zeros(1, 3)])
        for ours, theirs in zip(compiled(nested), function(nested), strict=True):
            for one, other in zip(ours.unbind(), theirs.unbind(), strict=True):
                torch.testing.assert_close(one, other)
    assert compiled.counts()["native"] == 3
    assert list(compiled.reasons()) == ["an argument that cannot be guarded: x"]


LAYER = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
COMPILED = {
    "vmap": lambda f, layer, x: vmap(f)(x),
    "grad": lambda f, layer, x: grad(lambda y: f(y).sum())(x[0]),
    "per sample": lambda f, layer, x: vmap(jacrev(f))(x),
    "partial": lambda f, layer, x: vmap(functools.partial(f, scale=2.0))(x),
    "vmap of a module": lambda f, layer, x: vmap(layer)(x),
    "jacrev of a module": lambda f, layer, x: jacrev(layer)(x[0]),
}


@pytest.mark.parametrize("name", COMPILED)
def test_a_compiled_function_is_given_to_a_transform_within(name):
    """It is part of the graph, as where it is called; changes of its module are seen."""

    def function(x, scale=1.0):
        return x.sin() * x.sum() * scale

    layer = copy.deepcopy(LAYER)
    inner, compiled_layer = braze.compile(function), braze.compile(layer)
    compiled = braze.compile(lambda x: COMPILED[name](inner, compiled_layer, x))
    for call in range(5):
        if call == 3:
            with torch.no_grad():
                layer[0].weight.mul_(2)
        if call == 4:
            layer[0].weight = nn.Parameter(torch.ones(4, 4))
        same(compiled(X + call), COMPILED[name](function, layer, X + call))
    counts = compiled.counts()
    assert counts["native"] == 0 and counts["captured"] <= 2, (counts, compiled.reasons())


# Losses of which PyTorch's gradients under vmap are Python code that computes with sizes.
LOSSES = {
    "mse": torch.nn.functional.mse_loss,
    "mse of sums": functools.partial(torch.nn.functional.mse_loss, reduction="sum"),
    "l1": torch.nn.functional.l1_loss,
    "smooth": functools.partial(torch.nn.functional.smooth_l1_loss, beta=0.3),
    "huber": functools.partial(torch.nn.functional.huber_loss, delta=0.4),
    "logits": lambda x, y: torch.nn.functional.binary_cross_entropy_with_logits(x, y.sigmoid()),
    "divergence": lambda x, y: torch.nn.functional.kl_div(x.log_softmax(0), y.softmax(0), reduction="sum"),
    "variance": lambda x, y: (x * y).var(),
}


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("name", LOSSES)
def test_gradients_of_each_sample_for_any_sizes(name, dynamic):
    def f(w, x, y):
        return vmap(grad(lambda w, x, y: LOSSES[name](w @ x, y)), (None, 0, 0))(w, x, y)

    compiled = braze.compile(f, dynamic=dynamic)
    data = torch.Generator().manual_seed(0)
    for batch, inner, outer in ((4, 6, 3), (4, 6, 3), (5, 6, 3), (5, 7, 4), (3, 5, 6), (4, 6, 3)):
        w, x, y = (torch.randn(size, generator=data) for size in ((outer, inner), (batch, inner), (batch, outer)))
        torch.testing.assert_close(compiled(w, x, y), f(w, x, y))
