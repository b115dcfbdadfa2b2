"""Stretches between graph breaks that want gradients."""

import torch

import braze


@braze.compiler.disable
def nothing():
    pass


class Scaled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(8))

    def forward(self, x):
        x = torch.tanh(x * self.weight)
        nothing()
        return torch.tanh(x * self.weight) * x


class Chain(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = Scaled(), Scaled()

    def forward(self, x):
        x = self.first(x)
        return self.second(x).sum()


def test_a_second_capture_in_which_no_size_varies_has_no_symbols():
    """The second layer is captured where the first was: with a history, in which nothing has varied."""
    torch.manual_seed(0)
    model, x = Chain(), torch.randn(4, 8)
    fast = braze.compile(model)
    for _ in range(3):
        model.zero_grad()
        model(x).backward()
        expected = [p.grad.clone() for p in model.parameters()]
        model.zero_grad()
        fast(x).backward()
        for p, gradient in zip(model.parameters(), expected, strict=True):
            torch.testing.assert_close(p.grad, gradient)
    assert fast.operators()["native"] == 0, fast.operators()
