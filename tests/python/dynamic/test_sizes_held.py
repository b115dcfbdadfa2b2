"""Sizes in what a function makes to hold them: named tuples, dataclasses, dicts. One program for all sizes."""

import collections
import dataclasses
from typing import NamedTuple

import pytest
import torch
from any_size import rows, run

from braze._load import C

pytestmark = [
    pytest.mark.skipif(not hasattr(C, "CompiledFunction"), reason="no evaluator for this Python"),
    pytest.mark.usefixtures("no_grad"),
]


class Output(NamedTuple):
    length: int
    rows: torch.Tensor
    ratio: float = 0.5


Pair = collections.namedtuple("Pair", "a b")


@dataclasses.dataclass
class Held:
    length: int
    parts: list


class Plain:
    pass


def attributes(x):
    held = Plain()
    held.length = x.shape[0]
    for name in ("half",):
        setattr(held, name, x.shape[0] // 2)
    held.length += 1
    return held.length, x[: held.half]


def dataclass(x):
    held = Held(x.shape[0], [x.shape[0]])
    held.parts.append(held.length * 2)
    return held.length, held.parts, x * held.parts[1]


def merged(x):
    return x + 1, {**{"a": x.shape[0]}, "b": 2}


PROGRAMS = {
    "a named tuple": lambda x: Output(x.shape[0], x + 1, x.shape[0] / 2),
    "a field": lambda x: x * Output(x.shape[0], x).length + Output(x.shape[0], x)[0],
    "of names": lambda x: (Pair(a=x.shape[0] * 2, b=(6, x.shape[0])), x + 1),
    "taken apart": lambda x: (lambda a, b: x * a + b)(*Pair(x.shape[0], 2)),
    "a dict of keywords": lambda x: (x + 1, dict(a=x.shape[0], b=x.shape[0] // 2)),
    "an ordered dict": lambda x: (x + 1, collections.OrderedDict(a=x.shape[0])),
    "dicts put together": merged,
    "attributes": attributes,
    "a dataclass": dataclass,
}


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("name", PROGRAMS)
def test_one_program_for_all_sizes(name, dynamic):
    assert run(PROGRAMS[name], rows(5, 8, 3, 12, 33, 2), dynamic=dynamic) == (1 if dynamic else 2)
    run(PROGRAMS[name], rows(5, 8, 1, 0, 4), dynamic=dynamic)
