"""torch.utils._pytree takes objects of registered classes apart within a graph, and makes them anew."""

import dataclasses

import pytest
import torch
from torch.utils import _pytree as pytree

import braze
from braze._load import C

pytestmark = pytest.mark.skipif(not hasattr(C, "CompiledFunction"), reason="no evaluator for this Python")


class Pair:
    def __init__(self, first, second):
        self.first, self.second = first, second


class Box:
    def __init__(self, held):
        self.held = held

    def open(self):
        return (self.held,), None

    @classmethod
    def close(cls, children, context):
        return cls(*children)


class Scaled:
    def __init__(self, tensor, scale):
        self.tensor, self.scale = tensor, scale


made = []


@dataclasses.dataclass
class Record:
    tensor: torch.Tensor
    other: object

    def __post_init__(self):
        made.append(1)


@dataclasses.dataclass(frozen=True)
class Frozen:
    tensor: torch.Tensor
    other: object


pytree.register_pytree_node(
    Pair, lambda pair: ([pair.first, pair.second], None), lambda children, context: Pair(*children)
)
pytree.register_pytree_node(Box, Box.open, Box.close)
pytree.register_pytree_node(
    Scaled, lambda one: ([one.tensor], one.scale), lambda children, scale: Scaled(children[0], scale)
)
pytree.register_dataclass(Record)
pytree.register_dataclass(Frozen)

OLD = [1, 2]
SCALED = Scaled(torch.ones(3), 3)
X = torch.tensor([0.2, 0.3, 0.5])


def twice(value):
    return value * 2


def leaves_of_made(x):
    return sum(pytree.tree_leaves(Record(x, OLD))[1:]) * x


def leaves_within(x):
    return sum(pytree.tree_leaves([Pair(x, OLD), (Record(x, OLD),)])[1:]) * x


def context(x):
    leaves, spec = pytree.tree_flatten((SCALED, x))
    scaled, other = pytree.tree_unflatten([leaf * 2 for leaf in leaves], spec)
    return scaled.tensor * scaled.scale + other


def made_anew(x):
    result = pytree.tree_map(twice, {"pair": Pair(x, x + 1), "box": [Box(x)], "frozen": Frozen(x, 3)})
    return result["pair"].first + result["box"][0].held, result["frozen"].other, result["frozen"].tensor


def by_vmap(x):
    return torch.func.vmap(lambda record: record.tensor * record.other)(Record(x, x + 1))


def counts_constructions(x):
    record = pytree.tree_map(twice, Record(x, 3))
    return record.tensor, record.other, len(made)


def grow(i):
    OLD.append(i)


def rescale(i):
    SCALED.scale = 3 + i // 2


def nothing(i):
    pass


@pytest.mark.parametrize(
    ("function", "before"),
    [
        (leaves_of_made, grow),
        (leaves_within, grow),
        (context, rescale),
        (made_anew, nothing),
        (by_vmap, nothing),
    ],
)
@pytest.mark.parametrize("dynamic", [None, True])
def test_as_eager(function, before, dynamic):
    compiled = braze.compile(function, fullgraph=True, dynamic=dynamic)
    for i in range(4):
        before(i)
        x = X * (i + 1)
        torch.testing.assert_close(compiled(x), function(x))
    assert compiled.counts()["native"] == 0
    if before is nothing:
        assert compiled.counts()["captured"] == 1


@pytest.mark.parametrize("kind", [Record, Frozen, Pair, Box])
def test_arguments_of_registered_classes(kind):
    def function(given):
        mapped = pytree.tree_map(twice, given)
        return pytree.tree_leaves(mapped)[0] + 1

    def make(i):
        return kind(X + i) if kind is Box else kind(X + i, i // 3)

    compiled = braze.compile(function, fullgraph=True)
    for i in range(5):
        torch.testing.assert_close(compiled(make(i)), function(make(i)))
    assert compiled.counts()["native"] == 0


def test_a_dataclass_is_given_to_vmap():
    def function(record):
        return torch.func.vmap(lambda one: one.tensor * one.other.sum())(record)

    compiled = braze.compile(function, fullgraph=True)
    for i in range(3):
        record = Record(torch.ones(3, 4) * i, torch.ones(3, 2))
        torch.testing.assert_close(compiled(record), function(record))
    assert compiled.counts() | {"captured": 1, "native": 0} == compiled.counts()


def test_constructors_run_as_often():
    compiled = braze.compile(counts_constructions, fullgraph=True)
    counted = []
    for function in (counts_constructions, compiled):
        made.clear()
        counted.append([function(X)[2] for _ in range(4)])
    assert counted[0] == counted[1]


def test_gradients_pass_through():
    def function(x):
        return pytree.tree_map(twice, Pair(x.sin(), x)).first.sum()

    wanted, got = X.clone().requires_grad_(), X.clone().requires_grad_()
    function(wanted).backward()
    compiled = braze.compile(function, fullgraph=True)
    for _ in range(2):
        got.grad = None
        compiled(got).backward()
        torch.testing.assert_close(got.grad, wanted.grad)


def test_another_registration_is_seen():
    @dataclasses.dataclass
    class Late:
        tensor: torch.Tensor

    def function(x):
        return len(pytree.tree_leaves([Late(x), x]))

    compiled = braze.compile(function)
    assert compiled(X) == compiled(X) == 2
    pytree.register_pytree_node(Late, lambda late: ([late.tensor, 1], None), lambda children, _: Late(children[0]))
    assert compiled(X) == function(X) == 3
