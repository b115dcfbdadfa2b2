"""Segments between graph breaks that want gradients."""

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


def penalised(layer, x):
    """As in WGAN-GP: the gradient is part of the loss."""
    y = torch.tanh(layer(x))
    (gradient,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    return y.mean() + (gradient.norm(dim=-1) - 1).square().mean()


def test_gradients_that_are_differentiated_again_in_the_same_function():
    torch.manual_seed(0)
    layer, data = torch.nn.Linear(8, 4), torch.randn(3, 8)
    fast = braze.compile(penalised)
    for _ in range(3):
        both = []
        for call in (penalised, fast):
            layer.zero_grad()
            x = data.clone().requires_grad_()
            call(layer, x).backward()
            both.append((x.grad, layer.weight.grad.clone(), layer.bias.grad.clone()))
        torch.testing.assert_close(*both)
    assert fast.operators()["native"] == 0, fast.operators()
    assert fast.counts()["replayed"] == 2
