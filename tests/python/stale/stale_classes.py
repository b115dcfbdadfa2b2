"""Classes: attributes, methods, properties, descriptors, metaclasses, inheritance, special methods."""

from staleness import call, case, module, tensor

POINT = """
class Base:
    k = 1
    def m(self, x): return x + self.k
class C(Base):
    def __init__(self): self.own = 2
c = C()
"""


def with_point(body):
    return module(POINT + body)


@case
def method_replaced_on_class():
    m = with_point("def f(x): return c.m(x)")
    yield m.f, tensor()
    m.Base.m = lambda self, x: x * 9


@case
def method_overridden_below():
    m = with_point("def f(x): return c.m(x)")
    yield m.f, tensor()
    m.C.m = lambda self, x: x * 9


@case
def method_hidden_by_instance():
    m = with_point("def f(x): return c.m(x)")
    yield m.f, tensor()
    m.c.m = lambda x: x * 9


@case
def class_attribute_hidden_by_instance():
    m = with_point("def f(x): return x * c.k")
    yield m.f, tensor()
    m.c.k = 4


@case
def instance_attribute_deleted_shows_class():
    m = with_point("c.k = 5\ndef f(x): return x * c.k")
    yield m.f, tensor()
    del m.c.k


@case
def property_added():
    m = with_point("def f(x): return x * c.own")
    yield m.f, tensor()
    m.C.own = property(lambda self: 7)


@case
def property_getter_replaced():
    m = with_point("C.p = property(lambda self: 2)\ndef f(x): return x * c.p")
    yield m.f, tensor()
    m.C.p = m.C.p.getter(lambda self: 3)


@case
def property_reads_state():
    m = with_point("C.p = property(lambda self: self.own + 1)\ndef f(x): return x * c.p")
    yield m.f, tensor()
    m.c.own = 10


@case
def cached_property_invalidated():
    m = module(
        """
import functools
class C:
    n = 2
    @functools.cached_property
    def p(self): return self.n
c = C()
def f(x): return x * c.p
"""
    )
    yield m.f, tensor()
    m.C.n = 5
    del m.c.p


@case
def getattr_added():
    m = with_point("def f(x): return x * getattr(c, 'missing', 1)")
    yield m.f, tensor()
    m.C.__getattr__ = lambda self, name: 6


@case
def getattribute_added():
    m = with_point("def f(x): return x * c.own")
    yield m.f, tensor()
    m.C.__getattribute__ = lambda self, name: 8


@case
def class_assigned():
    m = with_point("class D(Base):\n  def m(self, x): return x - 100\ndef f(x): return c.m(x)")
    yield m.f, tensor()
    m.c.__class__ = m.D


@case
def bases_assigned():
    m = with_point("class Other:\n  k = 50\n  def m(self, x): return x * self.k\ndef f(x): return c.m(x)")
    yield m.f, tensor()
    m.C.__bases__ = (m.Other,)


@case
def isinstance_after_class_assigned():
    m = with_point("class D: pass\ndef f(x): return x + 1 if isinstance(c, Base) else x - 1")
    yield m.f, tensor()
    m.c.__class__ = m.D


@case
def isinstance_registered():
    m = module("import abc\nclass A(abc.ABC): pass\nclass C: pass\nc = C()\ndef f(x): return x * isinstance(c, A)")
    yield m.f, tensor()
    m.A.register(m.C)


@case
def instancecheck_hook():
    m = module(
        """
class M(type):
    ok = True
    def __instancecheck__(cls, o): return M.ok
class A(metaclass=M): pass
def f(x): return x + 1 if isinstance(3, A) else x - 1
"""
    )
    yield m.f, tensor()
    m.M.ok = False


@case
def what_a_typed_dict_makes():
    m = module(
        """
class Meta(type): __call__ = dict
class Message(metaclass=Meta): pass
def f(x): m = Message(a=x, k=2); return m["a"] * m["k"], m
"""
    )
    yield m.f, tensor()
    m.Meta.__call__ = lambda cls, a, k: {"a": a, "k": k + 1}


@case
def typed_dict_becomes_a_class():
    m = module(
        """
from typing import TypedDict
class Message(TypedDict): a: object
class Other:
    def __init__(self, a): self.a = a
    def __getitem__(self, k): return self.a * 5
def f(x, M=None): m = (M or Message)(a=x); return m["a"] * 2
"""
    )
    yield m.f, tensor()
    m.Message = m.Other


@case
def typed_dict_given_becomes_a_class():
    m = module(
        """
from typing import TypedDict
class Message(TypedDict): a: object
class Other:
    def __init__(self, a): self.a = a
    def __getitem__(self, k): return self.a * 5
"""
        + "made = [Message]\ndef f(x): m = made[0](a=x); return m['a'] * 2\n"
    )
    yield m.f, tensor()
    m.made[0] = m.Other


@case
def metaclass_attribute():
    m = module("class M(type): k = 2\nclass C(metaclass=M): pass\ndef f(x): return x * C.k")
    yield m.f, tensor()
    m.M.k = 3


@case
def metaclass_attribute_hidden():
    m = module("class M(type): k = 2\nclass C(metaclass=M): pass\ndef f(x): return x * C.k")
    yield m.f, tensor()
    m.C.k = 4


@case
def descriptor_value():
    m = module(
        """
class D:
    v = 2
    def __get__(self, o, t): return self.v
class C: d = D()
c = C()
def f(x): return x * c.d
"""
    )
    yield m.f, tensor()
    m.D.v = 3


@case
def descriptor_becomes_data_descriptor():
    m = module(
        """
class D:
    def __get__(self, o, t): return 100
class C: d = D()
c = C()
c.__dict__['d'] = 2
def f(x): return x * c.d
"""
    )
    yield m.f, tensor()
    m.D.__set__ = lambda self, o, v: None


@case
def staticmethod_replaced():
    m = module("class C:\n  @staticmethod\n  def s(x): return x + 1\ndef f(x): return C.s(x)")
    yield m.f, tensor()
    m.C.s = staticmethod(lambda x: x - 1)


@case
def classmethod_reads_class():
    m = module("class C:\n  k = 2\n  @classmethod\n  def s(cls, x): return x * cls.k\ndef f(x): return C.s(x)")
    yield m.f, tensor()
    m.C.k = 6


@case
def super_method():
    m = with_point("def n(self, x): return super(C, self).m(x) * 2\nC.n = n\ndef f(x): return c.n(x)")
    yield m.f, tensor()
    m.Base.m = lambda self, x: x + 40


@case
def init_changed():
    m = with_point("def f(x): return x * C().own")
    yield m.f, tensor()
    m.C.__init__ = lambda self: setattr(self, "own", 12)


@case
def new_changed():
    m = with_point("def f(x): return x * C().own")
    yield m.f, tensor()
    other = m.C()
    other.own = 30
    m.C.__init__ = lambda self: None
    m.C.__new__ = lambda cls: other


@case
def call_changed():
    m = with_point("C.__call__ = lambda self, x: x + 1\ndef f(x): return c(x)")
    yield m.f, tensor()
    m.C.__call__ = lambda self, x: x + 2


@case
def call_on_instance_does_not_count():
    m = with_point("C.__call__ = lambda self, x: x + 1\ndef f(x): return c(x)")
    yield m.f, tensor()
    m.c.__call__ = lambda x: x + 2
    yield tensor()
    m.C.__call__ = lambda self, x: x + 3
    yield tensor()


def special(name, before, after, expression):
    @case(name="special_" + name)
    def make():
        m = module(f"class C:\n  pass\nc = C()\ndef f(x): return x * ({expression})")
        setattr(m.C, name, before)
        yield m.f, tensor()
        setattr(m.C, name, after)

    return make


special("__len__", lambda s: 2, lambda s: 3, "len(c)")
special("__bool__", lambda s: True, lambda s: False, "2 if c else 3")
special("__contains__", lambda s, o: True, lambda s, o: False, "1 in c")
special("__getitem__", lambda s, k: k, lambda s, k: k + 1, "c[5]")
special("__iter__", lambda s: iter([1]), lambda s: iter([1, 2]), "sum(c)")
special("__eq__", lambda s, o: True, lambda s, o: False, "c == 1")
special("__hash__", lambda s: 1, lambda s: 2, "hash(c)")
special("__add__", lambda s, o: o, lambda s, o: o + 1, "c + 1")
special("__radd__", lambda s, o: o, lambda s, o: o + 1, "1 + c")
special("__int__", lambda s: 1, lambda s: 2, "int(c)")
special("__float__", lambda s: 1.0, lambda s: 2.0, "float(c)")
special("__index__", lambda s: 1, lambda s: 2, "[3, 4, 5][c]")
special("__lt__", lambda s, o: True, lambda s, o: False, "c < 1")
special("__neg__", lambda s: 1, lambda s: 2, "-c")
special("__str__", lambda s: "a", lambda s: "abc", "len(str(c))")
special("__format__", lambda s, f: "a", lambda s, f: "abc", "len(f'{c}')")
special("__enter__", lambda s: 1, lambda s: 2, "type(c).__enter__(c)")
special("__missing__", lambda s, k: 1, lambda s, k: 2, "type(c).__missing__(c, 1)")


@case
def dict_subclass_missing():
    m = module("class D(dict):\n  def __missing__(self, k): return 2\nd = D()\ndef f(x): return x * d['k']")
    yield m.f, tensor()
    m.D.__missing__ = lambda self, k: 5


@case
def context_manager_replaced():
    m = module(
        """
class W:
    k = 1
    def __enter__(self): return self.k
    def __exit__(self, *e): return False
w = W()
def f(x):
    with w as k: return x * k
"""
    )
    yield m.f, tensor()
    m.W.__enter__ = lambda self: 20


@case
def context_manager_swallows():
    m = module(
        """
class W:
    swallow = True
    def __enter__(self): pass
    def __exit__(self, *e): return self.swallow
def f(x):
    with W(): raise ValueError('v')
    return x
"""
    )
    yield m.f, tensor()
    m.W.swallow = False


@case
def dataclass_field_default():
    m = module(
        "import dataclasses\n@dataclasses.dataclass\nclass C:\n  k: int = 2\nc = C()\n"
        "def f(x): return x * c.k, C().k"
    )
    yield m.f, tensor()
    m.c.k = 3
    yield tensor()
    m.C.__init__.__defaults__ = (9,)
    yield tensor()


@case
def slot_deleted():
    m = module("class C: __slots__ = 'k'\nc = C()\nc.k = 2\ndef f(x): return x * c.k")
    yield m.f, tensor()
    del m.c.k


@case
def enum_member_value():
    m = module("import enum\nclass E(enum.Enum):\n  a = 1\n  b = 2\ne = E.a\ndef f(x): return x * e.value, e.name")
    yield m.f, tensor()
    m.e = m.E.b


@case
def named_tuple():
    m = module(
        "import collections\nP = collections.namedtuple('P', 'a b')\np = P(1, 2)\ndef f(x): return P(x * p.a, p.b)"
    )
    yield m.f, tensor()
    m.p = m.p._replace(a=5)


@case
def named_tuple_becomes_tuple():
    m = module(
        "import collections\nP = collections.namedtuple('P', 'a b')\ndef f(x, p): return x * p[0], type(p).__name__"
    )
    yield m.f, tensor(), m.P(1, 2)
    yield tensor(), (1, 2)


@case
def hasattr_changes():
    m = with_point("def f(x): return x + 1 if hasattr(c, 'tag') else x - 1")
    yield m.f, tensor()
    m.c.tag = None


@case
def vars_of_instance():
    m = with_point("def f(x): return x * len(vars(c)), list(vars(c))")
    yield m.f, tensor()
    m.c.more = 1


@case
def dir_of_class():
    m = with_point("def f(x): return x, [n for n in dir(C) if not n.startswith('_')]")
    yield m.f, tensor()
    m.Base.another = 1


@case
def subclasses():
    m = with_point("def f(x): return x * len(Base.__subclasses__())")
    yield m.f, tensor()
    m.keep = type("D", (m.Base,), {})


@case
def class_name():
    m = with_point("def f(x): return x, type(c).__name__, C.__module__, C.__doc__")
    yield m.f, tensor()
    m.C.__name__ = "Renamed"


@case
def class_rebound():
    m = with_point("def f(x): return C().m(x)")
    yield m.f, tensor()
    m.C = type("C", (m.Base,), {"k": 77})


@case
def setattr_hook_added():
    m = with_point("def f(x):\n  c.seen = 1\n  return x + len(vars(c))")
    yield call(m.f, tensor())
    m.C.__setattr__ = lambda self, name, value: object.__setattr__(self, name + "_hooked", value)


@case
def delattr_then_missing():
    m = with_point("def f(x): return x * c.own")
    yield m.f, tensor()
    del m.c.own


@case
def init_subclass_sees_later_classes():
    m = with_point("def f(x):\n  class D(Base): pass\n  return x * getattr(D, 'mark', 1)")
    yield m.f, tensor()
    m.Base.__init_subclass__ = classmethod(lambda cls: setattr(cls, "mark", 3))


@case
def class_of_an_imported_module_assigned():
    m = with_point("""
import types
class Computed(types.ModuleType):
    k = property(lambda self: 5)
box = types.ModuleType("box")
box.k = 2
def f(x): return x * box.k""")
    yield m.f, tensor()
    m.box.__class__ = m.Computed


def many_layers():
    return module("""
import torch
net = torch.nn.Sequential(*[torch.nn.Linear(4, 4) for _ in range(6)])
def f(x): return net(x)""")


@case
def class_shared_by_layers_left_by_one():
    m = many_layers()
    yield m.f, tensor(2, 4)
    patched = type("Linear", (m.torch.nn.Linear,), {})
    patched.forward = lambda self, x: x * 3
    m.net[4].__class__ = patched


@case
def class_shared_by_made_and_given_objects():
    m = with_point("def f(x): return x * C().k + c.m(x)")
    yield m.f, tensor()
    m.C.k = 6
