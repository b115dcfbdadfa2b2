"""What captures run in the place of torch.nn.attention.flex_attention, see _stand_ins.py: the attention that eager
computes, with all scores. Where eager raises, warns or takes gradients, the graph ends, and it does so itself."""

import math
from typing import Any

import torch
from torch.nn.attention import flex_attention as flex
from torch.overrides import TorchFunctionMode

from braze import _stand_ins
from braze._load import C


class IndexByTensors(TorchFunctionMode):
    """`table[head, q_idx]` in a score's function: indices that are tensors without dimensions are no numbers."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.Tensor.__getitem__:
            given = args[1] if isinstance(args[1], tuple) else (args[1],)
            if all([isinstance(one, (torch.Tensor, int)) for one in given]):
                device = args[0].device
                indices = [
                    one if isinstance(one, torch.Tensor) else torch.tensor(one, dtype=torch.int64, device=device)
                    for one in given
                ]
                return torch.ops.aten.index.Tensor(args[0], indices)
        return func(*args, **(kwargs or {}))


def flex_attention(
    query: Any,
    key: Any,
    value: Any,
    score_mod: Any = None,
    block_mask: Any = None,
    scale: float | None = None,
    enable_gqa: bool = False,
    return_lse: bool = False,
    kernel_options: Any = None,
    *,
    return_aux: Any = None,
) -> Any:
    """torch.nn.attention.flex_attention.flex_attention"""
    wants_sums = return_aux is not None and return_aux.lse
    if return_lse or kernel_options or (return_aux is not None and return_aux.max_scores):
        C.end_graph(_stand_ins.NO_FORM)
    if not _are_plain(query, key, value) or not _fit(query, key, value, block_mask, enable_gqa):
        C.end_graph(_stand_ins.NO_FORM)
    if scale is None:
        scale = 1.0 / math.sqrt(query.size(-1))
    strides = query.stride()
    groups = query.size(1) // key.size(1)
    value, key = torch.repeat_interleave(value, groups, dim=1), torch.repeat_interleave(key, groups, dim=1)
    batch = query.size(0)
    key, value = key.expand((batch, *key.size()[1:])), value.expand((batch, *value.size()[1:]))
    precision = torch.float64 if query.dtype == torch.float64 else torch.float32
    scores = query.to(precision) @ key.to(precision).transpose(-2, -1)
    scores = _modified((scores * scale).to(precision), score_mod, block_mask)
    weights = torch._safe_softmax(scores, dim=-1)
    result = _laid_out(weights.to(query.dtype) @ value.to(query.dtype), strides)
    if return_aux is None:
        return result
    if not wants_sums:
        return result, flex.AuxOutput(lse=None, max_scores=None)
    sums = scores.logsumexp(dim=-1)
    sums = torch.where(torch.all(scores == -float("inf"), dim=-1), -float("inf"), sums)
    return result, flex.AuxOutput(lse=sums / math.log(2) * math.log(2.0), max_scores=None)


def _are_plain(*tensors: Any) -> bool:
    """Without gradients, which eager refuses on a CPU."""
    first = tensors[0]
    return not torch.is_autocast_enabled(first.device.type) and all(
        [
            isinstance(one, torch.Tensor)
            and one.dim() == 4
            and one.is_floating_point()
            and one.dtype == first.dtype
            and one.device == first.device
            and not (torch.is_grad_enabled() and one.requires_grad)
            for one in tensors
        ]
    )


def _fit(query: Any, key: Any, value: Any, block_mask: Any, enable_gqa: bool) -> bool:
    heads, others = query.size(1), key.size(1)
    if query.size(3) != key.size(3) or key.size(2) != value.size(2) or others != value.size(1):
        return False
    if heads != others and not (enable_gqa and heads % others == 0):
        return False
    if key.size(0) != value.size(0):
        return False
    if block_mask is None:
        return query.size(0) == key.size(0)
    if type(block_mask) is not flex.BlockMask or block_mask.mask_mod is getattr(
        flex, "_sliced_mask_mod_error", None
    ):
        return False
    counts = block_mask.kv_num_blocks
    if counts.device != query.device or (counts.size(0) != 1 and counts.size(0) != query.size(0)):
        return False
    if query.size(0) != key.size(0) and not (key.size(0) == 1 and counts.size(0) == query.size(0)):
        return False
    return block_mask.shape[-2] == query.size(2) and block_mask.shape[-1] == key.size(2)


def _modified(scores: Any, score_mod: Any, block_mask: Any) -> Any:
    """By functions of one score and of where it lies."""
    places = [torch.arange(0, size, device=scores.device) for size in scores.shape]
    with IndexByTensors():
        modified = scores if score_mod is None else _for_all(score_mod, (0,))(scores, *places)
        if block_mask is None:
            return modified
        is_seen = _for_all(block_mask.mask_mod, ())(*places)
        nothing = torch.tensor(-float("inf"), dtype=scores.dtype, device=scores.device)
        return torch.where(is_seen, modified, nothing)


def _for_all(function: Any, first: tuple[int, ...]) -> Any:
    for place in (3, 2, 1, 0):
        which = [None, None, None, None]
        which[place] = 0
        function = torch.vmap(function, in_dims=(*first, *which))
    return function


def _laid_out(result: Any, strides: Any) -> Any:
    """In the order of the query's strides, with the innermost dimension last."""
    order = sorted(range(4), key=lambda dim: strides[dim], reverse=True)[::-1]
    made, step = [0, 0, 0, 0], 1
    for dim in [3, *[dim for dim in order if dim != 3]]:
        made[dim] = step
        step *= result.shape[dim]
    other = result.new_empty_strided(result.shape, made)
    other.copy_(result)
    return other
