"""Prints, as JSON, hashes of what programs give on their calls 1, 2, 3 and 10. For test_same_bits.py.

python tests/python/bits_of_programs.py [WORD...]    # programs whose names contain one of the words
"""

import hashlib
import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch.utils import _pytree as pytree

import braze

CALLS = (1, 2, 3, 10)
DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
Case = tuple[str, Callable[..., Any], tuple[torch.Tensor, ...]]


def named(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def products() -> Iterator[Case]:
    """Few rows and many, sizes on both sides of where another method is expected to win, transposes, batches."""
    for m, n, k in (
        *((1, 17, 33), (1, 768, 3072), (2, 300, 700), (4, 3072, 768), (7, 130, 300), (12, 512, 512)),
        *((13, 512, 512), (16, 768, 768), (33, 65, 129), (64, 512, 2048), (65, 512, 2048), (70, 200, 513)),
        *((128, 257, 1100), (128, 768, 768), (200, 64, 4096), (256, 256, 256), (512, 33, 2049)),
    ):
        x, w, b = torch.randn(m, k), torch.randn(n, k), torch.randn(n)
        yield f"linear {m}x{n}x{k}", F.linear, (x, w, b)
        yield f"mm {m}x{n}x{k}", torch.mm, (x, w.t().contiguous())
    for dtype in DTYPES:
        x, w = torch.randn(48, 192).to(dtype), torch.randn(192, 100).to(dtype)
        yield f"mm {named(dtype)}", lambda x, w: (x @ w).relu() + 1, (x, w)
        yield f"mm transposed {named(dtype)}", lambda x, w: x.t() @ w, (x.t().contiguous(), w)
        yield f"mv {named(dtype)}", torch.mv, (w, x[0, :100].contiguous())
        a, b = torch.randn(6, 17, 64).to(dtype), torch.randn(6, 64, 40).to(dtype)
        yield f"bmm {named(dtype)}", lambda a, b: torch.softmax(a @ b, -1), (a, b)
    x, w, b = torch.randn(8, 12, 96), torch.randn(96, 256), torch.randn(256)
    yield "addmm of three dimensions", lambda x, w, b: F.gelu(x @ w + b) @ w.t(), (x, w, b)


def convolutions() -> Iterator[Case]:
    for dimensions, channels, out, size, choices in (
        *(
            (1, 3, 8, 100, {}),
            (1, 16, 32, 257, {"stride": 2, "padding": 3}),
            (2, 3, 64, 56, {"stride": 2, "padding": 3}),
        ),
        *((2, 16, 16, 28, {"padding": 1}), (2, 32, 64, 14, {"padding": 1}), (2, 64, 64, 7, {})),
        *((2, 32, 32, 28, {"groups": 32, "padding": 1}), (2, 24, 48, 15, {"groups": 4, "dilation": 2})),
        *((2, 1, 1, 33, {}), (3, 8, 16, 10, {"padding": 1}), (3, 16, 16, 6, {"stride": 2})),
    ):
        x = torch.randn(2, channels, *[size] * dimensions)
        w = torch.randn(out, channels // choices.get("groups", 1), *[3] * dimensions)
        conv = (F.conv1d, F.conv2d, F.conv3d)[dimensions - 1]
        name = f"conv{dimensions}d {channels} to {out} of {size} {choices}"
        yield name, lambda x, w, conv=conv, choices=choices: conv(x, w, **choices).relu(), (x, w)
        if dimensions == 2:
            last = x.contiguous(memory_format=torch.channels_last)
            yield f"{name} channels last", lambda x, w, choices=choices: F.conv2d(x, w, **choices) * 2, (last, w)
    for dtype in DTYPES:
        x, w = torch.randn(2, 16, 14, 14).to(dtype), torch.randn(32, 16, 3, 3).to(dtype)
        yield f"conv2d {named(dtype)}", lambda x, w: F.conv2d(x, w, padding=1).relu(), (x, w)
    x, w = torch.randn(2, 16, 9, 9), torch.randn(16, 8, 3, 3)
    yield "conv_transpose2d", lambda x, w: F.conv_transpose2d(x, w, stride=2) + 1, (x, w)
    net = torch.nn.Sequential(
        *(
            torch.nn.Conv2d(3, 32, 3, 2),
            torch.nn.BatchNorm2d(32),
            torch.nn.ReLU(),
            torch.nn.Conv2d(32, 64, 3, 1, 1),
        ),
        *(torch.nn.BatchNorm2d(64), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten()),
    ).eval()
    yield "convolutions in a row", net, (torch.randn(4, 3, 33, 33),)


def attentions() -> Iterator[Case]:
    for batch, heads, length, width in ((1, 12, 8, 64), (2, 4, 100, 32), (4, 8, 256, 64), (1, 1, 513, 40)):
        for dtype in (torch.float32, torch.bfloat16):
            q, k, v = (torch.randn(batch, heads, length, width).to(dtype) for _ in range(3))
            name = f"{batch}x{heads}x{length}x{width} {named(dtype)}"
            mask = torch.randn(length, length).to(dtype)
            yield f"attention {name}", F.scaled_dot_product_attention, (q, k, v)
            yield (
                f"causal attention {name}",
                lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
                (q, k, v),
            )
            yield f"masked attention {name}", F.scaled_dot_product_attention, (q, k, v, mask)
    q = torch.randn(2, 4, 60, 32)
    yield "attention by hand", lambda q: torch.softmax(q @ q.transpose(-1, -2) / 32**0.5, -1) @ q, (q,)
    layer = torch.nn.TransformerEncoderLayer(96, 4, 200, batch_first=True, dropout=0.0).eval()
    yield "a transformer's layer", layer, (torch.randn(3, 40, 96),)


def reductions() -> Iterator[Case]:
    for dtype in DTYPES:
        x = torch.randn(300, 1000).to(dtype)
        for shape in ((300, 1000), (300000,), (3, 100000), (100000, 3)):
            given = x.view(shape)
            yield f"sums of {shape} {named(dtype)}", lambda x: (x.sum(), x.sum(-1), x.sum(0), x.mean(0)), (given,)
        yield f"softmax {named(dtype)}", lambda x: (x.softmax(0), x.log_softmax(1), x.logsumexp(0)), (x,)
        yield f"layer norm {named(dtype)}", lambda x: F.layer_norm(x * 2, (1000,)), (x,)
        yield f"variance {named(dtype)}", lambda x: (x.var(), x.std(0)), (x,)
        yield f"cumsum {named(dtype)}", lambda x: (x.cumsum(0), x.cumsum(1)), (x,)
    x, index = torch.randn(5000, 16), torch.randint(0, 40, (5000,))
    yield "index_add", lambda x, index: torch.zeros(40, 16).index_add(0, index, x), (x, index)
    yield "scatter_add", lambda x, index: torch.zeros(40).scatter_add(0, index, x[:, 0]), (x, index)


def gradients() -> Iterator[Case]:
    def of(fn: Callable[..., torch.Tensor]) -> Callable[..., Any]:
        compiled = braze.compile(fn)

        def both(*given: torch.Tensor) -> Any:
            leaves = [x.detach().requires_grad_() for x in given]
            with torch.enable_grad():
                result = compiled(*leaves)
                return result.detach(), torch.autograd.grad(result.sum(), leaves)

        return both

    x, w, b = torch.randn(64, 200), torch.randn(300, 200), torch.randn(300)
    yield "gradients of linear", of(lambda x, w, b: F.gelu(F.linear(x, w, b)).square()), (x, w, b)
    x, w = torch.randn(2, 16, 14, 14), torch.randn(32, 16, 3, 3)
    yield "gradients of conv2d", of(lambda x, w: F.conv2d(x, w, padding=1).relu().square()), (x, w)
    q, k, v = (torch.randn(2, 4, 50, 32) for _ in range(3))
    yield "gradients of attention", of(lambda q, k, v: F.scaled_dot_product_attention(q, k, v).square()), (q, k, v)
    x = torch.randn(500, 300)
    yield "gradients of layer norm", of(lambda x: F.layer_norm(x, (300,)).square().softmax(1)), (x,)
    table, index = torch.randn(50, 32), torch.randint(0, 50, (400,))
    yield "gradients of an embedding", of(lambda table: F.embedding(index, table).square()), (table,)


def bits(result: Any) -> str:
    seen = hashlib.sha256()
    for leaf in pytree.tree_leaves(result):
        seen.update(f"{leaf.dtype} {tuple(leaf.shape)} {leaf.stride()}".encode())
        seen.update(
            leaf.detach().contiguous().view(torch.uint8).numpy().tobytes()
            if leaf.dim()
            else repr(leaf.item()).encode()
        )
    return seen.hexdigest()[:16]


def main() -> None:
    words = sys.argv[1:]
    torch.set_num_threads(2)
    torch.manual_seed(0)
    found: dict[str, list[str]] = {}
    with torch.no_grad():
        for cases in (products, convolutions, attentions, reductions, gradients):
            for name, fn, given in cases():
                if words and not any(word in name for word in words):
                    continue
                call = fn if cases is gradients else braze.compile(fn)
                results = [bits(call(*given)) for _ in range(max(CALLS))]
                assert name not in found, name
                found[name] = [results[call - 1] for call in CALLS]
    print(json.dumps(found))


if __name__ == "__main__":
    main()
