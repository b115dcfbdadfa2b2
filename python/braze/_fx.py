"""Recorded segments as torch.fx graphs, for compilers that take those."""

import operator
import re
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx

from braze._load import C

#: A user's compiler: a graph and its example inputs in, a callable of the same inputs out.
Compiler = Callable[[fx.GraphModule, list[torch.Tensor]], Callable[..., Any]]


class GraphBuilder:
    """Builds a GraphModule of ATen operators from what the compiled part tells it (python/compile/tape_builder.h).

    Arguments become placeholders, parameters and constants attributes of the module; the graph returns a tuple.
    """

    def __init__(self, compiler: Compiler) -> None:
        self._compiler = compiler
        self._graph = fx.Graph()
        self._root = torch.nn.Module()
        self._examples: list[torch.Tensor] = []
        self._names: set[str] = set()

    def argument(self, name: str, example: torch.Tensor) -> fx.Node:
        node = self._graph.placeholder(self._name(name, "arg"))
        node.meta["val"] = node.meta["example_value"] = example
        self._examples.append(example)
        return node

    def bound(self, name: str, tensor: torch.Tensor) -> fx.Node:
        attribute = self._name(name, "constant")
        if isinstance(tensor, torch.nn.Parameter):
            self._root.register_parameter(attribute, tensor)
        else:
            self._root.register_buffer(attribute, tensor)
        node = self._graph.get_attr(attribute)
        node.meta["val"] = node.meta["example_value"] = tensor
        return node

    def call(self, name: str, overload: str, args: tuple[Any, ...], kwargs: dict[str, Any], source: str) -> fx.Node:
        namespace, operator_name = name.split("::")
        packet = getattr(getattr(torch.ops, namespace), operator_name)
        node = self._graph.call_function(getattr(packet, overload or "default"), args, kwargs)
        if source:
            path, _, line = source.rpartition(":")
            node.stack_trace = f'  File "{path}", line {line}'
        return node

    def item(self, result: fx.Node, index: int) -> fx.Node:
        return self._graph.call_function(operator.getitem, (result, index))

    def finish(self, outputs: Sequence[fx.Node]) -> Callable[..., Any]:
        self._graph.output(tuple(outputs))
        module = fx.GraphModule(self._root, self._graph)
        function = self._compiler(module, self._examples)
        if not callable(function):
            raise C.ArgumentTypeError(
                f"the backend {_name_of(self._compiler)} returned {function!r}; "
                "it must return a callable, for example gm.forward"
            )
        return function

    def _name(self, wanted: str, fallback: str) -> str:
        """An identifier that no other input of the graph has."""
        stem = re.sub(r"\W+", "_", wanted).strip("_") or fallback
        if not (stem[0].isalpha() and stem.isascii()):
            stem = f"{fallback}_{stem}" if stem.isascii() else fallback
        name, number = stem, 0
        while name in self._names or hasattr(self._root, name):
            number += 1
            name = f"{stem}_{number}"
        self._names.add(name)
        return name


def _name_of(compiler: Compiler) -> str:
    return getattr(compiler, "__name__", type(compiler).__name__)
