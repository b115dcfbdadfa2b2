"""Changes of what existed before: a capture leaves none, every replay repeats them, as plain Python does."""

import collections
import copy

import pytest
import torch
from torch import nn

from braze._load import C

pytestmark = pytest.mark.skipif(not hasattr(C, "CompiledFunction"), reason="no evaluator for this Python")

X = torch.arange(6.0).reshape(2, 3)


@pytest.fixture(autouse=True)
def no_grad():
    with torch.no_grad():
        yield


def plain(value):
    """A value as something that compares: tensors as lists, objects as their type and attributes."""
    if isinstance(value, torch.Tensor):
        return ("tensor", value.tolist())
    if isinstance(value, (list, tuple)):
        return (type(value).__name__, [plain(item) for item in value])
    if isinstance(value, dict):
        return (type(value).__name__, [(key, plain(item)) for key, item in value.items()])
    if hasattr(value, "__dict__") and not callable(value):
        return (type(value).__name__, plain(vars(value)))
    return value


def check(function, make_world, calls=4, captured=None):
    """The same results and the same world after every call; the later calls are replays."""
    ours, theirs = make_world(), make_world()
    fast = C.CompiledFunction(function)
    for _ in range(calls):
        assert plain(fast(X, ours)) == plain(function(X, theirs))
        assert plain(ours) == plain(theirs)
    assert fast.reasons() == {}
    if captured is not None:
        assert fast.counts() == {"captured": captured, "replayed": calls - captured, "native": 0}
    return fast


class World:
    def __init__(self, **entries):
        self.__dict__.update(entries)


def test_counter_is_changed_once_a_call():
    def f(x, world):
        world.n += 1
        return x + world.n

    world = World(n=0)
    fast = C.CompiledFunction(f)
    for i in range(1, 4):
        torch.testing.assert_close(fast(X, world), X + i)
        assert world.n == i
    assert fast.reasons() == {}


def test_attribute_is_overwritten():
    def f(x, world):
        world.last = x + 1
        world.last = world.last * 2
        return world.last

    fast = check(f, lambda: World(last=None), captured=1)
    world = World(last=None)
    assert fast(X, world) is world.last


def test_attribute_that_is_new():
    def f(x, world):
        world.b = 1
        world.a = x + 1
        world.b = 2
        return world.a + world.b

    check(f, World, captured=1)


def test_attributes_are_deleted():
    def f(x, world):
        del world.a
        world.a = x * 2
        del world.b
        return x

    ours, theirs = World(a=1, b=2, c=3), World(a=1, b=2, c=3)
    fast = C.CompiledFunction(f)
    for _ in range(3):
        fast(X, ours)
        f(X, theirs)
        assert plain(ours) == plain(theirs)
        ours.a = theirs.a = 1
        ours.b = theirs.b = 2
    assert fast.reasons() == {}


def test_list_that_grows():
    def f(x, world):
        world.append(x + len(world))
        world.append("done")
        return x

    check(f, list)

    def blind(x, world):
        world.items.append(x + 1)
        return x * 2

    check(blind, lambda: World(items=[]), captured=1)


def test_list_is_changed_in_every_way():
    def f(x, world):
        world[0] = x + 1
        world += [3, 4]
        world.insert(1, "one")
        world.pop()
        del world[2]
        world.reverse()
        world[1:2] = [x, x * 2]
        return [len(world), world[0], *world]

    ours, theirs = [0, 1, 2], [0, 1, 2]
    fast = C.CompiledFunction(f)
    for _ in range(3):
        assert plain(fast(X, ours)) == plain(f(X, theirs))
        assert plain(ours) == plain(theirs)
        ours[:] = [0, 1, 2]
        theirs[:] = [0, 1, 2]
    assert fast.reasons() == {}
    assert fast.counts() == {"captured": 1, "replayed": 2, "native": 0}


def test_dict_is_changed_in_every_way():
    def f(x, world):
        world["a"] = x + 1
        world["new"] = world["a"] * 2
        world.setdefault("b", 5)
        world.setdefault("c", 7)
        world.update({"d": 1, "a": x})
        del world["b"]
        world["b"] = world.pop("c")
        return list(world), len(world), "c" in world

    ours, theirs = {"b": 1, "z": 2}, {"b": 1, "z": 2}
    fast = C.CompiledFunction(f)
    for _ in range(3):
        assert plain(fast(X, ours)) == plain(f(X, theirs))
        assert plain(ours) == plain(theirs)
        for world in (ours, theirs):
            world.clear()
            world.update({"b": 1, "z": 2})
    assert fast.reasons() == {}
    assert fast.counts() == {"captured": 1, "replayed": 2, "native": 0}


def test_dict_is_cleared():
    def f(x, world):
        world.table.clear()
        world.table["x"] = x + 1
        return world.table["x"]

    check(f, lambda: World(table={"a": 1, "b": 2}), captured=1)


def test_ordered_dict_keeps_its_order():
    def f(x, world):
        del world["a"]
        world["a"] = x + 1
        return list(world)

    check(f, lambda: collections.OrderedDict(a=1, b=2))


COUNT = 0


def test_global():
    global COUNT
    COUNT = 0

    def f(x):
        global COUNT
        COUNT = COUNT + 1
        return x + COUNT

    fast = C.CompiledFunction(f)
    for i in range(1, 4):
        torch.testing.assert_close(fast(X), X + i)
        assert i == COUNT
    assert fast.reasons() == {}


LATEST = None


def test_global_that_holds_a_tensor():
    def f(x):
        global LATEST
        LATEST = x + 1
        return LATEST

    fast = C.CompiledFunction(f)
    for _ in range(3):
        result = fast(X)
        assert LATEST is result
    assert fast.counts() == {"captured": 1, "replayed": 2, "native": 0}


def test_nonlocal():
    def make():
        total = 0

        def f(x):
            nonlocal total
            total += 2
            return x + total

        return f, lambda: total

    f, total = make()
    fast = C.CompiledFunction(f)
    for i in range(1, 4):
        torch.testing.assert_close(fast(X), X + 2 * i)
        assert total() == 2 * i
    assert fast.reasons() == {}


class Slots:
    __slots__ = ("n", "other")

    def __init__(self):
        self.n = 0


def test_slots():
    def f(x, world):
        world.n = world.n + 1
        world.other = x * world.n
        return world.other

    world = Slots()
    fast = C.CompiledFunction(f)
    for i in range(1, 4):
        result = fast(X, world)
        torch.testing.assert_close(result, X * i)
        assert world.n == i and world.other is result
    assert fast.reasons() == {}


class Checked:
    def __init__(self):
        self.stored = 1

    @property
    def value(self):
        return self.stored

    @value.setter
    def value(self, new):
        self.stored = new * 2


def test_property_setter():
    def f(x, world):
        world.value = 4
        return x + world.value

    check(f, Checked, captured=1)


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.register_buffer("mean", torch.zeros(3))
        self.steps = 0
        self.seen = []

    def forward(self, x):
        self.steps += 1
        self.last = self.linear(x)
        self.mean = self.mean * 0.5 + x.mean(0)
        self.seen.append(self.steps)
        return self.last + self.mean


def test_modules_that_change_themselves():
    ours = Counting()
    theirs = copy.deepcopy(ours)
    fast = C.CompiledFunction(ours)
    for _ in range(4):
        torch.testing.assert_close(fast(X), theirs(X))
        assert ours.steps == theirs.steps and ours.seen == theirs.seen
        torch.testing.assert_close(ours.mean, theirs.mean)
        torch.testing.assert_close(ours.last, theirs.last)
        assert list(ours.state_dict()) == list(theirs.state_dict())
    assert fast.reasons() == {}


def test_objects_made_by_the_run_are_stored():
    def f(x, world):
        node = World()
        node.value = x + 1
        node.world = world
        world.nodes.append(node)
        world.head = node
        return node

    ours = World(nodes=[], head=None)
    fast = C.CompiledFunction(f)
    for i in range(3):
        node = fast(X, ours)
        assert ours.head is node and ours.nodes[-1] is node and node.world is ours
        assert len(ours.nodes) == i + 1
    assert fast.reasons() == {}


def test_two_lists_that_become_one():
    def f(x, a, b):
        a.append(1)
        return x + len(b)

    fast = C.CompiledFunction(f)
    torch.testing.assert_close(fast(X, [], []), X)
    torch.testing.assert_close(fast(X, [], []), X)
    assert fast.counts()["replayed"] == 1
    same = []
    torch.testing.assert_close(fast(X, same, same), X + 1)
    assert same == [1]


def test_an_instance_dict_that_is_also_an_argument():
    def f(x, world, entries):
        world.n = 5
        return x + entries["n"]

    fast = C.CompiledFunction(f)
    world = World(n=1)
    for _ in range(2):
        torch.testing.assert_close(fast(X, world, {"n": 1}), X + 1)
        world.n = 1
    torch.testing.assert_close(fast(X, world, vars(world)), X + 5)


def test_a_branch_on_a_tensor_among_the_effects():
    def f(x, world):
        world.n += 1
        del world.first
        world.items.append(x)
        world.items[0] = "changed"
        world.table["k"] = 1
        world.table.pop("a")
        if x.sum() > 0:  # the value of a tensor
            world.n += 10
        return x

    def make():
        return World(first=1, n=0, items=[0], table={"a": 1, "b": 2})

    ours, theirs = make(), make()
    fast = C.CompiledFunction(f)
    for _ in range(3):
        for world in (ours, theirs):
            (fast if world is ours else f)(X, world)
        assert plain(ours) == plain(theirs)
        for world in (ours, theirs):
            world.first, world.table["a"] = 1, 1


def test_an_exception_after_an_effect():
    def f(x, world):
        world.n += 1
        raise KeyError(world.n)

    world = World(n=0)
    fast = C.CompiledFunction(f)
    for i in range(1, 3):
        with pytest.raises(KeyError, match=str(i)):
            fast(X, world)
        assert world.n == i


class Loud:
    def __init__(self):
        self.log = []

    def __setattr__(self, name, value):
        if name != "log":
            self.log.append(name)
        super().__setattr__(name, value)


def test_setattr_of_the_users():
    def f(x, world):
        world.a = x + 1
        world.b = 2
        return world.a

    check(f, Loud)


def test_reads_after_writes_see_what_was_written():
    def f(x, world):
        world.config = {"scale": 3.0}
        world.items[0] = 2.0
        world.table["s"] = world.items[0] * world.config["scale"]
        return x * world.table["s"], sorted(world.table), bool(world.items)

    check(f, lambda: World(config=None, items=[1.0], table={"t": 0.0}))


def test_effects_before_an_operator_that_raises():
    log, layer = [], nn.Linear(4, 4)

    def f(x):
        log.append(len(log))
        return x - layer(x)

    fast = C.CompiledFunction(f)
    with torch.no_grad():
        for n in range(1, 4):
            with pytest.raises(RuntimeError, match="dtype"):
                fast(torch.ones(4, dtype=torch.float64))
            assert log == list(range(n))
