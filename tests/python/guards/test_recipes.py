"""Recipes: what they make, that identity and cycles are kept, the order of effects, errors, references."""

import collections
import dataclasses
import sys

import pytest
import torch

from braze._C import _guards


def run(make, values=(), outputs=()):
    """Runs the recipe whose builder and results `make(builder)` gives."""
    builder = _guards.RecipeBuilder()
    results = make(builder)
    recipe = builder.finish(results if isinstance(results, list) else [results])
    made = recipe.run(list(values), list(outputs))
    return list(made) if isinstance(results, list) else made[0]


def test_leaves():
    thing, y = object(), torch.ones(2)
    made = run(lambda b: [b.value(1), b.constant(5), b.output(0), b.value(1)], ["a", thing], [y])
    assert made[0] is thing
    assert made[1] == 5
    assert made[2] is y
    assert made[3] is thing


def test_containers():
    for kind, expected in [("tuple", (1, 2)), ("list", [1, 2]), ("set", {1, 2}), ("frozenset", frozenset({1, 2}))]:
        made = run(lambda b, kind=kind: b.container(kind, [b.constant(1), b.constant(2)]))
        assert made == expected
        assert type(made) is type(expected)
    made = run(lambda b: b.container("dict", [b.constant("b"), b.constant(1), b.constant("a"), b.constant(2)]))
    assert list(made.items()) == [("b", 1), ("a", 2)]
    assert run(lambda b: b.container("tuple", [])) == ()


class Point(collections.namedtuple("Point", "x y")):
    def __new__(cls, *args):
        raise AssertionError


class Items(list):
    def __init__(self, *args):
        raise AssertionError

    def append(self, item):
        raise AssertionError


class Table(dict):
    def __setitem__(self, key, value):
        raise AssertionError


class Bag(frozenset):
    pass


def test_derived_containers_without_their_python_code():
    def items(b):
        return [b.constant(1), b.constant(2)]

    point = run(lambda b: b.container("tuple", items(b), Point))
    assert type(point) is Point
    assert (point.x, point.y) == (1, 2)
    listed = run(lambda b: b.container("list", items(b), Items))
    assert type(listed) is Items
    assert listed == [1, 2]
    table = run(lambda b: b.container("dict", items(b), Table))
    assert type(table) is Table
    assert table == {1: 2}
    bag = run(lambda b: b.container("frozenset", items(b), Bag))
    assert type(bag) is Bag
    assert bag == {1, 2}
    ordered = run(lambda b: b.container("dict", items(b), collections.OrderedDict))
    assert ordered == collections.OrderedDict([(1, 2)])
    assert list(reversed(ordered)) == [1]

    def default(b):
        made = b.container("dict", items(b), collections.defaultdict)
        b.attribute(made, "default_factory", b.constant(list))
        return made

    made = run(default)
    assert made == {1: 2}
    assert made["new"] == []


def test_wrong_types_are_refused():
    with pytest.raises(Exception, match="no kind of"):
        run(lambda b: b.container("list", [], dict))


@dataclasses.dataclass(frozen=True)
class Frozen:
    a: int
    b: object

    def __post_init__(self):
        raise AssertionError


class Slotted:
    __slots__ = ("a", "__dict__")

    def __setattr__(self, name, value):
        raise AssertionError


def test_objects_without_init_and_setattr():
    def make(b, kind):
        made = b.object(kind)
        b.attribute(made, "a", b.constant(1))
        b.attribute(made, "b", b.value(0))
        return made

    thing = object()
    frozen = run(lambda b: make(b, Frozen), [thing])
    assert (frozen.a, frozen.b is thing) == (1, True)
    slotted = run(lambda b: make(b, Slotted), [thing])
    assert (slotted.a, slotted.__dict__) == (1, {"b": thing})
    error = run(lambda b: make(b, ValueError), [thing])
    assert isinstance(error, ValueError)
    assert error.a == 1


def test_identity_is_kept_and_each_call_makes_anew():
    builder = _guards.RecipeBuilder()
    inner = builder.container("list", [builder.constant(1)])
    outer = builder.container("tuple", [inner, inner])
    recipe = builder.finish([outer, inner])
    first, second = recipe.run([], []), recipe.run([], [])
    assert first[0][0] is first[0][1] is first[1]
    assert first[1] is not second[1]
    first[1].append(2)
    assert second[1] == [1]


def test_cycles():
    def make(b):
        listed = b.container("list", [])
        holder = b.container("tuple", [listed])
        b.add_item(listed, holder)
        table = b.container("dict", [])
        b.add_entry(table, b.constant("self"), table)
        thing = b.object(Slotted)
        b.attribute(thing, "a", thing)
        return [holder, table, thing]

    holder, table, thing = run(make)
    assert holder[0][0] is holder
    assert table["self"] is table
    assert thing.a is thing
    thing.__class__.a.__delete__(thing)


class Key:
    def __hash__(self):
        return hash(self.name)

    def __eq__(self, other):
        return self.name == other.name


def test_keys_are_whole_when_hashed():
    def make(b):
        key = b.object(Key)
        b.attribute(key, "name", b.constant("k"))
        return [b.container("dict", [key, b.constant(1)]), b.container("frozenset", [key]), key]

    table, bag, key = run(make)
    assert table[key] == 1
    assert key in bag


def test_slices_cells_methods_iterators_calls():
    assert run(lambda b: b.slice(b.constant(1), b.constant(None), b.constant(2))) == slice(1, None, 2)
    assert run(lambda b: b.cell(b.constant(4))).cell_contents == 4
    with pytest.raises(ValueError, match="empty"):
        run(lambda b: b.cell()).cell_contents  # noqa: B018
    values = []
    run(lambda b: b.method(b.constant(list.append), b.value(0)), [values])
    method = run(lambda b: b.method(b.constant(Key.__hash__), b.value(0)), [values])
    assert method.__self__ is values
    iterator = run(lambda b: b.iterator(b.container("list", [b.constant(i) for i in range(4)]), 2))
    assert list(iterator) == [2, 3]
    assert list(run(lambda b: b.iterator(b.constant({"a": 1, "b": 2}), 1))) == ["b"]
    assert list(run(lambda b: b.iterator(b.constant("ab"), 9))) == []
    assert run(lambda b: b.call(max, [b.constant(3), b.constant(7)])) == 7
    assert run(lambda b: b.call(sum, [b.container("list", [b.constant(3), b.constant(4)])])) == 7


def test_shared_iterators():
    def make(b):
        iterator = b.iterator(b.constant([1, 2, 3, 4]), 0)
        return b.call(zip, [iterator, iterator])

    assert list(run(make)) == [(1, 2), (3, 4)]


def test_functions():
    def template():
        count = 10

        def inner(x, y=1, *, z=2):
            return x + y + z + count + offset, inner  # noqa: F821  (a global of the made function)

        return inner

    inner = template()

    def make(b):
        cells = [b.cell(b.constant(20)), b.cell()]
        parts = [b.constant(inner.__code__), b.constant({"offset": 100})]
        parts += [b.constant((5,)), b.constant({"z": 6}), b.container("tuple", cells)]
        parts += [b.constant("name"), b.constant("some.name"), b.constant({"x": int})]
        function = b.function(parts)
        b.effect("store_cell", [cells[1], function])
        return function

    made = run(make)
    assert inner.__code__.co_freevars == ("count", "inner")
    assert made(1) == (1 + 5 + 6 + 20 + 100, made)
    assert (made.__name__, made.__qualname__) == ("name", "some.name")
    assert made.__annotations__ == {"x": int}
    plain = run(lambda b: b.function([b.constant((lambda: 3).__code__), b.constant({})]))
    assert plain() == 3


def test_effects_in_order(capsys):
    class Target:
        def __setattr__(self, name, value):
            print("set", name, value)
            object.__setattr__(self, name, value)

    log, table, target = [], {"gone": 1, "kept": 2}, Target()
    inner = [1, 2, 3]

    def make(b):
        values = [b.value(i) for i in range(4)]
        b.effect("append", [values[0], b.constant("first")])
        b.effect("call", [b.constant(print), b.constant("hello"), values[0]])
        b.effect("append", [values[0], b.output(0)])
        b.effect("store_item", [values[1], b.constant("new"), b.container("list", [values[0]])])
        b.effect("delete_item", [values[1], b.constant("gone")])
        b.effect("store_attribute", [values[2], b.constant("x"), b.constant(5)])
        b.effect("store_in_dict_of", [values[2], b.constant("y"), b.constant(6)])
        b.effect("store_item", [values[3], b.constant(-1), b.constant("last")])
        b.effect("delete_item", [values[3], b.constant(0)])
        return values[0]

    y = torch.ones(1)
    assert run(make, [log, table, target, inner], [y]) is log
    assert log[0] == "first"
    assert log[1] is y
    assert list(table) == ["kept", "new"]
    assert table["new"][0] is log
    assert (target.x, target.y) == (5, 6)
    assert inner == [2, "last"]
    assert capsys.readouterr().out == "hello ['first']\nset x 5\n"


def test_more_effects():
    class Stubborn:
        def __delattr__(self, name):
            if name == "a":
                object.__delattr__(self, name)

    target = kept = Stubborn()
    target.a = target.b = 1
    cell = (lambda: target).__closure__[0]
    whole = [1, 2, 3]

    def make(b):
        b.effect("delete_attribute", [b.value(0), b.constant("a")])
        b.effect("delete_from_dict_of", [b.value(0), b.constant("b")])
        b.effect("replace_list", [b.value(1), b.container("tuple", [b.constant(9)])])
        b.effect("store_cell", [b.value(2), b.constant("contents")])
        return []

    run(make, [target, whole, cell])
    assert not vars(kept)
    assert target == "contents"
    assert whole == [9]
    assert cell.cell_contents == "contents"
    run(lambda b: [b.effect("store_cell", [b.value(0)])][:0], [cell])
    with pytest.raises(ValueError, match="empty"):
        cell.cell_contents  # noqa: B018


def test_values_are_those_before_the_effects():
    table = {"a": 1}

    def make(b):
        old = b.value(1)
        b.effect("store_item", [b.value(0), b.constant("a"), b.constant(2)])
        b.effect("store_item", [b.value(0), b.constant("b"), old])
        return old

    assert run(make, [table, table["a"]]) == 1
    assert table == {"a": 2, "b": 1}


def test_errors_come_out_and_earlier_effects_stay():
    log = []

    def make(b):
        b.effect("append", [b.value(0), b.constant(1)])
        b.effect("call", [b.constant(int), b.constant("no number")])
        b.effect("append", [b.value(0), b.constant(2)])
        return []

    with pytest.raises(ValueError, match="no number"):
        run(make, [log])
    assert log == [1]
    with pytest.raises(TypeError, match="unhashable"):
        run(lambda b: b.container("set", [b.container("list", [])]))
    with pytest.raises(IndexError):
        run(lambda b: [b.effect("store_item", [b.value(0), b.constant(5), b.constant(1)])][:0], [[]])
    with pytest.raises(AttributeError, match="no attribute"):
        run(lambda b: [b.effect("store_in_dict_of", [b.value(0), b.constant("x"), b.constant(1)])][:0], [3])


def test_wrong_effects_are_refused():
    builder = _guards.RecipeBuilder()
    with pytest.raises(Exception, match="an effect with 1 operands"):
        builder.effect("append", [builder.constant(1)])
    with pytest.raises(Exception, match="another builder"):
        builder.container("list", [77])


def test_many_nodes_and_deep_nesting():
    def wide(b):
        return b.container("list", [b.container("tuple", [b.constant(i), b.value(0)]) for i in range(500)])

    assert run(wide, ["v"]) == [(i, "v") for i in range(500)]

    def deep(b):
        node = b.constant(0)
        for _ in range(1000):
            node = b.container("list", [node])
        return node

    made, depth = run(deep), 0
    while made != 0:
        made, depth = made[0], depth + 1
    assert depth == 1000


def test_no_references_leak():
    thing, y, kind = object(), torch.ones(1), Slotted
    builder = _guards.RecipeBuilder()
    value = builder.value(0)
    made = builder.object(kind)
    builder.attribute(made, "a", value)
    pair = builder.container("tuple", [value, builder.output(0), made, builder.constant(thing)])
    builder.effect("call", [builder.constant(len), builder.container("list", [pair])])
    recipe = builder.finish([pair, made])

    def counts():
        return [sys.getrefcount(o) for o in (thing, y, kind)]

    recipe.run([thing], [y])
    before = counts()
    for _ in range(1000):
        recipe.run([thing], [y])
    assert counts() == before
