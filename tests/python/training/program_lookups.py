"""Lookups that are told to be sparse, and steps of quantization that are learnt."""

import torch
from program_cases import grads_of, leaf
from program_functions import whole
from torch import nn


@whole
def sparse_rows_without_gradients(compile):
    table = nn.Embedding(9, 4, sparse=True).requires_grad_(False)
    head = nn.Linear(4, 3)
    f = compile(lambda i: head(table(i)).square().sum())
    for n in (2, 3, 4, 4):
        head.zero_grad()
        f(torch.randint(9, (n, 2))).backward()
        yield grads_of(head), table.weight.grad


def learnt(quantize, shape, **how):
    def program(compile):
        f = compile(lambda x, scale, zero: (quantize(x * 2, scale, zero, **how) * x.sin()).sum())
        for n in (2, 3, 5, 5):
            x = leaf(n, 4)
            scale, zero = torch.full(shape, 0.1, requires_grad=True), torch.full(shape, 3.0, requires_grad=True)
            f(x, scale, zero).backward()
            yield x.grad, scale.grad, zero.grad

    return program


LEARNT = {
    "of_a_tensor": learnt(
        torch._fake_quantize_learnable_per_tensor_affine, (1,), quant_min=0, quant_max=255, grad_factor=0.5
    ),
    "of_channels": learnt(
        torch._fake_quantize_learnable_per_channel_affine, (4,), axis=1, quant_min=-8, quant_max=7, grad_factor=2.0
    ),
}
for name, program in LEARNT.items():
    program.__name__ = f"learnt_steps_{name}"
    whole(program)
