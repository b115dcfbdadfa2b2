"""torch.masked within a graph: tensors and masks apart, in one graph, with gradients."""

import pytest
import torch
from torch import masked

import braze
from braze._load import C

pytestmark = pytest.mark.skipif(not hasattr(C, "CompiledFunction"), reason="no evaluator for this Python")

AMONG_ROWS = [
    "sum",
    "prod",
    "mean",
    "amax",
    "amin",
    "std",
    "var",
    "median",
    "softmax",
    "softmin",
    "log_softmax",
    "cumsum",
    "cumprod",
    "logsumexp",
]


def along_rows(function):
    return lambda x, m: function(x, 1, mask=m)


def by_norm(function):
    return lambda x, m: function(x, 2, 1, mask=m)


def places(function):
    return lambda x, m: function(x.detach(), 1, mask=m).float() + x.sum(1)


CALLS = {
    **{name: along_rows(getattr(masked, name)) for name in AMONG_ROWS},
    **{name: by_norm(getattr(masked, name)) for name in ("norm", "normalize")},
    **{name: places(getattr(masked, name)) for name in ("argmax", "argmin")},
    "without a mask": lambda x, m: masked.sum(x) + masked.mean(x, 0),
    "all at once": lambda x, m: masked.sum(x, mask=m),
    "logaddexp": lambda x, m: masked.logaddexp(x, x + 1, input_mask=m, other_mask=m),
}


def inputs(step, wants_gradients):
    x = torch.randn(4, 5, generator=torch.Generator().manual_seed(step))
    mask = x > -0.5
    mask[:, 0] = True
    return x.requires_grad_(wants_gradients), mask


@pytest.mark.parametrize("wants_gradients", [False, True])
@pytest.mark.parametrize("name", CALLS)
def test_as_eager(name, wants_gradients):
    compiled = braze.compile(CALLS[name], fullgraph=True)
    for step in range(3):
        results = []
        for function in (compiled, CALLS[name]):
            x, mask = inputs(step, wants_gradients)
            y = function(x, mask)
            if wants_gradients:
                torch.where(y.isfinite(), y, 0.0).sum().backward()
            results.append((y.detach(), x.grad))
        torch.testing.assert_close(*results, equal_nan=True)
    assert compiled.counts() | {"captured": 1, "native": 0} == compiled.counts()


@pytest.mark.filterwarnings("ignore")
def test_tensors_with_masks_are_as_in_eager():
    def function(x):
        tensor = masked.masked_tensor(x, x > 0)
        return masked.sum(tensor, 1), (tensor * 2).to_tensor(0.0)

    compiled = braze.compile(function)
    for step in range(3):
        x, _ = inputs(step, False)
        torch.testing.assert_close(compiled(x), function(x))
