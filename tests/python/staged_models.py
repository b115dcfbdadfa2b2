"""A model with enough gradients that they are worth handing out one by one, and a step within its backward."""

import torch
from torch import nn

WIDTH, DEPTH = 320, 8  # 3.3 MB of gradients, 0.4 of them a layer


def stack():
    torch.manual_seed(0)
    layers = []
    for _ in range(DEPTH):
        layers += [nn.Linear(WIDTH, WIDTH), nn.Tanh()]
    return nn.Sequential(*layers, nn.Linear(WIDTH, 8))


def step(p):
    with torch.no_grad():
        p.add_(p.grad, alpha=-0.1)
    p.grad = None
