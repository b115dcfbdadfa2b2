"""Programs as text (programs/*.txt): a source, then a line for each change of what it depends on.

    # name | evolves | args: (tensor(), iter(a))      two unchanged calls differ; what `f` is called with
    a = [1, 2]
    def f(x, it): return x * next(it)
    ~ a[0] = 7                                        run in the program's module, and then f is called again
    ~~ a.append(3)                                    the same change goes on

`br()` is a call that no capture understands.
"""

import abc
import collections
import contextlib
import contextvars
import copy
import dataclasses
import enum
import functools
import itertools
import math
import operator
import os
import sys
import threading
import types
import typing
import weakref
from pathlib import Path
from unittest import mock

from seeds import seed
from staleness import case, module, tensor
from torch import nn

NAMES = {
    "F": nn.functional,
    "abc": abc,
    "br": os.getpid,
    "collections": collections,
    "contextlib": contextlib,
    "contextvars": contextvars,
    "copy": copy,
    "dataclasses": dataclasses,
    "enum": enum,
    "functools": functools,
    "itertools": itertools,
    "math": math,
    "mock": mock,
    "nn": nn,
    "operator": operator,
    "os": os,
    "sys": sys,
    "tensor": tensor,
    "threading": threading,
    "types": types,
    "typing": typing,
    "weakref": weakref,
}


def forget_modules(before):
    """Those that a program has made up: with a `__getattr__` of its own one has any `__file__`, for inspect too."""
    for name in set(sys.modules) - before:
        if getattr(sys.modules[name], "__dict__", {}).get("__spec__") is None:
            del sys.modules[name]


def register(topic, header, source, changes):
    name, *options = header.split(" | ")
    arguments = next(
        (option.removeprefix("args: ") for option in options if option.startswith("args: ")), "tensor()"
    )

    def make():
        seed()
        before = set(sys.modules)
        try:
            m = module(source, **NAMES)

            def request():
                given = eval(arguments, m.__dict__)
                return given if isinstance(given, tuple) else (given,)

            yield m.f, *request()
            for change in changes:
                exec(change, m.__dict__)
                yield request()
        finally:
            forget_modules(before)

    case(make, evolves="evolves" in options, name=f"{topic}_{name}")


def read(path):
    """(header, source, changes) of every program of a file."""
    for program in path.read_text().split("\n# ")[1:]:
        header, *lines = program.rstrip().split("\n")
        source, changes = [], []
        for line in lines:
            if line.startswith("~~ "):
                changes[-1] += "\n" + line[3:]
            elif line.startswith("~ "):
                changes.append(line[2:])
            else:
                source.append(line)
        yield header, "\n".join(source), changes


for _path in sorted((Path(__file__).parent / "programs").glob("*.txt")):
    for _program in read(_path):
        register(_path.stem, *_program)
