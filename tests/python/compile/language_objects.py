"""Rows of test_language.py: operators, dataclasses, named tuples, enums, metaclasses."""

from language import row

row(
    "operators",
    """
    class V:
      def __init__(self, v): self.v = v
      def __add__(self, o): return V(self.v + o.v)
      def __radd__(self, o): return V(o + self.v)
      def __mul__(self, k): return V(self.v * k)
      def __rmul__(self, k): return V(self.v * k)
      def __iadd__(self, o): self.v = self.v + o.v; return self
      def __neg__(self): return V(-self.v)
      def __getitem__(self, i): return self.v + i
      def __len__(self): return 3
      def __contains__(self, i): return i == 3
      def __eq__(self, o): return isinstance(o, V)
      def __lt__(self, o): return True
    def f(x):
      a, b = V(x), V(2)
      c = a + b * 2
      c = 3 * c
      c += a
      c = -c
      return c[1], len(c), 3 in c, c == a, c != a, c < a, (1 + c).v
    """,
)
row(
    "iter protocol",
    """
    class R:
      def __init__(self, n): self.n = n; self.i = 0
      def __iter__(self): return self
      def __next__(self):
        if self.i >= self.n: raise StopIteration
        self.i += 1
        return self.i
    def f(x): return [x * k for k in R(3)], sum(R(4)), list(R(2))
    """,
    replays=False,
)
row(
    "getitem protocol",
    """
    class S:
      def __getitem__(self, i):
        if i > 2: raise IndexError
        return i * 2
    s = S()
    def f(x): return [x * k for k in s]
    """,
)
row(
    "bool and int conversions",
    """
    class B:
      def __bool__(self): return False
      def __index__(self): return 2
      def __int__(self): return 3
      def __float__(self): return 1.5
    b = B()
    def f(x): return x * (1 if b else 2), x * int(b), x * float(b), [1, 2, 3][b], not b
    """,
    breaks=1,
)
row(
    "str and repr",
    """
    class C:
      def __repr__(self): return 'C!'
      def __str__(self): return 'str'
      def __format__(self, s): return 'fmt' + s
    c = C()
    def f(x): return x + 1, str(c), repr(c), f'{c} {c!r} {c!s} {c:>3}', '%s %r' % (c, c), '{}'.format(c)
    """,
)
row(
    "hash and eq keys",
    """
    class K:
      def __init__(self, k): self.k = k
      def __hash__(self): return 1
      def __eq__(self, o): return self.k == o.k
    def f(x):
      d = {K(1): 2}
      return x * d[K(1)]
    """,
)
row(
    "dataclass",
    """
    import dataclasses
    @dataclasses.dataclass
    class P:
      a: int
      b: float = 2.0
      c: list = dataclasses.field(default_factory=list)
      def __post_init__(self): self.c.append(self.a)
    def f(x):
      p = P(3)
      q = dataclasses.replace(p, b=5.0)
      return x * p.a * q.b, p == P(3), p.c, q
    """,
)
row(
    "dataclass more",
    """
    import dataclasses
    @dataclasses.dataclass(frozen=True, order=True)
    class P:
      a: int
      b: float = 2.0
    def f(x):
      p = P(3)
      return (
          x * p.a,
          p < P(4),
          dataclasses.asdict(p),
          dataclasses.astuple(p),
          [q.name for q in dataclasses.fields(p)],
          dataclasses.is_dataclass(p),
      )
    """,
)
row(
    "dataclass slots kw",
    """
    import dataclasses
    @dataclasses.dataclass(slots=True, kw_only=True)
    class P:
      a: int
      b: float = 2.0
    def f(x):
      p = P(a=3)
      return x * p.a * p.b, p
    """,
)
row(
    "dataclass hash",
    """
    import dataclasses
    @dataclasses.dataclass(frozen=True)
    class P:
      a: int
    d = {P(1): 5}
    def f(x): return x * d[P(1)], hash(P(1)) == hash(P(1))
    """,
)
row(
    "named tuple",
    """
    import collections, typing
    N = collections.namedtuple('N', 'a b', defaults=[3])
    class T(typing.NamedTuple):
      u: int
      v: float = 1.5
      def m(self): return self.u + 1
    def f(x):
      n = N(x)
      a, b = n
      t = T(2)._replace(v=4.0)
      return a * b, n.b, n._asdict(), t, t.m(), N._make([1, 2]), N._fields, n[1:]
    """,
)
row(
    "enum",
    """
    import enum
    class E(enum.Enum):
      A = 1
      B = 2
    class I(enum.IntEnum):
      X = 3
    class F(enum.Flag):
      P = 1
      Q = 2
    def f(x):
      return (
          x * E.A.value,
          E(2) is E.B,
          E['A'].name,
          x * I.X,
          [e.name for e in E],
          E.A == E.B,
          isinstance(E.A, E),
          len(E),
      )
    """,
)
row(
    "enum flags",
    """
    import enum
    class F(enum.Flag):
      P = 1
      Q = 2
    def f(x): return x * (2 if F.P in (F.P | F.Q) else 3), (F.P & F.Q) == F(0)
    """,
)
row(
    "enum dict key",
    """
    import enum
    class E(enum.Enum):
      A = 1
      B = 2
    d = {E.A: 3}
    def f(x): return x * d[E.A], E.B in d, {E.B: 1}[E.B]
    """,
)
row(
    "str enum",
    """
    import enum
    class E(str, enum.Enum):
      A = 'a'
    class S(enum.StrEnum):
      B = enum.auto()
    def f(x): return x * (2 if E.A == 'a' else 3), {'a': 1}.get(E.A), S.B == 'b'
    """,
)
row(
    "metaclass",
    """
    class M(type):
      def __call__(cls, *a): o = super().__call__(*a); o.m = 3; return o
      @property
      def p(cls): return 4
      def q(cls): return 5
    class C(metaclass=M): pass
    def f(x): return x * C().m, x * C.p, x * C.q()
    """,
)
row(
    "typed dicts",
    """
    import collections, typing
    class Message(typing.TypedDict, total=False):
      a: object
      b: int
    T = typing.TypeVar("T")
    class Box(typing.TypedDict, typing.Generic[T]):
      a: T
    Keys = typing.TypedDict("Keys", {"a": int, "in": float})
    class Asked:
      def keys(self): return ["a"]
      def __getitem__(self, key): return 3
    def f(x):
      m = Message(a=x + 1, b=3)
      m["b"] += 1
      empty = Message()
      empty["a"] = x * 2
      keys = Keys({"a": 2}, b=x)
      both = list(map(Message, [{"a": x * 2}, collections.OrderedDict(b=x)]))
      return m["a"] * m["b"], m, empty, type(m) is dict, Box(a=x), keys, Keys([("in", x)]), Message(Asked()), both
    """,
)
row(
    "class getitem",
    """
    import typing
    class C:
      def __class_getitem__(cls, k): return k
    class G(typing.Generic[typing.TypeVar('T')]):
      def m(self, x): return x * 2
    def f(x): return x * C[3], G[int]().m(x), list[int], typing.Optional[int]
    """,
)
row(
    "abstract class",
    """
    import abc
    class A(abc.ABC):
      @abc.abstractmethod
      def m(self): ...
    class B(A):
      def m(self): return 3
    def f(x):
      y = x * B().m()
      try: A()
      except TypeError as e: return y, str(e)
    """,
    breaks=1,
)
row(
    "protocol",
    """
    import typing
    @typing.runtime_checkable
    class P(typing.Protocol):
      def m(self): ...
    class C:
      def m(self): return 2
    def f(x): return x * (C().m() if isinstance(C(), P) else 1)
    """,
)
row(
    "typing casts",
    """
    import typing
    def f(x):
      return (
          typing.cast(int, x) * 2,
          typing.TYPE_CHECKING,
          typing.get_origin(list[int]),
          typing.get_args(dict[str, int]),
      )
    """,
    breaks=1,
)
row(
    "del in class",
    """
    class C:
      def __del__(self): pass
    def f(x):
      c = C()
      return x + 1
    """,
)
row(
    "setitem delitem",
    """
    class C:
      def __init__(self): self.d = {}
      def __setitem__(self, k, v): self.d[k] = v
      def __getitem__(self, k): return self.d[k]
      def __delitem__(self, k): del self.d[k]
      def __missing__(self, k): return 1
    def f(x):
      c = C()
      c['a'] = x
      c['b'] = 2
      del c['b']
      return c['a'] * 2, c.d
    """,
)
row(
    "dict subclass missing",
    """
    class D(dict):
      def __missing__(self, k): return 7
    d = D(a=1)
    def f(x): return x * d['q'], x * d['a']
    """,
)
row(
    "getattr default and hasattr",
    """
    class C: a = 1
    c = C()
    def f(x):
      return (
          x * getattr(c, 'b', 5),
          hasattr(c, 'b'),
          hasattr(c, 'a'),
          getattr(C, 'zz', 4),
          hasattr(C, 'zz'),
      )
    """,
)
row(
    "vars and dict",
    """
    class C:
      def __init__(self): self.a = 1; self.b = 2
    c = C()
    def f(x): return x * sum(c.__dict__.values()), sorted(vars(c)), c.__class__.__name__, type(c).__qualname__
    """,
)
