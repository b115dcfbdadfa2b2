"""Values computed straight into the memory of the `cat` that joins them, against eager."""

import itertools

import pytest
import torch

import braze

SHAPES = [(3, 40), (2, 5, 16), (64, 33)]


def joined_by(dim):
    def f(x, y):
        a, b = torch.exp(x), (x * y).flip(0)
        return torch.cat([a, y, b, y.sum(0, keepdim=True).expand_as(y).cumsum(0)], dim)

    return f


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("stride", ["rows", "columns"])
def test_cats_along_every_dimension(shape, stride):
    torch.manual_seed(0)
    x, y = torch.randn(shape), torch.randn(shape)
    if stride == "columns":
        x, y = (t.transpose(0, -1).contiguous().transpose(0, -1) for t in (x, y))
    for dim in range(len(shape)):
        f = joined_by(dim)
        got, want = braze.trace(f, (x, y))(x, y), f(x, y)
        torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-5)
        assert got.stride() == want.stride()


def test_stacks_of_stacks_and_rotary_embedding():
    torch.manual_seed(1)

    def f(q, cos, sin):
        half = q.shape[-1] // 2
        turned = torch.cat((-q[..., half:], q[..., :half]), -1)
        q = q * cos + turned * sin
        pairs = torch.stack([torch.stack([q.exp(), q.sin()], 1), torch.stack([q.cos(), q.tanh()], 1)], 2)
        return pairs, torch.cat([torch.cat([q + 1, q - 1], -1), q * 2], -1).softmax(-1)

    q, cos, sin = torch.randn(2, 4, 7, 64), torch.randn(7, 64), torch.randn(7, 64)
    program = braze.trace(f, (q, cos, sin))
    for got, want in zip(program(q, cos, sin), f(q, cos, sin), strict=True):
        torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-5)


def test_products_and_strange_offsets():
    """Parts that begin at odd addresses, of every size of element."""
    torch.manual_seed(2)
    for dtype, width in itertools.product([torch.float32, torch.float64, torch.bfloat16, torch.int64], [17, 80]):
        x = torch.randn(9, 3, width).mul(4).to(dtype)

        def f(x):
            parts = [x + k for k in range(4)]
            return torch.cat([x[:, 0, :1], *[p[:, 1].abs() * 2 for p in parts], x.sum(1)], 1).to(x.dtype)

        torch.testing.assert_close(braze.trace(f, (x,))(x), f(x))
    a, b = torch.randn(33, 48), torch.randn(48, 20)
    g = lambda a, b: (torch.cat([(a @ b), (a + 1) @ b, a[:3, :20]]), torch.cat([a @ b, a.tanh()], 1))  # noqa: E731
    for got, want in zip(braze.trace(g, (a, b))(a, b), g(a, b), strict=True):
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)


def test_a_large_cat_whose_parts_bypass_the_cache():
    x = torch.randn(4, (2 << 20) + 5)
    f = lambda x: torch.cat([x[:, :1], x + 1, x * 2], 1)  # noqa: E731
    torch.testing.assert_close(braze.trace(f, (x,))(x), f(x))


def test_operands_are_not_copied():
    f = lambda x, y: torch.cat([x.exp(), y.sin()], 1)  # noqa: E731
    program = braze.trace(f, (torch.randn(8, 64), torch.randn(8, 32)))
    assert [step.kind for step in program.steps] == ["kernel", "kernel"]
    assert program.memory()["arena_bytes"] == 0
