"""Operators of PyTorch's backward that run as kernels of braze's."""

import pytest
import torch
import torch.nn.functional as F

import braze

CASES = {
    "avg_pool1d": (lambda x: F.avg_pool1d(x, 2), (2, 3, 8), True),
    "avg_pool2d": (lambda x: F.avg_pool2d(x, 2), (2, 3, 8, 10), True),
    "avg_pool2d of three": (lambda x: F.avg_pool2d(x, (3, 2)), (2, 3, 10, 9), True),
    "avg_pool2d by another number": (lambda x: F.avg_pool2d(x, 2, divisor_override=3), (2, 3, 8, 10), True),
    "avg_pool2d without a batch": (lambda x: F.avg_pool2d(x, 2), (3, 8, 10), True),
    "avg_pool3d": (lambda x: F.avg_pool3d(x, (1, 2, 3)), (2, 3, 4, 5, 7), True),
    "avg_pool2d, cut windows": (lambda x: F.avg_pool2d(x, 2, ceil_mode=True), (2, 3, 7, 9), False),
    "avg_pool2d, overlapping": (lambda x: F.avg_pool2d(x, 3, stride=1, padding=1), (2, 3, 7, 9), False),
    "glu": (F.glu, (4, 6, 8), True),
    "glu of the first dimension": (lambda x: F.glu(x, 0), (4, 6, 5), True),
    "prelu": (lambda x: F.prelu(x, torch.full((1,), 0.2).to(x)), (4, 6, 5), True),
    "prelu by channel": (lambda x: F.prelu(x, torch.linspace(-1, 1, 6).to(x)), (4, 6, 5), True),
    "nearest 1d": (lambda x: F.interpolate(x, scale_factor=3), (2, 3, 5), True),
    "nearest 2d": (lambda x: F.interpolate(x, scale_factor=2), (2, 3, 5, 4), True),
    "nearest 2d to a size": (lambda x: F.interpolate(x, size=(15, 28)), (2, 3, 5, 4), True),
    "nearest 3d": (lambda x: F.interpolate(x, scale_factor=(1, 2, 4)), (1, 2, 3, 4, 2), True),
    "nearest exact": (lambda x: F.interpolate(x, scale_factor=2, mode="nearest-exact"), (2, 3, 5, 4), True),
    "nearest 2d, of parts": (lambda x: F.interpolate(x, size=(7, 6)), (2, 3, 5, 4), False),
    "nearest 2d, smaller": (lambda x: F.interpolate(x, scale_factor=0.5), (2, 3, 6, 4), False),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("name", CASES)
def test_gradients(name, dtype):
    function, shape, is_native = CASES[name]
    if name == "avg_pool3d" and dtype == torch.bfloat16:
        pytest.skip("eager has no such kernel")
    torch.manual_seed(0)
    compiled = braze.compile(lambda x: function(x).tanh())
    for _ in range(3):
        one = torch.randn(shape).to(dtype).requires_grad_()
        other = one.detach().clone().requires_grad_()
        ours, theirs = compiled(one), function(other).tanh()
        tangent = torch.randn_like(theirs)
        ours.backward(tangent)
        theirs.backward(tangent)
        # What eager rounds to half between its kernels is not rounded here: nearer to the gradient of f64.
        is_gate = dtype == torch.bfloat16 and name.startswith(("glu", "prelu"))
        tolerance = {"rtol": 2e-2, "atol": 2e-2} if is_gate else {}
        torch.testing.assert_close(ours, theirs, **tolerance)
        torch.testing.assert_close(one.grad, other.grad, **tolerance)
        assert one.grad.stride() == other.grad.stride()
    _, backward = compiled.programs()
    assert "(backward)" in repr(backward)
    calls = [step.name for step in backward.steps if step.kind == "call"]
    assert not is_native or not calls, calls


@pytest.mark.parametrize("name", ["avg_pool2d", "nearest 2d"])
def test_layouts(name):
    function, shape, _ = CASES[name]
    compiled = braze.compile(function)
    for form in (torch.channels_last, torch.contiguous_format):
        one = torch.randn(shape).to(memory_format=form).requires_grad_()
        other = one.detach().clone().requires_grad_()
        compiled(one).pow(2).sum().backward()
        function(other).pow(2).sum().backward()
        torch.testing.assert_close(one.grad, other.grad)


def test_gradcheck():
    x = torch.randn(1, 2, 4, 6, dtype=torch.float64, requires_grad=True)
    for name in ("avg_pool2d", "nearest 2d"):
        assert torch.autograd.gradcheck(braze.compile(CASES[name][0]), x)


def test_gradcheck_of_gates():
    x = torch.randn(4, 6, dtype=torch.float64, requires_grad=True)
    weight = torch.rand(6, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(braze.compile(F.glu), x)
    assert torch.autograd.gradcheck(braze.compile(F.prelu), (x, weight))


def layouts(shape):
    """A tensor of the shape (batch, heads, length, width) in memory of several orders."""
    b, h, n, d = shape
    yield "row-major", lambda: torch.randn(shape)
    yield "by length", lambda: torch.randn(b, n, h, d).transpose(1, 2)
    yield "one head for all", lambda: torch.randn(b, 1, n, d).expand(shape)
    yield "a part", lambda: torch.randn(b, n, h, 3 * d)[..., d : 2 * d].transpose(1, 2)


@pytest.mark.parametrize("masked", ["no mask", "mask", "causal"])
@pytest.mark.parametrize("length", [5, 9])
@pytest.mark.parametrize("layout", range(4))
def test_gradients_of_attention_lie_as_eagers(layout, length, masked):
    _, make = list(layouts((2, 3, length, 8)))[layout]
    _, make_other = list(layouts((2, 3, 5, 8)))[layout]

    def attention(q, k, v):
        mask = torch.ones(q.shape[-2], k.shape[-2]).tril(2).bool() if masked == "mask" else None
        # What is computed of the gradients inside of the program sees their strides too.
        scaled = q * 2, k * 0.5, v
        return F.scaled_dot_product_attention(*scaled, attn_mask=mask, is_causal=masked == "causal")

    compiled = braze.compile(attention)
    for _ in range(3):
        given = [each.requires_grad_() for each in (make(), make_other(), make_other())]
        ours, theirs = compiled(*given), attention(*given)
        torch.testing.assert_close(ours, theirs)
        tangent = torch.randn_like(theirs)
        mine, eagers = (torch.autograd.grad(each, given, tangent) for each in (ours, theirs))
        torch.testing.assert_close(mine, eagers)
        assert [each.stride() for each in mine] == [each.stride() for each in eagers]
    assert compiled.counts()["native"] == 0
