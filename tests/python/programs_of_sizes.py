"""Programs whose results and gradients depend on the sizes of what they are given, beside eager."""

import torch
from torch.nn import functional as F

import braze

SHAPES = [(8, 6, 12), (9, 6, 12), (11, 6, 12), (2, 6, 12)]


def zeros(x, *sizes):
    return torch.zeros(*sizes, dtype=torch.int64, device=x.device)


# Of x, and of weights of 12 and of 12 times 12.
FUNCTIONS = {
    "mean of a dimension": lambda x, w, m: (x * w).mean(0),
    "mean": lambda x, w, m: (x * w).mean(),
    "sum of a dimension": lambda x, w, m: (x * w).sum(0),
    "var": lambda x, w, m: (x * w).var(0),
    "var, biased": lambda x, w, m: (x * w).var((0, 1), correction=0),
    "std": lambda x, w, m: (x * w).std(-1),
    "std of all": lambda x, w, m: (x * w).std(),
    "norm": lambda x, w, m: (x * w).norm(dim=-1),
    "layer_norm": lambda x, w, m: F.layer_norm(x @ m, (12,), w),
    "rms_norm": lambda x, w, m: F.rms_norm(x @ m, (12,), w),
    "group_norm": lambda x, w, m: F.group_norm(x * w, 2),
    "batch_norm": lambda x, w, m: F.batch_norm(x * w, None, None, training=True),
    "cross_entropy": lambda x, w, m: F.cross_entropy((x * w)[:, 0], zeros(x, x.shape[0])),
    "mse_loss": lambda x, w, m: F.mse_loss(x * w, x),
    "l1_loss": lambda x, w, m: F.l1_loss(x * w, x),
    "smooth_l1_loss": lambda x, w, m: F.smooth_l1_loss(x * w, x),
    "bce": lambda x, w, m: F.binary_cross_entropy_with_logits(x * w, x.sigmoid()),
    "kl_div": lambda x, w, m: F.kl_div((x * w).log_softmax(-1), x.softmax(-1), reduction="batchmean"),
    "max": lambda x, w, m: (x * w).max(-1)[0],
    "amax": lambda x, w, m: (x * w).amax(0),
    "cumsum": lambda x, w, m: (x * w).cumsum(0),
    "cat": lambda x, w, m: torch.cat([x * w, x], 0),
    "slice": lambda x, w, m: (x * w)[1:],
    "select": lambda x, w, m: (x * w)[0],
    "index": lambda x, w, m: (x * w)[:, [0, 2]],
    "gather": lambda x, w, m: (x * w).gather(1, zeros(x, x.shape[0], 1, 12)),
    "scatter_add": lambda x, w, m: (x * w).scatter_add(1, zeros(x, x.shape[0], 6, 12), x * w),
    "view": lambda x, w, m: (x * w).transpose(0, 1).reshape(-1, 12) @ m,
    "expand": lambda x, w, m: w.expand(x.shape[0], 12) * 2,
    "pad": lambda x, w, m: F.pad(x * w, (1, 1, 2, 0)),
    "max_pool1d": lambda x, w, m: F.max_pool1d(x * w, 2),
    "avg_pool1d": lambda x, w, m: F.avg_pool1d(x * w, 2),
    "attention": lambda x, w, m: F.scaled_dot_product_attention(x @ m, x @ m, x @ m),
    "causal attention": lambda x, w, m: F.scaled_dot_product_attention(x @ m, x @ m, x @ m, is_causal=True),
    "einsum": lambda x, w, m: torch.einsum("bij,jk->bik", x, m),
    "masked_fill": lambda x, w, m: (x @ m).masked_fill(x > 0, 0.0),
    "dropout": lambda x, w, m: F.dropout(x * w, 0.5),
    "softmax": lambda x, w, m: (x * w).softmax(0),
    "topk": lambda x, w, m: (x * w).topk(2, -1)[0],
    "sort": lambda x, w, m: (x * w).sort(-1)[0],
    "logsumexp": lambda x, w, m: (x * w).logsumexp(0),
    "unfold": lambda x, w, m: (x * w).unfold(1, 2, 1),
    "repeat": lambda x, w, m: (x * w).repeat(2, 1, 1),
    "chunk": lambda x, w, m: (x * w).chunk(2, 1)[0],
    "roll": lambda x, w, m: (x * w).roll(1, 0),
    "outer": lambda x, w, m: torch.outer((x * w)[:, 0, 0], w),
}


def run(function, x, w, m):
    leaves = [each.detach().clone().requires_grad_() for each in (x, w, m)]
    torch.manual_seed(3)
    result = function(*leaves)
    result.square().sum().backward()
    return result.detach(), [leaf.grad for leaf in leaves]


def check(name, dynamic=True, device="cpu"):
    """Gradients at several sizes, as eager's. Returns the compiled function."""
    function = FUNCTIONS[name]
    compiled = braze.compile(function, dynamic=dynamic)
    w, m = torch.randn(12, device=device), torch.randn(12, 12, device=device)
    for shape in SHAPES:
        x = torch.randn(shape, device=device)
        (ours, mine), (theirs, eagers) = run(compiled, x, w, m), run(function, x, w, m)
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)
        for a, b in zip(mine, eagers, strict=True):
            assert (a is None) == (b is None)
            if a is not None:
                scale = max(1.0, b.abs().max().item())
                torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4 * scale)
    return compiled
