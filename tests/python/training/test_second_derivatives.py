"""Second derivatives of single operators, and of what is refused by name as its forward cannot be run again."""

import gradient_sweep
import opinfo_sweep
import pytest
import torch
from against_eager import tensors
from torch.autograd import grad

import braze


def exponential(backward):
    """A function whose gradient is computed by backward(gradient, x)."""

    class Exponential(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.exp()

        @staticmethod
        def backward(ctx, gradient):
            return backward(gradient, ctx.saved_tensors[0])

    return Exponential


def without_graph(gradient, x):
    with torch.no_grad():
        return gradient * x.exp()


def by_mode(gradient, x):
    return gradient * (x.exp() if torch.is_grad_enabled() else x.detach().exp())


class Same(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.detach()

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2


WithoutGraph, ByMode = exponential(without_graph), exponential(by_mode)
Detached = exponential(lambda gradient, x: gradient * x.detach().exp())
OfData = exponential(lambda gradient, x: gradient * x.data.exp())

Clipped = exponential(lambda gradient, x: gradient.clamp(-1, 1) * x.exp())

count = torch.ones(())


def counted(x):
    count.add_(1)
    return (x * count).exp()


REFUSED = {
    "a gradient without a graph": (lambda x: WithoutGraph.apply(x.sin()), "grad mode"),
    "a gradient that asks for the mode": (lambda x: ByMode.apply(x.sin()), "grad mode"),
    "a gradient that detaches": (lambda x: Detached.apply(x.sin()), "detaches"),
    "a gradient that reads data": (lambda x: OfData.apply(x.sin()), "detaches"),
    "a gradient that is clipped": (lambda x: Clipped.apply(x.sin()), "not known to be linear.*clamp"),
    "a function that gives what it is given": (lambda x: Same.apply(x.sin()).exp(), "was there before"),
    "a tensor that is read and written": (counted, "writes to"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    function, reason = REFUSED[name]
    f = braze.compile(function)
    for _ in range(2):
        x = torch.ones(3, requires_grad=True)
        (g,) = grad(f(x).sum(), x, create_graph=True)
        with pytest.raises(RuntimeError, match=f"cannot be differentiated again.*{reason}"):
            g.sum().backward()


def test_large_inputs_are_held_once_it_is_known_that_they_are_needed():
    f = braze.compile(lambda x: x.exp() * 2)
    w = torch.ones(300, 300, requires_grad=True)
    (g,) = grad(f(w + 1).sum(), w, create_graph=True)
    with pytest.raises(RuntimeError, match="is gone"):
        g.sum().backward()
    (g,) = grad(f(w + 1).sum(), w, create_graph=True)
    (second,) = grad(g.sum(), w)
    torch.testing.assert_close(second, (w + 1).exp().detach() * 2)


def test_the_first_derivative_is_the_programs():
    f = braze.compile(lambda x: x.exp() * x)
    x = torch.ones(3, requires_grad=True)
    (g,) = grad(f(x).sum(), x, create_graph=True)
    assert g.grad_fn.name() == "BrazeBackwardBackward"
    assert f.counts() == {"captured": 1, "replayed": 0, "native": 0}


# Of a tensor of a size that varies, and a float that does.
VARYING = {
    "a factor": lambda x, s: (x * s).exp() * s,
    "a divisor": lambda x, s: (x / s).sin(),
    "a summand": lambda x, s: (x + s).tanh(),
    "an exponent": lambda x, s: (x.abs() + 1) ** s,
    "a plain argument": lambda x, s: torch.nn.functional.elu(x, alpha=s),
    "a bound": lambda x, s: (x * x * x).clamp(max=s),
    "a weight": lambda x, s: torch.lerp(x * x * x, x.exp(), s),
    "within where": lambda x, s: torch.where(x > 0, x * x * x * s, x * x),
    "a size": lambda x, s: (x * x * x).sum() / x.shape[0],
    "of a size": lambda x, s: (x**3) * x.shape[0] ** -0.5,
    "an integer": lambda x, s: x**3 * int(s * 4),
}


@pytest.mark.parametrize("name", VARYING)
def test_numbers_that_vary(name):
    function = VARYING[name]
    compiled = braze.compile(function)
    torch.manual_seed(0)
    for number in (1.0, 1.5, 2.5, 3.5):
        values = torch.randn(3 + int(number))
        seconds = []
        for call in (function, compiled):
            x = values.clone().requires_grad_()
            (first,) = grad(call(x, number).sum(), x, create_graph=True)
            seconds.append(grad(first.sum(), x)[0])
        torch.testing.assert_close(seconds[1], seconds[0])
    assert compiled.counts()["native"] == 0, compiled.reasons()


PARTS = 8
# Autograd has a formula for a GPU's kernel, which the tape does not keep.
REFUSED_ON_GPU = {"nn.functional.rms_norm"}


def second_derivatives(function, args, kwargs):
    """None: there are none."""
    torch.manual_seed(0)
    leaves = [leaf for leaf in tensors((args, kwargs)) if leaf.requires_grad]
    results = [
        each for each in tensors(function(*args, **kwargs)) if each.requires_grad and each.is_floating_point()
    ]
    if not results or any(each.layout != torch.strided for each in results):
        return None
    ramps = [torch.linspace(0.5, 1.5, each.numel()).reshape(each.shape) for each in results]
    first = grad(results, leaves, ramps, create_graph=True, allow_unused=True)
    first = [each for each in first if each is not None and each.requires_grad]
    ramps = [torch.linspace(0.2, 1.1, each.numel()).reshape(each.shape) for each in first]
    second = grad(first, leaves, ramps, allow_unused=True) if first else []
    return [torch.zeros_like(x) if s is None else s for s, x in zip(second, leaves, strict=bool(first))]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("part", range(PARTS))
def test_operators(part):
    """One sample of each."""
    compared, device = 0, torch.get_default_device().type
    for op in [op for op in gradient_sweep.operators(device) if op.supports_gradgrad][part::PARTS]:
        sample = next(iter(op.sample_inputs(device, torch.float32)), None)
        if sample is None:
            continue
        args, kwargs = gradient_sweep.differentiable(((sample.input, *sample.args), sample.kwargs))
        call = lambda *args, op=op, **kwargs: op(*args, **kwargs)  # noqa: E731
        try:
            theirs = second_derivatives(call, args, kwargs)
        except Exception:  # Eager's own limits.
            continue
        if theirs is None:
            continue
        if device == "cuda" and opinfo_sweep.name_of(op) in REFUSED_ON_GPU:
            with pytest.raises(
                RuntimeError, match="^braze: the (function|backward of a compiled function) cannot be"
            ):
                second_derivatives(braze.compile(call), args, kwargs)
            continue
        ours = second_derivatives(braze.compile(call), args, kwargs)
        for k, one in enumerate(theirs):  # Where eager's gradient is a constant, ours has nothing to add.
            text = lambda text, op=op: f"{op.name}: {text}"  # noqa: E731
            torch.testing.assert_close(ours[k], one, equal_nan=True, rtol=2e-3, atol=2e-4, msg=text)
        compared += 1
    assert compared > 20


def begun_without_gradients(x):
    with torch.enable_grad():
        return (x.sin() * x).sum()


def resumed_without_gradients(x):
    with torch.no_grad():
        print(end="")
        with torch.enable_grad():
            y = x * 3
    return (y * y * y).sum()


@pytest.mark.parametrize("function", [begun_without_gradients, resumed_without_gradients])
def test_graphs_that_begin_without_gradients_are_refused_by_name(function):
    """Nothing says there how the forward is repeated."""
    compiled = braze.compile(function)
    for _ in range(3):
        x = torch.randn(3, requires_grad=True)
        with torch.set_grad_enabled(function is not begun_without_gradients):
            y = compiled(x)
        (first,) = torch.autograd.grad(y, x, create_graph=True)
        with pytest.raises(RuntimeError, match="gradients were not recorded where its graph began"):
            torch.autograd.grad(first.sum(), x)
