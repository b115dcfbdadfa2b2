"""Rows of test_language.py: calls, decorators, descriptors, inheritance."""

from language import row

row(
    "positional keyword star",
    """
    def g(a, b=2, *c, d=4, **e): return a * b + sum(c) * d + sum(e.values())
    def f(x): return g(x), g(x, 3), g(x, 3, 4, d=5, z=6), g(*(x, 1), **{'d': 2, 'q': 3})
    """,
)
row(
    "positional only",
    """
    def g(a, /, b, *, c): return a + b * c
    def f(x): return g(x, 2, c=3)
    """,
)
row(
    "missing argument",
    """
    def g(a, b): return a
    def f(x):
      y = x + 1
      return g(y)
    """,
    breaks=1,
)
row(
    "unexpected keyword",
    """
    def g(a): return a
    def f(x):
      y = x + 1
      return g(y, q=1)
    """,
    breaks=1,
)
row(
    "bound method",
    """
    class C:
      k = 2
      def m(self, x): return x * self.k
    c = C()
    m = c.m
    def f(x): return c.m(x), m(x), C.m(c, x)
    """,
)
row(
    "partial",
    """
    import functools
    def g(a, b, *, c): return a * b + c
    p = functools.partial(g, c=3)
    def f(x): return p(x, 2), functools.partial(g, x, c=1)(b=4), functools.partial(p, x)(5)
    """,
    breaks=1,
)
row(
    "callable object",
    """
    class C:
      def __call__(self, x, k=2): return x * k
    c = C()
    def f(x): return c(x), c(x, k=3)
    """,
)
row(
    "static and class methods",
    """
    class C:
      k = 3
      @staticmethod
      def s(x): return x + 1
      @classmethod
      def c(cls, x): return x * cls.k
    class D(C): k = 5
    o = D()
    def f(x): return C.s(x), o.s(x), C.c(x), D.c(x), o.c(x)
    """,
)
row(
    "recursion",
    """
    def g(x, n): return x if n == 0 else g(x * 2, n - 1)
    def f(x): return g(x, 5)
    """,
)
row(
    "lambda default",
    """
    def f(x):
      gs = [lambda v, k=k: v * k for k in range(3)]
      return [g(x) for g in gs]
    """,
)
row(
    "closures",
    """
    def make():
      n = 3
      def g(x):
        def h(y): return y * n
        return h(x)
      return g
    g = make()
    def f(x):
      m = 2
      def k(y): return g(y) * m
      return k(x)
    """,
)
row(
    "nonlocal",
    """
    def f(x):
      n = 0
      def inc():
        nonlocal n
        n += 1
        return x * n
      return inc() + inc(), n
    """,
)
row(
    "functools.wraps",
    """
    import functools
    def twice(g):
      @functools.wraps(g)
      def w(*a, **k): return g(*a, **k) * 2
      return w
    @twice
    def g(x, k=1): 'doc'; return x + k
    def f(x): return g(x), g(x, k=3), g.__name__, g.__wrapped__(x)
    """,
)
row(
    "wraps inside",
    """
    import functools
    def h(v):
      'doc'
      return v * 2
    def f(x):
      @functools.wraps(h)
      def w(v): return h(v) + 1
      return w(x), w.__name__, w.__doc__
    """,
)
row(
    "decorator inside",
    """
    def dec(k):
      def d(g):
        def w(x): return g(x) * k
        return w
      return d
    def f(x):
      @dec(3)
      def g(y): return y + 1
      return g(x)
    """,
)
row(
    "singledispatch",
    """
    import functools
    @functools.singledispatch
    def g(a, x): return x
    @g.register
    def _(a: int, x): return x * a
    @g.register(str)
    def _(a, x): return x * len(a)
    def f(x): return g(2, x), g('abc', x), g(1.5, x)
    """,
)
row(
    "singledispatchmethod",
    """
    import functools
    class C:
      @functools.singledispatchmethod
      def m(self, a, x): return x
      @m.register
      def _(self, a: int, x): return x * a
    c = C()
    def f(x): return c.m(2, x), c.m('abc', x)
    """,
)
row(
    "reduce",
    """
    import functools
    def f(x):
      return (
          functools.reduce(lambda a, b: a * b + x, [1, 2, 3], 1),
          functools.reduce(torch.add, [x, x * 2, x * 3]),
      )
    """,
)
row(
    "total_ordering",
    """
    import functools
    @functools.total_ordering
    class C:
      def __init__(self, k): self.k = k
      def __lt__(self, o): return self.k < o.k
      def __eq__(self, o): return self.k == o.k
    a, b = C(1), C(2)
    def f(x): return x * (1 if a >= b else 2), x + (a <= b) + (a > b)
    """,
)
row(
    "lru_cache",
    """
    import functools
    @functools.lru_cache(maxsize=None)
    def g(n): return n * 2
    def f(x): return x * g(3), g.cache_info().currsize
    """,
    breaks=1,
)
row(
    "cache hit",
    """
    import functools
    @functools.cache
    def g(n): return [n]
    g(3)
    def f(x): return x * g(3)[0], g(3) is g(3)
    """,
)
row(
    "cache of a size and of an object",
    """
    import functools
    class Recipe: __slots__ = ("order",)
    recipe = Recipe()
    @functools.lru_cache(16)
    def g(recipe, size, pairs): return [s * 2 for s in size]
    g(recipe, torch.Size([2, 3]), (("a", 1),))
    def f(x): return x * sum(g(recipe, x.shape, tuple({"a": len(x.shape) - 1}.items())))
    """,
)
row(
    "the names of a signature's parameters as a set",
    """
    import inspect
    class P:
      def __call__(self, a, b, c=None): return a
    p = P()
    def f(x):
      names = set(inspect.signature(p.__call__).parameters.keys())
      return x * len(names), {k: v for k, v in {"b": 1, "z": 2}.items() if k in names}, sorted(names)
    """,
)
row(
    "wraps within the function",
    """
    import functools
    def g(x): return x + 1
    def twice(h):
      @functools.wraps(h)
      def both(x): return h(h(x))
      return both
    def f(x): return twice(g)(x), twice(g).__name__
    """,
)
row(
    "lru_cache method",
    """
    import functools
    class C:
      @functools.lru_cache
      def m(self, n): return n + 1
    c = C()
    def f(x): return x * c.m(3)
    """,
)
row(
    "cached_property",
    """
    import functools
    class C:
      @functools.cached_property
      def p(self): return 3
    c = C()
    def f(x): return x * c.p + c.p, C().p
    """,
)
row(
    "cmp_to_key",
    """
    import functools
    def f(x): return x * sorted([3, 1, 2], key=functools.cmp_to_key(lambda a, b: b - a))[0]
    """,
)
row(
    "partialmethod",
    """
    import functools
    class C:
      def m(self, x, k): return x * k
      p = functools.partialmethod(m, k=3)
    c = C()
    def f(x): return c.p(x)
    """,
)
row(
    "property",
    """
    class C:
      def __init__(self): self._v = 2
      @property
      def v(self): return self._v * 3
      @v.setter
      def v(self, n): self._v = n
    c = C()
    def f(x):
      c.v = 5
      return x * c.v
    """,
)
row(
    "property deleter",
    """
    class C:
      @property
      def v(self): return self._v
      @v.setter
      def v(self, n): self._v = n
      @v.deleter
      def v(self): del self._v
    def f(x):
      c = C()
      c.v = 3
      y = x * c.v
      del c.v
      return y, hasattr(c, '_v')
    """,
)
row(
    "data descriptor",
    """
    class D:
      def __set_name__(self, o, n): self.n = '_' + n
      def __get__(self, o, t=None): return self if o is None else o.__dict__[self.n] * 2
      def __set__(self, o, v): o.__dict__[self.n] = v
    class C:
      v = D()
    def f(x):
      c = C()
      c.v = 3
      return x * c.v
    """,
)
row(
    "non-data descriptor",
    """
    class D:
      def __get__(self, o, t=None): return 7
    class C: v = D()
    c = C()
    def f(x): return x * c.v, x * C.v
    """,
)
row(
    "getattr fallback",
    """
    class C:
      def __getattr__(self, n): return len(n)
    c = C()
    def f(x): return x * c.abc, x * getattr(c, 'z', 1)
    """,
)
row(
    "getattribute",
    """
    class C:
      def __getattribute__(self, n): return len(n)
    c = C()
    def f(x): return x * c.abc
    """,
)
row(
    "slots",
    """
    class C:
      __slots__ = ('a', 'b')
      def __init__(self, a): self.a = a
    def f(x):
      c = C(3)
      c.b = 4
      return x * c.a * c.b, c
    """,
)
row(
    "super",
    """
    class A:
      def m(self, x): return x + 1
      @classmethod
      def c(cls): return 2
    class B(A):
      def m(self, x): return super().m(x) * 2
      @classmethod
      def c(cls): return super().c() + 1
    class C(B):
      def m(self, x): return super(C, self).m(x) + 3
    o = C()
    def f(x): return o.m(x) * C.c()
    """,
)
row(
    "super property",
    """
    class A:
      @property
      def p(self): return 2
    class B(A):
      @property
      def p(self): return super().p + 1
    b = B()
    def f(x): return x * b.p
    """,
)
row(
    "super init",
    """
    class A:
      def __init__(self, k): self.k = k
    class B(A):
      def __init__(self, k): super().__init__(k + 1); self.j = k
    def f(x):
      b = B(2)
      return x * b.k + b.j, b
    """,
)
row(
    "new",
    """
    class C:
      def __new__(cls, k):
        o = super().__new__(cls)
        o.k = k
        return o
    def f(x): return x * C(3).k
    """,
)
row(
    "multiple inheritance",
    """
    class A:
      def m(self): return ['A']
    class B(A):
      def m(self): return ['B'] + super().m()
    class C(A):
      def m(self): return ['C'] + super().m()
    class D(B, C):
      def m(self): return ['D'] + super().m()
    def f(x): return x + 1, D().m()
    """,
)
row(
    "class in function",
    """
    def f(x):
      class C:
        k = 3
        def m(self, y): return y * self.k
      return C().m(x)
    """,
    replays=False,
)
