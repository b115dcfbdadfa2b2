"""Python numbers, strings and other constants, by exact type and bits, in every place where one can be kept."""

import enum
import fractions
import math

import numpy as np
import torch
from staleness import CASES, Case, module, tensor


class Level(enum.IntEnum):
    low = 1
    high = 2


class Flag(enum.Flag):
    a = 1
    b = 2


class Text(str):
    __slots__ = ()


NAN = float("nan")
PAIRS = {
    "int": (2, 3),
    "int_to_float": (2, 2.0),
    "true_to_one": (True, 1),
    "zero_to_false": (0, False),
    "zero_to_minus_zero": (0.0, -0.0),
    "nan_to_number": (NAN, 1.0),
    "number_to_infinity": (1.0, math.inf),
    "float_to_numpy": (2.0, np.float64(2.0)),
    "numpy": (np.float64(2.0), np.float64(3.0)),
    "numpy_float_to_int": (np.float64(2.0), np.int64(2)),
    "numpy_double_to_single": (np.float64(2.1), np.float32(2.1)),
    "numpy_int": (np.int64(2), np.int64(3)),
    "numpy_bool": (np.bool_(True), np.bool_(False)),
    "numpy_zero_to_minus_zero": (np.float64(0.0), np.float64(-0.0)),
    "numpy_nan_to_number": (np.float64("nan"), np.float64(1.0)),
    "numpy_to_float": (np.float64(2.0), 2.0),
    "int_to_enum": (1, Level.low),
    "big_int": (2**60, 2**60 + 1),
    "none_to_number": (None, 0),
    "str": ("sum", "mean"),
    "str_to_derived": ("sum", Text("sum")),
    "bytes": (b"ab", b"ac"),
    "complex_zero": (complex(0, 0.0), complex(0, -0.0)),
    "dtype": (torch.float32, torch.float64),
    "enum": (Flag.a, Flag.b),
    "tuple": ((1, 2), (1, 2.0)),
    "range": (range(3), range(4)),
    "fraction": (fractions.Fraction(1, 2), fractions.Fraction(1, 3)),
}

USE = """
import numpy as np

def use(x, value):
    if isinstance(value, np.generic):
        return x * value, type(value).__name__, value * 2, value
    if isinstance(value, (bool, int, float)):
        return x * value, type(value).__name__, torch.full((1,), value), value
    if isinstance(value, str):
        return getattr(x, value)(), type(value).__name__
    if isinstance(value, torch.dtype):
        return x.to(value)
    if isinstance(value, complex):
        return x * value, value
    return x + 1, value
"""

# How a function gets hold of a value, and how the value is changed. Each gives (function, arguments, change).


def in_global(value):
    m = module(USE + "def f(x): return use(x, VALUE)", VALUE=value)
    return m.f, (), lambda new: setattr(m, "VALUE", new)


def in_closure(value):
    m = module(
        USE
        + """
def make(value):
    def f(x): return use(x, value)
    def change(new):
        nonlocal value
        value = new
    return f, change
"""
    )
    f, change = m.make(value)
    return f, (), change


def in_default(value):
    m = module(USE + "def f(x, value=VALUE): return use(x, value)", VALUE=value)
    return m.f, (), lambda new: setattr(m.f, "__defaults__", (new,))


def in_keyword_default(value):
    m = module(USE + "def f(x, *, value=VALUE): return use(x, value)", VALUE=value)
    return m.f, (), lambda new: m.f.__kwdefaults__.update(value=new)


def in_attribute(value):
    m = module(USE + "class C: pass\nc = C()\ndef f(x): return use(x, c.value)")
    m.c.value = value
    return m.f, (), lambda new: setattr(m.c, "value", new)


def in_slot(value):
    m = module(USE + "class C: __slots__ = 'value'\nc = C()\ndef f(x): return use(x, c.value)")
    m.c.value = value
    return m.f, (), lambda new: setattr(m.c, "value", new)


def in_class_attribute(value):
    m = module(USE + "class B: pass\nclass C(B): pass\nc = C()\ndef f(x): return use(x, c.value)")
    m.B.value = value
    return m.f, (), lambda new: setattr(m.B, "value", new)


def in_list(value):
    m = module(USE + "def f(x): return use(x, values[1])", values=[0, value])
    return m.f, (), lambda new: m.values.__setitem__(1, new)


def in_dict(value):
    m = module(USE + "def f(x): return use(x, config['value'])", config={"value": value})
    return m.f, (), lambda new: m.config.update(value=new)


def in_nested(value):
    m = module(USE + "def f(x): return use(x, config['a'][0].value)", config={"a": [type("C", (), {})()]})
    m.config["a"][0].value = value
    return m.f, (), lambda new: setattr(m.config["a"][0], "value", new)


def in_instance_dict(value):
    m = module(USE + "class C: pass\nc = C()\ndef f(x): return use(x, c.value)")
    m.c.value = value
    return m.f, (), lambda new: setattr(m.c, "__dict__", {"value": new})


def in_other_module(value):
    other = module("", VALUE=value)
    m = module(USE + "def f(x): return use(x, other.VALUE)", other=other)
    return m.f, (), lambda new: setattr(other, "VALUE", new)


PLACES = {
    "global": in_global,
    "closure": in_closure,
    "default": in_default,
    "keyword_default": in_keyword_default,
    "attribute": in_attribute,
    "slot": in_slot,
    "class_attribute": in_class_attribute,
    "list": in_list,
    "dict": in_dict,
    "nested": in_nested,
    "instance_dict": in_instance_dict,
    "other_module": in_other_module,
}


def family(place, before, after):
    def make():
        f, arguments, change = PLACES[place](before)
        yield f, tensor(), *arguments
        change(after)

    return make


def by_argument(before, after):
    def make():
        m = module(USE + "def f(x, value): return use(x, value)")
        yield m.f, tensor(), before
        yield tensor(), after

    return make


def register():
    for kind, (before, after) in PAIRS.items():
        CASES[f"numbers/argument_{kind}"] = Case(f"numbers/argument_{kind}", by_argument(before, after))
    # Every place with every fourth pair, and every pair in some places, so that each meets each kind of change.
    for i, place in enumerate(PLACES):
        for j, kind in enumerate(PAIRS):
            if (i + j) % 3 == 0 or kind in ("int", "true_to_one", "zero_to_minus_zero"):
                name = f"numbers/{place}_{kind}"
                CASES[name] = Case(name, family(place, *PAIRS[kind]))


register()
