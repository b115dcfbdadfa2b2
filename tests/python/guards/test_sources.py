"""Sources: what they evaluate to, how they print, and that they run no Python code."""

import collections
import contextvars
import functools
import threading
import types
import weakref

import pytest
import torch

from braze._C import _guards

SCALE = 3


class Slotted:
    __slots__ = ("a", "b")

    def __init__(self):
        self.a = 1


class Holder:
    shared = "class"

    def __init__(self):
        self.value = [10, 20, (30, 40)]

    def method(self):
        return self


class Loud:
    """Any Python code that a source would run by mistake raises."""

    def __init__(self):
        object.__setattr__(self, "quiet", 5)

    def __getattribute__(self, name):
        raise AssertionError(name)

    def __getattr__(self, name):
        raise AssertionError(name)

    def __eq__(self, other):
        raise AssertionError

    def __hash__(self):
        return 1


def function(x, y=1, *, z=2):
    return x + y + z + SCALE


def closure():
    captured = ["inside"]

    def inner():
        return captured

    return inner


@pytest.fixture
def g():
    return _guards.GuardSet()


def test_arguments_by_position_and_keyword(g):
    assert g.evaluate(g.argument(0, "x"), "a", "b") == "a"
    assert g.evaluate(g.argument(1, "y"), "a", "b") == "b"
    assert g.evaluate(g.argument(1, "y"), "a", y="k") == "k"
    assert g.evaluate(g.argument(2, "z"), "a", "b") is None
    assert str(g.argument(3, "args[2]")) == "args[2]"


def test_globals_and_builtins(g):
    names = g.object(function.__globals__, "G")
    assert g.evaluate(g.dict_item(names, "SCALE")) == 3
    assert str(g.dict_item(names, "SCALE")) == 'G["SCALE"]'
    assert g.evaluate(g.dict_item(names, "no such name")) is None


def test_attributes_items_and_text(g):
    x = g.argument(0, "self")
    value = g.attribute(x, "value")
    holder = Holder()
    assert g.evaluate(value, holder) is holder.value
    assert g.evaluate(g.sequence_item(value, 1), holder) == 20
    assert g.evaluate(g.sequence_item(g.sequence_item(value, 2), 1), holder) == 40
    assert g.evaluate(g.sequence_item(value, 3), holder) is None
    assert str(g.sequence_item(g.sequence_item(value, 2), 1)) == "self.value[2][1]"
    assert str(g.dict_item(g.attribute(x, "config"), 'a"b')) == "self.config['a\"b']"
    assert str(g.dict_item(g.attribute(x, "config"), ("k", 1))).startswith("self.config[")
    assert str(g.dict_of(x)) == "self.__dict__"


def test_types_and_their_attributes(g):
    x = g.argument(0, "x")
    kind = g.type_of(x)
    assert g.evaluate(kind, Holder()) is Holder
    assert g.evaluate(g.type_attribute(kind, "shared"), Holder()) == "class"
    assert g.evaluate(g.type_attribute(kind, "method"), Holder()) is Holder.method
    assert g.evaluate(g.type_attribute(kind, "no such name"), Holder()) is None
    assert g.evaluate(g.type_attribute(x, "shared"), Holder()) is None  # an instance, no type
    assert g.evaluate(g.member(kind, "type_mro"), Holder()) is Holder.__mro__
    assert str(g.type_attribute(kind, "shared")) == "type(x).shared"


def test_slots(g):
    x = g.argument(0, "x")
    a, b = g.slot(x, Slotted.a), g.slot(x, Slotted.b)
    assert g.evaluate(a, Slotted()) == 1
    assert g.evaluate(b, Slotted()) is None
    assert g.evaluate(a, Holder()) is None
    assert str(a) == "x.a"
    partial = functools.partial(function, 1, y=2)
    assert g.evaluate(g.slot(x, type(partial).func), partial) is function
    assert g.evaluate(g.slot(x, property.fget), property(function)) is function
    assert g.evaluate(g.slot(x, slice.start), slice(7, 8)) == 7
    with pytest.raises(Exception, match="not a member"):
        g.slot(x, type(function).__code__)


def test_members_of_functions_methods_cells(g):
    f = g.argument(0, "f")
    assert g.evaluate(g.member(f, "function_code"), function) is function.__code__
    assert g.evaluate(g.member(f, "function_defaults"), function) == (1,)
    assert g.evaluate(g.member(f, "function_kwdefaults"), function) == {"z": 2}
    assert g.evaluate(g.member(f, "function_globals"), function) is globals()
    assert g.evaluate(g.member(f, "function_closure"), function) is None
    assert str(g.sequence_item(g.member(f, "function_defaults"), 0)) == "f.__defaults__[0]"

    inner = closure()
    captured = g.closure_variable(f, 0, "captured")
    assert g.evaluate(captured, inner) == ["inside"]
    assert str(captured) == "captured"
    del inner.__closure__[0].cell_contents
    assert g.evaluate(captured, inner) is None

    holder = Holder()
    assert g.evaluate(g.member(f, "method_function"), holder.method) is Holder.method
    assert g.evaluate(g.member(f, "method_self"), holder.method) is holder
    assert g.evaluate(g.member(f, "builtin_self"), holder.value.append) is holder.value
    assert g.evaluate(g.member(f, "method_self"), 3) is None


def test_weak_references(g):
    thing = Holder()
    reference = weakref.ref(thing)
    source = g.member(g.argument(0, "ref"), "weakref_referent")
    assert g.evaluate(source, reference) is thing
    del thing
    assert g.evaluate(source, reference) is None
    assert str(source) == "ref()"


def test_dict_keys(g):
    x = g.argument(0, "x")
    assert g.evaluate(g.dict_key(x, 1), {"a": 1, "b": 2}) == "b"
    assert g.evaluate(g.dict_key(x, 2), {"a": 1, "b": 2}) is None
    ordered = collections.OrderedDict(a=1, b=2)
    ordered.move_to_end("a")
    assert g.evaluate(g.dict_key(x, 0), ordered) == "b"


def test_context_variables(g):
    variable = contextvars.ContextVar("variable")
    source = g.context_value(g.object(variable, "variable"))
    assert g.evaluate(source) is None
    token = variable.set("here")
    assert g.evaluate(source) == "here"
    variable.reset(token)
    defaulted = contextvars.ContextVar("defaulted", default="default")
    assert g.evaluate(g.context_value(g.object(defaulted, "defaulted"))) == "default"
    assert str(source) == "variable.get()"


def test_thread_locals(g):
    local = threading.local()
    local.value = "main"
    source = g.attribute(g.object(local, "local"), "value")
    seen = []

    def other():
        seen.append(g.evaluate(source))
        local.value = "other"
        seen.append(g.evaluate(source))

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert seen == [None, "other"]
    assert g.evaluate(source) == "main"

    class Derived(threading.local):
        def __init__(self):
            self.value = threading.current_thread().name

    derived, made = Derived(), []
    source = g.attribute(g.object(derived, "derived"), "value")
    assert g.evaluate(source) == threading.current_thread().name

    def asks_first():
        made.append(g.evaluate(source))  # The class's code does not run.
        made.append(derived.value)
        made.append(g.evaluate(source))

    thread = threading.Thread(target=asks_first, name="second")
    thread.start()
    thread.join()
    assert made == [None, "second", "second"]


def test_gradients(g):
    source = g.member(g.argument(0, "x"), "tensor_grad")
    x = torch.ones(2, requires_grad=True)
    assert g.evaluate(source, x) is None
    (x * 3).sum().backward()
    assert g.evaluate(source, x) is x.grad
    assert g.evaluate(source, 3) is None


def test_no_python_code_runs(g):
    loud = Loud()
    x = g.argument(0, "x")
    assert g.evaluate(g.attribute(x, "quiet"), loud) == 5
    assert g.evaluate(g.attribute(x, "other"), loud) is None
    assert g.evaluate(g.type_of(x), loud) is Loud
    # A dict that would have to ask loud whether it equals 1 is not asked.
    assert g.evaluate(g.dict_item(x, 1), {loud: "found"}) is None
    # About 2 it would not be asked, as it hashes otherwise.
    assert g.evaluate(g.dict_item(x, 2), {loud: "found", 2: "two"}) == "two"
    assert g.evaluate(g.dict_item(x, "a"), {loud: "found", "a": "yes"}) == "yes"
    # Nor whether it equals itself: the entry goes by identity.
    assert g.evaluate(g.dict_item(x, loud), {loud: "found"}) == "found"
    assert g.evaluate(g.dict_item(x, loud), {1: "other"}) is None

    class Proxy(dict):
        def __getitem__(self, key):
            raise AssertionError

        def __missing__(self, key):
            raise AssertionError

    assert g.evaluate(g.dict_item(x, "a"), Proxy(a=1)) == 1
    assert g.evaluate(g.dict_item(x, "b"), Proxy(a=1)) is None


def test_wrong_kinds_evaluate_to_nothing(g):
    x = g.argument(0, "x")
    members = ["function_code", "cell_contents", "method_self", "weakref_referent", "type_mro", "tensor_grad"]
    sources = [g.dict_item(x, "a"), g.dict_key(x, 0), g.sequence_item(x, 0), g.context_value(x)]
    sources += [g.member(x, name) for name in members]
    for source in sources:
        assert g.evaluate(source, 3) is None
    assert g.evaluate(g.dict_of(x), 3) is None


def test_equal_sources_are_one(g):
    x = g.argument(0, "x")
    assert g.attribute(x, "a") is g.attribute(x, "a")
    assert g.dict_item(x, 1) is not g.dict_item(x, True)
    assert g.dict_item(x, 0.0) is not g.dict_item(x, -0.0)
    assert g.dict_item(x, ("a", 1)) is g.dict_item(x, ("a", int("1")))
    first, second = [], []
    assert g.object(first, "l") is not g.object(second, "l")


def test_modules_print_as_users_write_them(g):
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Sequential(torch.nn.Linear(2, 2)))
    x = g.argument(0, "self")
    inner = g.dict_item(g.attribute(x, "_modules"), "1")
    layer = g.dict_item(g.attribute(inner, "_modules"), "0")
    weight = g.dict_item(g.attribute(layer, "_parameters"), "weight")
    assert g.evaluate(weight, model) is model[1][0].weight
    assert str(weight) == "self[1][0].weight"
    assert str(g.attribute(layer, "training")) == "self[1][0].training"


def test_classes_and_modules_have_dicts(g):
    x = g.argument(0, "x")
    assert g.evaluate(g.attribute(x, "shared"), Holder) == "class"
    module = types.ModuleType("m")
    module.value = 4
    assert g.evaluate(g.attribute(x, "value"), module) == 4
