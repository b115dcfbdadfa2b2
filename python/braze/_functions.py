"""How captures run functions whose gradient is Python code: torch.autograd.Function, and operators that
torch.library has given one.

The backward is run right behind the forward, under the same guards, on stand-ins for the gradients of the results:
what it computes is recorded, and put behind the forward's graph once the gradients themselves are known. Where it
does more than compute, the graph ends, and autograd calls it as it always does.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._library.custom_ops import OPDEFS
from torch.autograd import Function
from torch.autograd.function import (
    FunctionCtx,
    NestedIOFunction,
    _is_setup_context_defined,
    once_differentiable,
)

from braze._load import C

# What once_differentiable makes of a backward is of this code.
_ONCE = once_differentiable(lambda ctx: None).__code__
# Where a function of TorchScript has its twin, and a twin itself.
SCRIPT_TWIN = "_braze_twin"
# Functions in the backward of one in the backward of another: so often can gradients be differentiated.
_DEEPEST = 2


class Context(FunctionCtx):
    """What forward leaves for backward. The methods that say what to do with tensors are FunctionCtx's."""

    def __init__(self, needs_input_grad: Any) -> None:
        self.needs_input_grad = needs_input_grad
        self.to_save: tuple[Any, ...] = ()
        self.dirty_tensors: tuple[Any, ...] = ()
        self.non_differentiable: tuple[Any, ...] = ()
        self.materialize_grads = True

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        return self.to_save


def apply(cls: Any, *args: Any) -> Any:
    """The `apply` of a torch.autograd.Function where autograd notes what it does."""
    if issubclass(cls, NestedIOFunction) or getattr(cls, "boxed_grads_call", False):
        C.end_graph("an autograd.Function of a kind of its own")
    depth = C.function_depth()
    # Within the backward of another one all may want gradients, where that is differentiated.
    ctx = Context(tuple([_is_floating(one) if depth else _requires_grad(one) for one in args]))
    C.set_in_backward(False)
    C.begin_function_forward()
    with torch.no_grad():
        if _is_setup_context_defined(cls.setup_context):
            output = cls.forward(*args)
            cls.setup_context(ctx, args, output)
        else:
            output = cls.forward(ctx, *args)
    backward = cls.backward if cls.vjp is Function.vjp else cls.vjp
    outputs = output if isinstance(output, tuple) else (output,)
    joined = _join(cls.__name__, ctx, backward, args, outputs, depth)
    return joined if isinstance(output, tuple) else joined[0]


def call_operator(operator: Any, *args: Any, **kwargs: Any) -> Any:
    """An operator of torch.library whose gradient is Python code, likewise."""
    name, parameters = _signature(operator)
    definition = OPDEFS.get(name)
    if definition is None or definition._backward_fn is None:
        C.end_graph("an operator whose gradient is computed by Python code that cannot be found")
    inputs = [args[k] if k < len(args) else kwargs.get(p[0], p[1]) for k, p in enumerate(parameters) if not p[2]]
    keyword_only = {p[0]: kwargs.get(p[0], p[1]) for p in parameters if p[2]}
    needs = tuple([[_requires_grad(t) for t in one] if _is_list(one) else _requires_grad(one) for one in inputs])
    ctx = Context(needs)
    C.begin_function_forward()
    with torch.no_grad():
        output = operator(*args, **kwargs)
        if definition._setup_context_fn is not None:
            if keyword_only:
                definition._setup_context_fn(
                    ctx=ctx, inputs=tuple(inputs), keyword_only_inputs=keyword_only, output=output
                )
            else:
                definition._setup_context_fn(ctx=ctx, inputs=tuple(inputs), output=output)
    outputs = output if isinstance(output, tuple) else (output,)
    backward = definition._backward_fn
    has_lists = any([_is_list(one) for one in (*inputs, *outputs)])
    if has_lists and any([has_default for _, _, _, has_default in parameters]):
        C.end_graph("an operator with lists of tensors and a default, which eager leaves out")
    if has_lists:
        call = ListCall(backward, inputs, outputs)
        flat = _join(name, ctx, call.backward, _flat(inputs), tuple(_flat(outputs)), code=backward)
        joined = call.nest(flat, outputs)
    else:
        joined = _join(name, ctx, backward, inputs, outputs)
    return joined if isinstance(output, tuple) else joined[0]


def call_script(script: Any, *args: Any, **kwargs: Any) -> Any:
    """A function of TorchScript where gradients are wanted, as its operators one by one."""
    twin, parameters = _script_twin(script)
    return twin(*args, *[kwargs.get(name, default) for name, default in parameters[len(args) :]])


class ListCall:
    """The backward of an operator that takes or gives lists of tensors: nested as those are."""

    def __init__(self, backward: Callable[..., Any], inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        self.function, self.inputs, self.outputs = backward, inputs, outputs

    def backward(self, ctx: Any, *gradients: Any) -> Any:
        found = self.function(ctx, *self.nest(gradients, self.outputs))
        found = found if isinstance(found, tuple) else (found,)
        if len(found) != len(self.inputs):
            C.end_graph("a backward that gives another number of gradients than there are inputs")
        flat = []
        for one, gradient in zip(self.inputs, found, strict=True):
            if _is_list(one) and (not _is_list(gradient) or len(gradient) != len(one)):
                C.end_graph("a backward whose gradients are not nested as the inputs are")
            flat.extend(gradient if _is_list(one) else [gradient])
        return tuple(flat)

    def nest(self, flat: Sequence[Any], like: Sequence[Any]) -> tuple[Any, ...]:
        nested: list[Any] = []
        at = 0
        for one in like:
            if _is_list(one):
                nested.append(list(flat[at : at + len(one)]))
                at += len(one)
            else:
                nested.append(flat[at])
                at += 1
        return tuple(nested)


def _requires_grad(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.requires_grad


def _is_floating(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def _is_list(value: Any) -> bool:
    return (
        isinstance(value, list)
        and len(value) > 0
        and all([isinstance(one, torch.Tensor) or one is None for one in value])
    )


def _flat(values: Sequence[Any]) -> list[Any]:
    flat: list[Any] = []
    for one in values:
        flat.extend(one if _is_list(one) else [one])
    return flat


def _signature(operator: Any) -> tuple[str, list[tuple[str, Any, bool, bool]]]:
    """Its name, and of each parameter: name, default, whether it is given by keyword alone, whether it has one."""
    overload = operator if isinstance(operator, torch._ops.OpOverload) else operator.default
    schema = overload._schema
    return schema.name, [
        (one.name, one.default_value, one.kwarg_only, one.has_default_value()) for one in schema.arguments
    ]


def _script_twin(script: Any) -> tuple[Any, list[tuple[str, Any]]]:
    """The same program, never optimized, and of each parameter: name, default.

    One that has run a few times differentiates parts of itself, which autograd sees as one node without a name.
    """
    twin = getattr(script, SCRIPT_TWIN, None)
    if twin is None:
        twin = torch._C._create_function_from_graph(script.name, script.graph.copy())
        setattr(twin, SCRIPT_TWIN, twin)
        setattr(script, SCRIPT_TWIN, twin)
    return twin, [(one.name, one.default_value) for one in script.schema.arguments]


def _join(
    name: str,
    ctx: Context,
    backward: Any,
    inputs: Sequence[Any],
    outputs: tuple[Any, ...],
    depth: int = 0,
    code: Any = None,
) -> tuple[Any, ...]:
    """Runs the backward, and gives the outputs a history that has it.

    depth: functions within whose backward it is, which has no history until somebody differentiates that.
    code: the user's function, if `backward` is one around it.
    """
    is_once = getattr(backward, "__code__", None) is _ONCE
    if is_once:
        backward = backward.__wrapped__
    code = backward if code is None else code
    is_given = [any([one is other for other in ctx.non_differentiable or ()]) for one in outputs]
    is_root = [
        isinstance(one, torch.Tensor) and not constant and (one.is_floating_point() or one.is_complex())
        for one, constant in zip(outputs, is_given, strict=True)
    ]
    if sum(is_root) > 1 and not ctx.materialize_grads:
        C.end_graph("an autograd.Function that asks which of its results have a gradient")
    if depth > _DEEPEST:
        tensors = [one for one in inputs if isinstance(one, torch.Tensor)]
        results = [one for one in outputs if isinstance(one, torch.Tensor)]
        C.note_inner_function(name, tensors, [], results, [], list(ctx.dirty_tensors or ()), is_once, True)
        return outputs
    roots = [one for one, yes in zip(outputs, is_root, strict=True) if yes]
    mark, effects = C.trace_mark(), C.effects_so_far()
    tangents = C.function_tangents(roots)
    rest = list(tangents)
    gradients = []
    for one, yes in zip(outputs, is_root, strict=True):
        if yes:
            gradients.append(rest.pop(0))
        elif isinstance(one, torch.Tensor) and ctx.materialize_grads:
            gradients.append(torch.zeros_like(one))
        else:
            gradients.append(None)
    with torch.no_grad(), torch.autocast("cpu", enabled=False), torch.autocast("cuda", enabled=False):
        C.set_in_backward(True)
        found = backward(ctx, *gradients)
        C.set_in_backward(False)
    found = found if isinstance(found, tuple) else (found,)
    if not C.only_computed_since(mark) or C.effects_so_far() != effects:
        C.end_graph("a backward that does more than compute gradients of what it is given")
    reads = C.late_reads(id(code))
    if reads < 0 or (reads and depth):
        C.end_graph("a backward that reads globals or closed-over values, which may be others when it runs")
    while len(found) > len(inputs) and found[-1] is None:
        found = found[:-1]
    if len(found) != len(inputs):
        C.end_graph("a backward that gives another number of gradients than there are inputs")
    given = [(one, gradient) for one, gradient in zip(inputs, found, strict=True) if isinstance(one, torch.Tensor)]
    for _, gradient in given:
        if gradient is not None and not isinstance(gradient, torch.Tensor):
            C.end_graph("a backward that gives something else than tensors")
    tensors = [one for one, _ in given]
    found = [gradient for _, gradient in given]
    results = [one for one in outputs if isinstance(one, torch.Tensor)]
    constants = [
        one for one, yes in zip(outputs, is_root, strict=True) if isinstance(one, torch.Tensor) and not yes
    ]
    dirty = list(ctx.dirty_tensors or ())
    if depth:
        C.note_inner_function(name, tensors, found, results, constants, dirty, is_once, False)
        return outputs
    saved = [one for one in ctx.to_save or () if isinstance(one, torch.Tensor)]
    fresh = list(
        C.join_function(name, tensors, found, results, constants, dirty, saved, list(tangents), is_once, id(code))
    )
    return tuple([fresh.pop(0) if isinstance(one, torch.Tensor) else one for one in outputs])


def install() -> None:
    """Tells the compiled part."""
    C.assume_constant_result(_signature)
    C.assume_constant_result(_script_twin)
    C.set_function_forms(apply, call_operator, call_script)
