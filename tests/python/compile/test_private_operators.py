"""Operators that PyTorch keeps to itself by name and that libraries call: one graph, as in eager."""

import pytest
import torch

import braze
from braze._load import C

pytestmark = pytest.mark.skipif(not hasattr(C, "CompiledFunction"), reason="no evaluator for this Python")

nn, aten = torch._C._nn, torch.ops.aten
ROWS, COLUMN = [torch.tensor([1, 2])], torch.arange(8)[:, None]
KERNEL, ZEROS = torch.ones(1, 1, 3, 3), torch.zeros(2, dtype=torch.long)


def attention_both_ways(x):
    result, logsumexp = aten._scaled_dot_product_flash_attention_for_cpu(x, x, x)
    return aten._scaled_dot_product_flash_attention_for_cpu_backward(x, x, x, x, result, logsumexp, 0.0, False)


CALLS = {
    "_add_relu": lambda x: torch._add_relu(x, x),
    "_add_relu_": lambda x: torch._add_relu_(x.clone(), x),
    "_cast_Half": lambda x: torch._cast_Half(x),
    "_cast_Int": lambda x: torch._cast_Int(x),
    "_chunk_cat": lambda x: torch._chunk_cat([x, x], 0, 2),
    "_conj_physical": lambda x: torch._conj_physical(x),
    "_convolution_mode": lambda x: torch._convolution_mode(x[None, None], KERNEL, None, [1, 1], "same", [1, 1], 1),
    "_fake_quantize_learnable_per_tensor_affine": lambda x: torch._fake_quantize_learnable_per_tensor_affine(
        x, torch.tensor([0.5]), torch.tensor([0.0]), 0, 255
    ),
    "_fused_rms_norm": lambda x: torch._fused_rms_norm(x, [16], None, 1e-5),
    "_index_put_impl_": lambda x: torch._index_put_impl_(x.clone(), ROWS, x[:2]),
    "_int_mm": lambda x: torch._int_mm(*[(4 * y).to(torch.int8) for y in (x.repeat(4, 1), x.T)]),
    "_log_softmax_backward_data": lambda x: torch._log_softmax_backward_data(
        x, x.log_softmax(-1), -1, torch.float32
    ),
    "_native_batch_norm_legit": lambda x: torch._native_batch_norm_legit(x, None, None, True, 0.1, 1e-5),
    "_neg_view": lambda x: torch._neg_view(x) + 1,
    "_pad_circular": lambda x: nn._pad_circular(x[None], [1, 1]),
    "_pad_enum": lambda x: nn._pad_enum(x[None], [1, 1], 2),
    "_safe_softmax": lambda x: torch._safe_softmax(x, -1),
    "_softmax_backward_data": lambda x: torch._softmax_backward_data(x, x.softmax(-1), -1, torch.float32),
    "_stack": lambda x: torch._stack([x, x]),
    "_standard_gamma_grad": lambda x: torch._standard_gamma_grad(x.abs() + 1, x.abs() + 1),
    "_unsafe_index": lambda x: torch._unsafe_index(x, ROWS),
    "_unsafe_index_put": lambda x: torch._unsafe_index_put(x, ROWS, x[:2]),
    "_unsafe_masked_index": lambda x: torch._unsafe_masked_index(x, x > 0, [COLUMN, torch.arange(16)], 0.0),
    "_upsample_nearest_exact3d": lambda x: nn._upsample_nearest_exact3d(x[None, None, None], [4, 4, 4]),
    "_weight_int8pack_mm": lambda x: torch._weight_int8pack_mm(
        x.bfloat16(), (4 * x).to(torch.int8), torch.ones(8, dtype=torch.bfloat16)
    ),
    "_weight_norm_interface": lambda x: torch._weight_norm_interface(x, x[:, :1].clone(), 0),
    "_adaptive_avg_pool2d_backward": lambda x: aten._adaptive_avg_pool2d_backward(x[None, :4, :4], x[None]),
    "_batch_norm_with_update": lambda x: aten._batch_norm_with_update(
        x.T[None], x[0], x[0], x[0].clone(), x[0].abs(), 0.1, 1e-5
    )[:3],
    "_cdist_backward": lambda x: aten._cdist_backward(torch.ones(8, 8), x, x + 1, 2.0, torch.cdist(x, x + 1)),
    "_cholesky_solve_helper": lambda x: aten._cholesky_solve_helper(x, x[:, :8].tril() + 4 * torch.eye(8), False),
    "_embedding_bag_dense_backward": lambda x: aten._embedding_bag_dense_backward(
        x[:1], torch.tensor([1, 4]), ZEROS, torch.tensor([2]), ZEROS[:1], 10, False, 0, None
    ),
    "_linalg_eigvals": lambda x: aten._linalg_eigvals(x[:, :8]).abs().sum(),
    "_masked_softmax_backward": lambda x: aten._masked_softmax_backward(x, x.softmax(1), x > 0, 1),
    "_pdist_backward": lambda x: aten._pdist_backward(torch.ones(28), x, 2.0, aten._pdist_forward(x, 2.0)),
    "_prelu_kernel_backward": lambda x: aten._prelu_kernel_backward(x, x, x + 1),
    "_reshape_copy": lambda x: aten._reshape_copy(x, [x.numel()]),
    "_scaled_dot_product_flash_attention_for_cpu_backward": lambda x: attention_both_ways(x[None, None]),
    "_upsample_nearest_exact1d_backward": lambda x: aten._upsample_nearest_exact1d_backward(
        x[None], [16], [1, 8, 8], None
    ),
    "_weight_norm": lambda x: aten._weight_norm(x, x[:, :1].clone(), 0),
    "unsqueeze_": lambda x: aten.unsqueeze_(x + 1, 0) * 2,
    "squeeze_.dim": lambda x: aten.squeeze_.dim(x[None] + 1, 0) * 2,
    "t_": lambda x: aten.t_(x + 1) @ x,
    "transpose_": lambda x: aten.transpose_(x + 1, dim0=0, dim1=1),
}


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("name", CALLS)
def test_as_eager(name, dynamic):
    """Where sizes vary, kernels that do not look whether sizes go together are never asked about others."""
    compiled = braze.compile(CALLS[name], fullgraph=True, dynamic=dynamic)
    for seed in range(3):
        x = torch.randn(8, 16, generator=torch.Generator().manual_seed(seed))
        torch.testing.assert_close(compiled(x), CALLS[name](x))
    assert compiled.counts() | {"captured": 1, "native": 0} == compiled.counts()
