"""Tensors that are made of arrays which a graph computes (_arrays.py)."""

from typing import Any

import torch

from braze import _tensors_of_data
from braze._arrays import Array, Scalar, end
from braze._load import C


def tensor(data: Any, *, dtype: Any = None, device: Any = None, **settings: Any) -> torch.Tensor:
    """torch.tensor, which copies."""
    if not isinstance(data, Array):
        return _tensors_of_data.tensor(data, dtype=dtype, device=device, **settings)
    if settings.get("requires_grad", False) or settings.get("pin_memory", False):
        end()
    return data._tensor.to(device=device, dtype=dtype, copy=True)


def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> torch.Tensor:
    """torch.as_tensor, which shares the memory of an array, and copies a number."""
    if not isinstance(data, Array):
        return _tensors_of_data.as_tensor(data, dtype, device)
    if isinstance(data, Scalar):
        return tensor(data, dtype=dtype, device=device)
    return torch.as_tensor(from_numpy(data), dtype=dtype, device=device)


def from_numpy(array: Any) -> torch.Tensor:
    """torch.from_numpy, likewise. Of a tensor it raises an error."""
    if isinstance(array, torch.Tensor):
        end()
    if not isinstance(array, Array):
        return _tensors_of_data.from_numpy(array)
    if isinstance(array, Scalar) or not array._begins:
        end()  # Eager's has a storage of its own where a view begins.
    return array._tensor.data  # Another tensor each time, of that memory.


def install() -> None:
    C.set_stand_in(torch.tensor, tensor)
    C.set_stand_in(torch.as_tensor, as_tensor)
    C.set_stand_in(torch.from_numpy, from_numpy)
