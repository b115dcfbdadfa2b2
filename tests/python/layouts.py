"""Tensors in other layouts: the same shape, and but for `expanded` and `one` the same values."""

import dataclasses
from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree as pytree


def _ordered(tensor: torch.Tensor, order: list[int]) -> torch.Tensor:
    """Dense, with the dimensions from the outermost to the innermost in this order."""
    inverse = sorted(range(tensor.dim()), key=order.__getitem__)
    return tensor.permute(order).contiguous().permute(inverse)


def _reversed(tensor: torch.Tensor) -> torch.Tensor:
    return _ordered(tensor, list(range(tensor.dim()))[::-1])


def _rotated(tensor: torch.Tensor) -> torch.Tensor:
    """As channels_last, for any number of dimensions."""
    return _ordered(tensor, [0, *range(2, tensor.dim()), 1])


def _swapped(tensor: torch.Tensor) -> torch.Tensor:
    return _ordered(tensor, [1, 0, *range(2, tensor.dim())])


def _channels_last(tensor: torch.Tensor) -> torch.Tensor:
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    return tensor.contiguous(memory_format=formats[tensor.dim()])


def _expanded(tensor: torch.Tensor) -> torch.Tensor:
    return tensor[:1].clone().expand(tensor.shape)


def _gaps(tensor: torch.Tensor) -> torch.Tensor:
    return torch.stack([tensor, tensor], -1)[..., 1]


def _padded_rows(tensor: torch.Tensor) -> torch.Tensor:
    return torch.cat([tensor, tensor], 0).transpose(0, 1).contiguous().transpose(0, 1)[: tensor.shape[0]]


def _offset(tensor: torch.Tensor) -> torch.Tensor:
    return torch.cat([tensor.reshape(-1)[:1], tensor.reshape(-1)])[1:].view(tensor.shape)


def _one(tensor: torch.Tensor) -> torch.Tensor:
    """Dimensions of size 1 with strides that mean nothing."""
    strides = [3 if size == 1 else stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True)]
    return tensor.as_strided(tensor.shape, strides)


def _one_row(tensor: torch.Tensor) -> torch.Tensor:
    """A first dimension of size 1 whose stride is that of another one."""
    return _reversed(torch.cat([tensor, tensor], 1))[:1, : tensor.shape[1]]


@dataclasses.dataclass
class Layout:
    make: Callable[[torch.Tensor], torch.Tensor]
    suits: Callable[[torch.Tensor], bool]

    def changes(self, sample: Any) -> bool:
        """Whether any tensor of it can lie so."""
        return any(self.suits(tensor) for tensor in _tensors((sample.input, sample.args, sample.kwargs)))


def _tensors(tree: Any) -> list[torch.Tensor]:
    leaves = pytree.tree_leaves(tree)
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.layout == torch.strided]


LAYOUTS = {
    "contiguous": Layout(lambda x: x, lambda x: True),
    "channels_last": Layout(_channels_last, lambda x: x.dim() in (4, 5)),
    "rotated": Layout(_rotated, lambda x: x.dim() >= 3),
    "reversed": Layout(_reversed, lambda x: x.dim() >= 2),
    "swapped": Layout(_swapped, lambda x: x.dim() >= 3),
    "expanded": Layout(_expanded, lambda x: x.dim() > 0 and x.shape[0] > 1),
    "gaps": Layout(_gaps, lambda x: x.numel() > 0),
    "padded_rows": Layout(_padded_rows, lambda x: x.dim() >= 2 and x.numel() > 0),
    "offset": Layout(_offset, lambda x: x.numel() > 0),
    "one": Layout(_one, lambda x: 1 in x.shape),
    "one_row": Layout(_one_row, lambda x: x.dim() >= 2 and x.numel() > 0),
    "one_channels_last": Layout(
        lambda x: _channels_last(x[:1]) if x.shape[0] > 1 else _channels_last(x),
        lambda x: x.dim() in (4, 5) and x.shape[0] > 0,
    ),
}


def laid_out(layout: str, tree: Any) -> Any:
    """The tree with every tensor that suits it in that layout."""
    chosen = LAYOUTS[layout]
    made: dict[int, torch.Tensor] = {}

    def lay(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.layout != torch.strided or not chosen.suits(tensor):
            return tensor
        if id(tensor) not in made:
            made[id(tensor)] = chosen.make(tensor)
        return made[id(tensor)]

    return pytree.tree_map_only(torch.Tensor, lay, tree)
