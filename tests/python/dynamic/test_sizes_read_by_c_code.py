"""C code that reads how large a tensor is, by a name or for a function that it calls: never another call's size."""

import collections
import dataclasses
import functools
import itertools
import operator

import pytest
import torch
from any_size import same
from torch.utils import _pytree as pytree

import braze
from braze._load import C

pytestmark = [
    pytest.mark.skipif(not hasattr(C, "CompiledFunction"), reason="no evaluator for this Python"),
    pytest.mark.usefixtures("no_grad"),
]

SIZES = (8, 12, 20, 7, 34, 1, 0, 8, 10)


@dataclasses.dataclass
class Held:
    tensor: torch.Tensor


@braze.compiler.allow_in_graph
def trusted(x):
    return x * 0 + x.shape[0]


def matched(x):
    match x:
        case torch.Tensor(shape=(a, b)):
            return a, b


def matched_within(x):
    match Held(x):
        case Held(tensor=torch.Tensor(shape=(a, _))):
            return a


# One program for all sizes: an attribute under a name is the attribute.
BY_NAME = {
    "getattr": lambda x: getattr(x, "shape")[0],  # noqa: B009
    "getattr with a default": lambda x: getattr(x, "shape", None)[0],
    "getattr of a method": lambda x: getattr(x, "size")(0),  # noqa: B009
    "getattr of a transposed": lambda x: getattr(x, "T").shape,  # noqa: B009
    "getattr of a computed": lambda x: getattr(x * 2, "shape")[0],  # noqa: B009
    "hasattr": lambda x: hasattr(x, "shape") and x.shape[0],
    "attrgetter": lambda x: operator.attrgetter("shape")(x),
    "methodcaller": lambda x: operator.methodcaller("size", 0)(x),
    "methodcaller of a computed": lambda x: operator.methodcaller("numel")(x[1:] if len(x) > 3 else x),
    "a bound method": lambda x: (lambda size: size(0))(x.size),
    "unbound methods": lambda x: (torch.Tensor.size(x, 0), torch.Tensor.numel(x), torch.numel(x)),
    "a flag": lambda x: getattr(x, "requires_grad"),  # noqa: B009
}

# For these sizes: C code calls what it is given.
BY_OTHERS = {
    "attrgetter of two": lambda x: operator.attrgetter("shape", "ndim")(x),
    "map of numel": lambda x: list(map(torch.numel, [x])),
    "map of numel of a computed": lambda x: list(map(torch.numel, [x * 2, x[:1]])),
    "map of len": lambda x: list(map(len, [x, x])),
    "map of a method": lambda x: list(map(torch.Tensor.size, [x])),
    "map of a getter": lambda x: [shape[0] for shape in map(lambda t: t.shape, [x])],
    "map of a generator": lambda x: list(map(torch.numel, (t for t in [x, x * 2]))),
    "map of a chain": lambda x: list(map(torch.numel, map(lambda t: t, [x]))),
    "map of a zip": lambda x: list(map(lambda pair: pair[0].numel(), zip([x], [x], strict=True))),
    "sum of a map": lambda x: sum(map(torch.numel, (x, x))),
    "key of max": lambda x: max([x, x[1:]], key=len).shape,
    "key of sorted": lambda x: [t.shape for t in sorted([x, x[1:]], key=torch.numel)],
    "a filter": lambda x: len(list(filter(torch.numel, [x, x[:0]]))),
    "a partial": lambda x: functools.partial(torch.numel, x)(),
    "a partial by keyword": lambda x: functools.partial(torch.numel, input=x)(),
    "a partial of a partial": lambda x: functools.partial(functools.partial(torch.Tensor.size, x), 0)(),
    "a partial of getattr": lambda x: functools.partial(getattr, x)("shape"),
    "a partial of a bound method": lambda x: functools.partial(x.size, 0)(),
    "a partial of len": lambda x: functools.partial(len)(x),
    "a map of partials": lambda x: list(map(functools.partial(torch.Tensor.size, x), [0, 1])),
    "unpacked": lambda x: (torch.numel(*[x]), torch.Tensor.size(*(x, 0)), getattr(*[x, "shape"])),
    "unpacked keywords": lambda x: torch.numel(**{"input": x}),
    "tree_map of len": lambda x: pytree.tree_map(len, [x, {"a": x}]),
    "tree_map of numel": lambda x: pytree.tree_map(torch.numel, (x, x * 2)),
    "reduce": lambda x: functools.reduce(lambda a, t: a + t.numel(), [x, x], 0),
    "starmap": lambda x: list(itertools.starmap(lambda t, k: t.size(k), [(x, 0), (x, 1)])),
    "a deque": lambda x: list(map(len, collections.deque([x]))),
    "a class pattern": matched,
    "a class pattern within": matched_within,
    "allow_in_graph": trusted,
    "length_hint": lambda x: operator.length_hint(x),
}


def captures(function, dynamic):
    compiled = braze.compile(lambda x: (x + 1, function(x)), dynamic=dynamic)
    for size in SIZES:
        x = torch.randn(size, 6)
        same(compiled(x), (x + 1, function(x)))
    return compiled.counts()["captured"]


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("form", BY_NAME)
def test_attributes_by_name(form, dynamic):
    branches = 1 if form == "methodcaller of a computed" else 0
    assert captures(BY_NAME[form], dynamic) <= 4 + branches  # 0 and 1 are for themselves.


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("form", BY_OTHERS)
def test_what_c_code_calls(form, dynamic):
    captures(BY_OTHERS[form], dynamic)


class Holder:
    pass


@pytest.mark.parametrize("dynamic", [None, True])
def test_a_method_that_was_bound_before(dynamic):
    holder = Holder()

    def f(x):
        return x + 1, holder.size(0), holder.tensor.shape[0]

    compiled = braze.compile(f, dynamic=dynamic)
    for size in SIZES:
        x = holder.tensor = torch.randn(size, 6)
        holder.size = x.size
        same(compiled(x), f(x))
        holder.tensor = torch.randn(size + 3, 6)
        holder.size = holder.tensor.size
        same(compiled(x), f(x))
