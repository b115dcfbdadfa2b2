"""Tensors of one element where operators take a number (`alpha`, `value`): learning rates that change."""

from __future__ import annotations

import pytest
import torch

import braze

torch.manual_seed(0)
X, Y, Z = torch.randn(3, 4), torch.randn(3, 4), torch.rand(3, 4) + 1

FORMS = {
    "add": lambda t: torch.add(X, Y, alpha=t),
    "method": lambda t: X.add(Y, alpha=t),
    "in_place": lambda t: X.clone().add_(Y, alpha=-t),
    "sub": lambda t: X.sub(Y, alpha=t),
    "addcdiv": lambda t: torch.addcdiv(X, Y, Z, value=t),
    "addcmul_in_place": lambda t: X.clone().addcmul_(Y, Z, value=t),
    "addmm": lambda t: torch.addmm(X[:, :3], X, Y.t(), beta=t, alpha=t),
    "half": lambda t: X.bfloat16().add(Y.bfloat16(), alpha=t),
    "foreach": lambda t: torch._foreach_add([X, Y], [Y, Z], alpha=t)[1],
    "masked_fill": lambda t: X.masked_fill(X > 0, value=t),
    "clamp": lambda t: X.clamp(min=t),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64])
@pytest.mark.parametrize("form", sorted(FORMS))
def test_operators(form, dtype):
    compiled = braze.compile(FORMS[form])
    for value in (2.0, 0.3, -1.0, 3.0):
        given = torch.tensor(value).to(dtype)
        try:
            wanted = FORMS[form](given)
        except RuntimeError as error:
            with pytest.raises(type(error)):
                compiled(given)
            continue
        got = compiled(given)
        assert got.dtype == wanted.dtype
        torch.testing.assert_close(got, wanted)


@pytest.mark.parametrize("form", ["add", "in_place", "sub", "addcdiv", "addcmul_in_place"])
def test_one_program_for_all_rates(form):
    compiled = braze.compile(FORMS[form], fullgraph=True)
    for value in (2.0, 0.3, -1.0):
        torch.testing.assert_close(compiled(torch.tensor(value)), FORMS[form](torch.tensor(value)))
    assert compiled.counts() == {"captured": 1, "replayed": 2, "native": 0}


def test_rates_that_require_grad_are_refused():
    rate = torch.tensor(0.5, requires_grad=True)
    compiled = braze.compile(lambda x: x.add(Y, alpha=rate))
    for _ in range(2):
        with pytest.raises(TypeError, match="argument 'alpha' must be Number, not Tensor"):
            compiled(X)


@pytest.mark.parametrize("in_place", [True, False])
@pytest.mark.parametrize("foreach", [True, False])
@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.Adagrad, torch.optim.Adam])
def test_optimizers(kind, foreach, in_place):
    if foreach and kind is not torch.optim.SGD:
        pytest.skip("refused by PyTorch")

    def train(compiled):
        torch.manual_seed(0)
        weights = [torch.nn.Parameter(torch.randn(4, 3)), torch.nn.Parameter(torch.randn(5))]
        rate = torch.tensor(0.1)
        optimizer = kind(weights, lr=rate, foreach=foreach)
        step = braze.compile(optimizer.step) if compiled else optimizer.step
        for _ in range(8):
            for weight in weights:
                weight.grad = torch.randn_like(weight)
            step()
            if in_place:
                rate.mul_(0.7)
            else:
                optimizer.param_groups[0]["lr"] = optimizer.param_groups[0]["lr"] * 0.7
        if compiled:
            assert step.counts()["native"] <= 1 and step.counts()["captured"] <= 3, (step.counts(), step.reasons())
        return [weight.detach() for weight in weights]

    try:
        wanted = train(False)
    except ValueError:
        pytest.skip("refused by PyTorch")
    torch.testing.assert_close(train(True), wanted)
