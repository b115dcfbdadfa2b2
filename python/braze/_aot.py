"""Forward and backward graphs for compilers of one's own: what AOTAutograd makes of a captured graph."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx

from braze._compile import compile as braze_compile
from braze._load import C

#: A graph of ATen operators and its example inputs in, a callable of the same inputs out.
Compiler = Callable[[fx.GraphModule, list[Any]], Callable[..., Sequence[Any]]]


def aot_autograd(
    fw_compiler: Compiler,
    bw_compiler: Compiler | None = None,
    *,
    inference_compiler: Compiler | None = None,
    partition_fn: Callable[..., Any] | None = None,
    decompositions: dict[Any, Callable[..., Any]] | None = None,
) -> Callable[..., Any]:
    """A backend for `braze.compile` whose compilers get the forward and the backward of each captured graph.

    Each is a torch.fx.GraphModule of ATen operators without views that are written to and without in-place
    operators (parameters are inputs), and returns a tuple or list. Where no gradient is wanted there is a forward
    alone.

    Args:
        fw_compiler: (graph, example inputs) -> callable of the same inputs, for example `lambda gm, _: gm.forward`.
        bw_compiler: Likewise for the backward, when it is first needed; `fw_compiler` where there is none.
        inference_compiler: For graphs of which no gradient is wanted; `fw_compiler` where there is none.
        partition_fn: What cuts the joint graph in two; `functorch.compile.default_partition` where there is none.
            With `functorch.compile.min_cut_rematerialization_partition` cheap work is done again in the backward.
        decompositions: Operators to be written with others, as `torch._decomp.get_decompositions([...])` gives.

    Raises:
        braze.ArgumentTypeError: A compiler is not callable, or (when it is called) returned what is not callable.

    Source: torch._dynamo.backends.common.aot_autograd, torch._functorch.aot_autograd.

    >>> nodes = []
    >>> def counted(gm, example_inputs):
    ...     nodes.append(sum(node.op == "call_function" for node in gm.graph.nodes))
    ...     return gm.forward
    >>> f = braze.compile(lambda x: (x.sin() ** 2).sum(), backend=braze.aot_autograd(counted))
    >>> f(torch.ones(3, requires_grad=True)).backward()
    >>> len(nodes)
    2
    """
    given = {"fw_compiler": fw_compiler, "bw_compiler": bw_compiler, "inference_compiler": inference_compiler}
    for name, compiler in given.items():
        if not callable(compiler) and (compiler is not None or name == "fw_compiler"):
            raise C.ArgumentTypeError(f"{name} takes a graph and its example inputs, and is not {compiler!r}")

    def backend(graph: fx.GraphModule, example_inputs: list[torch.Tensor]) -> Callable[..., Any]:
        # Imported when it is needed: it takes PyTorch a second.
        from torch._functorch.aot_autograd import aot_module_simplified
        from torch._functorch.partitioners import default_partition

        return aot_module_simplified(
            graph,
            example_inputs,
            fw_compiler=_boxed(fw_compiler),
            bw_compiler=_boxed(bw_compiler or fw_compiler),
            inference_compiler=_boxed(inference_compiler or fw_compiler),
            partition_fn=_without_second_draws(partition_fn or default_partition),
            decompositions=decompositions,
        )

    return backend


def aot_function(
    fn: Callable[..., Any],
    fw_compiler: Compiler,
    bw_compiler: Compiler | None = None,
    *,
    partition_fn: Callable[..., Any] | None = None,
    decompositions: dict[Any, Callable[..., Any]] | None = None,
    inference_compiler: Compiler | None = None,
    fullgraph: bool = True,
    dynamic: bool | None = None,
) -> Callable[..., Any]:
    """`fn`, captured, with its forward compiled by `fw_compiler` and its backward by `bw_compiler`.

    It is `braze.compile(fn, backend=braze.aot_autograd(...))`, where the arguments are described: guards decide
    which of the graphs a call replays. Unlike there, what cannot be one graph is an error unless `fullgraph` is
    False.

    Returns:
        A compiled function as `braze.compile` gives, or a module where `fn` is one.

    Raises:
        braze.ArgumentTypeError: As `aot_autograd` and `braze.compile`.
        braze.Error: On a call of which `fn` cannot be one graph; `fullgraph=False` has it run in parts.

    Source: functorch.compile.aot_function.

    >>> f = braze.aot_function(torch.nn.functional.gelu, lambda gm, example_inputs: gm.forward)
    >>> f(torch.zeros(2))
    tensor([0., 0.])
    """
    backend = aot_autograd(
        fw_compiler,
        bw_compiler,
        inference_compiler=inference_compiler,
        partition_fn=partition_fn,
        decompositions=decompositions,
    )
    return braze_compile(fn, backend=backend, fullgraph=fullgraph, dynamic=dynamic)


def _without_second_draws(partition_fn: Callable[..., Any]) -> Callable[..., Any]:
    """Without random operators of the forward that a partition leaves in the backward, where nobody reads them.

    They would draw a second time, and what follows would see other numbers than in eager.
    """

    @functools.wraps(partition_fn)
    def partition(*args: Any, **kwargs: Any) -> tuple[fx.GraphModule, fx.GraphModule]:
        forward, backward = partition_fn(*args, **kwargs)
        for node in reversed(backward.graph.nodes):
            draws = torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())
            if draws and not node.users:
                backward.graph.erase_node(node)
        backward.graph.eliminate_dead_code()
        backward.recompile()
        return forward, backward

    return partition


def _boxed(compiler: Compiler) -> Compiler:
    """Whose result takes its inputs as AOTAutograd passes them: in a list, which may be emptied."""

    @functools.wraps(compiler)
    def compile_graph(graph: fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        from torch._functorch._aot_autograd.utils import make_boxed_func

        compiled = compiler(graph, example_inputs)
        if not callable(compiled):
            name = getattr(compiler, "__name__", type(compiler).__name__)
            raise C.ArgumentTypeError(
                f"the compiler {name} returned {compiled!r}; it must return a callable, for example gm.forward"
            )
        return compiled if getattr(compiled, "_boxed_call", False) else make_boxed_func(compiled)

    return compile_graph
