"""What the programs of breaks/*.txt find around them. Executed anew for each: none sees what another changes."""

# ruff: noqa: F401
import array
import builtins
import collections
import contextlib
import contextvars
import copy
import dataclasses
import decimal
import enum
import functools
import inspect
import itertools
import math
import operator
import re
import threading
import types
import typing
import weakref

import numpy
import torch
import torch.nn.functional as F

import braze

SPARSE = torch.eye(3).to_sparse()  # A tensor that no guard holds.


class Meta(type(torch.Tensor)):
    """May have its say about instances."""


class CallableTensor(torch.Tensor, metaclass=Meta):
    def __call__(self):
        return 3


UNKNOWN = torch.zeros(2).as_subclass(CallableTensor)  # Likewise, and it may be called.


class Strange(Exception):
    """Handled by the caller: nothing tells where it is from."""

    def __init__(self):
        super().__init__()
        self.value = 3

    def __getitem__(self, key):
        return 3

    def __setitem__(self, key, value):
        pass

    def __delitem__(self, key):
        pass

    def __contains__(self, key):
        return True

    def __iter__(self):
        return iter([1, 2])

    def __call__(self):
        return 2

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        pass

    def __len__(self):
        return 2

    def __eq__(self, other):
        return self is other

    def __hash__(self):
        return 5

    def __add__(self, other):
        return other


def strange():
    """The exception that the caller handles, found over one that the function raises."""
    try:
        raise ValueError()
    except ValueError as error:
        return error.__context__


def within(function, x):
    """The call is made while that exception is handled."""
    try:
        raise Strange
    except Strange:
        return function(x)


def beside_thread(function, x):
    """The call is made while there is another thread."""
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait)
    thread.start()
    try:
        return function(x)
    finally:
        stop.set()
        thread.join()


def uncaptured():
    """Ends any graph, and gives a list."""
    return list(array.array("i", [1]))
