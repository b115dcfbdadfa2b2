"""Attention on a GPU beside eager's: which kernel, layouts of gradients, masks that hide nothing."""

from collections.abc import Callable

import pytest
import torch
from on_gpu import needs_gpu
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention as attention

import braze

pytestmark = needs_gpu

B, H, L, E = 2, 4, 128, 64
KERNELS = [SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]


def heads(x: Tensor) -> Tensor:
    return x.unflatten(-1, (-1, E)).transpose(1, 2)


#: From leaves of (B, L, ...) to query, key and value.
LAYOUTS: dict[str, tuple[list[tuple[int, ...]], Callable[..., list[Tensor]]]] = {
    "rows of heads": ([(B, H, L, E)] * 3, lambda *leaves: list(leaves)),
    "heads of rows": ([(B, L, H * E)] * 3, lambda *leaves: [heads(x) for x in leaves]),
    "split": ([(B, L, 3 * H * E)], lambda x: [heads(part) for part in x.split(H * E, -1)]),
    "computed": ([(B, L, H * E)] * 3, lambda *leaves: [heads(x.sin()) for x in leaves]),
    "longer keys": ([(B, H, L, E), (B, H, 2 * L, E), (B, H, 2 * L, E)], lambda *leaves: list(leaves)),
    "one batch": ([(1, L, 3 * H * E)], lambda x: [heads(part) for part in x.chunk(3, -1)]),
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name.lower())
def test_gradients(kernel: SDPBackend, layout: str, causal: bool, dynamic: bool) -> None:
    shapes, arrange = LAYOUTS[layout]
    if kernel is SDPBackend.FLASH_ATTENTION and layout == "longer keys" and causal:
        pytest.skip("there is no such kernel")

    def attended(*leaves: Tensor) -> Tensor:
        return attention(*arrange(*leaves), is_causal=causal).transpose(1, 2).flatten(2).sin()

    compiled = braze.compile(attended, fullgraph=True, dynamic=dynamic)
    torch.manual_seed(0)
    with sdpa_kernel(kernel):
        for _ in range(2):
            values = [torch.randn(shape, device="cuda", dtype=torch.bfloat16) for shape in shapes]
            eager, ours = ([value.clone().requires_grad_() for value in values] for _ in range(2))
            expected, result = attended(*eager), compiled(*ours)
            expected.sum().backward()
            result.sum().backward()
            torch.testing.assert_close(result, expected, atol=2e-2, rtol=2e-2)
            for leaf, like in zip(ours, eager, strict=True):
                torch.testing.assert_close(leaf.grad, like.grad, atol=3e-2, rtol=3e-2)
                assert leaf.grad.stride() == like.grad.stride()
    assert compiled.counts()["native"] == 0, compiled.reasons()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_mask_that_hides_nothing_costs_no_memory(dtype: torch.dtype) -> None:
    def attended(q: Tensor, k: Tensor, v: Tensor, masked: bool) -> Tensor:
        rows = torch.arange(q.shape[-2], device=q.device)[:, None]
        mask = (rows >= 0).expand(q.shape[0], 1, -1, k.shape[-2]) if masked else None
        return attention(q, k, v, attn_mask=mask)

    compiled = braze.compile(attended, fullgraph=True)
    inputs = [torch.randn(8, 12, 512, 64, device="cuda", dtype=dtype, requires_grad=True) for _ in range(3)]

    def peak(function: Callable[..., Tensor], masked: bool) -> int:
        for _ in range(2):
            before = torch.cuda.memory_allocated()
            torch.cuda.reset_peak_memory_stats()
            torch.autograd.grad(function(*inputs, masked).sum(), inputs)
        return torch.cuda.max_memory_allocated() - before

    assert peak(compiled, True) <= 1.05 * peak(attended, False)
    torch.testing.assert_close(compiled(*inputs, True), attended(*inputs, False), atol=2e-2, rtol=2e-2)
