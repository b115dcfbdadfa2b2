"""What eager saves of inputs and results may not be written to before the backward runs, and all else may: over
many operators, the error comes where eager's does, and the gradient is eager's where none comes."""

from contextlib import nullcontext

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from program_cases import assert_same, attempt, frozen
from torch.autograd.graph import save_on_cpu

import braze

# Of x [3, 4], y [3, 4], w [4]: all of them require grad. Values lie between 0.2 and 0.8.
OPERATORS = {
    # Eager saves the result,
    "exp": lambda x, y, w: x.exp(),
    "expm1": lambda x, y, w: x.expm1(),
    "exp2": lambda x, y, w: x.exp2(),
    "sigmoid": lambda x, y, w: x.sigmoid(),
    "tanh": lambda x, y, w: x.tanh(),
    "sqrt": lambda x, y, w: x.sqrt(),
    "rsqrt": lambda x, y, w: x.rsqrt(),
    "reciprocal": lambda x, y, w: x.reciprocal(),
    "relu": lambda x, y, w: (x - 0.5).relu(),
    "elu": lambda x, y, w: F.elu(x - 0.5),
    "softmax": lambda x, y, w: x.softmax(1),
    "log_softmax": lambda x, y, w: x.log_softmax(1),
    "tan": lambda x, y, w: x.tan(),
    "cumprod": lambda x, y, w: x.cumprod(1),
    "prod": lambda x, y, w: x.prod(1),
    "amax": lambda x, y, w: x.amax(1),
    "norm": lambda x, y, w: x.norm(dim=1),
    "logsumexp": lambda x, y, w: x.logsumexp(1),
    "dropout": lambda x, y, w: F.dropout(x, 0.5),
    "layer_norm": lambda x, y, w: F.layer_norm(x, (4,), w),
    # the operands,
    "mul": lambda x, y, w: x * y,
    "square": lambda x, y, w: x.square(),
    "pow": lambda x, y, w: x.pow(3),
    "pow_of_two": lambda x, y, w: x.pow(y),
    "div": lambda x, y, w: x / y,
    "sin": lambda x, y, w: x.sin(),
    "cos": lambda x, y, w: x.cos(),
    "log": lambda x, y, w: x.log(),
    "gelu": lambda x, y, w: F.gelu(x),
    "silu": lambda x, y, w: F.silu(x),
    "softplus": lambda x, y, w: F.softplus(x),
    "hardtanh": lambda x, y, w: F.hardtanh(x, 0.3, 0.6),
    "clamp": lambda x, y, w: x.clamp(0.3, 0.6),
    "abs": lambda x, y, w: x.abs(),
    "mm": lambda x, y, w: x @ y.T,
    "linear": lambda x, y, w: F.linear(x, y),
    "matvec": lambda x, y, w: x @ w,
    "atan2": lambda x, y, w: x.atan2(y),
    "maximum": lambda x, y, w: torch.maximum(x, y),
    "where": lambda x, y, w: torch.where(x > 0.5, x, y),
    "lerp": lambda x, y, w: x.lerp(y, w),
    "addcmul": lambda x, y, w: torch.addcmul(x, y, w),
    "scaled": lambda x, y, w: x * w,
    "normed": lambda x, y, w: F.rms_norm(x, (4,), w),
    "mse": lambda x, y, w: F.mse_loss(x, y, reduction="none"),
    # or neither.
    "add": lambda x, y, w: x + y,
    "sub": lambda x, y, w: x - w,
    "neg": lambda x, y, w: -x,
    "by_a_number": lambda x, y, w: x * 2.5,
    "sum": lambda x, y, w: x.sum(1),
    "mean": lambda x, y, w: x.mean(0),
    "cumsum": lambda x, y, w: x.cumsum(1),
    "cat": lambda x, y, w: torch.cat([x, y]),
    "flip": lambda x, y, w: x.flip(1),
    "clone": lambda x, y, w: x.clone(),
    "expanded": lambda x, y, w: w.expand(3, 4) + x,
    "cast": lambda x, y, w: x.double(),
    # Several, of which some compute what others save.
    "chain": lambda x, y, w: (x * w).sin().exp(),
    "gated": lambda x, y, w: F.silu(x * w) * y,
    "result_is_read": lambda x, y, w: (x * w).exp().sin(),
    "sum_of_results": lambda x, y, w: x.exp() + x.sigmoid(),
    "copy_is_saved": lambda x, y, w: (x.clone() * w).cos(),
}


def both_results(operator):
    """The operator's own result, and what goes on from it."""

    def function(x, y, w):
        result = operator(x, y, w)
        return result, result.float() * 1.5

    return function


def with_a_chain(operator):
    """The result goes on into operators that save theirs."""

    def function(x, y, w):
        result = operator(x, y, w)
        return result, (result.float() * 1.5).sin().exp()

    return function


WRITES = {
    "nothing": lambda x, y, w, r, s: None,
    "result": lambda x, y, w, r, s: r.mul_(0.5),
    "next": lambda x, y, w, r, s: s.mul_(0.5),
    "x": lambda x, y, w, r, s: x.mul_(0.5),
    "y": lambda x, y, w, r, s: y.mul_(0.5),
    "w": lambda x, y, w, r, s: w.mul_(0.5),
    "data_of_result": lambda x, y, w, r, s: r.data.mul_(0.5),
    "data_of_x": lambda x, y, w, r, s: x.data.mul_(0.5),
    "data_of_y": lambda x, y, w, r, s: y.data.mul_(0.5),
    "data_of_w": lambda x, y, w, r, s: w.data.mul_(0.5),
    "memory_of_x": lambda x, y, w, r, s: np.multiply(x.detach().numpy(), 0.5, out=x.detach().numpy()),
    "x_is_set": lambda x, y, w, r, s: x.set_(x * 0.5),
    "data_of_x_is_set": lambda x, y, w, r, s: x.data.set_(x * 0.5),
    "x_is_assigned": lambda x, y, w, r, s: setattr(x, "data", x.data * 0.5),
    "w_is_assigned": lambda x, y, w, r, s: setattr(w, "data", w.data * 0.5),
}


def outcomes(function, write, of_next, kept):
    torch.manual_seed(0)
    for _ in range(2):
        x, y, w = (torch.rand(*sizes).mul_(0.6).add_(0.2).requires_grad_() for sizes in ((3, 4), (3, 4), (4,)))
        with kept():
            results = function(x, y, w)
        with torch.no_grad():
            write(x, y, w, *results)
        raised = attempt(results[of_next].sum().backward)
        # Of an error's backward, eager's has accumulated what came before it.
        yield raised or [frozen(t.grad) for t in (x, y, w)]


@pytest.mark.parametrize(
    ("dynamic", "kept"),
    [(None, nullcontext), (True, nullcontext), (None, save_on_cpu)],
    ids=["", "any_size", "kept_on_cpu"],
)
@pytest.mark.parametrize("around", [both_results, with_a_chain])
@pytest.mark.parametrize("name", OPERATORS)
def test_written_before_the_backward(name, around, dynamic, kept):
    function = around(OPERATORS[name])
    compiled = braze.compile(function, dynamic=dynamic)
    wrong = []
    for written, write in WRITES.items():
        for of_next in (False, True):
            expected = list(outcomes(function, write, of_next, kept))
            try:
                assert_same(list(outcomes(compiled, write, of_next, kept)), expected)
            except AssertionError as error:
                wrong.append(f"{written}, backward of {'the next' if of_next else 'the first'}: {error}"[:300])
    assert not wrong, "\n".join(wrong)
    assert compiled.counts()["native"] == 0, compiled.reasons()
