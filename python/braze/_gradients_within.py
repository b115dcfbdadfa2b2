"""What captures run in the place of torch.autograd.grad and of hooks on gradients, see _stand_ins.py."""

from collections.abc import Callable
from typing import Any

import torch
from torch.utils.hooks import RemovableHandle

from braze._load import C

Function = Callable[..., Any]

NO_FORM = "a function of PyTorch's in a form that cannot be one graph"
WITHIN = "a backward within the function"


def backward_within(*args: Any, **kwargs: Any) -> None:
    """torch.autograd.backward, which runs what was compiled before."""
    C.end_graph(WITHIN)


def as_tuple(given: Any) -> tuple:
    """Tensors as torch.autograd.grad takes them: one, or some."""
    return (given,) if isinstance(given, torch.Tensor) else tuple(given)


def tangents_of(outputs: tuple, given: Any) -> list:
    """What torch.autograd.grad begins with. Where it refuses what it is given, it is to say so itself."""
    given = (None,) * len(outputs) if given is None else as_tuple(given)
    if len(given) != len(outputs):
        C.end_graph(WITHIN)
    tangents = []
    for output, tangent in zip(outputs, given, strict=True):
        if not isinstance(output, torch.Tensor) or not output.is_floating_point() or not output.requires_grad:
            C.end_graph(WITHIN)
        if tangent is None:
            if output.numel() != 1:
                C.end_graph(WITHIN)
            tangent = torch.ones_like(output, memory_format=torch.preserve_format)
        elif tangent.shape != output.shape or tangent.dtype != output.dtype or tangent.device != output.device:
            C.end_graph(WITHIN)
        tangents.append(tangent)
    return tangents


def gradients_within(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> Any:
    """torch.autograd.grad, in the graph where it can be recorded."""
    if not only_inputs or is_grads_batched or (materialize_grads and allow_unused is False):
        C.end_graph(WITHIN)
    outputs, inputs = as_tuple(outputs), as_tuple(inputs)
    for one in inputs:
        if not isinstance(one, torch.Tensor):
            C.end_graph(WITHIN)
    tangents = tangents_of(outputs, grad_outputs)
    keeps = create_graph if retain_graph is None else retain_graph
    found = C.inner_gradients(list(outputs), list(inputs), tangents, keeps, create_graph)
    if found is None:
        C.end_graph(WITHIN)
    results = []
    for one, gradient in zip(inputs, found, strict=True):
        if gradient is None and not (allow_unused or materialize_grads):
            C.end_graph(WITHIN)
        if gradient is None and materialize_grads:
            gradient = torch.zeros_like(one, requires_grad=create_graph)
        results.append(gradient)
    return tuple(results)


def hooks_on(tensor: torch.Tensor, kind: int) -> Any:
    """The dict of hooks on the gradient of a tensor; without a handler in Python, which would be asked first."""
    if torch.overrides.has_torch_function_unary(tensor) or not tensor.requires_grad:
        C.end_graph(NO_FORM)
    mark = C.mark_gradient(tensor)
    if mark is None:
        C.end_graph(NO_FORM)
    return C.hooks_of(tensor, kind, mark)


def handle_of(hooks: Any, hook: Function) -> RemovableHandle:
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    return handle


def register_hook(self: torch.Tensor, hook: Function) -> RemovableHandle:
    """torch.Tensor.register_hook. The hook is set when the program has run, and sees the same gradients."""
    return handle_of(hooks_on(self, 0), hook)


def register_post_accumulate_grad_hook(self: torch.Tensor, hook: Function) -> RemovableHandle:
    """Its like, for what accumulates gradients: a leaf that was there before."""
    if not self.is_leaf:
        C.end_graph(NO_FORM)
    return handle_of(hooks_on(self, 1), hook)


def retain_grad(self: torch.Tensor) -> None:
    """torch.Tensor.retain_grad."""
    hooks_on(self, 2)


def install() -> None:
    """Tells the compiled part."""
    C.set_stand_in(torch.autograd.backward, backward_within)
    C.set_stand_in(torch.autograd.grad, gradients_within)
    C.set_stand_in(torch.Tensor.register_hook, register_hook)
    C.set_stand_in(torch.Tensor.register_post_accumulate_grad_hook, register_post_accumulate_grad_hook)
    C.set_stand_in(torch.Tensor.retain_grad, retain_grad)
