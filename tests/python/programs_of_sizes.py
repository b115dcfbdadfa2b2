"""Programs whose results and gradients depend on the sizes of what they are given, beside eager."""

import math

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


MULTIHEAD = torch.nn.MultiheadAttention(16, 2, batch_first=True).eval()

#: Of a batch (b, n, 16), whose first two sizes vary: one program for all of them.
BATCHES = {
    "4 by 4": lambda x: x[None] @ x.transpose(-1, -2)[None],
    "3 by 2": lambda x: x @ x[0].t(),
    "3 by 1": lambda x: x @ x[0, 0],
    "2 by 3": lambda x: x[0] @ x.transpose(1, 2),
    "1 by 3": lambda x: x[0, 0] @ x.transpose(1, 2),
    "each by each": lambda x: x[:, None] @ x.transpose(1, 2)[None],
    "one by all": lambda x: x[:1] @ x.transpose(1, 2),
    "linear of values": lambda x: F.linear(x, x[0]),
    "bilinear": lambda x: F.bilinear(x, x, x.new_ones(3, 16, 16)),
    "einsum": lambda x: torch.einsum("bik,bjk->bij", x, x),
    "tensordot": lambda x: torch.tensordot(x, x[0], dims=([2], [1])),
    "inner": lambda x: torch.inner(x, x),
    "cosines": lambda x: torch.cosine_similarity(x[:, :, None], x[:, None], -1),
    "baddbmm": lambda x: torch.baddbmm(x.new_ones(1), x, x.transpose(1, 2)),
    "multi-head attention": lambda x: MULTIHEAD(x, x, x)[0] if not x.is_cuda else x,
    "attention": lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True),
    "scores": lambda x: (x @ x.transpose(1, 2) / math.sqrt(x.shape[-2])).softmax(-1) @ x,
    "masked attention": lambda x: F.scaled_dot_product_attention(
        x, x, x, x.new_ones(x.shape[1], x.shape[1]).tril()
    ),
    "rotated": lambda x: x * torch.arange(x.shape[1], device=x.device)[None, :, None].cos(),
    "windows": lambda x: x.unfold(1, 2, 1).sum(-1),
    "pooled": lambda x: F.avg_pool1d(x, 2),
    "adaptive pool": lambda x: F.adaptive_avg_pool1d(x.transpose(1, 2), 1),
    "resized": lambda x: F.interpolate(x, scale_factor=2),
    "resized by 1.3": lambda x: F.interpolate(x, scale_factor=1.3, mode="linear"),
    "resized to a size": lambda x: F.interpolate(x[:, None], size=(x.shape[1], 8), mode="bilinear"),
    "images resized": lambda x: F.interpolate(x.view(*x.shape[:2], 4, 4), scale_factor=(1.5, 2), mode="bicubic"),
    "sampled": lambda x: F.grid_sample(
        x.view(*x.shape[:2], 4, 4), x.view(x.shape[0], -1, 2, 2), align_corners=False
    ),
    "convolution": lambda x: F.conv1d(x.transpose(1, 2), x.new_ones(4, 16, 3), padding=1),
    "group norm": lambda x: F.group_norm(x.transpose(1, 2), 4),
    "batch norm": lambda x: F.batch_norm(x.transpose(1, 2), x.new_zeros(16), x.new_ones(16)),
    "layer norm": lambda x: F.layer_norm(x, x.shape[-1:]),
    "rms norm": lambda x: F.rms_norm(x, (16,)),
    "scan": lambda x: x.cumsum(1),
    "sort": lambda x: x.sort(1)[0],
    "topk": lambda x: x.topk(2, 1)[0],
    "embedding": lambda x: F.embedding(x.argmax(-1), x.new_ones(16, 3)),
    "cross entropy": lambda x: F.cross_entropy(x.reshape(-1, 16), x.argmax(-1).reshape(-1)),
    "pad": lambda x: F.pad(x, (1, 1, 0, x.shape[1])),
    "gated": lambda x: F.glu(x, -1),
    "statistics": lambda x: (x.std(1), x.norm(dim=-1), x.logsumexp(1)),
    "scatter": lambda x: x.scatter(1, x.argsort(1), x),
    "repeated": lambda x: (x.repeat_interleave(2, 1), x.tile(2, 1, 1), torch.stack([x, x], 1).flatten(0, 1)),
    "moved": lambda x: (x.movedim(0, 1).contiguous(), x.flip(1), x.chunk(2, -1)[1]),
    "parts": lambda x: (x.reshape(*x.shape[:-1], 4, -1), x[1 : x.shape[0]], x.new_zeros([*x.shape[1:], 2])),
    "losses": lambda x: (F.mse_loss(x, x * 2), F.kl_div(x.log_softmax(-1), x.softmax(-1), reduction="batchmean")),
}
