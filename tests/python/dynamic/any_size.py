"""Calls at several sizes beside eager."""

import torch

import braze


def same(one, other):
    assert type(one) is type(other)
    if isinstance(one, torch.Tensor):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4, equal_nan=True)
        assert one.stride() == other.stride() or one.numel() == 0
    elif isinstance(one, (tuple, list)):
        assert len(one) == len(other)
        for a, b in zip(one, other, strict=True):
            same(a, b)
    elif isinstance(one, dict):
        assert list(one) == list(other)
        same(list(one.values()), list(other.values()))
    else:
        assert one == other


def run(function, calls, **settings):
    """Compares every call with eager; gives the counts."""
    compiled = braze.compile(function, **settings)
    for call in calls:
        same(compiled(*call), function(*call))
    counts = compiled._compiled.counts() if hasattr(compiled, "_compiled") else compiled.counts()
    assert counts["native"] == 0, counts
    return counts["captured"]


def rows(*sizes, width=6):
    return [(torch.randn(n, width),) for n in sizes]


def second_capture_serves_all(function, calls):
    """Each call is compared with eager; no capture is needed after those of the first two calls."""
    compiled = braze.compile(function)
    for k, call in enumerate(calls):
        same(compiled(*call), function(*call))
        if k == 1:
            captured = compiled.counts()["captured"]
    assert compiled.counts()["native"] == 0
    return compiled.counts()["captured"] - captured
