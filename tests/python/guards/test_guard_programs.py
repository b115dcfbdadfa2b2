"""Guard programs: order, versions of dicts and types, values, references, threads."""

import collections
import contextvars
import functools
import gc
import sys
import threading
import tracemalloc
import weakref

import pytest
import torch
from guarding import OK, Case

from braze._C import _guards


class Config:
    scale = 1

    def __init__(self):
        self.width = 4
        self.names = {"a": 1}


def config_case():
    """x.width == 4, x.names["a"] == 1, and Config.scale is what an instance reads."""

    def build(g, x):
        g.type(x, Config)
        g.constant(g.attribute(x, "width"), 4)
        names = g.attribute(x, "names")
        g.type(names, dict)
        g.length(names, 1)
        g.constant(g.dict_item(names, "a"), 1)
        g.absent(g.attribute(x, "scale"))
        scale = g.type_attribute(g.object(Config, "Config"), "scale")
        g.constant(scale, 1)
        g.absent(g.type_attribute(g.object(Config, "Config"), "__getattr__"))
        g.want(names)
        g.want(scale)

    return Case(build)


@pytest.fixture(autouse=True)
def config_class_as_it_was():
    yield
    Config.scale = 1
    for name in ("__getattr__", "width", "unrelated"):
        if name in Config.__dict__:
            delattr(Config, name)


def set_item(config, key, value):
    config.names[key] = value


CHANGES = {
    "attribute set": (lambda c: setattr(c, "width", 5), "x.width == 4, was 5"),
    "attribute through vars": (lambda c: vars(c).update(width=5), "x.width == 4, was 5"),
    "attribute set to an equal value of another type": (
        lambda c: setattr(c, "width", 4.0),
        "x.width == 4, was 4.0",
    ),
    "attribute deleted": (lambda c: delattr(c, "width"), "x.width is no longer there"),
    "dict replaced": (lambda c: setattr(c, "__dict__", {"names": {"a": 1}, "width": 6}), "x.width == 4, was 6"),
    "dict emptied": (lambda c: c.__dict__.clear(), "x.width is no longer there"),
    "entry set": (lambda c: set_item(c, "a", 2), 'x.names["a"] == 1, was 2'),
    "entry added": (lambda c: set_item(c, "b", 2), "len(x.names) == 1, was 2"),
    "entry deleted": (lambda c: c.names.pop("a"), "len(x.names) == 1, was 0"),
    "popitem": (lambda c: c.names.popitem(), "len(x.names) == 1, was 0"),
    "update": (lambda c: c.names.update(a=7), 'x.names["a"] == 1, was 7'),
    "in-place or": (lambda c: c.names.__ior__({"a": 8}), 'x.names["a"] == 1, was 8'),
    "setdefault": (lambda c: c.names.setdefault("z", 1), "len(x.names) == 1, was 2"),
    "another dict": (lambda c: setattr(c, "names", {"a": 3}), 'x.names["a"] == 1, was 3'),
    "another kind of dict": (
        lambda c: setattr(c, "names", collections.OrderedDict(a=1)),
        "type(x.names) is dict, was collections.OrderedDict",
    ),
    "class attribute set": (lambda c: setattr(Config, "scale", 2), "Config.scale == 1, was 2"),
    "class attribute hidden": (lambda c: setattr(c, "scale", 2), "x.scale is not there, was 2"),
    "__getattr__ added": (
        lambda c: setattr(Config, "__getattr__", len),
        "Config.__getattr__ is not there, was function len",
    ),
    "class assigned": (
        lambda c: setattr(c, "__class__", type("Config", (Config,), {})),
        "type(x) is Config, was another Config",
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_changes_are_seen(name):
    change, why = CHANGES[name]
    config = Config()
    case = config_case()
    assert case.holds(config)
    assert case.holds(config)
    change(config)
    assert case.why(config) == why
    assert case.why(config) == why
    assert not case.holds(config)


def test_changes_that_do_not_matter():
    config = Config()
    case = config_case()
    assert case.holds(config)
    config.other = 1
    assert case.holds(config)
    Config.unrelated = 5
    assert case.holds(config)
    config.names["a"] = int("1")
    assert case.holds(config)
    config.__dict__ = dict(config.__dict__)
    assert case.holds(config)


def test_changed_and_changed_back():
    config = Config()
    case = config_case()
    for _ in range(3):
        assert case.holds(config)
        config.width = 5
        assert not case.holds(config)
        config.width = 4
        assert case.holds(config)
        Config.scale = 3
        assert not case.holds(config)
        Config.scale = 1


def test_a_property_added_later_is_seen():
    def build(g, x):
        g.type(x, Config)
        g.absent(g.type_attribute(g.object(Config, "Config"), "width"))
        g.constant(g.attribute(x, "width"), 4)

    case, config = Case(build), Config()
    assert case.holds(config)
    Config.width = property(lambda self: 9)
    assert case.why(config) == "Config.width is not there, was an object of type property"


def test_a_base_class_changed_is_seen():
    class Base:
        value = 1

    class Derived(Base):
        pass

    class Other:
        value = 1

    def build(g, x):
        kind = g.type_of(x)
        g.constant(g.type_attribute(kind, "value"), 1)
        g.identity(g.member(kind, "type_mro"), Derived.__mro__)

    case = Case(build)
    assert case.holds(Derived())
    assert case.holds(Derived())
    Base.value = 2
    assert case.why(Derived()) == "type(x).value == 1, was 2"
    Base.value = 1
    assert case.holds(Derived())
    Derived.__bases__ = (Other,)
    assert "type(x).__mro__ is" in case.why(Derived())


def test_two_objects_in_turns():
    """The version of one object's dict must not vouch for what was read from the other's."""
    good, bad = Config(), Config()
    bad.names = {"a": 1, "b": 2}
    values = [good, Config()]
    case = config_case()
    for _ in range(5):
        assert case.holds(good)
        assert not case.holds(bad)
        assert case.holds(values[1])
        assert case.program.values(good)[0] is good.names
        assert case.program.values(values[1])[0] is values[1].names


def test_a_failed_check_in_the_middle_leaves_nothing_behind():
    """A check that fails between reading the entries of a dict must not leave them to the next one."""

    def build(g, x):
        first, second = g.attribute(x, "first"), g.attribute(x, "second")
        g.want(first)
        g.constant(second, 1)

    class Pair:
        def __init__(self, first, second):
            self.first, self.second = first, second

    case = Case(build)
    good, bad = Pair("good", 1), Pair("bad", 2)
    assert case.program.values(good) == ["good"]
    assert not case.holds(bad)
    assert case.program.values(good) == ["good"]


def test_values_follow_the_program():
    def build(g, x):
        assert g.want(g.attribute(x, "names")) == 0
        assert g.want(x) == 1
        assert g.want(g.attribute(x, "names")) == 0

    config = Config()
    case = Case(build)
    assert case.program.values(config) == [{"a": 1}, config]
    with pytest.raises(Exception, match="x.__dict__ is no longer there"):
        case.program.values(object())


def test_lists_are_read_anew():
    def build(g, x):
        g.length(x, 2)
        g.constant(g.sequence_item(x, 0), 1)
        g.type(g.sequence_item(x, 1), list)

    case, value = Case(build), [1, []]
    assert case.holds(value)
    value[0] = 2
    assert case.why(value) == "x[0] == 1, was 2"
    value[0] = 1
    value[1] = ()
    assert case.why(value) == "type(x[1]) is list, was tuple"
    value.clear()
    assert case.why(value) == "len(x) == 2, was 0"


def test_present_context_and_thread():
    variable = contextvars.ContextVar("variable", default=1)
    local = threading.local()
    local.mode = "a"

    def build(g, x):
        g.constant(g.context_value(g.object(variable, "variable")), 1)
        g.constant(g.attribute(g.object(local, "local"), "mode"), "a")

    case = Case(build)
    assert case.holds(0)
    token = variable.set(2)
    assert case.why(0) == "variable.get() == 1, was 2"
    assert contextvars.Context().run(case.holds, 0)
    variable.reset(token)
    told = []
    thread = threading.Thread(target=lambda: told.append(case.why(0)))
    thread.start()
    thread.join()
    assert told == ["local.mode is no longer there"]


def test_cheap_guards_on_arguments_come_first():
    def build(g, x):
        g.torch_state()
        g.constant(g.dict_item(g.object({"a": 1}, "G"), "a"), 1)
        g.deep(x, [1])
        g.type(x, list)
        g.call_shape([1])

    assert [text.split()[0] for text in Case(build).program.texts()] == [
        "the",
        "type(x)",
        "x",
        "PyTorch's",
        'G["a"]',
    ]


def test_explaining_what_holds_again():
    value = [1]
    case = Case(lambda g, x: g.length(x, 1))
    value.append(2)
    failed = case.program.check(value)
    value.pop()
    assert case.program.explain(failed, value) == "len(x) == 1 (it holds again)"
    assert case.program.explain(OK, value) == "every guard holds"


def test_no_references_leak():
    config, other = Config(), Config()
    other.width = 5
    case = config_case()
    watched = [config, other, config.names, config.__dict__, Config, variable := object()]
    case.why(other)

    def counts():
        return [sys.getrefcount(thing) for thing in watched]

    def work():
        for _ in range(100):
            case.holds(config)
            case.why(other)
            case.program.values(config)
            case.program.texts()

    work()
    before = counts()
    work()
    assert counts() == before
    assert variable is watched[-1]


def test_programs_and_what_they_hold_die():
    class Kept:
        pass

    def build(g, x, kept):
        g.identity(x, kept)
        g.constant(g.attribute(g.object(kept, "kept"), "a"), 1)
        g.deep(g.attribute(x, "list"), [[1.5], {"a": "b"}])
        g.dict_keys(g.attribute(x, "dict"), {kept: 1})
        g.tensor(x, torch.ones(3))

    kept = Kept()
    alive = weakref.ref(kept)
    case = Case(functools.partial(build, kept=kept))
    del kept
    assert alive() is not None
    del case
    gc.collect()
    assert alive() is None


def test_memory_does_not_grow():
    def work():
        for _ in range(200):
            case = config_case()
            config = Config()
            assert case.holds(config)
            config.width = 9
            assert not case.holds(config)
            case.why(config)

    work()
    gc.collect()
    tracemalloc.start()
    work()
    gc.collect()
    before = tracemalloc.get_traced_memory()[0]
    work()
    gc.collect()
    after = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert after - before < 20_000


def test_threads():
    """Several threads check one program while another changes what it reads."""
    configs = [Config() for _ in range(4)]
    case = config_case()
    stop = threading.Event()
    wrong = []

    def reader(config):
        while not stop.is_set():
            failed = case.program.check(config)
            if failed != OK and "width" not in case.program.explain(failed, config):
                wrong.append(case.program.explain(failed, config))
            try:
                if case.program.values(config)[0] is not config.names:
                    wrong.append("values of another object")
            except RuntimeError:
                pass

    threads = [threading.Thread(target=reader, args=(config,)) for config in configs]
    for thread in threads:
        thread.start()
    for _ in range(300):
        for config in configs:
            config.width = 5
            config.width = 4
    stop.set()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_set_is_used_up():
    guards = _guards.GuardSet()
    x = guards.argument(0, "x")
    guards.constant(x, 1)
    program = guards.program()
    assert program.check(1) == OK
    assert len(program) == 2
