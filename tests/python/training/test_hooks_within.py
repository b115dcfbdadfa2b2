"""Hooks on gradients that the compiled function sets itself, as text (hooks_within.txt), beside plain Python.

# name | in parts | once      has graph breaks, and is not differentiated twice: what a result of one part is
                              written by another cannot be, hooks or not
def f(x): ...                 called with a tensor of 3 that requires grad; its first result is differentiated

`seen` and `handles` are lists for what hooks note, and for handles, which are removed after the backward.
"""

import functools
import types
import warnings
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils._pytree import tree_flatten

import braze

CALLS = (0, 0, 1, 2, 3, 4, 4, 5)


def programs(twice=False):
    found = []
    for program in (Path(__file__).parent / "hooks_within.txt").read_text().split("\n# ")[1:]:
        header, _, source = program.partition("\n")
        name, *options = header.strip().split(" | ")
        if not twice or "once" not in options:
            found.append(pytest.param(source, "in parts" not in options, id=name))
    return found


def module(source):
    torch.manual_seed(0)
    made = types.ModuleType(__name__)
    names = {"torch": torch, "nn": nn, "F": nn.functional, "functools": functools, "seen": [], "handles": []}
    made.__dict__.update(names)
    exec(compile(source, "<hooks>", "exec"), made.__dict__)
    return made


def leaves_of(made):
    modules = [value for value in vars(made).values() if isinstance(value, nn.Module)]
    own = [value for value in vars(made).values() if isinstance(value, torch.Tensor)]
    return own + [parameter for one in modules for parameter in one.parameters()]


def step(made, function, number, twice=False):
    """What a call and its backward leave: results, gradients, what hooks have seen, and which hooks there are."""
    torch.manual_seed(number)
    leaf = torch.randn(3, requires_grad=True)
    x = leaf if number % 2 else leaf * 1.5
    results = tree_flatten(function(x))[0]
    tensors = [one for one in results if isinstance(one, torch.Tensor)]
    loss = tensors[0]
    if twice:
        (first,) = torch.autograd.grad(loss, leaf, create_graph=True)
        loss = first.square().sum()
    if loss.requires_grad:
        loss.backward(retain_graph=True)
    handles = [one for one in results if hasattr(one, "remove")] + made.handles
    for one in handles:
        one.remove()
    made.handles.clear()
    leaves = [leaf, *leaves_of(made)]
    hooks = [len(one._backward_hooks or ()) for one in (x, *leaves)]
    found = [*tensors, *(one.grad for one in (*leaves, *tensors) if one.is_leaf or one.retains_grad), *made.seen]
    if tensors[0].requires_grad:  # Hooks of handles that were removed are gone.
        found += torch.autograd.grad(tensors[0], leaf, allow_unused=True)
    made.seen.clear()
    for one in leaves:
        one.grad = None
    return [None if one is None else one.detach().clone() for one in found], hooks


def same(ours, theirs):
    assert ours[1] == theirs[1] and len(ours[0]) == len(theirs[0])
    for mine, other in zip(ours[0], theirs[0], strict=True):
        assert (mine is None) == (other is None)
        if other is not None:
            torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-5)


def ids():
    """How many handles there have been."""
    return torch.utils.hooks.RemovableHandle.next_id


def compare(source, is_whole, twice=False, **settings):
    native, made = module(source), module(source)
    compiled = braze.compile(made.f, fullgraph=is_whole, **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number in CALLS:
            before = ids()
            expected = step(native, native.f, number, twice)
            native_ids = ids() - before
            before = ids()
            same(step(made, compiled, number, twice), expected)
            assert ids() - before == native_ids
    return compiled


@pytest.mark.parametrize(("source", "is_whole"), programs())
def test_hooks(source, is_whole):
    compiled = compare(source, is_whole)
    if is_whole:
        assert compiled.counts()["replayed"] >= 4
        assert compiled.report()["operators"]["native"] == 0


@pytest.mark.parametrize(("source", "is_whole"), programs())
def test_hooks_of_any_size(source, is_whole):
    compare(source, is_whole, dynamic=True)


@pytest.mark.parametrize(("source", "is_whole"), programs(twice=True))
def test_hooks_and_second_derivatives(source, is_whole):
    compare(source, is_whole, twice=True)


@pytest.mark.parametrize(("source", "is_whole"), programs())
def test_hooks_with_other_backends(source, is_whole):
    compare(source, False, backend="aot_eager")
    compare(source, False, backend=lambda graph, inputs: graph.forward)


@pytest.mark.parametrize(("source", "is_whole"), programs())
def test_hooks_of_specialised_code(source, is_whole):
    native, made = module(source), module(source)
    for number in range(40):
        step(made, made.f, number)
        step(native, native.f, number)
    compiled = braze.compile(made.f, fullgraph=is_whole)
    for number in CALLS:
        same(step(made, compiled, number), step(native, native.f, number))
