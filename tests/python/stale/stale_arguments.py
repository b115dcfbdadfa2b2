"""Arguments that are no tensors: types, structures, order, and objects that look alike."""

import collections
import dataclasses

import torch
from staleness import call, case, module, tensor


def arguments(name, source, first, second):
    @case(name=name)
    def cases():
        m = module(source)
        yield call(m.f, *first())
        yield call(*second())

    return cases


STRUCTURE = "def f(v): return v, type(v).__name__, torch.ones(1)"
arguments("list_to_tuple", STRUCTURE, lambda: [[1, 2]], lambda: [(1, 2)])
arguments("dict_to_ordered_dict", STRUCTURE, lambda: [{"a": 1}], lambda: [collections.OrderedDict(a=1)])
arguments("size_to_tuple", STRUCTURE, lambda: [torch.Size([1, 2])], lambda: [(1, 2)])
arguments("nested_depth", STRUCTURE, lambda: [[1]], lambda: [[[1]]])
arguments("none_to_list", STRUCTURE, lambda: [None], lambda: [[]])
arguments("set_to_frozenset", STRUCTURE, lambda: [{1}], lambda: [frozenset({1})])
arguments("bytes_to_bytearray", STRUCTURE, lambda: [b"a"], lambda: [bytearray(b"a")])
arguments(
    "key_order",
    "def f(d): return [k for k in d], [d[k] * torch.ones(1) for k in d]",
    lambda: [{"a": 1, "b": 2}],
    lambda: [{"b": 2, "a": 1}],
)
arguments("list_length", "def f(xs): return sum(xs)", lambda: [[tensor()] * 2], lambda: [[tensor()] * 3])
arguments(
    "list_of_other_shapes",
    "def f(xs): return torch.cat(xs)",
    lambda: [[tensor(2), tensor(2)]],
    lambda: [[tensor(2), tensor(3)]],
)
arguments(
    "dict_of_tensors_shape",
    "def f(d): return {k: v + 1 for k, v in d.items()}",
    lambda: [{"a": tensor(2)}],
    lambda: [{"a": tensor(3)}],
)
arguments(
    "same_tensor_twice_in_list",
    "def f(xs): return xs[0] is xs[1], xs[0] + xs[1]",
    lambda: [[tensor(), tensor()]],
    lambda: [[tensor()] * 2],
)
arguments("number_for_tensor", "def f(a, b): return a + b", lambda: [tensor(), tensor()], lambda: [tensor(), 2])
arguments(
    "tensor_for_number", "def f(a, b): return a + b", lambda: [tensor(), 2], lambda: [tensor(), torch.tensor([2.5])]
)
arguments("zero_divisor", "def f(a, b): return a + 1 / b", lambda: [tensor(), 2], lambda: [tensor(), 0])
arguments("callable", "def f(x, g): return g(x)", lambda: [tensor(), torch.sin], lambda: [tensor(), torch.cos])
arguments(
    "lambda", "def f(x, g): return g(x)", lambda: [tensor(), lambda x: x + 1], lambda: [tensor(), lambda x: x + 2]
)
arguments("closure", "def f(x, g): return g(x)", lambda: [tensor(), adder(1)], lambda: [tensor(), adder(2)])
arguments(
    "bound_method",
    "def f(x, g): return x + len(g())",
    lambda: [tensor(), "ab".upper],
    lambda: [tensor(), "abc".upper],
)
arguments("class", "def f(x, c): return c(x.numel()), x", lambda: [tensor(), int], lambda: [tensor(), float])
arguments(
    "object_attribute",
    "def f(x, o): return x * o.k",
    lambda: [tensor(), Holder(k=1)],
    lambda: [tensor(), Holder(k=2)],
)
arguments(
    "object_without_attribute",
    "def f(x, o): return x * o.k",
    lambda: [tensor(), Holder(k=1)],
    lambda: [tensor(), Holder(j=2)],
)
arguments(
    "object_of_other_class",
    "def f(x, o): return x * o.k",
    lambda: [tensor(), Holder(k=1)],
    lambda: [tensor(), Other(k=1)],
)
arguments("dataclass_value", "def f(d): return d.x * d.k", lambda: [Data(tensor(), 2)], lambda: [Data(tensor(), 3)])
arguments(
    "dataclass_equal_but_other_type",
    "def f(d): return type(d).__name__, d.x * d.k",
    lambda: [Data(tensor(), 2)],
    lambda: [Data2(tensor(), 2)],
)
arguments(
    "exception_argument",
    "def f(x, e): raise e",
    lambda: [tensor(), ValueError("a")],
    lambda: [tensor(), KeyError("b")],
)
arguments("huge_int", "def f(x, k): return x, k + 1", lambda: [tensor(), 2**100], lambda: [tensor(), 2**100 + 1])
arguments("slice", "def f(x, s): return x[s]", lambda: [tensor(), slice(0, 2)], lambda: [tensor(), slice(0, 3)])
arguments("ellipsis", "def f(x, s): return x[s]", lambda: [tensor(), 0], lambda: [tensor(), ...])
arguments("index_list", "def f(x, s): return x[s]", lambda: [tensor(), [0, 1]], lambda: [tensor(), [1, 3]])
arguments(
    "dtype_argument",
    "def f(x, d): return x.to(d)",
    lambda: [tensor(), torch.float16],
    lambda: [tensor(), torch.int32],
)
arguments(
    "device_argument",
    "def f(x, d): return x.to(d).device.type",
    lambda: [tensor(), "cpu"],
    lambda: [tensor(), "meta"],
)
arguments(
    "memory_format",
    "def f(x, m): return x.contiguous(memory_format=m)",
    lambda: [tensor(1, 2, 2, 2), torch.contiguous_format],
    lambda: [tensor(1, 2, 2, 2), torch.channels_last],
)
arguments(
    "generator_expression",
    "def f(x, it): return x * sum(it)",
    lambda: [tensor(), (0, 0)],
    lambda: [tensor(), (k for k in (1, 2))],
)
arguments(
    "map_object",
    "def f(x, it): return x * sum(it)",
    lambda: [tensor(), (0, 0)],
    lambda: [tensor(), map(abs, (-1, 2))],
)
arguments(
    "string_subclass", "def f(x, s): return x, s.upper()", lambda: [tensor(), "a"], lambda: [tensor(), Shout("a")]
)
arguments("int_subclass", "def f(x, k): return x * (k * 1)", lambda: [tensor(), 2], lambda: [tensor(), Tricky(2)])
arguments(
    "list_subclass", "def f(x, l): return x * len(l)", lambda: [tensor(), [1, 2]], lambda: [tensor(), Long([1, 2])]
)
arguments(
    "dict_subclass",
    "def f(x, d): return x * d['a']",
    lambda: [tensor(), {"a": 1}],
    lambda: [tensor(), Shifted(a=1)],
)


def adder(k):
    return lambda x: x + k


class Holder:
    def __init__(self, **names):
        self.__dict__.update(names)


class Other(Holder):
    def __getattribute__(self, name):
        return 50 if name == "k" else super().__getattribute__(name)


@dataclasses.dataclass
class Data:
    x: object
    k: int


@dataclasses.dataclass
class Data2:
    x: object
    k: int


class Shout(str):
    def upper(self):
        return "LOUD"


class Tricky(int):
    def __mul__(self, other):
        return other * 100


class Long(list):
    def __len__(self):
        return 99


class Shifted(dict):
    def __getitem__(self, key):
        return 7
