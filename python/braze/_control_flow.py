"""What captures run in the place of torch.cond, torch.while_loop and their kin, see _stand_ins.py."""

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_unflatten

from braze._load import C

Function = Callable[..., Any]


def cond(pred: Any, true_fn: Function, false_fn: Function, operands: Any = ()) -> Any:
    """torch.cond. A tensor's branches are both computed, and their results selected."""
    if isinstance(pred, (bool, int, float)):
        return true_fn(*operands) if pred else false_fn(*operands)
    if not isinstance(pred, torch.Tensor) or pred.numel() != 1 or pred.dtype != torch.bool:
        C.end_graph("torch.cond of what is neither a bool nor a tensor with one")
    if not isinstance(operands, (tuple, list)):
        C.end_graph("torch.cond with operands that are no tuple")
    leaves, spec = tree_flatten(list(operands))
    if not _are_tensors(leaves):
        C.end_graph("torch.cond with operands that are not all tensors")
    mark = C.trace_mark()
    pred = pred.reshape(())
    taken, other = true_fn(*operands), false_fn(*operands)
    if _have_history(taken) or _have_history(other):
        # Zeros come back into the branch that is not taken, and may meet infinities there: it gives no gradients.
        ways = [[_gated(one, of) for one in leaves] for of in (pred, ~pred)]
        beside = tree_unflatten([tensor.detach() for tensor in leaves], spec)
        if (
            any([one is None for one in ways[0]])
            or _have_history(true_fn(*beside))
            or _have_history(false_fn(*beside))
        ):
            return true_fn(*operands) if pred.item() else false_fn(*operands)
        taken, other = true_fn(*tree_unflatten(ways[0], spec)), false_fn(*tree_unflatten(ways[1], spec))
    if not C.only_computed_since(mark):
        C.end_graph("torch.cond with a branch that writes into tensors, or draws random numbers")
    return _select(pred, taken, other)


def _have_history(results: Any) -> bool:
    return any([isinstance(one, torch.Tensor) and one.requires_grad for one in tree_flatten(results)[0]])


def _gated(tensor: torch.Tensor, passes: torch.Tensor) -> torch.Tensor | None:
    """The same elements, with no gradient where the condition does not hold. None: they cannot lie as they do."""
    if not tensor.requires_grad:
        return tensor
    gated = torch.where(passes, tensor, tensor.detach())
    return gated if gated.stride() == tensor.stride() else None


def _select(pred: torch.Tensor, taken: Any, other: Any) -> Any:
    if isinstance(taken, torch.Tensor) and isinstance(other, torch.Tensor):
        if taken.shape == other.shape and taken.dtype == other.dtype and taken.stride() == other.stride():
            return torch.where(pred, taken, other)
    elif isinstance(taken, (tuple, list)) and type(taken) is type(other) and len(taken) == len(other):
        selected = [_select(pred, one, another) for one, another in zip(taken, other, strict=True)]
        return tuple(selected) if isinstance(taken, tuple) else selected
    elif isinstance(taken, dict) and isinstance(other, dict) and list(taken) == list(other):
        return {key: _select(pred, taken[key], other[key]) for key in taken}
    elif taken is None and other is None:
        return None
    return C.end_graph("torch.cond with branches whose results differ in more than their elements")


def while_loop(cond_fn: Function, body_fn: Function, carried_inputs: Any) -> Any:
    """torch.while_loop, unrolled. What no input decides may decide when it ends."""
    if not isinstance(carried_inputs, (tuple, list)) or not _are_tensors(carried_inputs):
        C.end_graph("torch.while_loop over what is not all tensors")
    carried = tuple([tensor.clone() for tensor in carried_inputs])
    while True:
        goes_on = cond_fn(*carried)
        if isinstance(goes_on, torch.Tensor):
            if not C.is_known(goes_on):
                C.end_graph("torch.while_loop until the elements of a tensor say so")
            goes_on = bool(goes_on)
        if not goes_on:
            return carried
        carried = body_fn(*carried)
        carried = tuple(carried) if isinstance(carried, (tuple, list)) else (carried,)


def scan(combine_fn: Function, init: Any, xs: Any, *, dim: int = 0, reverse: bool = False) -> tuple[Any, Any]:
    """torch._higher_order_ops.scan, unrolled."""
    leaves, spec = tree_flatten(xs)
    if not leaves:
        return init, []
    if not _are_tensors(leaves) or not -leaves[0].ndim <= dim < leaves[0].ndim:
        C.end_graph("scan over what is no tensors of one length")
    dim = dim % leaves[0].ndim  # Of what goes in: results may have others.
    count = leaves[0].shape[dim]
    if count == 0 or any([leaf.ndim <= dim or leaf.shape[dim] != count for leaf in leaves]):
        C.end_graph("scan over what is no tensors of one length")
    steps = range(count - 1, -1, -1) if reverse else range(count)
    carry, rows = init, []
    for step in steps:
        carry, row = combine_fn(carry, tree_unflatten([leaf.select(dim, step) for leaf in leaves], spec))
        flat, row_spec = tree_flatten(row)
        rows.append(flat)
    if not _are_tensors(rows[0]):
        C.end_graph("scan with results that are not all tensors")
    stacked = [torch.stack(list(column)) for column in zip(*(rows[::-1] if reverse else rows), strict=True)]
    moved = [column.movedim(0, dim) if dim < column.ndim else column for column in stacked]
    return carry, tree_unflatten(moved, row_spec)


def map(f: Function, xs: Any, *args: Any) -> Any:
    """torch._higher_order_ops.map, unrolled."""
    leaves, spec = tree_flatten(xs)
    count = leaves[0].shape[0] if leaves and _are_tensors(leaves) and leaves[0].ndim else 0
    if count == 0 or any([leaf.ndim == 0 or leaf.shape[0] != count for leaf in leaves]):
        C.end_graph("map over what is no tensors of one length")
    rows = []
    for step in range(count):
        flat, row_spec = tree_flatten(f(tree_unflatten([leaf[step] for leaf in leaves], spec), *args))
        rows.append(flat)
    if not _are_tensors(rows[0]):
        C.end_graph("map with results that are not all tensors")
    return tree_unflatten([torch.stack(list(column)) for column in zip(*rows, strict=True)], row_spec)


def foreach_map(op: Function, *operands: Any, **settings: Any) -> Any:
    """torch._higher_order_ops.foreach_map: by rows, as far as the shortest list goes."""
    if settings:
        C.end_graph("foreach_map with settings of its own")
    lengths = [len(one) for one in operands if isinstance(one, (list, tuple))]
    if not lengths:
        return op(*operands)
    return [
        op(*[one[row] if isinstance(one, (list, tuple)) else one for one in operands])
        for row in range(min(lengths))
    ]


def _are_tensors(values: Any) -> bool:
    return all(isinstance(value, torch.Tensor) for value in values)


STAND_INS = {"while_loop": while_loop, "scan": scan, "map": map, "foreach_map": foreach_map}


def install() -> None:
    """Tells the compiled part. Names that this version of PyTorch does not have are left out."""
    C.set_stand_in(torch.cond, cond)
    for name, stand_in in STAND_INS.items():
        function = getattr(torch._higher_order_ops, name, None)
        if callable(function):
            C.set_stand_in(function, stand_in)
