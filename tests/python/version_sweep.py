"""What eager's nodes save: over OpInfo's samples, whether a backward raises after one tensor has been written to in
place between forward and backward, and with which text; compiled against eager.

One argument or result at a time is written to; gradients of all arguments together, and of one alone, are asked
for.
"""

import re
import warnings

import torch
from against_eager import tensors
from gradient_sweep import differentiable
from opinfo_sweep import name_of

import braze


def outcome(function, given, which, write, wanted):
    """None: the program is none, as eager's has no gradients or the tensor cannot be written to."""
    torch.manual_seed(0)
    args, kwargs = differentiable(given)
    leaves = [one for one in tensors((args, kwargs)) if one.requires_grad]
    others = [one for one in tensors((args, kwargs)) if not one.requires_grad]
    results = [one for one in tensors(function(*args, **kwargs)) if isinstance(one, torch.Tensor)]
    found = [one for one in results if one.requires_grad]
    if not found or any(one.is_complex() or one.layout != torch.strided for one in found):
        return None
    written = {"leaf": leaves, "other": others, "result": results}[which]
    if write >= len(written) or (wanted is not None and wanted >= len(leaves)):
        return None
    tensor = written[write]
    loss = sum(one.sum() for one in found)
    try:
        with torch.no_grad():
            tensor.copy_(tensor.clone())
    except RuntimeError:
        return None
    try:
        torch.autograd.grad(loss, leaves if wanted is None else leaves[wanted], allow_unused=True)
    except RuntimeError as error:
        return str(error)
    return "no error"


def without_counts(text):
    """Tensors of a sample that need no gradient are the same in all of its runs: their counts go on."""
    return re.sub(r"version \d+", "version N", text)


def difference(expected, actual):
    # Eager may see that a view is stale before it looks at what a node has saved.
    if "no error" not in (expected, actual) and "is a view and its base" in expected:
        return ""
    if without_counts(expected) == without_counts(actual):
        return ""
    if "no error" in (expected, actual):
        return "raises" if expected == "no error" else "does not raise"
    return "another text"


def sweep(op, samples):
    """What is compared, and what differs."""
    counted, wrong = 0, []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for k, sample in enumerate(op.sample_inputs("cpu", torch.float32, requires_grad=True)):
            if k >= samples:
                break
            given = (sample.input, *sample.args), sample.kwargs
            compiled = braze.compile(op.op)
            for which, most in (("leaf", 4), ("other", 2), ("result", 3)):
                for write in range(most):
                    for wanted in (None, 0, 1, 2):
                        case = (given, which, write, wanted)
                        try:
                            expected = outcome(op.op, *case)
                        except Exception:
                            continue
                        if expected is None:
                            continue
                        counted += 1
                        try:
                            actual = outcome(compiled, *case)
                        except Exception as error:
                            actual = f"{type(error).__name__}: {error}"
                        how = difference(expected, actual)
                        if how:
                            wrong.append((name_of(op), k, which, write, wanted, how, expected, actual))
    return counted, wrong
