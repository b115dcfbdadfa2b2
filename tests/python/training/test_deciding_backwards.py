"""Backwards in which PyTorch looks at values: where the largest element is, whether a factor is zero."""

import pytest
import torch

import braze

FUNCTIONS = {
    "max": torch.max,
    "min": torch.min,
    "median": torch.median,
    "nanmedian": torch.nanmedian,
    "prod": torch.prod,
    "prod along": lambda x: x.prod(1),
    "prod kept": lambda x: x.prod(0, keepdim=True) * x,
    "cumprod": lambda x: x.cumprod(1),
    "cumprod down": lambda x: x.cumprod(0),
    "max of a product": lambda x: (x * x.sum()).max() * x.min(),
}


def inputs():
    torch.manual_seed(0)
    plain = torch.randn(3, 4)
    ties = plain.clone()
    ties[0, 1] = ties[2, 3] = plain.max()
    ties[1, 1] = ties[2, 2] = plain.min()
    one_zero, zeros, nan, infinite = (plain.clone() for _ in range(4))
    one_zero[1, 2] = 0
    zeros[0, 1] = zeros[2, 1] = zeros[2, 2] = 0
    nan[0, 0] = nan[1, 1] = float("nan")
    infinite[2, 0] = float("inf")
    return [plain, ties, one_zero, zeros, nan, infinite, torch.zeros(3, 4), plain[:1], plain.T.contiguous().T]


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_as_eager(name, dynamic):
    function = FUNCTIONS[name]
    compiled = braze.compile(function, dynamic=dynamic)
    for value in inputs() * 2:
        for scale in (1.0, float("inf")):
            found = []
            for f in (function, compiled):
                x = value.clone().requires_grad_()
                y = f(x)
                y.backward(torch.full_like(y, scale))
                found.append((y.detach(), x.grad))
            for theirs, ours in zip(*found, strict=True):
                torch.testing.assert_close(ours, theirs, equal_nan=True, rtol=1e-4, atol=1e-5)
    assert compiled.counts()["native"] == 0, compiled.reasons()


@pytest.mark.parametrize("name", ["max", "median", "prod"])
def test_of_one_element(name):
    function = FUNCTIONS[name]
    compiled = braze.compile(function)
    for _ in range(3):
        x = torch.tensor(3.0, requires_grad=True)
        compiled(x).backward()
        assert x.grad.item() == 1
