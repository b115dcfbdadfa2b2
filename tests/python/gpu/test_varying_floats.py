"""Floats that vary from call to call beside tensors of a GPU: numbers of each call, not programs."""

import pytest
import torch
import torch.nn.functional as F
from on_gpu import needs_gpu

import braze

pytestmark = needs_gpu

FORMS = {
    "product": lambda x, s: x * s + 1,
    "quotient": lambda x, s: s / (x.abs() + 1),
    "computed": lambda x, s: x * (1 - s * s) - s,
    "comparison": lambda x, s: torch.where(x > s, x, x * s),
    "alpha": lambda x, s: torch.add(x, x, alpha=s),
    "in place": lambda x, s: x.clone().mul_(s).add_(x, alpha=-s),
    "addcmul": lambda x, s: torch.addcmul(x, x, x, value=s),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("form", FORMS)
def test_one_program(form, dtype):
    compiled = braze.compile(FORMS[form])
    for k in range(14):
        x = torch.randn(40, 33, generator=torch.manual_seed(k)).to("cuda", dtype)
        s = 0.1 + 0.037 * k
        result, exact = compiled(x, s), FORMS[form](x.double(), s)
        # Eager rounds between two operators, where what is left of a difference may be rounding alone.
        error, of_eager = ((y - exact).abs().max() for y in (result, FORMS[form](x, s)))
        assert result.dtype == dtype and error <= 2 * of_eager + 1e-6 * exact.abs().max()
    counts = compiled.counts()
    assert counts["native"] == 0 and counts["captured"] <= 3, (counts, compiled.reasons())


OF_LIBRARIES = {
    "softplus": lambda x, s: F.softplus(x, beta=s + 0.5, threshold=5 * s),
    "celu": lambda x, s: F.celu(x, s + 0.5),
    "padding": lambda x, s: F.pad(x, (1, 2), value=s),
    "addmm": lambda x, s: torch.addmm(x, x @ x.T, x, beta=s, alpha=1 - s),
    "normal": lambda x, s: torch.empty_like(x).normal_(s, 1 + s),
    "uniform": lambda x, s: torch.empty_like(x).uniform_(-s, s + 1) + x,
    "isclose": lambda x, s: torch.isclose(x, x * 1.1, rtol=s),
    "attention": lambda x, s: F.scaled_dot_product_attention(x[None], x[None], x[None], scale=s),
    "two numbers that are alike": lambda x, s: F.softplus(x, s, s),
}


@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
@pytest.mark.parametrize("form", OF_LIBRARIES)
def test_arguments_of_library_calls(form, mode):
    compiled, function = braze.compile(OF_LIBRARIES[form], mode=mode), OF_LIBRARIES[form]
    with torch.no_grad():
        for k in range(14):
            x, s = torch.randn(40, 33, generator=torch.manual_seed(k)).cuda(), 0.1 + 0.037 * k
            torch.manual_seed(k)
            wanted = function(x, s)
            torch.manual_seed(k)
            torch.testing.assert_close(compiled(x, s), wanted, rtol=1e-4, atol=1e-4)
    counts = compiled.counts()
    assert counts["native"] == 0 and counts["captured"] <= 3, (counts, compiled.reasons())


@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
@pytest.mark.parametrize(
    "kind", [torch.optim.SGD, torch.optim.AdamW, torch.optim.RMSprop], ids=lambda kind: kind.__name__
)
def test_learning_rates(kind, mode):
    ours, theirs = (torch.nn.Linear(8, 4).cuda() for _ in range(2))
    theirs.load_state_dict(ours.state_dict())
    optimizers = [kind(net.parameters(), lr=0.01) for net in (ours, theirs)]
    schedulers = [torch.optim.lr_scheduler.ExponentialLR(one, 0.9) for one in optimizers]
    step = braze.compile(optimizers[0].step, mode=mode)
    for k in range(14):
        x = torch.randn(16, 8, generator=torch.manual_seed(k)).cuda()
        for net in (ours, theirs):
            net.zero_grad()
            net(x).square().sum().backward()
        step()
        optimizers[1].step()
        for scheduler in schedulers:
            scheduler.step()
        for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
            torch.testing.assert_close(a, b)
    counts = step.counts()
    # The first call makes the optimizer's state.
    assert counts["native"] <= 1 and counts["captured"] <= 5, (counts, step.reasons())


def test_a_number_that_was_read():
    def scaled(x, y):
        return (y * x.sum().item()).relu() + 1

    compiled = braze.compile(scaled, fullgraph=True, options={"capture_scalar_outputs": True})
    for k in range(14):
        x, y = torch.randn(5, device="cuda"), torch.randn(7 + k % 2, device="cuda")
        torch.testing.assert_close(compiled(x, y), scaled(x, y))
    assert compiled.counts()["native"] == 0 and compiled.counts()["captured"] <= 3, compiled.counts()
