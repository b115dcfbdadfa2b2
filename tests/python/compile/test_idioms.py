"""Idioms of model code, as text (idioms/*.txt): right on every call, replayed, and one graph.

# name | in parts             has graph breaks
def f(x): return x * 2        called with a tensor of 4 x 8, or with what args() gives

Those of trained.txt are trained: the gradients are compared too.
"""

import abc
import collections
import contextlib
import contextvars
import copy
import dataclasses
import enum
import functools
import inspect
import itertools
import math
import operator
import types
import typing
import warnings
import weakref
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils._pytree import tree_flatten

import braze

NAMES = {
    "Any": typing.Any,
    "Dict": dict,
    "F": nn.functional,
    "List": list,
    "Optional": typing.Optional,
    "Tensor": torch.Tensor,
    "abc": abc,
    "collections": collections,
    "contextlib": contextlib,
    "contextvars": contextvars,
    "copy": copy,
    "dataclass": dataclasses.dataclass,
    "dataclasses": dataclasses,
    "enum": enum,
    "field": dataclasses.field,
    "functools": functools,
    "inspect": inspect,
    "itertools": itertools,
    "math": math,
    "nn": nn,
    "operator": operator,
    "torch": torch,
    "types": types,
    "typing": typing,
    "warnings": warnings,
    "weakref": weakref,
}


def read(trained):
    for path in sorted((Path(__file__).parent / "idioms").glob("*.txt")):
        if (path.stem == "trained") != trained:
            continue
        for program in path.read_text().split("\n# ")[1:]:
            header, _, source = program.partition("\n")
            name, *options = header.strip().split(" | ")
            yield pytest.param(source, "in parts" not in options, id=f"{path.stem}-{name}")


def module(source):
    """Made anew, with the same random numbers."""
    torch.manual_seed(0)
    made = types.ModuleType(__name__)  # dataclasses look it up by this name
    made.__dict__.update(NAMES)
    exec(compile(source, "<idiom>", "exec"), made.__dict__)
    return made


def arguments(made, number):
    torch.manual_seed(number)
    given = made.args() if hasattr(made, "args") else torch.randn(4, 8)
    return given if isinstance(given, tuple) else (given,)


def same(ours, theirs):
    mine, spec = tree_flatten(ours)
    other, other_spec = tree_flatten(theirs)
    assert len(mine) == len(other) and str(spec) == str(other_spec)
    for a, b in zip(mine, other, strict=True):
        assert type(a).__name__ == type(b).__name__
        if isinstance(b, torch.Tensor):
            assert a.stride() == b.stride() and a.requires_grad == b.requires_grad
            torch.testing.assert_close(a, b, equal_nan=True, rtol=1e-4, atol=1e-5)
        elif isinstance(b, (int, float, str, bool)):
            assert a == b


def gradients(made, given):
    """Of the program's parameters and of what it was given. Lets go of them."""
    modules = [value for value in vars(made).values() if isinstance(value, nn.Module)]
    leaves = [
        value for value in (*vars(made).values(), *given) if isinstance(value, torch.Tensor) and value.is_leaf
    ]
    leaves += [parameter for one in modules for parameter in one.parameters()]
    found = [leaf.grad for leaf in leaves]
    for leaf in leaves:
        leaf.grad = None
    return found


def step(made, function, number):
    given = arguments(made, number)
    for one in given:
        if one.is_floating_point():
            one.requires_grad_()
    torch.manual_seed(number)
    result = function(*given)
    losses = [one.sum() for one in tree_flatten(result)[0] if isinstance(one, torch.Tensor) and one.requires_grad]
    sum(losses).backward()
    return result, gradients(made, given)


def test_order_of_a_contraction():
    """With opt_einsum, torch.einsum of three and more tensors asks for an order, which takes much Python."""
    pytest.importorskip("opt_einsum")

    def f(x):
        return torch.einsum("ij,jk,kl->il", x, x.T, x) + torch.einsum("ia,ib,ic->abc", x, x, x).sum()

    compiled = braze.compile(f, fullgraph=True)
    for count in (4, 4, 5):
        x = torch.randn(count, 3)
        torch.testing.assert_close(compiled(x), f(x), rtol=1e-4, atol=1e-4)
    assert compiled.counts()["native"] == 0 and compiled.counts()["replayed"] > 0


@pytest.mark.parametrize(("source", "is_whole"), read(trained=True))
def test_trained_idiom(source, is_whole):
    calls = (0, 0, 1, 2)
    native, made = module(source), None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = [step(native, native.f, number) for number in calls]
        made = module(source)
        compiled = braze.compile(made.f, fullgraph=is_whole)
        for number, theirs in zip(calls, expected, strict=True):
            same(step(made, compiled, number), theirs)
    if is_whole:
        assert compiled.counts()["replayed"] > 0
        assert compiled.report()["operators"]["native"] == 0


@pytest.mark.parametrize(("source", "is_whole"), read(trained=False))
def test_idiom(source, is_whole):
    calls = (0, 0, 1, 2)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        native = module(source)
        expected = []
        for number in calls:
            given = arguments(native, number)
            expected.append(copy.deepcopy(native.f(*given)))
        made = module(source)
        compiled = braze.compile(made.f, fullgraph=is_whole)
        for number, theirs in zip(calls, expected, strict=True):
            given = arguments(made, number)
            same(compiled(*given), theirs)
        if is_whole:
            assert compiled.counts()["replayed"] > 0
            assert compiled.report()["operators"]["native"] == 0
