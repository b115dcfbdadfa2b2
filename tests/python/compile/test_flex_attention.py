"""torch.nn.attention.flex_attention within a graph: as eager computes it, by functions of scores and of masks."""

import pytest
import torch
from torch.nn.attention.flex_attention import (
    AuxRequest,
    and_masks,
    create_block_mask,
    flex_attention,
    or_masks,
)

import braze
from braze._load import C

pytestmark = [
    pytest.mark.skipif(not hasattr(C, "CompiledFunction"), reason="no evaluator for this Python"),
    pytest.mark.filterwarnings("ignore"),
]

BATCH, HEADS, LENGTH = 2, 4, 32
BIAS = torch.randn(HEADS, generator=torch.Generator().manual_seed(0))
TABLE = torch.randn(HEADS, LENGTH, LENGTH, generator=torch.Generator().manual_seed(1))
DOCUMENTS = torch.arange(LENGTH) // 10


def causal(b, h, q, k):
    return q >= k


def window(b, h, q, k):
    return (q - k).abs() < 5


def same_document(b, h, q, k):
    return DOCUMENTS[q] == DOCUMENTS[k]


def never(b, h, q, k):
    return q < 0


SCORES = {
    "none": None,
    "distance": lambda s, b, h, q, k: s + (q - k),
    "slope": lambda s, b, h, q, k: s * torch.exp2(-(h + 1).float()) + b,
    "bias of heads": lambda s, b, h, q, k: s + BIAS[h],
    "bias of places": lambda s, b, h, q, k: s + TABLE[h, q, k],
    "bias of a place": lambda s, b, h, q, k: s + TABLE[h, q, 0] + BIAS[1],
    "capped": lambda s, b, h, q, k: 2 * torch.tanh(s / 2),
    "causal": lambda s, b, h, q, k: torch.where(q >= k, s, -float("inf")),
}
MASKS = {
    "causal": causal,
    "window": and_masks(causal, window),
    "documents": or_masks(same_document, window),
    "never": never,
}


def tensors(seed, batch=BATCH, heads=HEADS, others=HEADS, dtype=torch.float32):
    generator = torch.Generator().manual_seed(seed)

    def draw(heads):
        return torch.randn(batch, heads, LENGTH, 8, generator=generator).to(dtype)

    return draw(heads), draw(others), draw(others)


def check(function, *calls, **how):
    compiled = braze.compile(function, fullgraph=True, **how)
    for args in calls:
        got, wanted = compiled(*args), function(*args)
        torch.testing.assert_close(got, wanted, equal_nan=True)
        if isinstance(wanted, torch.Tensor):
            assert got.stride() == wanted.stride()
    assert compiled.counts()["native"] == 0
    return compiled


@pytest.mark.parametrize("name", SCORES)
def test_scores(name):
    def function(q, k, v):
        return flex_attention(q, k, v, score_mod=SCORES[name]) * 2

    assert check(function, tensors(0), tensors(1), tensors(2)).counts()["captured"] == 1


@pytest.mark.parametrize("name", MASKS)
def test_masks(name):
    mask = create_block_mask(MASKS[name], None, None, LENGTH, LENGTH, device="cpu", BLOCK_SIZE=16)

    def function(q, k, v):
        return flex_attention(q, k, v, score_mod=SCORES["distance"], block_mask=mask)

    check(function, tensors(0), tensors(1))


def test_a_mask_that_the_function_makes():
    def function(q, k, v):
        mask = create_block_mask(causal, None, None, LENGTH, LENGTH, device="cpu", BLOCK_SIZE=16)
        return flex_attention(q, k, v, block_mask=mask)

    check(function, tensors(0), tensors(1))


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_types(dtype):
    check(lambda q, k, v: flex_attention(q, k, v, scale=0.5), tensors(0, dtype=dtype))


def test_groups_of_heads():
    check(lambda q, k, v: flex_attention(q, k, v, SCORES["distance"], enable_gqa=True), tensors(0, others=2))


def test_strides_are_those_of_the_query():
    def function(q, k, v):
        return flex_attention(q.transpose(1, 2).contiguous().transpose(1, 2), k, v)

    check(function, tensors(0))


def test_batches_of_any_size():
    def function(q, k, v):
        return flex_attention(q, k, v, SCORES["bias of heads"])

    check(function, *[tensors(batch, batch) for batch in (2, 3, 5)], dynamic=True)


def test_sums_beside_results():
    check(lambda q, k, v: flex_attention(q, k, v, return_aux=AuxRequest(lse=True)), tensors(0))


def test_a_table_that_changes():
    table = BIAS.clone()

    def function(q, k, v):
        return flex_attention(q, k, v, lambda s, b, h, i, j: s + table[h])

    compiled = braze.compile(function, fullgraph=True)
    for step in range(3):
        torch.testing.assert_close(compiled(*tensors(step)), function(*tensors(step)))
        table.add_(1)
    assert compiled.counts() | {"captured": 1, "native": 0} == compiled.counts()


@pytest.mark.parametrize(
    "change",
    [
        lambda q, k, v: (q[0], k, v),
        lambda q, k, v: (q, k[:, :3], v),
        lambda q, k, v: (q.requires_grad_(), k, v),
    ],
)
def test_what_eager_refuses(change):
    def function(q, k, v):
        return flex_attention(*change(q, k, v))

    raised = []
    for called in (function, braze.compile(function)):
        with pytest.raises(Exception) as error:
            called(*tensors(0))
        raised.append((error.type, str(error.value)))
    assert raised[0] == raised[1]
