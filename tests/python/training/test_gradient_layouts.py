"""How gradients lie in memory: as eager's, whose engine adds into the gradient that came first."""

from __future__ import annotations

import copy
import itertools

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import braze

LAST = torch.channels_last


class Shared(nn.Module):
    """One convolution of depth one, used several times: channels_last and row-major differ in a dimension of 1."""

    def __init__(self, uses: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.uses = uses

    def forward(self, x):
        for _ in range(self.uses):
            x = self.conv(x).relu()
        return x


@pytest.mark.parametrize(
    ("uses", "of_image", "of_weight"), list(itertools.product((1, 2, 3), (False, True), (False, True)))
)
def test_shared_weights(uses, of_image, of_weight):
    module = Shared(uses)
    x = torch.randn(2, 8, 6, 6)
    if of_image:
        x = x.to(memory_format=LAST)
    if of_weight:
        module = module.to(memory_format=LAST)
    other = copy.deepcopy(module)
    compiled = braze.compile(other)
    for _ in range(3):
        module.zero_grad(), other.zero_grad()
        module(x).square().sum().backward()
        compiled(x).square().sum().backward()
        for theirs, ours in zip(module.parameters(), other.parameters(), strict=True):
            assert ours.grad.stride() == theirs.grad.stride()
            torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-4, atol=1e-4)
    assert compiled.counts()["native"] == 0


LAYOUTS = {
    "rows": lambda x: x,
    "channels_last": lambda x: x.to(memory_format=LAST),
    "permuted": lambda x: x.permute(3, 1, 0, 2).contiguous().permute(2, 1, 3, 0),
    "gaps": lambda x: torch.cat([x, x], 3)[..., : x.shape[3]],
    "transposed": lambda x: x.transpose(1, 2).contiguous().transpose(1, 2),
}
USES = {
    "itself": lambda x: x,
    "square": lambda x: x * x,
    "three times": lambda x: torch.add(x, x, alpha=2),
    "clone": lambda x: x.clone(),
    "flip": lambda x: x.flip(1),
    "permute": lambda x: x.permute(0, 2, 3, 1).sin().permute(0, 3, 1, 2),
    "transpose": lambda x: x.transpose(1, 3).relu().transpose(1, 3),
    "channels_last": lambda x: x.contiguous(memory_format=LAST).sin(),
    "rows": lambda x: x.contiguous().exp(),
    "expand": lambda x: x.sum(1, keepdim=True).expand_as(x),
    "softmax": lambda x: x.softmax(1),
    "cumsum": lambda x: x.cumsum(-1),
    "double": lambda x: x.double().sin().float(),
    "batch norm": lambda x: F.batch_norm(x, None, None, training=True),
}
SHAPES = ((2, 2, 1, 5), (2, 8, 4, 1), (1, 2, 4, 5), (2, 1, 4, 4))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("joined", ["sum", "product", "chain"])
def test_several_uses(layout, shape, joined):
    # A part of all, another one for each case.
    start = SHAPES.index(shape) + 4 * list(LAYOUTS).index(layout)
    pairs = list(itertools.product(USES, USES))[start::23]
    for first, second in pairs:

        def function(x, first=USES[first], second=USES[second]):
            if joined == "chain":
                x = x + first(x)
                return x + second(x)
            return first(x) + second(x) if joined == "sum" else first(x) * second(x)

        x = LAYOUTS[layout](torch.randn(shape)).detach().requires_grad_()
        theirs, ours = function(x), braze.compile(function)(x)
        tangent = torch.randn_like(theirs)
        (wanted,), (found,) = (torch.autograd.grad(y, x, tangent) for y in (theirs, ours))
        assert ours.stride() == theirs.stride(), (first, second)
        assert found.stride() == wanted.stride(), (first, second)
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("kind", ["batch", "group", "instance"])
@pytest.mark.parametrize(
    ("shape", "strides"),
    [
        ((2, 8, 4, 1), (32, 1, 8, 1)),
        ((2, 8, 1, 4), (32, 1, 1, 8)),
        ((1, 2, 4, 1), (8, 1, 2, 1)),
        ((1, 8, 4, 4), (1, 1, 32, 8)),
        ((2, 1, 4, 4), (16, 1, 4, 1)),
        ((2, 1, 4, 4), (16, 99, 4, 1)),
        ((2, 8, 2, 1), (16, 1, 8, 8)),
        ((2, 8, 4, 1, 1), (32, 1, 8, 1, 1)),
        ((2, 8, 4, 4), (256, 1, 64, 8)),
        ((2, 8, 4, 4), (128, 4, 32, 1)),
    ],
)
def test_norms_of_two_layouts(shape, strides, kind, training):
    """ATen's backward of a batch norm is wrong where result and gradient lie otherwise than it expects."""
    weight, bias, mean, variance = torch.randn(3, shape[1]).unbind() + (torch.rand(shape[1]) + 0.5,)
    norms = {
        "batch": lambda x: F.batch_norm(x, mean.clone(), variance.clone(), weight, bias, training=training),
        "group": lambda x: F.group_norm(x, 1, weight, bias) if training else F.group_norm(x, 1),
        "instance": lambda x: F.instance_norm(x, mean.clone(), variance.clone(), weight, bias, training),
    }
    norm = norms[kind]
    x = torch.empty_strided(shape, strides).copy_(torch.randn(shape)).requires_grad_()
    theirs, ours = norm(x), braze.compile(norm)(x)
    assert ours.stride() == theirs.stride()
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
    tangent = torch.randn_like(theirs)
    (wanted,), (found,) = (torch.autograd.grad(y, x, tangent) for y in (theirs, ours))
    assert found.stride() == wanted.stride()
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)
    with torch.no_grad():
        assert braze.compile(norm)(x).stride() == norm(x).stride()


@pytest.mark.parametrize(
    "view", ["reshape(6, 2)", "view(3, 4)", "narrow(0, 1, 2)", "unsqueeze(0)", "t()", "diagonal()"]
)
def test_views_of_an_input_whose_elements_overlap(view):
    """The view's backward is eager's, which takes each element for one of its own."""
    f = eval(f"lambda x: (x.{view}, x * 2)")
    compiled = braze.compile(f)
    for _ in range(3):
        found = []
        for function in (f, compiled):
            x = torch.arange(4.0).expand(3, 4).detach().requires_grad_()
            weights = [torch.arange(1.0, y.numel() + 1).reshape(y.shape) for y in f(x)]
            found += torch.autograd.grad(function(x), x, weights)
        torch.testing.assert_close(*found)
