"""torch.utils.checkpoint in a graph, whose cut says what is kept for the backward."""

import dis
import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.utils.checkpoint import create_selective_checkpoint_contexts, noop_context_fn

from braze._load import C

Function = Callable[..., Any]

# Instructions by which code may change something, or run code that does.
_CHANGING = frozenset(
    number
    for name, number in dis.opmap.items()
    if name.startswith(("STORE_", "DELETE_", "CALL", "IMPORT_", "RAISE_", "YIELD_", "SEND", "BEFORE_"))
    and name != "STORE_FAST"
)


def only_looks(function: Any) -> bool:
    """Nobody can tell whether it was called: its code changes nothing, and calls nothing."""
    return type(function) is type(only_looks) and _CHANGING.isdisjoint(function.__code__.co_code[::2])


def says_what_is_kept(context_fn: Any) -> bool:
    """Contexts that do nothing else: none, or results of these operators, or of those that a function picks."""
    if context_fn is noop_context_fn:
        return True
    if not isinstance(context_fn, functools.partial) or context_fn.func is not create_selective_checkpoint_contexts:
        return False
    given, named = context_fn.args, context_fn.keywords
    if len([*given]) != 1 or len([*named]) != 0:
        return False
    if isinstance(given[0], list):
        return all([isinstance(one, torch._ops.OpOverload) for one in given[0]])
    return only_looks(given[0])


def checkpoint(function: Function, *args: Any, **kwargs: Any) -> Any:
    """torch.utils.checkpoint.checkpoint."""
    context_fn = kwargs.pop("context_fn", noop_context_fn)
    is_reentrant = kwargs.pop("use_reentrant", None)
    preserves = kwargs.pop("preserve_rng_state", True)
    if is_reentrant is None or not says_what_is_kept(context_fn):
        C.end_graph("torch.utils.checkpoint with contexts of its own, or without use_reentrant")
    if is_reentrant and (context_fn is not noop_context_fn or kwargs):
        C.end_graph("torch.utils.checkpoint with arguments that are not for use_reentrant=True")
    for name in ("determinism_check", "debug", "early_stop"):
        kwargs.pop(name, None)
    mark, effects = C.trace_mark(), C.effects_so_far()
    result = as_reentrant(function, args) if is_reentrant else function(*args, **kwargs)
    if torch.is_grad_enabled() and (not C.wrote_nothing_since(mark) or C.effects_so_far() != effects):
        C.end_graph("torch.utils.checkpoint around what changes tensors or objects, as its second run does again")
    if context_fn is not noop_context_fn and C.trace_mark()[1] != mark[1]:  # Eager raises, if it has kept that.
        C.end_graph("torch.utils.checkpoint with contexts of its own, around what writes in place")
    if not preserves and not C.only_computed_since(mark):  # The backward would draw other numbers than the forward.
        C.end_graph("torch.utils.checkpoint without the state of random numbers, around what draws some")
    return result


def as_reentrant(function: Function, args: tuple) -> Any:
    """What its function comes to, which is what a checkpoint with use_reentrant=True comes to
    (python/compile/reentrant.h) where all of its floating results have a history, and none is handed through."""
    inputs = [one for one in args if isinstance(one, torch.Tensor)]
    if not any([one.requires_grad for one in inputs]):
        C.end_graph("torch.utils.checkpoint with use_reentrant=True, none of whose inputs wants a gradient")
    if not torch.is_grad_enabled():
        return function(*args)
    began = C.history_mark()
    result = function(*args)
    results = [result] if isinstance(result, torch.Tensor) else result
    if type(results) not in (list, tuple) or results is result and type(result) is list:
        C.end_graph("torch.utils.checkpoint with use_reentrant=True, whose results are in a container")
    for one in results:
        is_given = any([one is other for other in inputs])
        if not isinstance(one, torch.Tensor) or is_given or one.requires_grad != takes_gradients(one):
            C.end_graph("torch.utils.checkpoint with use_reentrant=True, not all of whose results have a gradient")
    if not C.is_same_within([*results], inputs, began):
        C.end_graph("torch.utils.checkpoint with use_reentrant=True, whose backward hooks or other tensors see")
    return result


def takes_gradients(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def install() -> None:
    C.set_stand_in(torch.utils.checkpoint.checkpoint, checkpoint)
