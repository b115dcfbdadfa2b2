"""Fused updates of PyTorch's optimizers on a GPU, with what a scaler of gradients has found: one graph each."""

import pytest
import torch
from on_gpu import needs_gpu
from torch import nn

import braze

pytestmark = needs_gpu

# PyTorch keeps compilers out of a step of Adam on a GPU that is not "capturable".
OPTIMIZERS = {
    "adam": lambda p: torch.optim.Adam(p, lr=1e-2, weight_decay=0.01, amsgrad=True, fused=True, capturable=True),
    "adamw": lambda p: torch.optim.AdamW(p, lr=1e-2, betas=(0.0, 0.99), fused=True, capturable=True),
    "adam, tensor rate": lambda p: torch.optim.Adam(
        p, lr=torch.tensor(1e-2, device="cuda"), fused=True, capturable=True
    ),
    "sgd": lambda p: torch.optim.SGD(p, lr=1e-2, momentum=0.9, nesterov=True, fused=True),
}


def trained(make, compile, steps=6):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 33), nn.Tanh(), nn.Linear(33, 4)).cuda()
    optimizer = make(model.parameters())
    step = compile(optimizer.step)
    for k in range(steps):
        x = torch.randn(8, 16, generator=torch.manual_seed(k)).cuda()
        model(x).square().mean().backward()
        step()
        optimizer.zero_grad()
    return list(model.parameters()), [list(state.values()) for state in optimizer.state.values()], step


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_steps_are_eagers(name):
    *eager, _ = trained(OPTIMIZERS[name], lambda step: step)
    *ours, step = trained(OPTIMIZERS[name], braze.compile)
    torch.testing.assert_close(ours, eager, rtol=1e-4, atol=1e-6)
    assert step.counts()["replayed"] >= 3, (step.counts(), step.reasons())


@pytest.mark.parametrize("infinite", [0.0, 1.0, None])
@pytest.mark.parametrize("kind", [torch._fused_adam_, torch._fused_adamw_])
def test_a_scaler_is_obeyed(kind, infinite):
    def step(p, g, a, s, n, scale, found):
        kind(
            p, g, a, s, [], n, lr=0.1, beta1=0.9, beta2=0.99, weight_decay=0.1, eps=1e-8, amsgrad=False,
            maximize=False, grad_scale=scale, found_inf=found,
        )  # fmt: skip

    both = []
    for f in (step, braze.compile(step, fullgraph=True)):
        torch.manual_seed(0)
        state = [[torch.rand(5, device="cuda")] for _ in range(4)] + [[torch.tensor(3.0, device="cuda")]]
        scaler = [None if infinite is None else torch.tensor(each, device="cuda") for each in (4.0, infinite)]
        with torch.no_grad():
            for _ in range(2):
                f(*state, *scaler)
        both.append(state)
    torch.testing.assert_close(both[1], both[0])
