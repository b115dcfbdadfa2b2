"""Guards on plain Python values: each kind holds when nothing changed, fails when something did, and says what."""

import enum
import gc
import random
import sys
import weakref

import numpy as np
import pytest
import torch
from guarding import Case, on_argument


class Small(enum.IntEnum):
    one = 1


class Text(str):
    pass


NAN = float("nan")
SCALARS = [
    None,
    ...,
    NotImplemented,
    True,
    False,
    0,
    1,
    -1,
    2**80,
    0.0,
    -0.0,
    1.0,
    NAN,
    float("inf"),
    1j,
    complex(0.0, -0.0),
    complex(0.0, 0.0),
    "",
    "a",
    "é",
    "\udc80",
    b"",
    b"a",
    torch.device("cpu"),
    torch.device("cuda", 1),
    np.float64(1.5),
    np.int64(7),
]
NOT_SCALARS = [Small.one, Text("a"), [], (1,), object(), int, torch.float32]


@pytest.mark.parametrize("expected", SCALARS, ids=repr)
def test_constant_is_exact(expected):
    case = on_argument("constant", expected)
    for value in SCALARS + NOT_SCALARS:
        assert case.holds(value) == (value is expected), (expected, value)


def test_constant_compares_content():
    for expected, again in [
        (10**30, int("1" + "0" * 30)),
        (2.5, float("2.5")),
        ("ab" * 5, "".join(["ab"] * 5)),
        (b"xyz", bytes([120, 121, 122])),
        (torch.device("cpu"), torch.device("cpu")),
    ]:
        assert on_argument("constant", expected).holds(again)
    assert on_argument("constant", NAN).holds(NAN)
    assert not on_argument("constant", NAN).holds(float("nan")), "containers find it by its address"


def test_constant_explains():
    assert on_argument("constant", 2).why(3) == "x == 2, was 3"
    assert on_argument("constant", 0.0).why(-0.0) == "x == 0.0, was -0.0"
    assert on_argument("constant", "a").why("b") == "x == 'a', was 'b'"
    assert on_argument("constant", 1.0).why(np.float64(1.0)) == "x == 1.0, was an object of type numpy.float64"
    assert on_argument("constant", None).why(torch.ones(2, 3)) == "x == None, was a Tensor torch.float32(2, 3)"
    assert len(on_argument("constant", 1).why("a" * 1000)) < 150


@pytest.mark.parametrize("value", NOT_SCALARS, ids=lambda v: type(v).__name__)
def test_constant_refuses_what_has_other_state(value):
    with pytest.raises(Exception, match="constant guard"):
        on_argument("constant", value)


def test_identity():
    def f():
        pass

    def g():
        pass

    case = on_argument("identity", f)
    assert case.holds(f)
    assert case.why(g) == "x is function test_identity.<locals>.f, was function test_identity.<locals>.g"
    assert "another one" in on_argument("identity", []).why([])


class Thing:
    pass


def test_weak_identity_fails_when_an_address_is_used_again():
    for _ in range(50):
        first = Thing()
        address = id(first)
        case = on_argument("identity", first, weak=True)
        assert case.holds(first)
        del first
        gc.collect()
        others = [Thing() for _ in range(100)]
        again = [other for other in others if id(other) == address]
        for other in others:
            assert not case.holds(other)
        if again:
            assert "has died" in case.why(again[0])
            return
    pytest.skip("the allocator never used an address again")


def test_weak_identity_does_not_keep_alive_and_strong_does():
    thing, kept = Thing(), Thing()
    dies, lives = weakref.ref(thing), weakref.ref(kept)
    weak, strong = on_argument("identity", thing, weak=True), on_argument("identity", kept)
    del thing, kept
    assert dies() is None
    assert lives() is not None
    assert not weak.holds(None)  # a dead weak reference reads as None
    assert strong.holds(lives())
    del strong
    assert lives() is None


def test_arrays_are_told_apart_without_a_reference_of_any_kind():
    array = np.arange(3.0)
    count = sys.getrefcount(array)
    case = on_argument("identity", array, weak=True)
    assert case.holds(array)
    assert case.why(array.copy()) == "x is the array that it was, was another one"
    assert (sys.getrefcount(array), weakref.getweakrefcount(array)) == (count, 0)


def test_type_is_exact():
    case = on_argument("type", int)
    assert case.holds(3)
    assert case.holds(4)
    assert case.why(True) == "type(x) is int, was bool"
    assert not case.holds(Small.one)


def test_assigned_class_is_seen():
    class A:
        pass

    class B:
        pass

    a = A()
    case = on_argument("type", A)
    assert case.holds(a)
    a.__class__ = B
    assert case.why(a) == "type(x) is A, was B"


def test_length():
    for value, longer in [([1], [1, 2]), ((), (1,)), ({1: 2}, {}), ({1}, {1, 2}), ("ab", "abc"), (b"", b"a")]:
        case = on_argument("length", len(value))
        assert case.holds(value)
        assert case.why(longer) == f"len(x) == {len(value)}, was {len(longer)}"
    assert "object of type" in on_argument("length", 1).why(object())


def test_dict_keys_in_order():
    kept = object()
    case = on_argument("dict_keys", {"a": 1, 2: 3, kept: 4})
    assert case.holds({"a": 9, 2: None, kept: 4})
    assert not case.holds({2: 3, "a": 1, kept: 4})
    assert not case.holds({"a": 1, 2: 3})
    assert not case.holds({"a": 1, True: 3, kept: 4})
    assert not case.holds({"a": 1, 2.0: 3, kept: 4})
    assert not case.holds({"a": 1, 2: 3, object(): 4})
    assert not case.holds([1, 2, 3])
    assert on_argument("dict_keys", {"a": 1}).why({"b": 1}) == "list(x) == ['a'], was ['b']"


def test_keys_that_run_code_go_by_identity_and_hash():
    class Key:
        number = 1

        def __hash__(self):
            return self.number

        def __eq__(self, other):
            raise AssertionError

    key, held = Key(), {}
    held[key] = 1
    case = on_argument("dict_keys", held)
    assert case.holds(held)
    assert not case.holds({Key(): 1})
    key.number = 2
    assert case.holds(held)  # The dict keeps the hash that the key had.
    assert not case.holds({key: 1})


def test_members_of_enums_hash_by_their_names():
    class Kind(enum.Enum):
        a = 1
        b = 2

    case = on_argument("membership", Kind.a, True)
    assert case.holds({Kind.a})
    assert not case.holds({Kind.b})
    case = on_argument("dict_keys", {Kind.a: 1, (Kind.b, 2): 3})
    assert case.holds({Kind.a: 5, (Kind.b, 2): 6})
    assert not case.holds({Kind.b: 1, (Kind.b, 2): 3})


def test_objects_in_a_set_go_by_identity_and_hash():
    class Item:
        number = 1

        def __hash__(self):
            return self.number

    item = Item()
    held = {item}
    case = on_argument("deep", held)
    assert case.holds(held)
    assert not case.holds({Item()})
    item.number = 2
    assert case.holds(held)
    assert not case.holds({item})


def test_order_of_an_ordered_dict():
    from collections import OrderedDict

    value = OrderedDict(a=1, b=2)
    case = on_argument("dict_keys", value)
    assert case.holds(value)
    assert case.holds(value)
    value.move_to_end("a")
    assert case.why(value) == "list(x) == ['a', 'b'], was ['b', 'a']"
    value.move_to_end("b")
    assert case.holds(value)


def test_absent_entry_and_attribute():
    config = {"a": 1}
    case = Case(lambda g, x: g.absent(g.dict_item(x, "b")))
    assert case.holds(config)
    assert case.holds(config)
    config["b"] = 5
    assert case.why(config) == 'x["b"] is not there, was 5'
    del config["b"]
    assert case.holds(config)

    thing = Thing()
    case = Case(lambda g, x: g.absent(g.attribute(x, "tag")))
    assert case.holds(thing)
    thing.tag = 1
    assert case.why(thing) == "x.tag is not there, was 1"


def test_function_code_and_defaults():
    def make():
        def f(a=1, *, b=2):
            return a + b

        return f

    def other(a=1, *, b=2):
        return a - b

    def changed(change):
        f = make()
        case = on_argument("function", f)
        assert case.holds(f)
        change(f)
        return case.why(f)

    assert changed(lambda f: setattr(f, "__code__", other.__code__)).startswith("x.__code__ is")
    assert changed(lambda f: setattr(f, "__defaults__", (7,))).startswith("x.__defaults__ is")
    assert changed(lambda f: setattr(f, "__kwdefaults__", {"b": 2})).startswith("x.__kwdefaults__ is")
    assert on_argument("function", other).why(3) == "x is a function, was 3"


DEEP = {"w": [1.0, 2.0, (3, "x")], "empty": {}, ("t", 1): {4, 5}, "size": torch.Size([2, 3])}


def changed_deep(change):
    import copy

    value = copy.deepcopy(DEEP)
    change(value)
    return value


def test_deep_holds_for_equal_content():
    case = on_argument("deep", DEEP)
    assert case.holds(DEEP)
    assert case.holds(changed_deep(lambda value: None))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda v: v["w"].__setitem__(0, 9.0), "x['w'][0] == 1.0, was 9.0"),
        (lambda v: v["w"].__setitem__(0, 1), "x['w'][0] == 1.0, was 1"),
        (lambda v: v["w"].append(1), "x['w'] == a list of 3, was a list of 4"),
        (lambda v: v["w"].__setitem__(2, [3, "x"]), "x['w'][2] == a tuple of 2, was a list of 2"),
        (lambda v: v["empty"].update(a=1), "x['empty'] == a dict of 0, was a dict of 1"),
        (lambda v: v.update(size=(2, 3)), "x['size'] == a torch.Size of 2, was a tuple of 2"),
        (lambda v: v.pop("w"), "x == a dict of 4, was a dict of 3"),
        (lambda v: v.update(w=v.pop("w")), "x.keys() == 'w', was 'empty'"),
        (lambda v: v["w"].__setitem__(1, np.float64(2.0)), "x['w'][1] == 2.0, was an object of type numpy.float64"),
    ],
)
def test_deep_finds_the_difference(change, why):
    assert on_argument("deep", DEEP).why(changed_deep(change)) == why


def test_deep_sees_what_a_set_holds():
    case = on_argument("deep", {1, 2})
    assert case.holds({1, 2})
    assert not case.holds({1, 3})
    assert not case.holds(frozenset({1, 2}))


def test_deep_refuses():
    cyclic = []
    cyclic.append(cyclic)
    for value in [cyclic, [object()], {"a": Text("b")}, [torch.ones(1)], type("D", (dict,), {})()]:
        with pytest.raises(AssertionError, match="refused"):
            on_argument("deep", value)


def test_same_object_and_objects():
    a, b = [], []
    case = Case(lambda g, x, y: g.same_object(x, y), "x", "y")
    assert case.holds(a, a)
    assert case.why(a, b) == "x is y, were two objects"

    case = Case(lambda g, x, y, z: g.objects([x, y, z], [a, b, a]), "x", "y", "z")
    assert case.holds(a, b, a)
    assert case.holds(b, a, b)
    assert case.why(a, a, a) == "x and y are two objects, was otherwise"
    assert case.why(a, b, b) == "x and z are one object, was otherwise"
    assert case.holds(a, b, a)


def test_many_objects_in_any_order():
    things = [Thing() for _ in range(40)]
    names = [f"a{i}" for i in range(40)]
    case = Case(lambda g, *sources: g.objects(list(sources), things), *names)
    assert case.holds(*things)
    assert case.holds(*reversed(things))
    assert case.why(*things[:-1], things[0]) == "a0 and a39 are two objects, was otherwise"
    assert case.holds(*things)


def test_objects_that_move_by_ones_and_all_at_once():
    """A check may start from what the last one saw; what it says must not depend on that."""
    rng = random.Random(0)
    pool = [Thing() for _ in range(24)]
    names = [f"a{i}" for i in range(8)]
    pattern = [0, 1, 2, 0, 4, 5, 2, 7]  # the first argument that each one is the same as
    things = [pool[i] for i in pattern]
    case = Case(lambda g, *sources: g.objects(list(sources), things), *names)
    now, outcomes = list(things), []
    for _ in range(400):
        if rng.random() < 0.4:
            fresh = rng.sample(pool, 8)
            now = [fresh[i] for i in pattern]
        for _ in range(rng.choice([0, 1, 1, 2, 3, 8])):
            now[rng.randrange(8)] = rng.choice(pool)
        pairs = list(zip(now, pattern, strict=True))
        expected = all((a is b) == (i == j) for a, i in pairs for b, j in pairs)
        assert case.holds(*now) == expected
        outcomes.append(expected)
    assert any(outcomes) and not all(outcomes)


def test_call_shape():
    case = Case(lambda g, x: g.call_shape(1, scale=2))
    assert case.holds(5, scale=7)
    assert case.why(5) == "the call has 1 positional and keywords ['scale'] arguments, was 1 positional"
    assert case.why(5, other=7).endswith("was 1 positional and keywords ['other']")
    assert not case.holds(5, 6)
    plain = Case(lambda g, x: g.call_shape(1))
    assert plain.holds(5)
    assert not plain.holds(5, scale=7)


def test_a_missing_argument_is_told():
    assert on_argument("type", int).why() == "x is no longer there"


def test_equal_guards_are_one():
    def build(guards, x):
        for _ in range(3):
            guards.constant(x, 3)
            guards.type(x, int)
            guards.identity(x, build)
            guards.identity(x, build, weak=True)
            guards.deep(x, [1, 2])
            guards.dict_keys(x, {"a": 1})
            guards.absent(guards.dict_item(x, "b"))
            guards.function(x, build)
            guards.tensor(x, torch.ones(2))
            guards.torch_state()
            guards.call_shape(1)
        assert len(guards) == 11

    assert len(Case(build).program.texts()) == 11
