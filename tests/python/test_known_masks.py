"""Masks of attention that are known to hide nothing, or what comes later, are left out; all others stay
(capture/known_masks.h)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention as attention

import braze

B, H, L, S, E = 2, 3, 5, 7, 8


def rows() -> Tensor:
    return torch.arange(L)[:, None]


def columns() -> Tensor:
    return torch.arange(S)[None, :]


def same_sequence(positions: Tensor, length: int) -> Tensor:
    """Of positions [batch, n]: as transformers finds where sequences packed into one begin."""
    before = positions[:, :1] - 1
    sequence = (torch.diff(positions, prepend=before, dim=-1) != 1).cumsum(-1)
    of = torch.arange(positions.shape[0])[:, None, None, None]
    return sequence[of, line(length)[:, None]] == sequence[of, line(positions.shape[1])]


def line(n: int) -> Tensor:
    return torch.arange(n)


#: What hides nothing: truth values, and numbers that are added.
NOTHING_HIDDEN: dict[str, Callable[[], Tensor]] = {
    "rows from 0 on, expanded": lambda: (rows() >= 0).expand(B, 1, L, S),
    "columns after -1": lambda: (columns() > -1).expand(L, S),
    "both": lambda: (rows() >= 0) & (columns() >= 0),
    "one of both": lambda: (rows() > 2) | (columns() >= 0),
    "counted from 3 on": lambda: (rows() + 3 >= 3) & (columns() < 2**50),
    "not less": lambda: (rows() < 0).logical_not() & (columns() >= 0),
    "ones": lambda: torch.ones(L, S, dtype=torch.bool),
    "ones, turned": lambda: (1.0 - torch.ones(B, 1, 1, S)) * torch.finfo(torch.float32).min,
    "nowhere filled": lambda: torch.where((columns() >= 0).expand(L, S), 0.0, -torch.inf),
    "zeros": lambda: torch.zeros(B, H, L, S),
    "one sequence": lambda: same_sequence(line(S)[None].expand(B, S), L),
    "one sequence that begins later": lambda: same_sequence(line(S)[None] + 4, L),
    "equal and not": lambda: (line(S) == line(S)) & (line(L) != line(L) + 1)[:, None],
    "counted off": lambda: (line(S)[1:] - line(S)[:-1] == 1).new_ones(L, 1) & (line(S + 1)[1:] - line(S) == 1),
}

SOMETHING_HIDDEN: dict[str, Callable[[], Tensor]] = {
    "causal, of more keys": lambda: rows() >= columns(),
    "not the first": lambda: (columns() > 0).expand(L, S),
    "up to the fifth": lambda: (columns() <= 4).expand(L, S),
    "wraps around": lambda: ((columns().to(torch.int8) + 125) >= 0).expand(L, S),
    "none of two": lambda: (rows() > 2) & (columns() >= 0),
    "either turned": lambda: torch.where((columns() >= 3).expand(L, S), 0.0, -1.0),
    "a third thrice": lambda: torch.full((L, S), 1 / 3) * 3.0 - 1.0 + torch.full((L, S), 0.1) * 3.0 - 0.3,
    "ones added": lambda: torch.ones(L, S),
    "two sequences": lambda: same_sequence(torch.cat([line(3), line(S - 3)])[None], L),
    "a sequence with a gap": lambda: same_sequence(torch.cat([line(3), line(S - 3) + 4])[None], L),
    "every second": lambda: same_sequence(2 * line(S)[None], L),
    "another step": lambda: torch.cat([line(2), line(S - 2)])[line(L)][:, None] >= line(S),
}


#: Square ones that is_causal stands for, and those that it does not.
CAUSAL: dict[str, Callable[[], Tensor]] = {
    "rows and columns": lambda: line(L)[:, None] >= line(L),
    "columns and rows": lambda: line(L)[None, None, None, :] <= line(L)[None, None, :, None],
    "after one before": lambda: line(L)[:, None] > line(L) - 1,
    "both moved": lambda: line(L) + 7 < line(L)[:, None] + 8,
    "spread": lambda: (line(L)[:, None] >= line(L)).expand(B, 1, L, L),
    "of differences": lambda: line(L)[:, None] - line(L) >= 0,
    "and all": lambda: (line(L)[:, None] >= line(L)) & (line(L) >= 0),
    "turned twice": lambda: (line(L) >= line(L)[:, None]).mT,
    "doubled": lambda: 2 * line(L)[:, None] >= line(L) * 2,
    "of one sequence": lambda: (line(L)[:, None] >= line(L)) & same_sequence(line(L)[None], L),
    "of positions": lambda: (line(L) + 3)[line(L)][:, None] >= line(L + 3)[line(L) + 3],
    "of every second": lambda: line(2 * L)[::2][:, None] >= line(2 * L)[::2],
    "of what goes on": lambda: torch.cat([line(2), line(L - 2) + 2])[:, None] >= line(L),
    "of single ones": lambda: torch.cat([line(1) + k for k in range(L)])[:, None] >= line(L),
}
NOT_CAUSAL: dict[str, Callable[[], Tensor]] = {
    "what comes before": lambda: line(L)[:, None] <= line(L),
    "without the diagonal": lambda: line(L)[:, None] > line(L),
    "one more": lambda: line(L)[:, None] + 1 >= line(L),
    "in windows": lambda: (line(L)[:, None] >= line(L)) & (line(L)[:, None] - line(L) < 2),
    "one of the columns": lambda: (line(L)[:, None] >= line(L)) & (line(L) != 1),
    "mirrored": lambda: (line(L)[:, None] >= line(L)).flip(0),
    "steeper": lambda: 2 * line(L)[:, None] >= line(L),
    "by batch": lambda: line(L)[:, None] + torch.arange(B)[:, None, None, None] >= line(L),
    "of two sequences": lambda: (line(L)[:, None] >= line(L)) & same_sequence((line(L) % 3)[None], L),
    "from the end": lambda: line(L)[line(L) - 2][:, None] >= line(L),
    "backwards": lambda: line(L)[L - 1 - line(L)][:, None] >= line(L),
    "of the first half": lambda: line(L)[:, None] >= torch.cat([line(2), line(L - 2)]),
    "counted": lambda: line(L)[:, None] >= torch.ones(L, dtype=torch.int64).cumsum(0),
    "one row for all": lambda: (line(L)[:, None] >= line(L))[2:3].expand(L, L),
}


def of(make: Callable[[], Tensor]) -> tuple[Callable[..., Tensor], list[Tensor]]:
    def attended(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return attention(q, k, v, attn_mask=make())

    torch.manual_seed(0)
    return attended, [torch.randn(B, H, length, E) for length in (L, S, S)]


def has_mask(compiled: Callable[..., Tensor]) -> bool:
    (program,) = compiled.programs()  # type: ignore[attr-defined]
    (call,) = [line for line in str(program.graph).splitlines() if " = sdpa " in line]
    return "sdpa %q, %k, %v, causal" not in call


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(
    ("make", "is_kept"),
    [pytest.param(make, False, id=name) for name, make in NOTHING_HIDDEN.items()]
    + [pytest.param(make, True, id=name) for name, make in SOMETHING_HIDDEN.items()],
)
def test_masks(make: Callable[[], Tensor], is_kept: bool, dynamic: bool) -> None:
    function, inputs = of(make)
    compiled = braze.compile(function, fullgraph=True, dynamic=dynamic)
    torch.testing.assert_close(compiled(*inputs), function(*inputs))
    assert has_mask(compiled) == is_kept


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(
    ("make", "is_known"),
    [pytest.param(make, True, id=name) for name, make in CAUSAL.items()]
    + [pytest.param(make, False, id=name) for name, make in NOT_CAUSAL.items()],
)
def test_causal_masks(make: Callable[[], Tensor], is_known: bool, dynamic: bool) -> None:
    def attended(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return attention(q, k, v, attn_mask=make())

    torch.manual_seed(0)
    inputs = [torch.randn(B, H, L, E) for _ in range(3)]
    compiled = braze.compile(attended, fullgraph=True, dynamic=dynamic)
    torch.testing.assert_close(compiled(*inputs), attended(*inputs), equal_nan=True)
    (program,) = compiled.programs()
    assert ("causal=true" in str(program.graph)) == is_known
    assert has_mask(compiled) != is_known


def test_causal_by_the_inputs_length() -> None:
    """As transformers builds it: of the length of what comes in, which varies."""

    def attended(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        at = torch.arange(q.shape[-2], device=q.device)
        mask = (at[None, None, None, :] <= at[None, None, :, None]).expand(q.shape[0], -1, -1, -1)
        return attention(q, k, v, attn_mask=mask)

    compiled = braze.compile(attended, fullgraph=True, dynamic=True)
    for length in (5, 9, 16, 2, 1):
        inputs = [torch.randn(B, H, length, E) for _ in range(3)]
        torch.testing.assert_close(compiled(*inputs), attended(*inputs))
    assert any("causal=true" in str(program.graph) for program in compiled.programs())


def test_a_mask_that_eager_refuses() -> None:
    def attended(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return attention(q, k, v, attn_mask=torch.ones(L + 1, S, dtype=torch.bool))

    _, inputs = of(rows)
    with pytest.raises(RuntimeError) as expected:
        attended(*inputs)
    with pytest.raises(RuntimeError) as raised:
        braze.compile(attended)(*inputs)
    assert str(raised.value) == str(expected.value)


def test_gradients_without_the_mask() -> None:
    function, inputs = of(NOTHING_HIDDEN["both"])
    compiled = braze.compile(function, fullgraph=True)
    leaves = [[value.clone().requires_grad_() for value in inputs] for _ in range(2)]
    for called, values in zip((function, compiled), leaves, strict=True):
        called(*values).square().sum().backward()
    torch.testing.assert_close([value.grad for value in leaves[1]], [value.grad for value in leaves[0]])
