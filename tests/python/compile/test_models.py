"""Whole models through braze.compile, against eager: changed inputs, shapes and modes.

BRAZE_MODEL_REPORT=1 prints, by model, how many segments there are, how many of the later calls were replays, and
why anything ran natively; with BRAZE_MODEL_REPORT=dynamo also the graph breaks of torch.compile.
"""

import copy
import os
import random
import subprocess
import sys

import pytest
import torch
from architectures import ARCHITECTURES
from torch.utils._pytree import tree_leaves

import braze
from braze._load import C

pytestmark = pytest.mark.skipif(not hasattr(C, "CompiledFunction"), reason="no evaluator for this Python")

REPORT = os.environ.get("BRAZE_MODEL_REPORT")
# Models with calls that are not captured whole, and why. A row goes when they are.
BROKEN = {
    "mamba": "an operator of higher order",
}


def changed(inputs):
    """Other values in the same places; ids and masks stay what they are for."""
    other = {}
    for name, value in inputs.items():
        if value.is_floating_point():
            other[name] = value * 0.5 + 0.25
        elif "mask" in name:
            other[name] = value.clone()
        else:
            other[name] = value.flip(-1)
    return other


def wider(inputs):
    """One more row in the batch."""
    return {name: torch.cat([value, value[:1]]) for name, value in inputs.items()}


def agree(name, ours, theirs):
    assert type(ours) is type(theirs)
    ours, theirs = tree_leaves(ours), tree_leaves(theirs)
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        assert type(a) is type(b), name
        if isinstance(a, torch.Tensor):
            torch.testing.assert_close(a, b, rtol=2e-3, atol=2e-4, equal_nan=True)
        else:
            assert not isinstance(a, (int, float, str)) or a == b


def dynamo_breaks(module, inputs):
    torch._dynamo.reset()
    with torch.no_grad():
        return torch._dynamo.explain(module)(**inputs).graph_break_count


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_agrees_with_eager_call_by_call(name, capsys):
    torch.manual_seed(7)
    module, inputs = ARCHITECTURES[name](random.Random(f"{name} compile"))
    module = module.requires_grad_(False).eval()
    reference = copy.deepcopy(module)
    fast = C.CompiledFunction(module)
    calls = [inputs, changed(inputs), wider(inputs), changed(wider(inputs)), inputs]
    with torch.no_grad():
        for number, arguments in enumerate(calls):
            agree(f"{name}, call {number}", fast(**arguments), reference(**arguments))
    counts = fast.counts()
    if REPORT:
        with capsys.disabled():
            breaks = f", torch.compile breaks {dynamo_breaks(reference, inputs)}" if REPORT == "dynamo" else ""
            print(f"\n{name}: {counts}{breaks}", *fast.reasons(), sep="\n    ")
    if name not in BROKEN:
        assert fast.reasons() == {}
        assert counts["captured"] == 2 and counts["replayed"] == 3 and counts["native"] == 0


@pytest.mark.parametrize("name", ["bert", "gpt2", "vit", "resnet"])
def test_training_mode_is_another_program(name):
    torch.manual_seed(7)
    module, inputs = ARCHITECTURES[name](random.Random(f"{name} compile"))
    module = module.requires_grad_(False).eval()
    fast = C.CompiledFunction(module)
    with torch.no_grad():
        for training in (False, True, False):
            module.train(training)
            reference = copy.deepcopy(module)
            torch.manual_seed(3)
            ours, state = fast(**inputs), torch.get_rng_state()
            torch.manual_seed(3)
            agree(name, ours, reference(**inputs))
            assert torch.equal(torch.get_rng_state(), state)


def test_the_face_gives_the_same():
    module, inputs = ARCHITECTURES["bert"](random.Random("bert compile"))
    module = module.requires_grad_(False).eval()
    fast = braze.compile(module)
    with torch.no_grad():
        for _ in range(3):
            agree("bert", fast(**inputs), module(**inputs))


def test_slices_of_layers_after_dynamo_was_used():
    """Dynamo notes every module down that is made from then on, by its address."""
    script = """
import torch, braze
from torch import nn
from torch._dynamo.mutation_guard import install_generation_tagging_init
install_generation_tagging_init()
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(8, 8) for _ in range(3)])
    def forward(self, x):
        for layer in self.layers[:2]:
            x = layer(x)
        return x
model, x = Model(), torch.randn(2, 8)
with torch.no_grad():
    compiled = braze.compile(model, fullgraph=True)
    for _ in range(3):
        torch.testing.assert_close(compiled(x), model(x))
"""
    subprocess.run([sys.executable, "-c", script], check=True)
