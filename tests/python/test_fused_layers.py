"""PyTorch's fused transformer layers are opened: their operators are recorded, masks of all kinds included."""

import pytest
import torch
from torch import nn

import braze
from braze._load import C

pytestmark = pytest.mark.skipif(not hasattr(C, "CompiledFunction"), reason="no evaluator for this Python")
MASKS = ("none", "padding", "causal", "both", "of each head")


def masks_of(kind, batch, heads, length):
    """(attn_mask, key_padding_mask), true where nothing is looked at."""
    attention = padding = None
    if kind in ("causal", "both"):
        attention = torch.triu(torch.ones(length, length, dtype=torch.bool), 1)
    if kind == "of each head":
        attention = torch.rand(batch * heads, length, length) > 0.5
        attention[..., 0] = False
    if kind in ("padding", "both"):
        padding = torch.zeros(batch, length, dtype=torch.bool)
        padding[0, length // 2 + 1 :] = True
    return attention, padding


def steps_of(compiled):
    return [step.name for program in compiled.programs() for step in program.steps]


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_encoder_layer(mask, norm_first, activation):
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, norm_first=norm_first, activation=activation)
    compiled = braze.compile(layer.eval())
    with torch.no_grad():
        for batch, length in ((2, 5), (3, 7), (1, 1)):
            x = torch.randn(batch, length, 32)
            attention, padding = masks_of(mask, batch, 4, length)
            ours, theirs = compiled(x, attention, padding), layer(x, attention, padding)
            torch.testing.assert_close(ours, theirs)
            assert ours.stride() == theirs.stride()
    assert compiled.counts()["native"] == 0, compiled.reasons()
    steps = steps_of(compiled)
    assert steps and "aten::_transformer_encoder_layer_fwd" not in steps


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("need_weights, average", [(False, True), (True, True), (True, False)])
def test_self_attention(mask, need_weights, average):
    torch.manual_seed(0)
    attention = nn.MultiheadAttention(32, 4, batch_first=True).eval()

    def f(x, attn_mask, padding):
        return attention(x, x, x, padding, need_weights, attn_mask, average_attn_weights=average)

    compiled = braze.compile(f)
    with torch.no_grad():
        for batch, length in ((2, 5), (3, 7)):
            x = torch.randn(batch, length, 32)
            given = masks_of(mask, batch, 4, length)
            for ours, theirs in zip(compiled(x, *given), f(x, *given), strict=True):
                torch.testing.assert_close(ours, theirs)
                assert theirs is None or ours.stride() == theirs.stride()
    assert "aten::_native_multi_head_attention" not in steps_of(compiled)


def test_rows_of_which_all_is_masked_are_nan_as_in_eager():
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True).eval()
    x, padding = torch.randn(2, 3, 16), torch.tensor([[False, False, True], [True, True, True]])
    with torch.no_grad():
        ours, theirs = braze.compile(layer)(x, None, padding), layer(x, None, padding)
    assert torch.equal(ours.isnan(), theirs.isnan()) and theirs[1].isnan().all()
    torch.testing.assert_close(ours, theirs, equal_nan=True)


def test_cross_attention_and_other_types():
    attention = nn.MultiheadAttention(32, 4, batch_first=True, dtype=torch.float64).eval()
    x, y = torch.randn(2, 5, 32, dtype=torch.float64), torch.randn(2, 7, 32, dtype=torch.float64)
    compiled = braze.compile(lambda x, y: (attention(x, y, y)[0], attention(x, x, x)[0]))
    with torch.no_grad():
        for ours, theirs in zip(compiled(x, y), (attention(x, y, y)[0], attention(x, x, x)[0]), strict=True):
            torch.testing.assert_close(ours, theirs)
