"""Shortcuts through guard programs: what a check remembers of the last one must never hide a change."""

import gc
import random

import pytest
import torch
from guarding import OK, Case

from braze._C import _guards


class Node:
    """Every kind of thing that a program walks through."""

    kind = "node"

    def __init__(self, rng, depth):
        self.number = fresh_number(rng)
        self.items = [fresh_number(rng), fresh_number(rng)]
        self.pair = (fresh_number(rng), [fresh_number(rng)])
        self.table = {"a": fresh_number(rng), 1: fresh_number(rng)}
        self.slotted = Slotted(fresh_number(rng))
        self.function = closure(fresh_number(rng))
        self.method = self.slotted.get
        self.child = Node(rng, depth - 1) if depth else None


class Slotted:
    __slots__ = ("value",)

    def __init__(self, value):
        self.value = value

    def get(self):
        return self.value


class Twin(Node):
    """Looks like a Node."""


def fresh_number(rng):
    """A float that is an object of its own, so that it dies when it is replaced."""
    return float(f"{rng.randrange(3)}.5")


def closure(value):
    def inner():
        return value

    return inner


def guard(g, source, node):
    """Guards on all of a node; describe() says what they must see."""
    g.type(source, type(node))
    g.constant(g.attribute(source, "number"), node.number)
    items = g.attribute(source, "items")
    g.length(items, len(node.items))
    for i, item in enumerate(node.items):
        g.constant(g.sequence_item(items, i), item)
    pair = g.attribute(source, "pair")
    g.constant(g.sequence_item(pair, 0), node.pair[0])
    g.constant(g.sequence_item(g.sequence_item(pair, 1), 0), node.pair[1][0])
    table = g.attribute(source, "table")
    g.dict_keys(table, node.table)
    for key, value in node.table.items():
        g.constant(g.dict_item(table, key), value)
    slotted = g.attribute(source, "slotted")
    g.constant(g.slot(slotted, Slotted.value), node.slotted.value)
    g.constant(g.closure_variable(g.attribute(source, "function"), 0, "value"), node.function())
    bound = g.member(g.attribute(source, "method"), "method_self")
    g.constant(g.slot(bound, Slotted.value), node.method())
    g.absent(g.attribute(source, "extra"))
    g.constant(g.type_attribute(g.type_of(source), "kind"), type(node).kind)
    g.want(items)
    g.want(bound)
    if node.child is None:
        g.constant(g.attribute(source, "child"), None)
    else:
        guard(g, g.attribute(source, "child"), node.child)


def describe(node):
    if not isinstance(node, Node):
        return node
    return (
        type(node).__name__,
        node.number,
        tuple(node.items),
        (node.pair[0], node.pair[1][0]),
        tuple(node.table.items()),
        node.slotted.value,
        node.function(),
        node.method(),
        hasattr(node, "extra"),
        type(node).kind,
        describe(node.child),
    )


def wanted(node):
    values = []
    while node is not None:
        values += [node.items, node.method.__self__]
        node = node.child
    return values


def replace_item(node, rng):
    """The old number dies first: the new one may get its address."""
    node.items[0] = None
    node.items[0] = fresh_number(rng)


def replace_dict(node, rng):
    node.__dict__ = dict(node.__dict__)


def new_table(node, rng):
    node.table = None
    node.table = {"a": fresh_number(rng), 1: fresh_number(rng)}


def new_child(node, rng):
    node.child = node.child and Node(rng, 0 if node.child.child is None else 1)


def assign_class(node, rng):
    node.__class__ = rng.choice([Node, Twin])


def toggle_extra(node, rng):
    if hasattr(node, "extra"):
        del node.extra
    else:
        node.extra = 1


def set_cell(node, rng):
    node.function.__closure__[0].cell_contents = None
    node.function.__closure__[0].cell_contents = fresh_number(rng)


def set_slot(node, rng):
    node.slotted.value = None
    node.slotted.value = fresh_number(rng)


CHANGES = [
    replace_item,
    replace_dict,
    new_table,
    new_child,
    assign_class,
    toggle_extra,
    set_cell,
    set_slot,
    lambda n, rng: setattr(n, "number", fresh_number(rng)),
    lambda n, rng: setattr(n, "items", [fresh_number(rng), n.items[1]]),
    lambda n, rng: n.items.append(n.items.pop()),
    lambda n, rng: n.items.reverse(),
    lambda n, rng: setattr(n, "pair", (fresh_number(rng), [fresh_number(rng)])),
    lambda n, rng: n.pair[1].__setitem__(0, fresh_number(rng)),
    lambda n, rng: n.table.update(a=fresh_number(rng)),
    lambda n, rng: n.table.update(a=n.table.pop("a")),
    lambda n, rng: setattr(n, "slotted", Slotted(fresh_number(rng))),
    lambda n, rng: setattr(n, "method", n.slotted.get),
    lambda n, rng: setattr(n, "function", closure(fresh_number(rng))),
    lambda n, rng: setattr(Node, "kind", rng.choice(["node", "node", "other"])),
    lambda n, rng: gc.collect() if rng.random() < 0.02 else None,
]


@pytest.fixture(autouse=True)
def kind_as_it_was():
    yield
    Node.kind = "node"


@pytest.mark.parametrize("seed", range(12))
def test_random_changes(seed):
    """After each change the check says what a comparison in Python says, and gives the present values."""
    rng = random.Random(seed)
    roots = [Node(rng, 2), Node(rng, 2)]
    case = Case(lambda g, x: guard(g, x, roots[0]))
    expected = describe(roots[0])
    held = 0
    for _ in range(400):
        if rng.random() < 0.4:
            node = rng.choice(roots)
            for _ in range(rng.randrange(3)):
                node = node.child or node
            rng.choice(CHANGES)(node, rng)
        if rng.random() < 0.3:
            roots[0] = None  # so that the next one may get its address
            roots[0] = rebuild(expected)
        root = rng.choice(roots)
        holds = describe(root) == expected
        for _ in range(rng.randrange(1, 4)):
            assert case.holds(root) == holds
        if holds:
            held += 1
            for value, present in zip(case.program.values(root), wanted(root), strict=True):
                assert value is present
        if rng.random() < 0.2:
            Node.kind = "node"
    assert held > 20


def rebuild(description):
    """A new node of this description."""
    if not isinstance(description, tuple):
        return description
    _, number, items, pair, table, slotted, function, method, _, _, child = description
    node = Node.__new__(Node)
    node.number = number * 1.0
    node.items = list(items)
    node.pair = (pair[0], [pair[1]])
    node.table = dict(table)
    node.slotted = Slotted(slotted)
    node.function = closure(function)
    node.method = Slotted(method).get
    node.child = rebuild(child)
    return node


def padded(build):
    """Guards that are many enough for a shortcut."""

    def with_padding(g, x):
        for i in range(20):
            g.constant(g.attribute(x, f"pad{i}"), i)
        build(g, x)

    return Case(with_padding)


def holder(**names):
    made = type("Holder", (), {})()
    made.__dict__.update({f"pad{i}": i for i in range(20)}, **names)
    return made


def test_an_item_whose_address_is_used_again():
    thing = holder(items=[float("2.5")])
    case = padded(lambda g, x: g.constant(g.sequence_item(g.attribute(x, "items"), 0), 2.5))
    assert case.holds(thing)
    assert case.holds(thing)
    for value in (3.5, 2.5, 4.5):
        thing.items[0] = None
        thing.items[0] = value * 1.0
        assert case.holds(thing) == (value == 2.5)


def test_a_root_whose_address_is_used_again():
    case = padded(lambda g, x: g.constant(g.attribute(x, "k"), 1))
    for k in (1, 1, 2, 1, 2, 2, 1):
        thing = holder(k=k)
        assert case.holds(thing) == (k == 1)
        assert case.holds(thing) == (k == 1)
        del thing


def test_a_weakly_held_item_whose_address_is_used_again():
    class Thing:
        pass

    thing = holder(items=[Thing()])

    def build(g, x):
        g.identity(g.sequence_item(g.attribute(x, "items"), 0), thing.items[0], weak=True)

    case = padded(build)
    assert case.holds(thing)
    assert case.holds(thing)
    thing.items[0] = None
    for _ in range(20):
        thing.items[0] = Thing()
        assert not case.holds(thing)
        thing.items[0] = None


def test_tensors_in_a_model_are_looked_at_every_time():
    model = torch.nn.Sequential(*(torch.nn.Linear(2, 2) for _ in range(6)))

    def build(g, x):
        for i in range(6):
            layer = g.dict_item(g.attribute(x, "_modules"), str(i))
            parameters = g.attribute(layer, "_parameters")
            g.dict_keys(parameters, model[i]._parameters)
            g.tensor(g.dict_item(parameters, "weight"), model[i].weight)

    case = Case(build)
    for _ in range(3):
        assert case.holds(model)
        model[5].half()
        assert case.why(model) == "x[5].weight.dtype == torch.float32, was torch.float16"
        assert not case.holds(model)
        model[5].float()


def test_class_of_a_module_is_looked_at_every_time():
    """Besides classes made by class statements, modules are the objects whose class can be assigned."""
    import types

    class Computed(types.ModuleType):
        k = property(lambda self: 5)

    box = types.ModuleType("box")
    case = padded(lambda g, x: g.type(g.attribute(x, "box"), types.ModuleType))
    thing = holder(box=box)
    for _ in range(3):
        assert case.holds(thing)
        box.__class__ = Computed
        assert not case.holds(thing)
        box.__class__ = types.ModuleType


def test_empty_tables_and_functions_are_looked_at_every_time():
    from collections import OrderedDict

    def function(x, y=1, *, z=2):
        return x

    thing = holder(hooks=OrderedDict(), items=[], table={}, function=function)

    def build(g, x):
        for name, kind in (("hooks", OrderedDict), ("items", list), ("table", dict)):
            g.type(g.attribute(x, name), kind)
            g.length(g.attribute(x, name), 0)
        g.function(g.attribute(x, "function"), function)

    case = padded(build)
    code, defaults, keywords = function.__code__, function.__defaults__, function.__kwdefaults__
    changes = [
        (lambda: thing.hooks.update(a=1), lambda: thing.hooks.clear()),
        (lambda: thing.items.append(1), lambda: thing.items.clear()),
        (lambda: thing.table.update(a=1), lambda: thing.table.clear()),
        (lambda: setattr(function, "__code__", (lambda x, y=1, *, z=2: y).__code__),
         lambda: setattr(function, "__code__", code)),
        (lambda: setattr(function, "__defaults__", (3,)), lambda: setattr(function, "__defaults__", defaults)),
        (lambda: setattr(function, "__kwdefaults__", {"z": 4}),
         lambda: setattr(function, "__kwdefaults__", keywords)),
    ]  # fmt: skip
    for change, undo in changes:
        for _ in range(3):
            assert case.holds(thing)
        change()
        assert not case.holds(thing)
        undo()


def test_modes_and_context_are_looked_at_every_time():
    import contextvars

    variable = contextvars.ContextVar("variable", default=0)
    thing = holder(variable=variable, tensor=torch.ones(2, requires_grad=True))

    def build(g, x):
        g.torch_state()
        g.constant(g.context_value(g.attribute(x, "variable")), 0)
        g.absent(g.member(g.attribute(x, "tensor"), "tensor_grad"))

    case = padded(build)
    for _ in range(3):
        assert case.holds(thing)
        with torch.no_grad():
            assert not case.holds(thing)
        token = variable.set(1)
        assert not case.holds(thing)
        variable.reset(token)
        thing.tensor.grad = torch.ones(2)
        assert not case.holds(thing)
        thing.tensor.grad = None


def test_objects_are_compared_again_when_one_has_moved():
    """Also when the check in which it moved failed before it came to them."""
    import contextvars

    variable = contextvars.ContextVar("variable")
    variable.set([])
    thing = holder(a=[], b=[], k=1, variable=variable)
    thing.c = thing.a

    def build(g, x):
        a, b, c, read = (g.attribute(x, name) for name in ("a", "b", "c", "variable"))
        g.objects([a, b, g.context_value(read)], [thing.a, thing.b, variable.get()])
        g.same_object(a, c)
        g.constant(g.attribute(x, "k"), 1)

    case = padded(build)
    for _ in range(3):
        assert case.holds(thing)
        for k in (1, 2):
            thing.b, thing.k = thing.a, k
            assert not case.holds(thing)
            thing.k = 1
            assert not case.holds(thing)
            thing.b = []
            assert case.holds(thing)
            thing.c, thing.k = [], k
            assert not case.holds(thing)
            thing.k = 1
            assert not case.holds(thing)
            thing.c = thing.a
            assert case.holds(thing)
        token = variable.set(thing.a)
        assert not case.holds(thing)
        variable.reset(token)


def test_shortcuts_die_with_what_they_saw():
    """A program keeps no argument alive."""
    import weakref

    thing = holder(k=1)
    alive = weakref.ref(thing)
    case = padded(lambda g, x: g.constant(g.attribute(x, "k"), 1))
    assert case.holds(thing)
    assert case.holds(thing)
    del thing
    assert alive() is None
    assert case.program.check(holder(k=2)) != OK


def test_many_programs_on_one_object():
    thing = holder(k=1, items=[1])
    cases = [padded(lambda g, x, i=i: g.constant(g.attribute(x, "k"), i)) for i in range(5)]
    for k in (0, 3, 3, 1, 4, 0):
        thing.k = k
        assert [case.holds(thing) for case in cases] == [k == i for i in range(5)]


def test_set_can_be_empty():
    program = _guards.GuardSet().program()
    assert program.check(1, 2) == OK
    assert len(program) == 0
