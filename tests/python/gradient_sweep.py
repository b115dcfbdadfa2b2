"""Gradients of OpInfo's samples: compiled against eager, both judged by eager in float64."""

import warnings

import opinfo_sweep
import torch
from against_eager import tensors
from opinfo_skips import NO_VALUES, SKIPPED
from torch.utils import _pytree as pytree

import braze

# Gradients that are not determined by the inputs: random numbers aside, of eigenvectors and their like.
UNDETERMINED = {"svd_lowrank", "pca_lowrank", "linalg.lstsq", "linalg.lstsq.grad_oriented", "ormqr"}


def operators(device="cpu", dtype=torch.float32):
    """The differentiable ones whose gradients can be compared."""
    found = [op for op in opinfo_sweep.operators() if op.supports_autograd and is_wanted(op)]
    return [op for op in found if dtype in op.supported_backward_dtypes(device)]


def is_wanted(op) -> bool:
    name = opinfo_sweep.name_of(op)
    return name not in SKIPPED and name not in NO_VALUES and name not in UNDETERMINED


#: What the answers of each type are judged by.
EXACT = {torch.float32: torch.float64, torch.complex64: torch.complex128}


def differentiable(tree, is_exact=False):
    def convert(leaf):
        if not isinstance(leaf, torch.Tensor) or not (leaf.is_floating_point() or leaf.is_complex()):
            return leaf
        dtype = EXACT.get(leaf.dtype, leaf.dtype) if is_exact else leaf.dtype
        return leaf.detach().clone().to(dtype).requires_grad_()

    return pytree.tree_map(convert, tree)


def gradients(function, given):
    """Results and gradients of one call. None: eager has none."""
    torch.manual_seed(0)
    args, kwargs = given
    found = [each for each in tensors(function(*args, **kwargs)) if each.requires_grad]
    if not found or any(each.layout != torch.strided for each in found):
        return None
    # Of the numbers that complex ones consist of each has a weight of its own.
    numbers = [torch.view_as_real(each.resolve_conj()) if each.is_complex() else each for each in found]
    loss = sum(
        (each * torch.linspace(0.5, 1.5, each.numel(), device=each.device).reshape(each.shape)).sum()
        for each in numbers
    )
    leaves = [leaf for leaf in tensors(given) if leaf.requires_grad]
    return found, list(torch.autograd.grad(loss, leaves, allow_unused=True))


def error(values, exact):
    pairs = [(a, b) for a, b in zip(values, exact, strict=True) if a is not None and a.numel()]
    return [(wide(a) - wide(b)).abs().nan_to_num(posinf=0).max().item() for a, b in pairs]


def wide(value):
    return value.to(torch.complex128 if value.is_complex() else torch.float64)


def compare(op, sample, report):
    given = (sample.input, *sample.args), sample.kwargs

    def call(*args, **kwargs):
        return op(*args, **kwargs)

    try:
        theirs = gradients(call, differentiable(given))
    except Exception:
        return None
    if theirs is None:
        return None
    fast = braze.compile(call)
    ours = gradients(fast, differentiable(given))
    report[fast.counts()["native"] > 0] += 1
    try:
        exact = gradients(call, differentiable(given, is_exact=True))
    except Exception:
        exact = theirs
    for what, a, b, c in zip(("results", "gradients"), ours, theirs, exact or theirs, strict=True):
        if [x is None for x in a] != [x is None for x in b]:
            return f"{what}: {[x is None for x in a]} are undefined, in eager {[x is None for x in b]}"
        if [x.shape for x in a if x is not None] != [x.shape for x in b if x is not None]:
            return f"{what}: other shapes"
        if len(c) != len(b) or any((x is None) != (y is None) for x, y in zip(b, c, strict=True)):
            c = b
        scales = [
            max(1.0, x.detach().abs().nan_to_num(posinf=0).max().item()) for x in b if x is not None and x.numel()
        ]
        for mine, eagers, scale in zip(error(a, c), error(b, c), scales, strict=True):
            if not mine <= 16 * eagers + 4e-6 * scale:
                return f"{what}: an error of {mine}, eager's is {eagers}, of numbers up to {scale}"
        for x, y in zip(a, b, strict=True):
            if x is not None and not torch.equal(x.isnan(), y.isnan()):
                return f"{what}: NaN elsewhere"
    return None


def sweep(op, samples, report, device="cpu", dtype=torch.float32):
    """Failures on so many samples (0: all). `report` counts which calls ran natively."""
    failures = []
    for number, sample in enumerate(opinfo_sweep.samples_of(op, dtype, samples, device)):
        if not opinfo_sweep.is_there(sample, ("cpu", device)):
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                failure = compare(op, sample, report)
            except Exception as raised:
                failure = f"raises {type(raised).__name__}: {str(raised)[:200]}"
        if failure:
            failures.append(f"{opinfo_sweep.name_of(op)} sample {number}: {failure}")
    return failures
