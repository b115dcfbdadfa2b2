"""What decides by a class or a key: views, derived numbers and texts, abstract classes, special methods."""

import collections
import collections.abc
import gc

import torch
from staleness import case, module, tensor


@case
def key_appears_in_view():
    m = module("d = {'a': 1}\ndef f(x): return x * (2 if 'b' in d.keys() else 3)")
    yield m.f, tensor()
    m.d["b"] = 1


@case
def key_leaves_ordered_view():
    m = module(
        "from collections import OrderedDict\nd = OrderedDict(a=1, b=2)\n"
        "def f(x): return x * (2 if 'b' in d.keys() else 3)"
    )
    yield m.f, tensor()
    del m.d["b"]


@case
def value_in_view_changes():
    m = module("d = {'a': 1}\ndef f(x): return x * (2 if 1 in d.values() else 3)")
    yield m.f, tensor()
    m.d["a"] = 5


@case
def pair_in_view_changes():
    m = module("d = {'a': 1}\ndef f(x): return x * (2 if ('a', 1) in d.items() else 3)")
    yield m.f, tensor()
    m.d["a"] = 2


@case
def proxy_of_changed_dict():
    m = module("import types\nd = {'a': 2}\ndef f(x): return x * types.MappingProxyType(d)['a']")
    yield m.f, tensor()
    m.d["a"] = 3


@case
def keys_by_proxy():
    m = module("import types\nd = {'a': 2}\ndef f(x): return x * len(list(types.MappingProxyType(d)))")
    yield m.f, tensor()
    m.d["b"] = 3


@case
def sum_of_values_of_counter():
    m = module("from collections import Counter\nc = Counter('ab')\ndef f(x): return x * sum(c.values())")
    yield m.f, tensor()
    m.c["a"] = 7


@case
def returned_view():
    m = module(
        "from collections import OrderedDict\nd = OrderedDict(a=1)\n"
        "def f(x): return x + 1, list(d.keys()), d.keys()"
    )
    yield m.f, tensor()
    m.d["b"] = 2


@case
def entry_of_class_dict():
    m = module("class C: k = 2\ndef f(x): return x * C.__dict__['k']")
    yield m.f, tensor()
    m.C.k = 3


@case
def name_in_class_dict():
    m = module("class C: k = 2\ndef f(x): return x * (2 if 'v' in C.__dict__ else 3)")
    yield m.f, tensor()
    m.C.v = 3


@case
def text_enum_replaced():
    m = module(
        "import enum\nclass E(str, enum.Enum):\n  A = 'a'\n  B = 'b'\ne = E.A\n"
        "def f(x): return x * (2 if e == 'a' else 3)"
    )
    yield m.f, tensor()
    m.e = m.E.B


@case
def text_enum_as_key():
    m = module("import enum\nclass E(str, enum.Enum):\n  A = 'a'\nd = {'a': 2}\ndef f(x): return x * d[E.A]")
    yield m.f, tensor()
    m.d["a"] = 3


@case
def text_enum_in_dict():
    m = module(
        "import enum\nclass E(str, enum.Enum):\n  A = 'a'\nd = {'a': 2}\n"
        "def f(x): return x * (2 if E.A in d else 3)"
    )
    yield m.f, tensor()
    del m.d["a"]


@case
def text_enum_of_argument():
    m = module(
        "import enum\nclass E(str, enum.Enum):\n  A = 'a'\n  B = 'b'\n"
        "def f(x, e): return x * (2 if e in ('a', 'c') else 3)"
    )
    yield m.f, tensor(), m.E.A
    yield tensor(), m.E.B


@case
def integer_by_class():
    m = module("class N(int): pass\nn = N(2)\ndef f(x): return x * n")
    yield m.f, tensor()
    m.n = m.N(3)


@case
def integer_by_class_of_argument():
    m = module("class N(int): pass\ndef f(x, n): return x * n + n")
    yield m.f, tensor(), m.N(2)
    yield tensor(), m.N(3)
    yield tensor(), 4


@case
def integer_by_class_learns_to_add():
    m = module("class N(int): pass\nn = N(2)\ndef f(x): return x * (n + 1)")
    yield m.f, tensor()
    m.N.__add__ = lambda self, other: 7


@case
def integer_by_class_learns_to_compare():
    m = module("class N(int): pass\nn = N(2)\ndef f(x): return x * (2 if n == 2 else 3)")
    yield m.f, tensor()
    m.N.__eq__ = lambda self, other: False


@case
def integer_by_class_learns_truth():
    m = module("class N(int): pass\nn = N(2)\ndef f(x): return x * (2 if n else 3)")
    yield m.f, tensor()
    m.N.__bool__ = lambda self: False


@case
def integer_by_class_as_index():
    m = module("class N(int): pass\nn = N(1)\ndef f(x): return x * [2, 3, 4][n]")
    yield m.f, tensor()
    m.N.__index__ = lambda self: 0
    m.n = m.N(2)


@case
def text_by_class_learns_text():
    m = module("class S(str): pass\ns = S('ab')\ndef f(x): return x + 1, f'{s}', str(s)")
    yield m.f, tensor()
    m.S.__str__ = lambda self: "other"


@case
def text_by_class_learns_format():
    m = module("class S(str): pass\ns = S('ab')\ndef f(x): return x + 1, f'{s}'")
    yield m.f, tensor()
    m.S.__format__ = lambda self, spec: "other"


@case
def text_by_class_learns_method():
    m = module("class S(str): pass\ns = S('ab')\ndef f(x): return x * len(s.upper()), s.upper()")
    yield m.f, tensor()
    m.S.upper = lambda self: "longer"


@case
def float_by_class_set_to_other_class():
    m = module(
        "class A(float): pass\nclass B(float):\n  def __mul__(self, o): return 9.0\na = A(2)\n"
        "def f(x): return x * (a * 2)"
    )
    yield m.f, tensor()
    m.a = m.B(2)


@case
def named_tuple_replaced():
    m = module(
        "from collections import namedtuple\nP = namedtuple('P', 'a b')\np = P(1, 2)\n"
        "def f(x): return x * (2 if p == (1, 2) else 3)"
    )
    yield m.f, tensor()
    m.p = m.P(1, 3)


@case
def named_tuple_as_text():
    m = module(
        "from collections import namedtuple\nP = namedtuple('P', 'a b')\np = P(1, 2)\n"
        "def f(x): return x + 1, repr(p)"
    )
    yield m.f, tensor()
    m.p = m.P(1, 3)


@case
def named_tuple_learns_to_add():
    m = module(
        "from collections import namedtuple\nP = namedtuple('P', 'a b')\np = P(1, 2)\n"
        "def f(x): return x * len(p + (3,))"
    )
    yield m.f, tensor()
    m.P.__add__ = lambda self, other: (1,)


@case
def registered_with_abstract_class():
    m = module(
        "import abc\nclass A(abc.ABC): pass\nclass C: pass\nc = C()\n"
        "def f(x): return x * (2 if isinstance(c, A) else 3)"
    )
    yield m.f, tensor()
    m.A.register(m.C)


@case
def registered_as_sequence():
    m = module(
        "import collections.abc\nclass C: pass\nc = C()\n"
        "def f(x): return x * (2 if isinstance(c, collections.abc.Sequence) else 3)"
    )
    yield m.f, tensor()
    collections.abc.Sequence.register(m.C)


@case
def object_of_other_class_asked_for_abstract_one():
    m = module("import numbers\nn = 2\ndef f(x): return x * (2 if isinstance(n, numbers.Integral) else 3)")
    yield m.f, tensor()
    m.n = 2.5


@case
def class_assigned_before_abstract_check():
    m = module(
        "import collections.abc\nclass A:\n  def __len__(self): return 1\nclass B: pass\na = A()\n"
        "def f(x): return x * (2 if isinstance(a, collections.abc.Sized) else 3)"
    )
    yield m.f, tensor()
    m.a.__class__ = m.B


@case
def class_by_attribute():
    m = module("class A: k = 2\nclass B: k = 3\na = A()\ndef f(x): return x * a.__class__.k")
    yield m.f, tensor()
    m.a.__class__ = m.B


@case
def base_by_mro():
    m = module("class A: pass\nclass B: pass\nclass C(A): pass\ndef f(x): return x * (2 if A in C.__mro__ else 3)")
    yield m.f, tensor()
    m.C.__bases__ = (m.B,)


@case
def text_of_class():
    m = module("class A: 'two'\ndef f(x): return x * len(A.__doc__)")
    yield m.f, tensor()
    m.A.__doc__ = "three"


@case
def attribute_in_dict_of_function():
    m = module("def g(): pass\ng.k = 2\ndef f(x): return x * g.__dict__['k']")
    yield m.f, tensor()
    m.g.k = 3


@case
def global_by_function():
    m = module("k = 2\ndef g(): pass\ndef f(x): return x * g.__globals__['k']")
    yield m.f, tensor()
    m.k = 3


@case
def weak_reference_to_other():
    m = module(
        "import weakref\nclass K:\n  def __init__(s, v): s.v = v\na, b = K(2), K(3)\n"
        "r = weakref.ref(a)\ndef f(x): return x * r().v"
    )
    yield m.f, tensor()
    import weakref

    m.r = weakref.ref(m.b)


@case
def attribute_behind_weak_reference():
    m = module("import weakref\nclass K: v = 2\na = K()\nr = weakref.ref(a)\ndef f(x): return x * r().v")
    yield m.f, tensor()
    m.a.v = 5


@case
def referent_dies_behind_none_check():
    m = module(
        "import weakref\nclass K: v = 2\na = K()\nr = weakref.ref(a)\n"
        "def f(x): return x * (2 if r() is None else 3)"
    )
    yield m.f, tensor()
    del m.a
    gc.collect()


@case
def power_replaced_on_tensors():
    m = module("def f(x): return x ** 2")
    yield m.f, tensor()
    own = torch.Tensor.__pow__
    torch.Tensor.__pow__ = lambda self, k: self + 5
    try:
        yield tensor()
    finally:
        torch.Tensor.__pow__ = own
    yield tensor()


@case
def iteration_of_argument_of_other_length():
    m = module("def f(x): return sum([row.sum() * i for i, row in enumerate(list(x))])")
    yield m.f, tensor(2, 2)
    yield tensor(3, 2)


@case
def legacy_type_of_argument():
    m = module("def f(x): return (x + 1) * (2 if isinstance(x + 1, torch.FloatTensor) else 3)")
    yield m.f, tensor()
    yield tensor().double()


@case
def default_dtype_asked():
    m = module("def f(x): return x.to(torch.get_default_dtype())")
    yield m.f, tensor()
    torch.set_default_dtype(torch.float64)
    try:
        yield tensor()
    finally:
        torch.set_default_dtype(torch.float32)
    yield tensor()


@case
def dtype_as_key():
    m = module("d = {torch.float32: 2, torch.float64: 3}\ndef f(x): return x * d[x.dtype]")
    yield m.f, tensor()
    m.d[torch.float32] = 5


@case
def parameters_told_apart_by_a_set():
    m = module(
        "a, b = torch.nn.Parameter(torch.ones(4), False), torch.nn.Parameter(torch.ones(4), False)\nl = [a, b]\n"
        "def f(x):\n  s = set()\n  for p in l: s.add(p)\n  return x * len(s)"
    )
    yield m.f, tensor()
    m.l[1] = m.a


@case
def arguments_told_apart_by_a_dict():
    m = module("def f(x, y, z):\n  d = {y: 2}\n  return x * (d[z] if z in d else 3)")
    one, two = tensor(), tensor()
    yield m.f, tensor(), one, two
    yield tensor(), one, one


@case
def as_tensor_of_global():
    m = module("k = 2.0\ndef f(x): return x * torch.as_tensor(k)")
    yield m.f, tensor()
    m.k = 3.0


@case
def device_by_text():
    m = module("k = 'cpu'\ndef f(x): return x + 1, torch.device(k)")
    yield m.f, tensor()
    m.k = "meta"


@case
def metaclass_of_enum_asked_for_name():
    m = module("import enum\nclass E(enum.Enum):\n  A = 1\ndef f(x): return x + 1, repr(E.A)")
    yield m.f, tensor()
    m.E.__name__ = "Other"


@case
def key_that_hashes_itself_equals_what_was_not_there():
    m = module(
        "class Five:\n    def __hash__(self): return hash(5)\n    def __eq__(self, other): return True\n"
        "d = {}\ndef f(x): return x * (2 if 5 in d else 3)"
    )
    yield m.f, tensor()
    m.d[m.Five()] = 1


@case
def key_that_hashes_itself_gives_what_was_a_default():
    m = module(
        "class Five:\n    def __hash__(self): return hash(5)\n    def __eq__(self, other): return True\n"
        "d = {6: 1}\ndef f(x): return x * d.get(5, 7)"
    )
    yield m.f, tensor()
    m.d[m.Five()] = 1


@case
def key_that_hashes_itself_is_not_asked():
    m = module(
        "class Odd:\n    def __hash__(self): return 1 << 40\n    def __eq__(self, other): return self is other\n"
        "d = {Odd(): 1}\ndef f(x): return x * d.get(5, 7)"
    )
    yield m.f, tensor()
    m.d[5] = 2
    yield tensor()
    m.d[5] = 3


@case
def entry_of_builtin_function():
    m = module("d = {len: 2, torch.gather: 3}\ndef f(x): return x * d[torch.gather]")
    yield m.f, tensor()
    m.d[torch.gather] = 5


@case
def entry_of_builtin_function_beside_others():
    m = module(
        "def g(): pass\nd = {len: 2, g: 3, torch.split: 4}\ndef f(x): return x * (d[len] if len in d else 7)"
    )
    yield m.f, tensor()
    m.d[len] = 5
    yield tensor()
    m.d[sorted] = 6
    yield tensor()
    del m.d[len]


@case
def builtin_function_becomes_key():
    m = module("d = {sorted: 2}\ndef f(x): return x * (2 if len in d else 3)")
    yield m.f, tensor()
    m.d[len] = 1


@case
def key_appears_for_method_of_view():
    m = module("d = {'a': 1}\ndef f(x): return x * (2 if d.keys().__contains__('b') else 3)")
    yield m.f, tensor()
    m.d["b"] = 1


@case
def ends_of_older_slice():
    m = module("s = slice(0, 2)\ndef f(x): return x * len(range(*s.indices(5)))")
    yield m.f, tensor()
    m.s = slice(0, 4)


VERSIONS = """
import re, itertools
class Version(str):
    __slots__ = ()
    def parts(self): return tuple(int(p) for p in self.split('.') if frozenset('0123456789').issuperset(p))
    def __lt__(self, other): return self.parts() < Version(other).parts()
    def __eq__(self, other): return str.__eq__(self, other)
    __hash__ = str.__hash__
digits = re.compile(r'(\\d+)')
version = Version('2.10.x')
"""


@case
def text_that_compares_by_itself():
    m = module(VERSIONS + "def f(x): return x * (2 if version < '2.9' else 3) + len(version.split('.'))")
    yield m.f, tensor()
    m.version = m.Version("2.8")
    yield
    m.version = m.Version("2.8.1.2")
    yield
    m.Version.__lt__ = lambda self, other: False


@case
def text_that_compares_by_itself_and_a_pattern():
    m = module(VERSIONS + "def f(x): return x * int(digits.match(version).group(1)) + len(digits.findall(version))")
    yield m.f, tensor()
    m.version = m.Version("3.1")
    yield
    m.digits = m.re.compile(r"\d(\d)")
    m.version = m.Version("45.1.1")
    yield
    m.version = "77"


@case
def characters_of_a_text_of_a_class():
    m = module(VERSIONS + "def f(x): return x * (2 if frozenset('0123.x').issuperset(version) else 3)")
    yield m.f, tensor()
    m.version = m.Version("9.9")
    yield
    m.version = m.Version("0.1")
    yield
    m.Version.__iter__ = lambda self: iter("abc")


LEAST = """
import itertools, re
class Least:
    def __init__(self, less=True): self.less = less
    def __lt__(self, other): return self.less
    def __gt__(self, other): return not self.less
    def __le__(self, other): return self.less
    def __ge__(self, other): return not self.less
    def __eq__(self, other): return isinstance(other, Least) and self.less is other.less
    __hash__ = None
least = Least()
pair = (2, least)
"""

ORDERINGS = {
    "of_tuples": "(1, least, 'a') < (1, 3, 'b')",
    "of_tuples_within": "(1, ((least, 'a'),)) >= (1, (pair,))",
    "by_length": "(1, least) < (1, least, 0)",
    "of_lists": "[3, least] <= [*pair]",
    "of_a_tuple_and_an_object": "(0, (1, 2)) > (0, least)",
    "of_text_and_an_object": "('a', 'b') < ('a', least)",
    "that_are_equal": "(1.0, least, pair) <= (True, least, (2, least))",
    "of_what_a_generator_gives": "tuple((i, least) for i in pair) < tuple((i, 0) for i in filter(bool, (2,)))",
    "in_a_list": "[(1, least), (2, least), pair].count((2, Least(True))) > 2",
    "with_a_pattern": "[(1, re.compile('a')), (2, None)].index((2, None)) == 1",
}

for name, condition in ORDERINGS.items():

    @case(name=f"ordering_{name}")
    def ordering(condition=condition):
        m = module(f"{LEAST}re.compile('a')\ndef f(x): return x * (2 if {condition} else 3)")
        yield m.f, tensor()
        m.least.less = False
        yield
        m.pair = (0, 1, 2)
        yield
        m.pair = (5, m.Least())
        m.least = m.Least()
        yield
        m.Least.__lt__ = m.Least.__gt__
        yield
        m.least = 7
