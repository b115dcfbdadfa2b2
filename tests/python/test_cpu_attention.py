"""Attention on a CPU by braze's own products: as near to the exact result as eager's, of all forms and masks."""

import pytest
import torch
from torch.nn import functional as F

import braze


@pytest.fixture(autouse=True)
def wherever_they_apply(monkeypatch):
    """Also on processors where ATen's is faster."""
    monkeypatch.setenv("BRAZE_ATTENTION", "panels")


TYPES = [torch.float32, torch.bfloat16]
# batch, heads, queries, keys, width: whole blocks (72 queries, 256 keys, vectors of 8 and 16) and parts of them.
SIZES = [
    (2, 3, 16, 16, 8),
    (1, 2, 100, 300, 64),
    (2, 2, 73, 513, 32),
    (1, 1, 257, 257, 96),
    (1, 2, 12, 5, 40),
    (2, 1, 13, 700, 17),
    (1, 2, 144, 256, 128),
]


def tensors(dtype, sizes, heads=None):
    torch.manual_seed(sum(sizes))
    batch, of_queries, queries, keys, width = sizes
    shapes = [(of_queries, queries), (heads or of_queries, keys), (heads or of_queries, keys)]
    return [torch.randn(batch, of, length, width).to(dtype) for of, length in shapes]


def check(function, *arguments):
    compiled = braze.compile(function)
    with torch.no_grad():
        exact = function(*[one.double() if one.is_floating_point() else one for one in arguments])
        wanted = function(*arguments)
        for _ in range(2):
            found = compiled(*arguments)
            assert (found.stride(), found.dtype) == (wanted.stride(), wanted.dtype)
            assert torch.equal(found.isnan(), wanted.isnan())
            ours, theirs = ((one.double() - exact).abs().nan_to_num(0).max() for one in (found, wanted))
            assert ours <= 2 * theirs + 1e-6
    assert compiled.counts()["native"] == 0


def plain(q, k, v):
    return F.scaled_dot_product_attention(q, k, v)


def causal(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def turned_around(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, scale=-0.3)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("function", [plain, causal, turned_around])
def test_forms(function, sizes, dtype):
    check(function, *tensors(dtype, sizes))


def masked(q, k, v, mask):
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


MASKS = {
    "added": lambda shape, dtype: torch.randn(shape).to(dtype),
    "of all heads": lambda shape, dtype: torch.randn(shape[0], 1, *shape[2:]).to(dtype),
    "of a key": lambda shape, dtype: torch.randn(shape[0], 1, 1, shape[3]).to(dtype).expand(*shape),
    "bool": lambda shape, dtype: torch.rand(shape[2:]) > 0.3,
    "one that hides a row": lambda shape, dtype: (
        (torch.rand(shape[2:]) > 0.3) & (torch.arange(shape[2]) != 3)[:, None]
    ),
    "of infinities": lambda shape, dtype: (torch.rand(shape[2:]) > 0.3).to(dtype).log(),
    "turned": lambda shape, dtype: torch.randn(*shape[:2], shape[3], shape[2]).to(dtype).transpose(2, 3),
}


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("name", MASKS)
@pytest.mark.parametrize("sizes", SIZES[1:4], ids=str)
def test_masks(name, sizes, dtype):
    check(masked, *tensors(dtype, sizes), MASKS[name](sizes[:4], dtype))


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_heads_for_several_queries(dtype):
    def grouped(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)

    check(grouped, *tensors(dtype, (2, 6, 90, 90, 16), heads=2))


LAYOUTS = {
    "heads behind rows": lambda one: one.transpose(1, 2).contiguous().transpose(1, 2),
    "gaps": lambda one: torch.cat([one, one], -1)[..., : one.shape[-1]],
    "columns": lambda one: one.transpose(2, 3).contiguous().transpose(2, 3),
    "expanded": lambda one: one[:1].expand_as(one),
}


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("name", LAYOUTS)
def test_layouts(name, dtype):
    check(plain, *map(LAYOUTS[name], tensors(dtype, (2, 2, 73, 300, 24))))


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("of", [0, 1, 2])
def test_special_values(of, value, sizes, dtype):
    arguments = tensors(dtype, sizes)
    arguments[of][0, 0, 2, 3] = value
    check(plain, *arguments)


def added(q, k, v):
    mask = torch.linspace(-1, 1, q.shape[2] * k.shape[2]).view(q.shape[2], k.shape[2]).to(q.dtype)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def hidden(q, k, v):
    """A row sees nothing."""
    mask = (torch.arange(k.shape[2]) % 3 != torch.arange(q.shape[2])[:, None] % 3) & (
        torch.arange(q.shape[2]) != 5
    )[:, None]
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("function", [plain, causal, turned_around, added, hidden])
def test_gradients(function, sizes, dtype):
    def gradients(one, as_type):
        given = [tensor.to(as_type).requires_grad_() for tensor in tensors(dtype, sizes)]
        result = one(*given)
        tangent = torch.randn(result.shape, generator=torch.Generator().manual_seed(1)).to(dtype).to(as_type)
        return [result.detach(), *torch.autograd.grad(result, given, tangent)]

    ours, theirs = gradients(braze.compile(function), dtype), gradients(function, dtype)
    for one, other, exact in zip(ours, theirs, gradients(function, torch.double), strict=True):
        assert one.stride() == other.stride()
        mine, eagers = ((found.double() - exact).abs().max() for found in (one, other))
        assert torch.equal(one.isnan(), other.isnan())
        assert mine <= 3 * eagers + 1e-6


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("of", [0, 1, 2])
def test_gradients_of_special_values(of, value, dtype):
    found = []
    for function in (braze.compile(plain), plain):
        given = tensors(dtype, (1, 2, 73, 300, 32))
        given[of][0, 0, 2, 3] = value
        given = [one.requires_grad_() for one in given]
        found.append(torch.autograd.grad(function(*given).sum(), given))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-2, atol=1e-2, equal_nan=True)


def test_results_do_not_depend_on_threads():
    arguments = tensors(torch.float32, (1, 3, 200, 300, 32))
    compiled, threads, found = braze.compile(causal), torch.get_num_threads(), []
    try:
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            with torch.no_grad():
                found.append(compiled(*arguments))
    finally:
        torch.set_num_threads(threads)
    assert all(torch.equal(one, found[0]) for one in found)


def test_sizes_that_vary():
    compiled = braze.compile(causal, dynamic=True)
    with torch.no_grad():
        for sizes in ((4, 2, 30, 30, 16), (5, 2, 5, 5, 16), (2, 2, 300, 300, 16), (3, 2, 72, 72, 16)):
            arguments = tensors(torch.float32, sizes)
            torch.testing.assert_close(compiled(*arguments), causal(*arguments))
    assert compiled.counts()["captured"] == 1
