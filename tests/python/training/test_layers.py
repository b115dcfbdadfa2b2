"""The layers of torch.nn with the arguments of PyTorch's own tests: results, gradients and buffers of steps."""

from __future__ import annotations

import copy

import pytest
import torch
from torch.testing._internal.common_modules import module_db
from torch.utils import _pytree as pytree

import braze

LAYERS = {info.name: info for info in module_db}
SAMPLES = 4  # Of each layer.
#: Layers that are not compiled as a whole, and why.
NATIVE = {
    "nn.CTCLoss": "lengths in a tensor decide a shape",
    "nn.FractionalMaxPool2d": "sizes are computed of a tensor",
    "nn.LinearCrossEntropyLoss": "its gradient is computed by Python code",
}


def fresh(tree):
    return pytree.tree_map_only(
        torch.Tensor, lambda tensor: tensor.detach().clone().requires_grad_(tensor.requires_grad), tree
    )


def step(layer, args, kwargs, seed):
    """Results, gradients of arguments and parameters, buffers."""
    args, kwargs = fresh((args, kwargs))
    torch.manual_seed(seed)
    results = layer(*args, **kwargs)
    wanted = [t for t in pytree.tree_leaves(results) if isinstance(t, torch.Tensor) and t.requires_grad]
    if wanted:
        torch.autograd.backward([t.sum() * (k + 1) for k, t in enumerate(wanted)])
    leaves = [t for t in pytree.tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor) and t.requires_grad]
    gradients = [t.grad for t in [*leaves, *layer.parameters()]]
    for parameter in layer.parameters():
        parameter.grad = None
    return results, gradients, [buffer.clone() for buffer in layer.buffers()]


@pytest.mark.parametrize("training", [True, False], ids=["training", "eval"])
@pytest.mark.parametrize("name", sorted(LAYERS))
def test_layer(name, training):
    info = LAYERS[name]
    samples = info.module_inputs_func(
        info, device="cpu", dtype=torch.float32, requires_grad=True, training=training
    )
    tried = 0
    for sample in samples[:SAMPLES]:
        if sample.forward_input is None:
            continue
        made, given = sample.constructor_input, sample.forward_input
        torch.manual_seed(1)
        layer = info.module_cls(*made.args, **made.kwargs).train(training)
        other = copy.deepcopy(layer)
        compiled = braze.compile(other)
        for call in range(3):
            try:
                wanted = step(layer, given.args, given.kwargs, call)
            except RuntimeError as error:
                with pytest.raises(type(error)):
                    step(compiled, given.args, given.kwargs, call)
                break
            got = step(compiled, given.args, given.kwargs, call)
            torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-4, equal_nan=True)
            for one, two in zip(pytree.tree_leaves(got[0]), pytree.tree_leaves(wanted[0]), strict=True):
                assert one.stride() == two.stride() and one.requires_grad == two.requires_grad
        else:
            assert name in NATIVE or compiled.counts()["native"] == 0, compiled.reasons()
            tried += 1
    if tried == 0:
        pytest.skip("no samples")
