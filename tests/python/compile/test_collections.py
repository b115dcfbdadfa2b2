"""Garbage that is due while a call is captured: its finalizers run once, and do not disturb the capture."""

import gc

import torch

import braze


class Finalized:
    """Garbage as soon as nobody holds it, but for the collector."""

    def __init__(self, ran):
        self.ran, self.me = ran, self

    def __del__(self):
        self.ran.append(1)


def allocates(x):
    lists = [[i] for i in range(3000)]
    return x * len(lists)


def with_a_break(x):
    if x.sum() > 0:
        x = allocates(x)
    return x + 1


def check(function, capsys):
    x = torch.ones(3)
    compiled = braze.compile(function)
    ran = []
    with torch.no_grad():
        wanted = function(x)
        gc.collect()
        Finalized(ran)
        assert gc.isenabled()
        for _ in range(3):
            assert torch.equal(compiled(x), wanted)
        assert gc.isenabled()
    gc.collect()
    assert ran == [1]
    assert compiled.counts()["native"] == 0
    assert "Exception ignored" not in capsys.readouterr().err


def test_a_finalizer_runs_once(capsys):
    check(allocates, capsys)


def test_a_finalizer_runs_once_beside_graph_breaks(capsys):
    check(with_a_break, capsys)


def test_a_collector_that_is_off_stays_off():
    gc.disable()
    try:
        braze.compile(allocates)(torch.ones(3))
        assert not gc.isenabled()
    finally:
        gc.enable()
