"""One model twice, in eager and compiled: same inputs and random numbers; outputs, gradients and state compared."""

import copy
import warnings

import torch
from torch.utils import _pytree as pytree

import braze


def close(ours, theirs, what, tolerance=2e-5):
    assert (ours is None) == (theirs is None), f"{what}: {ours} instead of {theirs}"
    if theirs is None:
        return
    assert ours.dtype == theirs.dtype and ours.shape == theirs.shape, f"{what}: {ours.dtype}{list(ours.shape)}"
    if not theirs.is_floating_point():
        assert torch.equal(ours, theirs), what
        return
    scale = max(1.0, theirs.detach().abs().max().item() if theirs.numel() else 1.0)
    torch.testing.assert_close(
        ours, theirs, rtol=tolerance, atol=tolerance * scale, msg=lambda text: f"{what}: {text}"
    )


def tensors(tree):
    return [leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def loss_of(outputs):
    """One number from all that is differentiable, in which every element counts differently."""
    total = 0
    for tensor in tensors(outputs):
        if tensor.requires_grad:
            weights = torch.linspace(0.5, 1.5, tensor.numel(), device=tensor.device).reshape(tensor.shape)
            weights = weights.to(tensor.dtype)
            total = total + (tensor * weights).sum()
    return total


def check(model, inputs, calls=3, tolerance=2e-5, native=0, whole=True, **choices):
    """`inputs(k)` gives the positional arguments of call k. Returns the compiled model.

    So many calls run natively; where the function is not `whole`, some operators of the others.
    """
    other = copy.deepcopy(model)
    fast = braze.compile(other, **choices)
    for k in range(calls):
        torch.manual_seed(100 + k)
        ours_in = inputs(k)
        theirs_in = copy.deepcopy(ours_in)
        for tensor in tensors(ours_in) + tensors(theirs_in):
            if tensor.is_floating_point():
                tensor.requires_grad_(not hasattr(inputs, "frozen"))
        model.zero_grad(), other.zero_grad()
        torch.manual_seed(200 + k)
        theirs = model(*theirs_in)
        state = torch.get_rng_state()
        torch.manual_seed(200 + k)
        ours = fast(*ours_in)
        assert torch.equal(torch.get_rng_state(), state), f"call {k}: random numbers"
        for number, (a, b) in enumerate(zip(tensors(ours), tensors(theirs), strict=True)):
            assert a.requires_grad == b.requires_grad, f"call {k}: output {number}"
            assert a.stride() == b.stride(), f"call {k}: strides of output {number}: {a.stride()}, {b.stride()}"
            close(a, b, f"call {k}: output {number}", tolerance)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            loss_of(theirs).backward()
            loss_of(ours).backward()
        for number, (a, b) in enumerate(zip(tensors(ours_in), tensors(theirs_in), strict=True)):
            close(a.grad, b.grad, f"call {k}: gradient of input {number}", tolerance)
        for (name, a), (_, b) in zip(other.named_parameters(), model.named_parameters(), strict=True):
            close(a.grad, b.grad, f"call {k}: gradient of {name}", tolerance)
        for (name, a), (_, b) in zip(other.named_buffers(), model.named_buffers(), strict=True):
            close(a, b, f"call {k}: {name}", tolerance)
    counts = fast.counts()
    assert counts["native"] == native, (counts, fast.reasons())
    assert fast.operators()["native"] == 0 or native or not whole, fast.operators()
    return fast
