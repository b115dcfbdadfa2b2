"""What captures run in the place of functions of PyTorch's that compile what they are given, or look at values.

Each means what the original means, in operators; where it cannot, it ends the graph, and the original runs.
"""

import collections
import contextlib
import importlib
import math
import sys
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch.distributions import constraints
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.optim.optimizer import _get_value
from torch.utils._foreach_utils import _group_tensors_by_device_and_dtype

from braze import (
    _checkpoints,
    _control_flow,
    _gradients_within,
    _optimizer_steps,
    _tensors_of_data,
    _wrappers,
)
from braze._gradients_within import NO_FORM
from braze._load import C

Function = Callable[..., Any]

# Operators that F.interpolate calls, and how many dimensions they resize.
RESIZING = {
    "upsample_nearest1d": 1,
    "upsample_nearest2d": 2,
    "upsample_nearest3d": 3,
    "_upsample_nearest_exact1d": 1,
    "_upsample_nearest_exact2d": 2,
    "_upsample_nearest_exact3d": 3,
    "upsample_linear1d": 1,
    "upsample_bilinear2d": 2,
    "upsample_bicubic2d": 2,
    "upsample_trilinear3d": 3,
    "_upsample_bilinear2d_aa": 2,
    "_upsample_bicubic2d_aa": 2,
}


def encoder_forward(
    self: torch.nn.TransformerEncoder,
    src: torch.Tensor,
    mask: torch.Tensor | None = None,
    src_key_padding_mask: torch.Tensor | None = None,
    is_causal: bool | None = None,
) -> torch.Tensor:
    """torch.nn.TransformerEncoder.forward. In eager, without gradients, it leaves the padding out, if all of that
    is at the ends, and fills it up with zeros; while something compiles it computes there."""
    if not _leaves_padding_out(self, src, mask, src_key_padding_mask) or is_causal:
        return _encoder_forward(self, src, mask, src_key_padding_mask, is_causal)
    padding = functional._canonical_mask(src_key_padding_mask, "src_key_padding_mask", None, "mask", src.dtype)
    output = src
    for layer in self.layers:
        output = layer(output, src_mask=None, is_causal=False, src_key_padding_mask=padding)
    is_valid = padding.logical_not()
    places = torch.arange(src.shape[1], device=src.device)
    is_left = (is_valid == (places < is_valid.sum(1, keepdim=True))).all()
    output = torch.where((is_left & ~is_valid).unsqueeze(-1), 0.0, output)
    return output if self.norm is None else self.norm(output)


def _leaves_padding_out(encoder: Any, src: Any, mask: Any, padding: Any) -> bool:
    layer = encoder.layers[0]
    return (
        padding is not None
        and mask is None
        and torch.backends.mha.get_fastpath_enabled()
        and getattr(encoder, "use_nested_tensor", False)
        and getattr(encoder, "mask_check", True)
        and not layer.training
        and src.dim() == 3
        and not torch.is_autocast_enabled()
        and not (torch.is_grad_enabled() and any([p.requires_grad for p in (src, *encoder.parameters())]))
    )


_encoder_forward = torch.nn.TransformerEncoder.forward


def check_with(error_type: Any, cond: Any, message: Any) -> None:
    """torch._check and its like, which ask what loads the whole of PyTorch's symbolic shapes."""
    if cond is True:
        return
    if cond is not False or not callable(message) or not issubclass(error_type, Exception):
        C.end_graph("the function raises")
    raise error_type(str(message()))


def check_tensor_all_with(error_type: Any, cond: Any, message: Any = None) -> None:
    """torch._check_tensor_all and its like: a branch that only raises."""
    if not isinstance(cond, torch.Tensor) or cond.dtype != torch.bool:
        C.end_graph("the function raises")
    if not cond.all():
        raise error_type(str(message()))


def infer_size(a: Any, b: Any) -> torch.Size:
    """torch._C._infer_size, in C: the shape to which two shapes are broadcast (binary_cross_entropy's weights)."""
    shape = list(a) if len(a) >= len(b) else list(b)
    other = b if len(a) >= len(b) else a
    for k in range(1, len(other) + 1):
        if shape[-k] == 1:
            shape[-k] = other[-k]
        elif other[-k] != 1 and other[-k] != shape[-k]:
            C.end_graph("shapes that cannot be broadcast")
    return torch.Size(shape)


def broadcast_shapes(*shapes: Any) -> torch.Size:
    """torch.broadcast_shapes, which distributions call: eager imports its symbolic shapes, and SymPy."""
    common: list[int] = []
    for shape in shapes:
        if shape is None:
            continue
        sizes = (shape,) if isinstance(shape, int) else shape
        if not isinstance(sizes, (tuple, list)):
            C.end_graph("shapes that cannot be broadcast")
        common = [1] * (len(sizes) - len(common)) + common
        for k in range(1, len(sizes) + 1):
            if common[-k] == 1:
                if sizes[-k] < 0:
                    C.end_graph("shapes that cannot be broadcast")
                common[-k] = sizes[-k]
            elif sizes[-k] != 1 and sizes[-k] != common[-k]:
                C.end_graph("shapes that cannot be broadcast")
    return torch.Size(common)


def resized(original: Function, rank: int) -> Function:
    """An operator of F.interpolate's, (input, output_size, ..., factors). What factors times sizes are is computed
    in Python, so that sizes may vary: in C++ they are numbers."""

    def by_sizes(image: torch.Tensor, size: Any, *rest: Any, **named: Any) -> torch.Tensor:
        if named:
            return original(image, size, *rest, **named)
        factors = rest[-1] if rest else None
        if size is not None or not isinstance(factors, (list, tuple)) or len(factors) != rank:
            return _called(original, image, size, rest)
        if image.dim() != rank + 2 or torch.is_autocast_enabled(image.device.type):
            return _called(original, image, size, rest)
        sizes = [int(image.shape[k + 2] * factors[k]) for k in range(rank)]
        return _called(original, image, sizes, (*rest[:-1], *factors))

    return by_sizes


def _called(original: Function, image: torch.Tensor, size: Any, rest: Any) -> torch.Tensor:
    """Without a star, behind which sizes that vary would be numbers."""
    if len(rest) == 0:
        return original(image, size)
    if len(rest) == 1:
        return original(image, size, rest[0])
    if len(rest) == 2:
        return original(image, size, rest[0], rest[1])
    if len(rest) == 3:
        return original(image, size, rest[0], rest[1], rest[2])
    return original(image, size, rest[0], rest[1], rest[2], rest[3])


def divided(a: Any, b: Any) -> tuple[Any, Any]:
    """divmod() of numbers of which one is a size that varies."""
    return a // b, a % b


def arange(*bounds: Any, **settings: Any) -> torch.Tensor:
    """torch.arange() of a float that is computed of sizes: its length is an expression."""
    if len(bounds) == 1 and not settings:
        return torch.arange(math.ceil(bounds[0]), dtype=torch.get_default_dtype())
    return torch.arange(*bounds, **settings)


def count_elements(mapping: Any, iterable: Any) -> None:
    """What collections.Counter.update counts with, in C."""
    for element in iterable:
        mapping[element] = mapping.get(element, 0) + 1


class AttentionKernels(contextlib.ContextDecorator):
    """torch.nn.attention.sdpa_kernel, which looks backends up in dicts that ask each for its hash."""

    def __init__(self, backends: Any, set_priority: bool = False) -> None:
        asked = [backends] if isinstance(backends, SDPBackend) else backends
        if not isinstance(asked, list):
            C.end_graph("sdpa_kernel of what is no backend")
        wanted = []
        for backend in asked:
            number = C.attention_backend(backend)  # A copy of a member is another object.
            if number not in _BACKEND_NUMBERS:
                C.end_graph("sdpa_kernel of what is no backend")
            if number not in wanted:
                wanted.append(number)
        self.backends = backends
        self.wanted = wanted
        self.before = wanted
        self.set_priority = set_priority

    def __enter__(self) -> dict[str, Any]:
        enabled = [
            torch._C._get_flash_sdp_enabled(),
            torch._C._get_mem_efficient_sdp_enabled(),
            torch._C._get_math_sdp_enabled(),
            torch._C._get_cudnn_sdp_enabled(),
            torch._C._get_overrideable_sdp_enabled(),
        ]
        before = [number for number, is_enabled in zip(_BACKEND_NUMBERS, enabled, strict=True) if is_enabled]
        if self.set_priority:
            before = [number for number in torch._C._get_sdp_priority_order() if number in before]
        self.before = before
        self._set(self.wanted)
        return {}

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> None:
        self._set(self.before)

    def _set(self, numbers: list[int]) -> None:
        flash, efficient, math, cudnn, overrideable = [number in numbers for number in _BACKEND_NUMBERS]
        torch._C._set_sdp_use_flash(flash)
        torch._C._set_sdp_use_mem_efficient(efficient)
        torch._C._set_sdp_use_math(math)
        torch._C._set_sdp_use_cudnn(cudnn)
        torch._C._set_sdp_use_overrideable(overrideable)
        if self.set_priority:
            others = [number for number in torch._C._get_sdp_priority_order() if number not in numbers]
            torch._C._set_sdp_priority_order([*numbers, *others])


_BACKEND_NUMBERS = [
    int(backend)
    for backend in (
        SDPBackend.FLASH_ATTENTION,
        SDPBackend.EFFICIENT_ATTENTION,
        SDPBackend.MATH,
        SDPBackend.CUDNN_ATTENTION,
        SDPBackend.OVERRIDEABLE,
    )
]


def kernels_of_attention(backends: Any, set_priority: bool = False) -> AttentionKernels:
    return AttentionKernels(backends, set_priority)


class inference_mode(torch.inference_mode):
    """torch.inference_mode in a graph. Eager's keeps an object that puts the modes back when it dies, which is too
    late where a capture is given up."""

    def __enter__(self) -> None:
        self.before = C.set_inference_mode(self.mode)

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> None:
        C.leave_inference_mode(self.before)


class TorchFunctionsOff:
    """torch._C.DisableTorchFunction in a graph, which is written in C."""

    state = 2  # Of subclasses and modes.

    def __enter__(self) -> None:
        self.before = C.set_torch_functions(self.state)
        if self.before > self.state:
            C.set_torch_functions(self.before)

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> None:
        C.set_torch_functions(self.before)


class SubclassFunctionsOff(TorchFunctionsOff):
    """torch._C.DisableTorchFunctionSubclass, likewise."""

    state = 1


def without_subclass_functions(
    func: Function, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
) -> Any:
    """torch._C._disabled_torch_function_impl: the handler that Parameter has, and what derives from it calls."""
    with torch._C.DisableTorchFunctionSubclass():
        return func(*args, **(kwargs or {}))


def handle_torch_function(public_api: Function, relevant_args: Any, *args: Any, **kwargs: Any) -> Any:
    """torch.overrides.handle_torch_function, which has C code collect the classes."""
    overloaded = torch.overrides._get_overloaded_args(relevant_args)
    types = tuple([type(arg) for arg in overloaded])
    if torch._C._is_torch_function_mode_enabled():
        with torch.overrides._pop_mode_temporarily() as mode:
            result = mode.__torch_function__(public_api, types, args, kwargs)
        if result is not NotImplemented:
            return result
    for arg in overloaded:
        method = arg.__torch_function__
        if method.__self__ is arg:
            C.end_graph(NO_FORM)  # PyTorch warns.
        result = method(public_api, types, args, kwargs)
        if result is not NotImplemented:
            return result
    raise TypeError("no implementation found")  # Natively it says for what.


class quiet_record_function(torch.autograd.profiler.record_function):
    """torch.profiler.record_function in a graph, which has no place for a profiler's ranges."""

    def __enter__(self) -> "quiet_record_function":
        return self

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> None:
        return None


def fresh_context(context: Any) -> Any:
    """ContextDecorator._recreate_cm, of what is a decorator: the one of a range of the profiler's is quiet, too."""
    if type(context) is torch.autograd.profiler.record_function:
        return quiet_record_function(context.name, context.args)
    if type(context) is AttentionKernels:
        return AttentionKernels(context.backends, context.set_priority)
    return context


def fresh_generator_context(context: Any) -> Any:
    """Likewise of a context that a generator is, as sdpa_kernel's before the capture."""
    if context.func is sdpa_kernel.__wrapped__:
        return AttentionKernels(*context.args, **context.kwds)
    return context.__class__(context.func, context.args, context.kwds)


def number_of_step(x: Any) -> Any:
    """torch.optim's reading of a tensor with one element: arithmetic of Python floats, within the graph."""
    return C.to_number(x) if isinstance(x, torch.Tensor) else x


def use_deterministic_algorithms(mode: Any, *, warn_only: Any = False) -> None:
    """torch.use_deterministic_algorithms, which also tells a compiler of PyTorch's, and imports it for that."""
    torch._C._set_deterministic_algorithms(mode, warn_only=warn_only)
    C.call_later(_use_deterministic_algorithms, mode, warn_only)


def _use_deterministic_algorithms(mode: Any, warn_only: Any) -> None:
    torch.use_deterministic_algorithms(mode, warn_only=warn_only)


def set_default_device(device: Any) -> None:
    """torch.set_default_device of the CPU, with which factories make what they make without; or of none."""
    is_cpu = device is None or device == "cpu" or device == torch.device("cpu")
    if not is_cpu or torch._C._len_torch_function_stack() != 0:
        C.end_graph(NO_FORM)
    C.call_later(_set_default_device, device)


def _set_default_device(device: Any) -> None:
    torch.set_default_device(device)


def batch_norm_forward(self: Any, input: torch.Tensor) -> torch.Tensor:
    """torch.nn.BatchNorm1d.forward and its like. Without a momentum the running statistics are means over all
    batches so far: shares by a count, which eager reads as a Python float."""
    averages = self.momentum is None and self.training and self.track_running_stats
    if not averages or self.running_mean is None or self.num_batches_tracked is None:
        return _batch_norm_forward(self, input)
    self._check_input_dim(input)
    self.num_batches_tracked.add_(1)
    mean, var = torch.zeros_like(self.running_mean), torch.zeros_like(self.running_var)
    output = functional.batch_norm(input, mean, var, self.weight, self.bias, True, 1.0, self.eps)
    share = 1.0 / self.num_batches_tracked.double()
    # As eager's operator writes them, which no version counter tells.
    self.running_mean.data.copy_(self.running_mean * (1 - share) + mean * share)
    self.running_var.data.copy_(self.running_var * (1 - share) + var * share)
    return output


_batch_norm_forward = torch.nn.modules.batchnorm._BatchNorm.forward


def check_symmetric(self: Any, value: torch.Tensor) -> torch.Tensor:
    """The check of torch.distributions.constraints.symmetric, which asks a tensor whether matrices are square."""
    if value.shape[-2] != value.shape[-1]:
        return torch.full(value.shape[:-2], False, dtype=torch.bool, device=value.device)
    return torch.isclose(value, value.mT, atol=1e-6).all(-2).all(-1)


def check_positive_definite(self: Any, value: torch.Tensor) -> torch.Tensor:
    """That of positive_definite, which asks first whether all are symmetric."""
    is_symmetric = check_symmetric(self, value)
    if value.shape[-2] != value.shape[-1]:
        return is_symmetric
    return torch.where(is_symmetric.all(), torch.linalg.cholesky_ex(value).info.eq(0), is_symmetric)


def check_positive_semidefinite(self: Any, value: torch.Tensor) -> torch.Tensor:
    """Likewise of positive_semidefinite."""
    is_symmetric = check_symmetric(self, value)
    if value.shape[-2] != value.shape[-1]:
        return is_symmetric
    return torch.where(is_symmetric.all(), torch.linalg.eigvalsh(value).ge(0).all(-1), is_symmetric)


def contract_path(equation: str, *operands: Any, **settings: Any) -> Any:
    """opt_einsum.contract_path, as torch.einsum asks it: in which order to contract is for the sizes to say."""
    if [name for name in settings if name != "optimize"]:
        C.end_graph("opt_einsum.contract_path with settings of its own")
    shapes = tuple([tuple(operand.shape) for operand in operands])
    return _path_for(equation, shapes, settings.get("optimize", "auto")), None


def _path_for(equation: str, shapes: Any, optimize: Any) -> Any:
    """Any path is right for any sizes, so that the one that was found may stay."""
    chosen = torch.backends.opt_einsum.get_opt_einsum().contract_path(
        equation, *shapes, shapes=True, optimize=optimize
    )
    return tuple([tuple(pair) for pair in chosen[0]])


class DeviceContext:
    """`with torch.device("cpu")`, where that is the default."""

    def __enter__(self) -> torch.device:
        return torch.device("cpu")

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> None:
        return None


def leave_module_unnoted(tracker: Any, module: Any) -> None:
    """torch._dynamo.mutation_guard.GenerationTracker.tag, which tells Dynamo alone when a module was made."""


def group_tensors(tensorlistlist: Any, with_indices: bool = False) -> dict[Any, Any]:
    """What foreach operators work on is made one by one in a graph: one group for each device and dtype."""
    groups: dict[Any, Any] = {}
    for index, first in enumerate(tensorlistlist[0]):
        lists, indices = groups.setdefault((first.device, first.dtype), ([[] for _ in tensorlistlist], []))
        for one, whole in zip(lists, tensorlistlist, strict=True):
            if len(whole) > 0:
                one.append(whole[index])
        if with_indices:
            indices.append(index)
    return groups


def prepare_transforms(takes_gradients: bool) -> None:
    """Loads what torch.func loads at its first use. What that warns of is PyTorch's own, and no mode sees it."""
    with warnings.catch_warnings(), torch._C.DisableTorchFunction():
        warnings.simplefilter("ignore")
        from torch._functorch import vmap
        from torch.autograd import forward_ad

        if takes_gradients:
            importlib.import_module("torch._dynamo.compiled_autograd")
        vmap.lazy_load_decompositions()
        getattr(forward_ad, "_maybe_load_decompositions", lambda: None)()


def least(*tensors: torch.Tensor) -> torch.Tensor:
    """min() of tensors of one number: the first that no other one is less than."""
    best = tensors[0]
    for one in tensors[1:]:
        best = torch.where(one < best, one, best)
    return best


def greatest(*tensors: torch.Tensor) -> torch.Tensor:
    """max(), likewise."""
    best = tensors[0]
    for one in tensors[1:]:
        best = torch.where(one > best, one, best)
    return best


def install() -> None:
    """Tells the compiled part. Names that this version of PyTorch does not have are left out."""
    if not hasattr(C, "set_stand_in"):  # A Python without capture.
        return
    C.set_stand_in(torch.nn.TransformerEncoder.forward, encoder_forward)
    C.set_stand_in(sys.intern("min of tensors"), least)
    C.set_stand_in(sys.intern("max of tensors"), greatest)
    C.set_stand_in(torch._check_with, check_with)
    C.set_stand_in(torch._check_tensor_all_with, check_tensor_all_with)
    C.set_stand_in(sdpa_kernel, kernels_of_attention)
    C.set_stand_in(torch.inference_mode, inference_mode)
    C.set_stand_in(torch._C.DisableTorchFunction, TorchFunctionsOff)
    C.set_stand_in(torch._C.DisableTorchFunctionSubclass, SubclassFunctionsOff)
    C.set_stand_in(torch._C._disabled_torch_function_impl, without_subclass_functions)
    C.set_stand_in(torch.overrides.handle_torch_function, handle_torch_function)
    C.set_stand_in(collections._count_elements, count_elements)
    C.set_stand_in(divmod, divided)
    C.set_stand_in(torch.arange, arange)
    C.set_stand_in(torch._C._infer_size, infer_size)
    C.set_stand_in(torch.broadcast_shapes, broadcast_shapes)
    for name, rank in RESIZING.items():
        C.set_stand_in(getattr(torch._C._nn, name), resized(getattr(torch._C._nn, name), rank))
    C.set_stand_in(torch.autograd.profiler.record_function, quiet_record_function)
    C.set_stand_in(contextlib.ContextDecorator._recreate_cm, fresh_context)
    C.set_stand_in(contextlib._GeneratorContextManager._recreate_cm, fresh_generator_context)
    C.set_stand_in(_get_value, number_of_step)
    C.set_stand_in(_group_tensors_by_device_and_dtype, group_tensors)
    C.set_stand_in(torch.use_deterministic_algorithms, use_deterministic_algorithms)
    C.set_stand_in(torch.set_default_device, set_default_device)
    C.set_stand_in(torch.nn.modules.batchnorm._BatchNorm.forward, batch_norm_forward)
    _checkpoints.install()
    _control_flow.install()
    _gradients_within.install()
    _optimizer_steps.install()
    _tensors_of_data.install()
    _wrappers.install()
    if torch.backends.opt_einsum.is_available():
        C.assume_constant_result(_path_for)
        C.set_stand_in(torch.backends.opt_einsum.get_opt_einsum().contract_path, contract_path)
    C.set_stand_in(torch.device.__enter__, DeviceContext())
    C.set_stand_in(constraints._Symmetric.check, check_symmetric)
    C.set_stand_in(constraints._PositiveDefinite.check, check_positive_definite)
    C.set_stand_in(constraints._PositiveSemidefinite.check, check_positive_semidefinite)
