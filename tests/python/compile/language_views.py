"""Rows of test_language.py: views of dicts, proxies, classes that derive from numbers, text and tuples."""

from language import expressions

HEAD = """
import abc, collections, collections.abc, enum, numbers, types, typing, weakref
from collections import OrderedDict, Counter, namedtuple
od = OrderedDict(a=1, b=2)
odm = OrderedDict(a=torch.ones(3), b=torch.zeros(3))
dd = {'a': 1, 'b': 2}
cn = Counter('abca')
lst, tup = [3, 1, 2], (1, 2, 3)
P = namedtuple('P', 'x y')
p = P(1, 2)
class NT(typing.NamedTuple):
  a: int
  b: float = 2.0
nt = NT(1)
class E(enum.Enum):
  A = 1
  B = 'b'
class SE(str, enum.Enum):
  A = 'a'
  B = 'b'
class IE(enum.IntEnum):
  A = 1
  B = 2
class MyInt(int): pass
class MyFloat(float): pass
class MyStr(str): pass
mi, mf, ms = MyInt(3), MyFloat(2.5), MyStr('abc')
class Abs(abc.ABC):
  @abc.abstractmethod
  def go(self): ...
class Con(Abs):
  def go(self): return 4
con = Con()
class C:
  'text'
  k = 2
  def __init__(self, v=3): self.v = v
  def m(self, t): return t * self.v
c = C()
ref = weakref.ref(c)
def g(a, b=2, *args, c=3, **kw): return a + b
"""

expressions(
    "views",
    HEAD,
    *("'a' in od.keys()", "1 in od.values()", "('a', 1) in od.items()", "'z' in dd.keys()", "2 in dd.values()"),
    *("('a', 1) in dd.items()", "[x * t for k, t in odm.items() if k in odm.keys()]", "'a' in odm.keys()"),
    *(
        "od.keys().isdisjoint({'z'})",
        "sum(cn.values())",
        "od.keys()",
        "od.items()",
        "od.values()",
        "dd.keys() & {'a'}",
    ),
    *("types.MappingProxyType(dd)['a']", "'a' in types.MappingProxyType(dd)", "types.MappingProxyType(od)"),
    *("list(types.MappingProxyType(dd))", "types.MappingProxyType(dd).get('z', 3)", "len(od.keys())"),
    "dict(zip('ab', [1, 2]))",
    *("'k' in C.__dict__", "C.__dict__['k']", "C.__dict__.get('z')"),
)
expressions(
    "named tuples",
    HEAD,
    *(
        "p == (1, 2)",
        "p + (3,)",
        "p._replace(x=5)",
        "repr(p)",
        "str(nt)",
        "p < (2,)",
        "1 in p",
        "nt == NT(1)",
        "p * 2",
    ),
    *("'%d-%d' % p", "max(p)", "p[0:1]", "p in [(1, 2)]", "sum(p)", "p != nt"),
)
expressions(
    "text and numbers by classes",
    HEAD,
    *(
        "SE.A == 'a'",
        "SE.A in ('a', 'b')",
        "'a' == SE.A",
        "SE.A != 'b'",
        "SE.A in [SE.B]",
        "SE.A.upper()",
        "str(SE.A)",
    ),
    *("f'{SE.A}'", "SE.A.startswith('a')", "{'a': 1}[SE.A]", "dd[SE.A]", "dd.get(SE.B)", "SE.A in dd", "IE.A + 1"),
    *(
        "x * IE.B",
        "IE.A == 1",
        "IE.A < IE.B",
        "x[IE.A]",
        "{SE.A: 3}.get('a')",
        "repr(SE.A)",
        "SE.A + 'x'",
        "not SE.A",
    ),
    *(
        "x * mi",
        "mi + 1",
        "x * mf",
        "mf * 2",
        "ms + 'd'",
        "ms == 'abc'",
        "mi == 3",
        "x[mi - 2]",
        "int(mi)",
        "float(mf)",
    ),
    *(
        "x.view(mi, 2)",
        "ms.upper()",
        "ms in ('abc',)",
        "f'{ms}'",
        "f'{mi}'",
        "mi in (3,)",
        "range(mi)",
        "max(mi, 2)",
    ),
    *(
        "torch.zeros(mi)",
        "bool(mi)",
        "mi if mi else 0",
        "not ms",
        "-mi",
        "mi < 4",
        "str(mi)",
        "round(mf)",
        "'%s' % ms",
    ),
    *(
        "{IE.A: 3}[1]",
        "x.sum(IE.A)",
        "x.reshape(mi, -1)",
        "tup[IE.A]",
        "lst[mi - 1:]",
        "abs(mi)",
        "mi // 2",
        "divmod(mi, 2)",
    ),
)
expressions(
    "abstract classes",
    HEAD,
    *("isinstance(con, Abs)", "isinstance(2.5, numbers.Real)", "isinstance(x, numbers.Number)", "con.go()"),
    *("isinstance(lst, collections.abc.Sequence)", "isinstance(od, collections.abc.Mapping)"),
    *(
        "isinstance(x, collections.abc.Iterable)",
        "isinstance(x, collections.abc.Sequence)",
        "isinstance(c, typing.Hashable)",
    ),
    *("isinstance(g, collections.abc.Callable)", "isinstance(p, collections.abc.Sequence)", "issubclass(C, Abs)"),
    *(
        "isinstance(x.shape, collections.abc.Sequence)",
        "isinstance(lst, typing.List)",
        "isinstance(3, numbers.Integral)",
    ),
    *("isinstance(range(3), collections.abc.Reversible)", "issubclass(list, collections.abc.Sequence)"),
)
expressions(
    "attributes of classes and functions",
    HEAD,
    *(
        "(1).__class__",
        "lst.__class__",
        "g.__class__.__name__",
        "g.__globals__['tup']",
        "g.__call__(1)",
        "C.__mro__[0]",
    ),
    *(
        "C.__doc__",
        "int.__module__",
        "list.__doc__ is None",
        "E.A.__class__",
        "SE.__name__",
        "type(SE.A).__qualname__",
    ),
    *("g.__dict__", "c.__class__.k", "None.__class__", "g.__class__ is type(g)", "C.__mro__[-1] is object"),
)
expressions(
    "slots by name",
    HEAD,
    *(
        "int.__add__(1, 2)",
        "(1).__add__(2)",
        "'a'.__eq__('a')",
        "str.__len__('abc')",
        "object.__eq__(c, c)",
        "c.__eq__(c)",
    ),
    *("list.__contains__(lst, 1)", "tuple.__add__((1,), (2,))", "lst.__iter__().__next__()", "c.__ne__(p)"),
    *("dict.__getitem__(dd, 'a')", "dict.__contains__(od, 'a')", "lst.__len__()", "tup.__getitem__(0)"),
)
expressions("weak references", HEAD, "ref() is c", "ref() is not None", "ref().v", "ref().m(x)")
