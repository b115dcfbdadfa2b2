"""Programs that do with an array `A` what Python, C code and NumPy can do with one (programs_of_arrays.txt): nobody
may tell what stands for it in a capture from the array."""

import collections
import contextlib
import copy
import functools
import math
import numbers
import operator
import pathlib
import pickle
import warnings

import numpy as np
import pytest
import torch

import braze
from braze._load import C

pytestmark = pytest.mark.skipif(not hasattr(C, "CompiledFunction"), reason="no evaluator for this Python")
PROGRAMS = pathlib.Path(__file__).with_name("programs_of_arrays.txt").read_text().split("\n---\n")
ORIGINS = {"shown": "x.numpy()", "computed": "(x * 2).numpy()", "copied": "np.array(x)", "given": "A"}
MODULES = (collections, contextlib, copy, functools, math, numbers, operator, pickle, torch)


def alike(ours, theirs):
    if type(ours) is not type(theirs):
        return False
    if isinstance(theirs, (np.ndarray, np.number)):
        is_close = functools.partial(np.allclose, rtol=1e-4, atol=1e-5, equal_nan=True)
        has_form = ours.dtype == theirs.dtype and ours.shape == theirs.shape
        return has_form and (str(ours) == str(theirs) if theirs.dtype == object else is_close(ours, theirs))
    if isinstance(theirs, torch.Tensor):
        has_form = ours.dtype == theirs.dtype and ours.shape == theirs.shape
        return has_form and torch.allclose(ours.double(), theirs.double(), rtol=1e-4, atol=1e-5, equal_nan=True)
    if isinstance(theirs, (list, tuple)):
        return len(ours) == len(theirs) and all(alike(one, other) for one, other in zip(ours, theirs, strict=True))
    if isinstance(theirs, dict):
        return list(ours) == list(theirs) and all(alike(ours[key], theirs[key]) for key in theirs)
    if isinstance(theirs, (float, complex)):
        return ours == pytest.approx(theirs, rel=1e-4, abs=1e-5, nan_ok=True)
    return str(ours) == str(theirs)


def function_of(program, origin):
    names = {"np": np} | {module.__name__: module for module in MODULES}
    body = "\n".join(f"    {line}" for line in [f"A = {origin}", *program.strip("\n").split("\n"), "return r"])
    exec(f"def f(x, A):\n{body}", names)
    return names["f"]


def outcome(function, seed):
    x = torch.randn(3, 4, generator=torch.Generator().manual_seed(seed))
    given = x.numpy() * 1.5
    try:
        result = function(x, given)
    except Exception as error:
        result = type(error)
    return result, x, given


@pytest.mark.parametrize("is_warm", [False, True], ids=["cold", "warm"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_nobody_can_tell(program, is_warm):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for origin in ORIGINS.values():
            f = function_of(program, origin)
            with torch.no_grad():
                for seed in range(20 if is_warm else 0):  # CPython has specialised the code by then.
                    outcome(f, seed)
            for settings in ({}, {"dynamic": True}):
                fast = braze.compile(f, **settings)
                for seed in range(4):
                    with torch.no_grad() if seed % 2 else torch.enable_grad():
                        ours, theirs = outcome(fast, seed), outcome(f, seed)
                    assert alike(ours, theirs), (origin, settings, seed, ours, theirs)
