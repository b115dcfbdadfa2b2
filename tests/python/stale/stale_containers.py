"""Lists, dicts, sets, deques, iterators and arrays that a function reads, also through C code."""

import array
import collections

import numpy as np
from staleness import call, case, module, tensor


def change(name, source, before, mutate):
    """A function over the global `c`, which starts as before() and is then changed by mutate(c)."""

    @case(name=name)
    def make():
        m = module("import collections, itertools, math, operator\n" + source)
        m.c = before()
        yield m.f, tensor()
        replaced = mutate(m.c)
        if isinstance(replaced, Replace):
            m.c = replaced.value

    return make


class Replace:
    def __init__(self, value):
        self.value = value


def numbers():
    return [1, 2, 3]


def config():
    return {"a": 1, "b": [2, 3], "c": {"d": 4}}


SUM = "def f(x): return x * sum(c)"
change("sum_of_list", SUM, numbers, lambda c: c.append(4))
change("sum_of_list_item_set", SUM, numbers, lambda c: c.__setitem__(1, 20))
change("sum_of_list_slice_set", SUM, numbers, lambda c: c.__setitem__(slice(0, 2), [9]))
change(
    "sum_of_tuple_in_list", "def f(x): return x * sum(c[0])", lambda: [(1, 2)], lambda c: c.__setitem__(0, (1, 3))
)
change("max_of_list", "def f(x): return x * max(c)", numbers, lambda c: c.append(10))
change("sorted_list", "def f(x): return [x * k for k in sorted(c)]", numbers, lambda c: c.insert(0, 7))
change("list_reversed", "def f(x): return [x * k for k in c]", numbers, lambda c: c.reverse())
change("list_sorted_in_place", "def f(x): return [x * k for k in c]", lambda: [3, 1], lambda c: c.sort())
change("list_cleared", "def f(x): return x * (len(c) or 10)", numbers, lambda c: c.clear())
change("list_contains", "def f(x): return x * (2 if 3 in c else 1)", numbers, lambda c: c.remove(3))
change("list_index", "def f(x): return x * c.index(3)", numbers, lambda c: c.insert(0, 3))
change("list_count", "def f(x): return x * c.count(1)", numbers, lambda c: c.append(1))
change("list_negative_index", "def f(x): return x * c[-1]", numbers, lambda c: c.append(8))
change("list_slice", "def f(x): return [x * k for k in c[::2]]", numbers, lambda c: c.insert(1, 6))
change("list_unpacked", "def f(x):\n  a, b, d = c\n  return x * a + b - d", numbers, lambda c: c.__setitem__(0, 5))
change("list_unpack_fails", "def f(x):\n  a, b, d = c\n  return x * a + b - d", numbers, lambda c: c.append(5))
change("list_star_unpacked", "def f(x):\n  a, *b = c\n  return x * a, b", numbers, lambda c: c.append(5))
change("list_multiplied", "def f(x): return x, c * 2", numbers, lambda c: c.append(0))
change("list_compared", "def f(x): return x + 1 if c == [1, 2, 3] else x - 1", numbers, lambda c: c.append(0))
change("list_joined", "def f(x): return x * len('-'.join(c))", lambda: ["a", "b"], lambda c: c.append("cd"))
change(
    "list_item_type",
    "def f(x): return x * c[0], type(c[0]).__name__",
    lambda: [1],
    lambda c: c.__setitem__(0, True),
)
change("list_as_tensor", "def f(x): return x + torch.tensor(c)", lambda: [1.0] * 4, lambda c: c.__setitem__(2, 5.0))
change("list_as_dtype", "def f(x): return torch.tensor(c)", lambda: [1, 2], lambda c: c.__setitem__(0, 1.0))
change(
    "nested_list_as_tensor", "def f(x): return torch.tensor(c)", lambda: [[1, 2], [3, 4]], lambda c: c[1].append(5)
)
change(
    "list_as_sizes", "def f(x): return x.reshape(c)", lambda: [2, 2], lambda c: c.__setitem__(slice(None), [4, 1])
)
change("list_as_dims", "def f(x): return x.reshape(2, 2).sum(c)", lambda: [0], lambda c: c.append(1))
change("list_zip", "def f(x): return [x * a * b for a, b in zip(c, c)]", numbers, lambda c: c.pop())
change("list_enumerate", "def f(x): return [x * i + k for i, k in enumerate(c)]", numbers, lambda c: c.pop(0))
change("list_any_all", "def f(x): return x * (1 + any(c)) * (2 + all(c))", lambda: [0, 0], lambda c: c.append(1))
change("itertools_chain", "def f(x): return x * sum(itertools.chain(c, c))", numbers, lambda c: c.append(1))
change(
    "itertools_product", "def f(x): return x * len(list(itertools.product(c, c)))", numbers, lambda c: c.append(1)
)
change("math_prod", "def f(x): return x * math.prod(c)", numbers, lambda c: c.append(5))
change("map_over_list", "def f(x): return list(map(operator.neg, c)), x", numbers, lambda c: c.append(5))
change("list_replaced_by_tuple", "def f(x): return x, c", numbers, lambda c: Replace((1, 2, 3)))
change(
    "list_of_lists_shared",
    "def f(x): c[0].append(1); return x, len(c[1])",
    lambda: [[], []],
    lambda c: c.__setitem__(1, c[0]),
)

change("dict_value", "def f(x): return x * c['a']", config, lambda c: c.update(a=5))
change("dict_nested_value", "def f(x): return x * c['c']['d']", config, lambda c: c["c"].update(d=5))
change("dict_list_value", "def f(x): return x * sum(c['b'])", config, lambda c: c["b"].append(5))
change("dict_key_added", "def f(x): return x * len(c)", config, lambda c: c.update(z=5))
change("dict_key_deleted", "def f(x): return x * c['a']", config, lambda c: c.pop("a"))
change("dict_get_default", "def f(x): return x * c.get('z', 1)", config, lambda c: c.update(z=5))
change("dict_contains", "def f(x): return x * ('z' in c)", config, lambda c: c.update(z=5))
change("dict_order", "def f(x): return [k for k in c], x", config, lambda c: c.update(a=c.pop("a")))
change("dict_items", "def f(x): return [x * v for k, v in c.items()]", lambda: {"a": 1}, lambda c: c.update(b=2))
change("dict_of_items", "def f(x): return x * dict(c.items())['a']", lambda: {"a": 1}, lambda c: c.update(a=2))
change(
    "dict_of_items_added", "def f(x): return x * len(dict(c.items()))", lambda: {"a": 1}, lambda c: c.update(b=2)
)
change(
    "ordered_dict_of_items",
    "def f(x): return x, list(collections.OrderedDict(c.items()))",
    lambda: collections.OrderedDict(a=1, b=2),
    lambda c: c.move_to_end("a"),
)
change("dict_values_sum", "def f(x): return x * sum(c.values())", lambda: {"a": 1}, lambda c: c.update(a=2))
change("dict_keys_minus", "def f(x): return x * len(c.keys() - {'a'})", config, lambda c: c.pop("b"))
change(
    "dict_unpacked",
    "def g(a=0, b=0): return a - b\ndef f(x): return x * g(**c)",
    lambda: {"a": 1},
    lambda c: c.update(b=2),
)
change("dict_merged", "def f(x): return x, {**c, 'z': 1}", lambda: {"a": 1}, lambda c: c.update(b=2))
change(
    "dict_int_key_type",
    "def f(x): return [type(k).__name__ for k in c], x",
    lambda: {1: 1},
    lambda c: Replace({True: 1}),
)
change("dict_tuple_key", "def f(x): return x * c[(1, 2)]", lambda: {(1, 2): 3}, lambda c: c.update({(1, 2): 4}))
change("dict_setdefault", "def f(x): return x * c.setdefault('a', 9)", lambda: {"a": 1}, lambda c: c.update(a=2))
change("dict_replaced", "def f(x): return x * c['a']", lambda: {"a": 1}, lambda c: Replace({"a": 6}))
change("dict_cleared", "def f(x): return x + 1 if c else x - 1", config, lambda c: c.clear())
change(
    "dict_max_by_get", "def f(x): return x, max(c, key=c.get)", lambda: {"a": 1, "b": 2}, lambda c: c.update(a=3)
)
change(
    "ordered_dict_moved",
    "def f(x): return list(c), x",
    lambda: collections.OrderedDict(a=1, b=2),
    lambda c: c.move_to_end("a"),
)
change(
    "default_dict_factory",
    "def f(x): return x * c['new'].__class__().__len__(), c.pop('new')",
    lambda: collections.defaultdict(list),
    lambda c: setattr(c, "default_factory", lambda: "s"),
)
change(
    "counter",
    "def f(x): return x * c['a'], c.most_common(1)",
    lambda: collections.Counter("aab"),
    lambda c: c.update("bbb"),
)
change(
    "chain_map",
    "def f(x): return x * c['a']",
    lambda: collections.ChainMap({}, {"a": 1}),
    lambda c: c.maps[0].update(a=2),
)
change("deque", "def f(x): return x * c[0], list(c)", lambda: collections.deque([1, 2]), lambda c: c.rotate())
change(
    "deque_maxlen",
    "def f(x):\n  d = c.copy(); d.append(9)\n  return x, list(d)",
    lambda: collections.deque([1, 2], 2),
    lambda c: Replace(collections.deque([1, 2], 3)),
)
change("set_member", "def f(x): return x * (1 if 2 in c else 3)", lambda: {1, 2}, lambda c: c.discard(2))
change("set_size", "def f(x): return x * len(c)", lambda: {1, 2}, lambda c: c.add(3))
change("set_union", "def f(x): return x, sorted(c | {9})", lambda: {1, 2}, lambda c: c.add(3))
change(
    "frozenset_replaced", "def f(x): return x, sorted(c)", lambda: frozenset({1}), lambda c: Replace(frozenset({2}))
)
change("bytearray", "def f(x): return x * c[0], bytes(c)", lambda: bytearray(b"ab"), lambda c: c.__setitem__(0, 5))
change("array", "def f(x): return x * c[0]", lambda: array.array("i", [1, 2]), lambda c: c.__setitem__(0, 5))
change(
    "memoryview", "def f(x): return x * c[0]", lambda: memoryview(bytearray(b"ab")), lambda c: c.__setitem__(0, 7)
)
change(
    "numpy_array", "def f(x): return x + torch.from_numpy(c)", lambda: np.ones(4, np.float32), lambda c: c.fill(5)
)
change("numpy_item", "def f(x): return x * float(c[0])", lambda: np.ones(4), lambda c: c.__setitem__(0, 3))
change(
    "numpy_dtype",
    "def f(x): return torch.from_numpy(c)",
    lambda: np.ones(4),
    lambda c: Replace(np.ones(4, np.int64)),
)
change("numpy_shape", "def f(x): return x * c.ndim", lambda: np.ones(4), lambda c: setattr(c, "shape", (2, 2)))
change(
    "list_of_tensors_item",
    "def f(x): return x + c[0]",
    lambda: [tensor()],
    lambda c: c.__setitem__(0, tensor() * 3),
)
change("list_of_tensors_in_place", "def f(x): return x + c[0]", lambda: [tensor()], lambda c: c[0].mul_(3))
change(
    "list_of_tensors_stacked", "def f(x): return torch.stack(c)", lambda: [tensor()], lambda c: c.append(tensor())
)
change(
    "dict_of_tensors", "def f(x): return x + c['w']", lambda: {"w": tensor()}, lambda c: c.update(w=tensor() + 7)
)
change("tensor_as_key", "def f(x): return x * len(c)", lambda: {tensor(): 1}, lambda c: c.update({tensor(): 2}))


@case(evolves=True)
def iterator_of_global_advances():
    m = module("it = iter([1, 2, 3])\ndef f(x): return x * next(it)")
    yield m.f, tensor()


@case
def iterator_argument_position():
    m = module("def f(x, it): return x * next(it)")
    yield m.f, tensor(), Always()
    it = iter([5, 6])
    next(it)
    yield tensor(), it


class Always:
    """An iterator that always gives 5, so that two calls agree."""

    def __next__(self):
        return 5


@case
def list_argument_mutated_between():
    m = module("def f(x, ks): return x * sum(ks)")
    ks = [1, 2]
    yield m.f, tensor(), ks
    ks[0] = 10


@case
def dict_argument_mutated_between():
    m = module("def f(x, d): return {k: x * v for k, v in d.items()}")
    d = {"a": 1}
    yield m.f, tensor(), d
    d["b"] = 2


@case
def dict_of_items_object_mutated():
    m = module(
        """
import collections
class Held:
    scale = 2
class Output(collections.OrderedDict):
    pass
def f(x, held): return x * dict(Output(x=x, held=held).items())["held"].scale
"""
    )
    held = m.Held()
    yield m.f, tensor(), held
    held.scale = 5


@case
def list_contains_itself():
    m = module("def f(x, l): return x + 1 if l[0] is l else x - 1")
    cyclic = []
    cyclic.append(cyclic)
    yield m.f, tensor(), cyclic
    cyclic[0] = []


@case
def list_item_of_equal_value_and_other_identity():
    m = module("a = [1]\nc = [a, [1]]\ndef f(x): return x + (c[0] is a)")
    yield m.f, tensor()
    m.c[0] = [1]


@case
def comparing_runs_eq():
    m = module(
        "class K:\n  same = True\n  def __eq__(self, o): return K.same\nc = [K()]\n"
        "def f(x): return x * (3 if 1 in c else 2)"
    )
    yield m.f, tensor()
    m.K.same = False


@case
def hashing_runs_hash():
    m = module(
        "class K:\n  h = 1\n  def __hash__(self): return K.h\nk = K()\nd = {k: 1}\ndef f(x): return x * (k in d)"
    )
    yield call(m.f, tensor())
    m.K.h = 2


@case
def range_object():
    m = module("c = range(3)\ndef f(x): return [x * i for i in c]")
    yield m.f, tensor()
    m.c = range(0, 3, 2)


@case
def slice_object():
    m = module("c = slice(0, 2)\ndef f(x): return x[c]")
    yield m.f, tensor()
    m.c = slice(1, 4)


@case
def string_method():
    m = module("c = 'a,b'\ndef f(x): return x * len(c.split(','))")
    yield m.f, tensor()
    m.c = "a,b,c"


GROWN = "def f(x):\n  grown = []\n  grown += {}\n  return [x * k for k in grown]"
change("grown_by_values", GROWN.format("c.values()"), lambda: {"a": 1}, lambda c: c.update(b=2))
change("grown_by_other_values", GROWN.format("c.values()"), lambda: {"a": 1}, lambda c: c.update(a=2))
change("grown_by_keys", GROWN.format("c"), lambda: {1: 1, 2: 1}, lambda c: c.update({1: c.pop(1)}))
change("grown_by_a_set", GROWN.format("c"), lambda: {1, 2}, lambda c: c.add(0))
change("grown_by_a_generator", GROWN.format("(k + 1 for k in c)"), numbers, lambda c: c.append(4))
change("grown_by_a_map", GROWN.format("map(len, c)"), lambda: ["a", "bc"], lambda c: c.reverse())
change("grown_by_a_deque", GROWN.format("c"), lambda: collections.deque([1, 2]), lambda c: c.rotate())
change("grown_by_zip", GROWN.format("(a + b for a, b in zip(c, c[1:]))"), numbers, lambda c: c.append(4))
change("grown_by_a_range", GROWN.format("range(len(c))"), numbers, lambda c: c.append(4))
change("grown_by_text", GROWN.format("map(ord, c[0])"), lambda: ["ab"], lambda c: c.__setitem__(0, "abc"))
