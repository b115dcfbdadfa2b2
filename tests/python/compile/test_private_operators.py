"""Operators that PyTorch keeps to itself by name and that libraries call: one graph, as in eager."""

import pytest
import torch

import braze
from braze._load import C

pytestmark = pytest.mark.skipif(not hasattr(C, "CompiledFunction"), reason="no evaluator for this Python")

nn = torch._C._nn
ROWS, COLUMN = [torch.tensor([1, 2])], torch.arange(8)[:, None]
KERNEL = torch.ones(1, 1, 3, 3)
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
}


@pytest.mark.parametrize("name", CALLS)
def test_as_eager(name):
    compiled = braze.compile(CALLS[name], fullgraph=True)
    for seed in range(3):
        x = torch.randn(8, 16, generator=torch.Generator().manual_seed(seed))
        torch.testing.assert_close(compiled(x), CALLS[name](x))
    assert compiled.counts() | {"captured": 1, "native": 0} == compiled.counts()
