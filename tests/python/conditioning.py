"""How far a function's results may move by rounding alone: the function run again with every rounding nudged.

Two correct implementations of `exp`, of a sum or of a matrix product differ in their last bits, and what comes
after them may amplify the difference without limit (`cos` of a large number, a sum that cancels). So a run under
`Nudged` moves the result of each operator that is not exact, and the operands of those that add up many numbers, by
an ulp or none, at random. The largest distance from eager over several such runs is what rounding
explains.

Results of exact operators (sums of two, comparisons, ...) on exact operands stay as they are: both sides round them
alike, and comparisons of them must come out alike.
"""

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from braze._check import _Copies

RUNS = 12

# ATen operators whose results depend on the order in which they add or multiply up.
_ACCUMULATING = {
    *("sum", "nansum", "mean", "prod", "cumsum", "cumprod", "logsumexp", "_logsumexp", "logcumsumexp", "var"),
    *("std", "var_mean", "std_mean", "norm", "linalg_vector_norm", "_softmax", "_log_softmax"),
    *("native_layer_norm", "native_group_norm", "native_batch_norm", "mm", "addmm", "bmm", "baddbmm", "mv"),
    *("addmv", "dot", "vdot", "convolution"),
}  # fmt: skip
# Of those, the ones whose partial results are as large as the sum of magnitudes.
_OVERFLOWING = _ACCUMULATING - {"logsumexp", "_logsumexp", "logcumsumexp", "_softmax", "_log_softmax"}
# Those that are not correctly rounded, or are one operator here and several there.
_INEXACT = {
    *("exp", "expm1", "exp2", "log", "log1p", "log2", "log10", "rsqrt", "sin", "cos", "tan", "asin", "acos"),
    *("atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "sigmoid", "log_sigmoid_forward", "erf"),
    *("erfc", "erfinv", "gelu", "silu", "mish", "softplus", "elu", "celu", "selu", "leaky_relu", "hardswish"),
    *("hardsigmoid", "pow", "float_power", "atan2", "hypot", "lerp", "addcmul", "addcdiv", "logaddexp"),
    *("logaddexp2", "lgamma", "digamma", "sinc", "xlogy", "special_xlog1py", "special_entr", "logit"),
    *("linspace", "logspace"),
}  # fmt: skip

# Of zeros with both signs, which one they give depends on their order and on lanes.
_EITHER_ZERO = {"amax", "amin", "aminmax", "max", "min", "maximum", "minimum", "fmax", "fmin"}


class Nudged(TorchDispatchMode):
    """Moves what is rounded. Seed 0 nudges nothing, but lets a sum overflow where some order of adding up would.
    Odd seeds move equal numbers alike: `sin` errs in the same way wherever it meets the same argument."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._overflow = seed == 0
        self._generator = torch.Generator().manual_seed(seed)
        self._alike = seed % 2 == 1
        self._factor = 0x9E3779B97F4A7C15 // (seed + 2) | 1  # multiplicative hashing
        self._rounded: dict[int, torch.UntypedStorage] = {}  # held: a freed storage's address comes again

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = function.overloadpacket.__name__.removesuffix("_")
        accumulating = name in _ACCUMULATING
        rounds = accumulating or name in _INEXACT or "alpha" in kwargs
        rounds = rounds or any(self._is_rounded(leaf) for leaf in pytree.tree_leaves((args, kwargs)))
        overflowed = None
        if self._overflow and name in _OVERFLOWING:
            magnitudes = pytree.tree_map_only(
                torch.Tensor, lambda t: t.abs() if _is_float(t) else t, (args, kwargs)
            )
            overflowed = function(*magnitudes[0], **magnitudes[1])
        if accumulating and not self._overflow and not function._schema.is_mutable:
            args, kwargs = pytree.tree_map_only(torch.Tensor, self._moved, (args, kwargs))
        result = function(*args, **kwargs)
        if name in _EITHER_ZERO and not self._overflow:
            for leaf in pytree.tree_leaves(result):
                if isinstance(leaf, torch.Tensor) and _is_float(leaf):
                    leaf.masked_fill_(leaf == 0, 0.0 if self._alike else -0.0)
        if not rounds:
            return result
        largest_ones = pytree.tree_leaves(result if overflowed is None else overflowed)
        for leaf, largest in zip(pytree.tree_leaves(result), largest_ones, strict=True):
            if not isinstance(leaf, torch.Tensor) or not _is_float(leaf):
                continue
            if not function.is_view:
                if overflowed is not None:
                    leaf.masked_fill_(leaf.isfinite() & ~largest.isfinite(), torch.inf)
                elif not self._overflow and not _overlaps_itself(leaf):
                    leaf.copy_(self._moved(leaf))
            storage = leaf.untyped_storage()
            self._rounded[storage._cdata] = storage
        return result

    def _is_rounded(self, leaf: Any) -> bool:
        return isinstance(leaf, torch.Tensor) and leaf.untyped_storage()._cdata in self._rounded

    def _moved(self, tensor: torch.Tensor) -> torch.Tensor:
        """Each element a neighbour of what it was, or the same: zeros stay, and signs."""
        if not _is_float(tensor):
            return tensor
        wide = tensor.double()
        steps = torch.randint(-1, 2, tensor.shape, generator=self._generator, device="cpu").to(tensor.device)
        if self._alike:
            steps = (wide.view(torch.int64) * self._factor >> 40) % 3 - 1
        moved = (wide + 0.75 * torch.finfo(tensor.dtype).eps * steps * wide).to(tensor.dtype)
        return torch.where(tensor.isfinite(), moved, tensor)


def _is_float(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() and tensor.layout == torch.strided


def _real(tensor: torch.Tensor) -> torch.Tensor:
    tensor = tensor.detach().resolve_conj().resolve_neg()
    return (torch.view_as_real(tensor) if tensor.is_complex() else tensor).double()


def _overlaps_itself(tensor: torch.Tensor) -> bool:
    return any(size > 1 and stride == 0 for size, stride in zip(tensor.shape, tensor.stride(), strict=True))


class Spread:
    """What rounding explains of the results and of the arguments after a call; worked out when it is asked for."""

    def __init__(
        self, call: Callable[..., tuple[Any, Any, Any]], fn: Callable[..., Any], args: tuple[Any, ...], kwargs: Any
    ) -> None:
        self._call, self._fn, self._given = call, fn, (args, kwargs)
        self._runs: list[list[Any]] | None = None

    def of(self, expected: torch.Tensor, tree: str, number: int) -> torch.Tensor:
        """The largest distance of any nudged run from eager, in float64; inf where one is not finite and eager is
        (or the other way round). `tree`: "result" or "argument after the call", `number`: the leaf in it."""
        if self._runs is None:
            self._runs = [run for seed in range(RUNS) if (run := self._run(seed)) is not None]
        wide = _real(expected)
        farthest = torch.zeros_like(wide)
        for run in self._runs:
            leaf = _real(run[tree != "result"][number])
            same = (leaf == wide) | (leaf.isnan() & wide.isnan())
            distance = torch.where(same, 0.0, (leaf - wide).abs()).nan_to_num(torch.inf, posinf=torch.inf)
            farthest = torch.maximum(farthest, distance)
        # An element may have been lucky in every run: it may move as the middle one of its tensor does.
        return torch.maximum(farthest, farthest.median()) if farthest.numel() else farthest

    def _run(self, seed: int) -> list[Any] | None:
        args, kwargs = _Copies().of(self._given)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with Nudged(seed):
                result, error, _ = self._call(self._fn, args, kwargs)
        return [pytree.tree_leaves(result), pytree.tree_leaves((args, kwargs))] if error is None else None
