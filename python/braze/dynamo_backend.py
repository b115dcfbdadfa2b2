"""braze as a backend of torch.compile: torch.compile(model, backend="braze").

Installed packages declare it as an entry point; torch.compile finds it by name. Dynamo captures and guards, braze
compiles the graphs that it finds.
"""

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch

from braze._load import C
from braze._reading import TraceWarning
from braze._trace import trace


def braze_backend(gm: torch.fx.GraphModule, example_inputs: Sequence[Any], **choices: Any) -> Callable[..., Any]:
    """Returns a callable of the graph's inputs. Programs are made at the first call for each form of the inputs,
    when there are real tensors; calls that need gradients run the graph itself.

    Args:
        gm: a graph that Dynamo captured.
        example_inputs: unused: they may be fakes.
        choices: torch.compile's mode and options, which mean nothing here.
    """
    return _Graph(gm)


class _Graph:
    def __init__(self, gm: torch.fx.GraphModule) -> None:
        self._gm = gm
        self._programs: dict[tuple[Any, ...], Callable[..., Any]] = {}

    def __call__(self, *inputs: Any) -> Any:
        if self._wants_gradients(inputs):
            return self._gm(*inputs)
        form = tuple(map(_form, inputs))
        program = self._programs.get(form)
        if program is None:
            program = self._programs[form] = self._compile(inputs)
        try:
            return program(*inputs)
        except C.Error:
            # What the graph reads was changed since (a parameter's shape), or an index is out of range.
            return self._gm(*inputs)

    def _compile(self, inputs: tuple[Any, ...]) -> Callable[..., Any]:
        with warnings.catch_warnings():
            warnings.simplefilter("error", TraceWarning)  # A value frozen into the program.
            try:
                return trace(self._gm, inputs, check=False)
            except (C.Error, TraceWarning):
                return self._gm

    def _wants_gradients(self, inputs: tuple[Any, ...]) -> bool:
        if not torch.is_grad_enabled():
            return False
        tensors = [*inputs, *self._gm.parameters(), *self._gm.buffers()]
        return any(isinstance(tensor, torch.Tensor) and tensor.requires_grad for tensor in tensors)


def _form(value: Any) -> Any:
    """What a program depends on."""
    if not isinstance(value, torch.Tensor):
        return type(value), value
    return value.dtype, value.device, value.shape, value.stride(), value.is_inference()
