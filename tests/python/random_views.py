"""Random programs of views and writes, as source text.

A program begins with a tensor `a` (float or complex) and makes further names by views of earlier ones: strided,
transposed, of another type, conjugated, negated. In between it writes through any of them. Compared with eager are
all names at the end: values, strides, offsets, versions, who shares memory, what autograd takes for a view of what.
"""

from __future__ import annotations

import random

import torch

# Views of anything; of tensors with an even last dimension; of complex and of real ones.
ANY = [
    "{x}[{i}]",
    "{x}[..., {i}:]",
    "{x}[..., ::2]",
    "{x}.transpose(0, -1)",
    "{x}.unsqueeze(0)",
    "{x}.flatten(0, 1)",
    "{x}.reshape(-1)",
    "{x}.diagonal(dim1=0, dim2=-1)",
    "{x}.narrow(0, 0, 1)",
    "{x}.unfold(-1, 2, 2)",
    "{x}.detach()",
    "{x}.expand(2, *{x}.shape)",
    "{x}.squeeze()",
    "{x}.chunk(2, 0)[0]",
    "{x}.unbind(0)[0]",
    "torch._neg_view({x})",
]
REAL = ["torch.view_as_complex({x}.unflatten(-1, (-1, 2)))", "{x}.view(torch.int32)", "{x}.view(torch.int64)"]
COMPLEX = [
    "torch.view_as_real({x})",
    "{x}.real",
    "{x}.imag",
    "{x}.conj()",
    "{x}.mH",
    "{x}.conj().imag",
    "{x}.view(torch.float32)",
]
WRITES = [
    "{x}.add_(1)",
    "{x}.mul_(2)",
    "{x}.fill_({i})",
    "{x}[..., 0] = {i}",
    "{x}[{i}] *= 3",
    "{x}.zero_()",
    "{x}.copy_({x}.clone().flip(0))",
    "{x}.neg_()",
]
FRESH = ["{x} + {x}", "{x}.clone()", "{x}.contiguous()", "{x}.resolve_conj().resolve_neg()"]


class Program:
    """Grows a program by trying each statement on real tensors: what eager refuses is left out."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.is_complex = self.random.random() < 0.5
        self.names = {"a": self.make()}
        self.lines: list[str] = []
        for _ in range(self.random.randint(4, 10)):
            self.grow()

    def make(self) -> torch.Tensor:
        x = torch.arange(1.0, 25.0).reshape(4, 6)
        return torch.complex(x, x + 0.5) if self.is_complex else x

    def grow(self) -> None:
        name = self.random.choice(list(self.names))
        value = self.names[name]
        kinds = ANY + (COMPLEX * 2 if value.is_complex() else REAL * 2)
        text = self.random.choice(
            kinds if self.random.random() < 0.55 else FRESH if self.random.random() < 0.2 else WRITES
        )
        text = text.format(x=name, i=self.random.randint(0, 1))
        if text.startswith(name + ".") is False and "=" in text or text.split("(")[0].endswith("_"):
            line = text
        else:
            line = f"v{len(self.names)} = {text}"
        try:
            exec(line, {"torch": torch}, self.names)
        except (RuntimeError, IndexError):
            return
        self.lines.append(line)

    def source(self) -> str:
        body = "".join(f"    {line}\n" for line in self.lines)
        return f"def f(a):\n{body}    return {', '.join(self.names)},\n"


def observed(values: tuple[torch.Tensor, ...], argument: torch.Tensor) -> list[tuple]:
    """What can be seen of tensors: of each, and of how they are related."""
    facts = []
    memories: list[int] = []
    for value in (*values, argument):
        memory = value.untyped_storage().data_ptr()
        memories.append(memory)
        base = value._base
        which = next((k for k, one in enumerate((*values, argument)) if one is base), None)
        facts.append(
            (
                value.dtype,
                tuple(value.shape),
                value.stride(),
                value.is_conj(),
                value.is_neg(),
                value.tolist(),
                memories.index(memory),
                value.storage_offset(),
                value._version,
                value._is_view(),
                None if base is None else (tuple(base.shape), base.stride(), which),
                next(k for k, one in enumerate((*values, argument)) if one is value),
            )
        )
    return facts
