"""Operators of two tensors whose sizes vary, one of which requires grad: its gradient needs the sizes of both."""

import pytest
import torch
import torch.nn.functional as F
from torch import func as T

import braze

# Of two tensors of (n, 3).
FLOATS = {
    "cat": lambda x, w: torch.cat([x, w]),
    "cat of rows": lambda x, w: torch.cat([x[:, 0], w.flatten()]),
    "stack": lambda x, w: torch.stack([x, w]),
    "hstack": lambda x, w: torch.hstack([x, w]) * torch.dstack([x, w])[..., :1].sum(),
    "where": lambda x, w: torch.where(x > 0, x, w),
    "outer": lambda x, w: x[:, None] * w[None],
    "product": lambda x, w: x @ w.t(),
    "lerp": lambda x, w: torch.lerp(x, w, 0.3),
    "kron": torch.kron,
    "distances": torch.cdist,
    "index_add": lambda x, w: x.index_add(0, torch.arange(w.shape[0]), w),
    "index_copy": lambda x, w: x.index_copy(0, torch.arange(w.shape[0]), w),
    "scatter_add": lambda x, w: x.scatter_add(0, (w > 0).long(), w),
    "masked_scatter": lambda x, w: x.masked_scatter(x.detach() > 0, w),
    "slice_scatter": lambda x, w: torch.slice_scatter(x, w[1:], 0, 1),
    "select_scatter": lambda x, w: torch.select_scatter(x, w.sum(0), 0, 1),
    "index_put": lambda x, w: x.index_put((torch.arange(x.shape[0]),), w),
    "expanded": lambda x, w: x.expand_as(w) + w.sum(0).expand_as(x),
    "mse": F.mse_loss,
    "kl": lambda x, w: F.kl_div(x.log_softmax(1), w.softmax(1), reduction="sum"),
    "cosine": F.cosine_similarity,
    "convolution": lambda x, w: F.conv1d(x.t()[None], w[:, :, None]),
    "linear": F.linear,
    "layer norm": lambda x, w: F.layer_norm(x, (3,), w[0], w[1]),
    "attention": lambda x, w: F.scaled_dot_product_attention(x[None], w[None], w[None]),
    "written": lambda x, w: (x * 1).index_fill_(0, torch.tensor([0]), 2.0).mul_(w),
    "copied": lambda x, w: torch.zeros_like(x).copy_(w) * x,
    "gradient within": lambda x, w: T.grad(lambda a: torch.cat([w, a, w]).sin().sum())(x) + x * w,
    "closed over": lambda x, w: T.vmap(lambda a: w + a)(x),
}
# Of rows and numbers.
INTEGERS = {
    "embedding": F.embedding,
    "rows": lambda i, w: w[i],
    "index_select": lambda i, w: w.index_select(0, i),
    "take": lambda i, w: w.take(i),
}


@pytest.mark.parametrize("requiring", [(False, True), (True, False), (True, True)], ids=["second", "first", "both"])
@pytest.mark.parametrize("name", [*FLOATS, *INTEGERS])
def test_one_program_for_all_sizes(name, requiring):
    function = {**FLOATS, **INTEGERS}[name]
    compiled = braze.compile(function)
    data = torch.Generator().manual_seed(0)
    for n in (3, 4, 5, 6, 5):
        floats = name in FLOATS
        x = torch.randn(n, 3, generator=data) if floats else torch.randint(7, (n,), generator=data)
        given = [x, torch.randn(n if floats else 7, 3, generator=data)]
        sides = []
        for one in (function, compiled):
            leaves = [
                t.clone().requires_grad_(r and t.is_floating_point()) for t, r in zip(given, requiring, strict=True)
            ]
            result = one(*leaves)
            if result.requires_grad:
                result.sin().sum().backward()
            sides.append([result.detach(), *(leaf.grad for leaf in leaves)])
        for theirs, ours in zip(*sides, strict=True):
            assert (theirs is None) == (ours is None)
            if theirs is not None:
                torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
    counts = compiled.counts()
    assert counts["captured"] == 2 and counts["native"] == 0, compiled.reasons()
