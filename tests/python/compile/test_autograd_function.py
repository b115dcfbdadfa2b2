"""torch.autograd.Function: where nothing requires grad, its forward is captured like other code."""

import pytest
import torch
from compiling import check, compiled, same

import braze
from braze._load import C

pytestmark = pytest.mark.skipif(not hasattr(C, "CompiledFunction"), reason="no evaluator for this Python")
X = torch.randn(4, 5)


@pytest.fixture(autouse=True)
def no_grad():
    with torch.no_grad():
        yield


class Scaled(torch.autograd.Function):
    factor = 3.0

    @staticmethod
    def forward(ctx, x, power):
        ctx.save_for_backward(x)
        ctx.power = power
        ctx.set_materialize_grads(False)
        if ctx.needs_input_grad[0]:
            return x
        return x**power * Scaled.factor + 1

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient * x * ctx.power, None


class Split(torch.autograd.Function):
    """The newer form: forward without a context."""

    @staticmethod
    def forward(x, scale=2.0):
        return x * scale, (x > 0).sum(-1), "text"

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, scale = inputs
        ctx.save_for_backward(x, output[0])
        ctx.mark_non_differentiable(output[1])
        ctx.scale = scale

    @staticmethod
    def backward(ctx, gradient, *_):
        return gradient * ctx.scale, None


class Identity(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class InPlace(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2


def test_forward_is_captured():
    check(lambda x: Scaled.apply(x + 1, 2) * 2, (X,))


def test_with_setup_context():
    check(lambda x: Split.apply(x + 1), (X,))
    check(lambda x: Split.apply(x + 1, 3.0), (X,))


def test_what_forward_reads_is_guarded():
    fast = compiled(lambda x: Scaled.apply(x, 2))
    same(fast(X), Scaled.apply(X, 2))
    old_forward, old_factor = Scaled.forward, Scaled.factor
    try:
        Scaled.factor = 5.0
        same(fast(X), X**2 * 5 + 1)
        Scaled.forward = staticmethod(lambda ctx, x, power: x - power)
        same(fast(X), X - 2)
    finally:
        Scaled.forward, Scaled.factor = staticmethod(old_forward), old_factor
    same(fast(X), Scaled.apply(X, 2))


def test_a_given_tensor_that_is_returned():
    fast = compiled(lambda x: Identity.apply(x))
    for _ in range(3):
        result, expected = fast(X), Identity.apply(X)
        same(result, expected)
        assert (result is X) == (expected is X)
        assert result.data_ptr() == X.data_ptr()


def test_a_tensor_that_is_changed_in_place():
    fast = compiled(lambda x: InPlace.apply(x) + 1)
    ours, theirs = X.clone(), X.clone()
    for _ in range(3):
        same(fast(ours), InPlace.apply(theirs) + 1)
        same(ours, theirs)
        assert ours._version == theirs._version


def test_gradients_are_eagers():
    fast = compiled(lambda x: Scaled.apply(x, 2).sum())
    with torch.enable_grad():
        x = X.clone().requires_grad_()
        fast(x).backward()
        assert x.grad is not None
        same(x.grad, X * 2)


def test_operators_of_torch_ops():
    def f(x):
        return torch.ops.aten.add(x, 1), torch.ops.aten.mul.Tensor(x, x), torch.ops.aten.relu.default(x)

    check(f, (X,))


@pytest.mark.parametrize("dynamic", [None, True])
def test_packets_with_several_overloads(dynamic):
    """Those that do not fit are tried as well, and tell in their errors what they were given."""
    aten = torch.ops.aten
    index, source = torch.tensor([[0, 1], [1, 0]]), torch.ones(2, 3)

    def f(x):
        y = x + 1
        scattered = aten.scatter(y, -1, index=index, src=source * y), aten.scatter(y, 1, index, 2.5)
        filled = aten.index_fill(y, 0, index[0], y.sum()), aten.masked_fill(y, y > 1, value=y.mean())
        return *scattered, *filled, aten.clamp(y, min=y.mean()), aten.pow(2, y), aten.sum(y), aten.sum(y, [1], True)

    fast = braze.compile(f, dynamic=dynamic)
    x = torch.arange(6.0).reshape(2, 3) / 4
    for value in (x, x + 1, x.flip(0)):
        for one, other in zip(fast(value), f(value), strict=True):
            same(one, other)
    assert fast.counts() == {"captured": 1, "replayed": 2, "native": 0}


def test_a_custom_operator():
    calls = []

    @torch.library.custom_op("braze_test::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        calls.append(x.shape)
        return x * 2

    @twice.register_fake
    def _(x):
        return torch.empty_like(x)

    twice(X)
    del calls[:]
    fast = compiled(lambda x: torch.ops.braze_test.twice(x + 1) * 3)
    for number in range(1, 4):
        same(fast(X), (X + 1) * 2 * 3)
        assert len(calls) == number  # At each replay anew, and not while captured.
    assert fast.counts() == {"captured": 1, "replayed": 2, "native": 0}


def test_an_operator_that_python_decomposes_is_no_part_of_a_graph():
    factor = [2.0]
    library = torch.library.Library("braze_test_composite", "DEF")
    library.define("scaled(Tensor x) -> Tensor")
    library.impl("scaled", lambda x: x * factor[0], "CompositeImplicitAutograd")
    fast = compiled(lambda x: torch.ops.braze_test_composite.scaled(x + 1) + 1)
    for value in (2.0, 2.0, 5.0):
        factor[0] = value
        same(fast(X), (X + 1) * value + 1)
