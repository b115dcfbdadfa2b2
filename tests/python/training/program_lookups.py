"""Lookups whose gradients are sparse, and steps of quantization that are learnt."""

import torch
import torch.nn.functional as F
from program_cases import case, grads_of, leaf
from program_functions import whole
from torch import nn

sparse_cases = []  # The lookup is all that runs natively.


def sparse(program):
    sparse_cases.append(program.__name__)
    return case(program)


def told(gradient):
    """Its parts, as eager has them: neither sorted nor added up."""
    assert gradient.is_sparse
    return gradient._indices(), gradient._values(), tuple(gradient.shape), gradient.is_coalesced()


@sparse
def sparse_rows_in_a_model(compile):
    table, head = nn.Embedding(9, 4, sparse=True, padding_idx=2), nn.Linear(4, 3)
    optimizers = torch.optim.SparseAdam(table.parameters(), 0.1), torch.optim.Adam(head.parameters(), 0.1)
    f = compile(lambda i: F.cross_entropy(head(torch.tanh(table(i) * 2).mean(1)), i[:, 0] % 3))
    for n in (2, 3, 5, 5, 2):
        for optimizer in optimizers:
            optimizer.zero_grad()
        loss = f(torch.randint(9, (n, 4)))
        loss.backward()
        yield loss, told(table.weight.grad), grads_of(head)
        for optimizer in optimizers:
            optimizer.step()


@case
def sparse_rows_of_what_is_computed(compile):
    def step(w, i):
        rows = F.embedding(i, w.sin(), sparse=True)
        return (rows * rows.cos()).sum(), rows

    f = compile(step)
    w = leaf(7, 3)
    for n in (2, 3, 4, 4):
        w.grad = None
        loss, rows = f(w, torch.randint(7, (n,)))
        yield loss, rows, [g.to_dense() for g in torch.autograd.grad(rows.sum(), [w])]


@sparse
def sparse_bags(compile):
    for mode in ("sum", "mean"):
        bags = nn.EmbeddingBag(8, 3, mode=mode, sparse=True)
        f = compile(lambda i, bags=bags: bags(i).square().sin().exp().sum())
        for n in (2, 3, 4, 4):
            bags.zero_grad()
            f(torch.randint(8, (n, 2))).backward()
            yield told(bags.weight.grad)


@sparse
def sparse_bags_in_a_model(compile):
    """Bags of different lengths, with weights that are learnt beside rows that are left out."""
    table, head = nn.EmbeddingBag(9, 4, mode="sum", sparse=True, padding_idx=2), nn.Linear(4, 3)
    optimizers = torch.optim.SparseAdam(table.parameters(), 0.1), torch.optim.SGD(head.parameters(), 0.1)

    def loss_of(i, starts, weights):
        return F.cross_entropy(head(torch.tanh(table(i, starts, per_sample_weights=weights) * 2)).exp(), starts % 3)

    f = compile(loss_of)
    for n in (4, 6, 8, 8, 4):
        for optimizer in optimizers:
            optimizer.zero_grad()
        weights = leaf(n)
        loss = f(torch.randint(9, (n,)), torch.tensor([0, 1, n - 2]), weights)
        loss.backward()
        yield loss, weights.grad, told(table.weight.grad), grads_of(head)
        for optimizer in optimizers:
            optimizer.step()


@whole
def sparse_bags_without_gradients(compile):
    bags, head = nn.EmbeddingBag(9, 4, mode="mean", sparse=True).requires_grad_(False), nn.Linear(4, 3)
    f = compile(lambda i: head(bags(i)).square().sum())
    for n in (2, 3, 4, 4):
        head.zero_grad()
        f(torch.randint(9, (n, 2))).backward()
        yield grads_of(head)


@case
def sparse_bags_under_no_grad(compile):
    bags = nn.EmbeddingBag(8, 3, sparse=True)

    def averages(i):
        with torch.no_grad():
            return bags(i).sin() * 2

    f = compile(averages)
    for n in (2, 3, 4, 4):
        yield f(torch.randint(8, (n, 2)))


@case
def sparse_gathers(compile):
    f = compile(lambda x, i: torch.gather(x, 1, i, sparse_grad=True).exp().sum())
    for n in (2, 3, 4, 4):
        x = leaf(n, 5)
        f(x, torch.randint(5, (n, 2))).backward()
        yield x.grad.to_dense(), x.grad.is_sparse


@whole
def sparse_rows_without_gradients(compile):
    table = nn.Embedding(9, 4, sparse=True).requires_grad_(False)
    head = nn.Linear(4, 3)
    f = compile(lambda i: head(table(i)).square().sum())
    for n in (2, 3, 4, 4):
        head.zero_grad()
        f(torch.randint(9, (n, 2))).backward()
        yield grads_of(head), table.weight.grad


@case
def sparse_gradient_of_a_result(compile):
    """Eager's gradient of the input is sparse where all that reaches it is; a program's holds the same numbers."""
    f = compile(lambda x: x * 2 + x.sin())
    for n in (5, 6, 7, 7):
        x = leaf(n, 4)
        y = f(x)
        F.embedding(torch.tensor([1, 2, 1]), y, sparse=True).square().sum().backward()
        yield x.grad.to_dense()


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
