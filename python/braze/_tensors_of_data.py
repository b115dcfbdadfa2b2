"""Tensors of Python's data, in captures: of tensors in lists, whose numbers eager reads, and by legacy classes."""

from collections.abc import Callable
from typing import Any

import torch

from braze._load import C

LEGACY = {
    "FloatTensor": torch.float32,
    "DoubleTensor": torch.float64,
    "HalfTensor": torch.float16,
    "BFloat16Tensor": torch.bfloat16,
    "ByteTensor": torch.uint8,
    "CharTensor": torch.int8,
    "ShortTensor": torch.int16,
    "IntTensor": torch.int32,
    "LongTensor": torch.int64,
    "BoolTensor": torch.bool,
}


def tensor(data: Any, *, dtype: Any = None, device: Any = None, **settings: Any) -> torch.Tensor:
    """torch.tensor of lists with tensors in them, and of arrays that existed before."""
    if type(data) is not list and type(data) is not tuple:
        over = C.tensor_over(data)
        if over is None:
            return torch.tensor(data, dtype=dtype, device=device)
        if settings.get("requires_grad", False) or settings.get("pin_memory", False):
            C.end_graph("a tensor shares the memory of an array that existed before")
        return over.to(device=device, dtype=dtype, copy=True)
    leaves: list[Any] = []
    shape = _shape_of(data, leaves)
    if dtype is None:
        dtype = _common_dtype(leaves)
    for leaf in leaves:
        if isinstance(leaf, torch.Tensor) and not _may_convert(leaf, dtype):
            C.end_graph("torch.tensor() of the values of other tensors")
    is_elsewhere = device is not None and torch.device(device).type != "cpu"
    if is_elsewhere or settings.get("requires_grad", False) or settings.get("pin_memory", False):
        C.end_graph("torch.tensor() of the values of other tensors")
    made = torch.stack([_number(leaf, dtype) for leaf in leaves])
    return made if len(shape) == 1 else torch.ops.aten._unsafe_view(made, shape)  # Eager's is no view.


def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> torch.Tensor:
    """torch.as_tensor likewise, which shares the memory of an array that existed before."""
    over = None if type(data) is list or type(data) is tuple else C.tensor_over(data)
    if over is None:
        return tensor(data, dtype=dtype, device=device)
    return torch.as_tensor(over, dtype=dtype, device=device)


def from_numpy(array: Any) -> torch.Tensor:
    """torch.from_numpy of such an array, or of one that nobody writes any more."""
    over = C.tensor_over(array)
    return torch.tensor(array, device="cpu") if over is None else over


def _holds_tensors(data: Any) -> bool:
    if type(data) is list or type(data) is tuple:
        return any([_holds_tensors(item) for item in data])
    return isinstance(data, torch.Tensor)


def _shape_of(data: Any, leaves: list[Any]) -> tuple[int, ...]:
    """Lists are rows as the first one is; the numbers and tensors in them are put into `leaves`."""
    if type(data) is not list and type(data) is not tuple:
        leaves.append(data)
        return ()
    inner = [_shape_of(item, leaves) for item in data]
    if not inner or [shape for shape in inner if shape != inner[0]]:
        C.end_graph("torch.tensor() of the values of other tensors")
    return (len(data), *inner[0])


def _dtype_of(leaf: Any) -> torch.dtype:
    if isinstance(leaf, torch.Tensor):
        return leaf.dtype
    if type(leaf) is float:
        return torch.get_default_dtype()
    if type(leaf) is not bool and type(leaf) is not int:
        C.end_graph("torch.tensor() of the values of other tensors")
    return torch.bool if type(leaf) is bool else torch.int64


def _common_dtype(leaves: list[Any]) -> torch.dtype:
    found = _dtype_of(leaves[0])
    for leaf in leaves[1:]:
        found = torch.promote_types(found, _dtype_of(leaf))
    return found


def _may_convert(leaf: torch.Tensor, dtype: torch.dtype) -> bool:
    """Whether its number is one of `dtype` as a matter of course: integers are refused what has a point."""
    is_plain = leaf.numel() == 1 and leaf.device.type == "cpu" and not leaf.requires_grad and not leaf.is_complex()
    return is_plain and (leaf.dtype == dtype or dtype == torch.float32 or dtype == torch.float64)


def _number(leaf: Any, dtype: torch.dtype) -> torch.Tensor:
    if not isinstance(leaf, torch.Tensor):
        return torch.tensor(leaf, dtype=dtype)
    # Python's numbers have f64's digits.
    return leaf.detach().reshape(()) if leaf.dtype == dtype else leaf.detach().reshape(()).double().to(dtype)


def legacy(dtype: torch.dtype | None) -> Callable[..., torch.Tensor]:
    """torch.LongTensor and its like: of sizes, or of the numbers in a list or an array. torch.Tensor's dtype is the
    default (None), and it takes tensors of any."""

    def make(*arguments: Any, **settings: Any) -> torch.Tensor:
        if settings:
            C.end_graph("a builtin class that is not understood")
        wanted = torch.get_default_dtype() if dtype is None else dtype
        data = arguments[0] if len(arguments) == 1 else None
        if type(data) is list or type(data) is tuple:
            make_of = tensor if _holds_tensors(data) else torch.tensor
            return make_of(data, dtype=wanted, device="cpu")
        if type(data).__module__ == "numpy" and type(data).__name__ == "ndarray":  # NumPy need not be there.
            return tensor(data, dtype=wanted, device="cpu")
        if dtype is None and (type(data) is torch.Tensor or type(data) is torch.nn.Parameter):
            return torch.ops.aten.alias(data)
        sizes = data if type(data) is torch.Size else arguments
        for size in sizes:
            if type(size) is not int:
                C.end_graph("a builtin class that is not understood")
        return torch.empty(tuple(sizes) if sizes else 0, dtype=wanted, device="cpu")

    return make


def install() -> None:
    C.set_stand_in(torch.tensor, tensor)
    C.set_stand_in(torch.as_tensor, as_tensor)
    C.set_stand_in(torch.from_numpy, from_numpy)
    C.set_stand_in(torch.Tensor, legacy(None))
    for name, dtype in LEGACY.items():
        C.set_stand_in(getattr(torch, name), legacy(dtype))
