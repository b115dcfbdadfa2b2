"""Rows of test_language.py: unpacking, comprehensions, generators, match, text, imports."""

from language import row

row(
    "walrus and chained",
    """
    def f(x):
      if (n := 3) > 2 and 1 < n < 5: return x * n
      return x
    """,
)
row(
    "ternary and or",
    """
    def f(x, a=None, b=0): return x * (a or b or 4) + (1 if not a else 2), a is None and b == 0
    """,
)
row(
    "unpacking",
    """
    def f(x):
      a, *b, c = [1, 2, 3, 4]
      (d, e), g = (5, 6), 7
      [*h] = range(3)
      return x * a, [*b, c, *h], {**{'q': 1}, 'r': d}, (*b, e), {*h}
    """,
)
row(
    "unpack error",
    """
    def f(x):
      y = x + 1
      a, b = [1, 2, 3]
      return y
    """,
    breaks=1,
)
row(
    "slices",
    """
    def f(x):
      l = list(range(10))
      s = slice(1, 8, 2)
      l[2:4] = [0]
      del l[0]
      return x * len(l), l[s], l[::-1], 'abc'[1:], (1, 2, 3)[-2:], x[..., 1:], x[:, None]
    """,
)
row(
    "comprehensions",
    """
    def f(x):
      return (
          [x * i for i in range(3) if i],
          {i: i * 2 for i in range(3)},
          {i % 2 for i in range(4)},
          sum(i for i in range(4)),
          [[j for j in range(i)] for i in range(3)],
      )
    """,
)
row(
    "nested comprehension with closure",
    """
    def f(x):
      k = 2
      return [(lambda y: y * k + i)(x) for i in range(2)], [a + b for a in [1, 2] for b in (3, 4) if a < b]
    """,
)
row(
    "generator",
    """
    def g(n):
      for i in range(n): yield i
    def f(x): return [x * i for i in g(3)], sum(g(4)), list(g(2)), next(g(1)), tuple(i * 2 for i in g(3))
    """,
)
row(
    "generator send",
    """
    def g():
      r = 0
      while True:
        k = yield r
        if k is None: return
        r += k
    def f(x):
      it = g()
      next(it)
      return x * it.send(2), it.send(5)
    """,
)
row(
    "yield from",
    """
    def h(n):
      for i in range(n): yield i
      return n * 10
    def g():
      r = yield from h(3)
      yield r
      yield from [7, 8]
    def f(x): return [x * k for k in g()]
    """,
)
row(
    "generator with tensors",
    """
    def g(x):
      for i in range(3):
        x = x * 2
        yield x
    def f(x): return sum(g(x)), list(g(x))
    """,
)
row(
    "generator try",
    """
    def g(n):
      try:
        for i in range(n): yield i
      finally:
        pass
    def f(x): return [x * k for k in g(3)]
    """,
)
row(
    "generator throw close",
    """
    def g():
      try: yield 1
      except ValueError: yield 2
    def f(x):
      it = g()
      next(it)
      return x * it.throw(ValueError())
    """,
)
row(
    "generator in flight",
    """
    def g():
      yield 1
      yield 2
    def f(x):
      it = g()
      y = x * next(it)
      return y, list(it)
    """,
)
row(
    "generator expression lazy",
    """
    def f(x):
      it = (x * i for i in range(3))
      return next(it), next(it)
    """,
)
row(
    "match",
    """
    class P:
      __match_args__ = ('a', 'b')
      def __init__(self, a, b): self.a, self.b = a, b
    def g(v):
      match v:
        case 0: return 1
        case [a, b]: return a + b
        case [a, *r]: return len(r)
        case {'k': k, **r}: return k
        case P(a=1, b=b): return b
        case P(a, b) if a > 2: return a
        case str() | bytes(): return 9
        case float(z): return z
        case None: return 11
        case _: return 12
    def f(x):
      subjects = 0, [1, 2], (1, 2, 3, 4), {'k': 5, 'q': 1}, P(1, 7), P(3, 4), 'a', 2.5, None, P(0, 0)
      return [x * g(v) for v in subjects]
    """,
)
row(
    "f-strings",
    """
    def f(x):
      k, s = 3, 'ab'
      return (
          x * len(f'{k:>5}{s!r}'),
          f'{k=} {s:*^7} {k/7:.3f} {{}}',
          '%d %s' % (k, s),
          '{:03d} {a}'.format(k, a=s),
      )
    """,
)
row(
    "f-string of shape",
    """
    def f(x): return x + 1, f'{x.shape} {x.dtype} {tuple(x.shape)}', str(x.shape)
    """,
)
row(
    "string methods",
    """
    def f(x):
      return (
          x + 1,
          'a,b'.split(','),
          '-'.join(['a', 'b']),
          ' a '.strip().upper(),
          'abc'.replace('b', 'x'),
          'a' in 'abc',
          'abc'.startswith('ab'),
          'x'.encode(),
          b'x'.decode(),
          'a' * 3,
          '3'.isdigit(),
      )
    """,
)
row(
    "import in function",
    """
    def f(x):
      import math
      from collections import OrderedDict
      import os.path as p
      import torch.nn.functional as F
      from torch import nn
      return F.relu(x) * math.sqrt(4), OrderedDict(a=1), p.join('a', 'b')
    """,
)
row(
    "import of a new module",
    """
    def f(x):
      import colorsys
      return x * colorsys.rgb_to_hsv(1, 1, 1)[2]
    """,
)
row(
    "while and break",
    """
    def f(x):
      i = 0
      while True:
        i += 1
        if i == 2: continue
        if i > 4: break
        x = x + i
      else: x = x * 100
      return x
    """,
)
row(
    "for else",
    """
    def f(x):
      for i in range(3):
        x = x + i
      else: x = x * 2
      return x
    """,
)
row(
    "enumerate zip map filter",
    """
    def f(x):
      return (
          [x * a + i for i, (a, b) in enumerate(zip([1, 2], 'ab'))],
          list(map(lambda v: v + 1, [1, 2])),
          list(filter(None, [0, 1])),
          list(filter(lambda v: v > 1, [1, 2])),
          list(reversed([1, 2])),
          sorted([3, 1], reverse=True),
          sorted('ba', key=lambda c: -ord(c)),
          list(zip(*[(1, 2), (3, 4)])),
          any([0, 1]),
          all([]),
          max(1, 2),
          min([3, 1], key=lambda v: -v),
          sum([1, 2], 3),
          divmod(7, 2),
          abs(-1),
          round(2.567, 1),
          pow(2, 3, 5),
      )
    """,
)
row(
    "map of tensors",
    """
    def f(x):
      return (
          list(map(torch.relu, [x, -x])),
          sum(map(lambda v: v * 2, (x, x))),
          max([x, x], key=lambda v: 1) is x,
      )
    """,
)
row(
    "itertools",
    """
    import itertools as I
    def f(x):
      return (
          x + 1,
          list(I.chain([1], (2,))),
          list(I.islice(I.count(3), 2)),
          list(I.product('ab', [1])),
          list(I.accumulate([1, 2, 3])),
          list(I.zip_longest([1], [2, 3])),
          list(I.repeat(1, 2)),
          list(I.chain.from_iterable([[1], [2]])),
          list(I.starmap(pow, [(2, 3)])),
          list(I.takewhile(lambda v: v < 2, [1, 2])),
          list(I.dropwhile(lambda v: v < 2, [1, 2])),
          list(I.combinations([1, 2, 3], 2)),
          list(I.permutations([1, 2])),
          list(I.pairwise([1, 2, 3])),
          [(k, list(g)) for k, g in I.groupby([1, 1, 2])],
          list(I.compress('ab', [1, 0])),
          list(I.filterfalse(None, [0, 1])),
          list(I.combinations_with_replacement('ab', 2)),
          list(next(I.tee([1, 2], 1))),
      )
    """,
    breaks=1,
)
row(
    "deque inside",
    """
    import collections
    def f(x):
      d = collections.deque([x])
      d.append(x * 2)
      d.appendleft(x + 1)
      d.extend([1]); d.rotate(1)
      return d.pop() + 1, d.popleft(), len(d), d[0], list(d)
    """,
)
row(
    "defaultdict inside",
    """
    import collections
    def f(x):
      d = collections.defaultdict(list)
      d['a'].append(x)
      d['a'].append(x * 2)
      e = collections.defaultdict(int)
      e['q'] += 2
      return d['a'][1] + e['q'], len(d), d, e['z']
    """,
)
row(
    "Counter inside",
    """
    import collections
    def f(x):
      c = collections.Counter('aabc')
      c['z'] += 1
      c.update('ab')
      return x * c['a'], c['q'], c.most_common(1), c
    """,
)
row(
    "sets inside",
    """
    def f(x):
      s = {1, 2, 3}
      s.add(4); s.discard(1); s |= {7}; s.update([9]); s -= {2}
      t = s & {3, 4}
      return x * len(s), sorted(s), sorted(t), s >= t, 3 in s, frozenset(t) == t, s ^ t == s - t
    """,
)
row(
    "list methods inside",
    """
    def f(x):
      l = [3, 1, 2]
      l.sort(); l.reverse(); l.insert(0, 9); l.remove(1); l.extend((5, 6)); l += [7]
      p = l.pop(0)
      del l[0]
      l[1:2] = [8, 9]
      return x + p, l, l.index(9), l.count(8), l.copy(), [0] * 3
    """,
)
row(
    "dict methods inside",
    """
    def f(x):
      d = {'a': 1, 'b': 2}
      d.update(c=3); d |= {'e': x}
      d.setdefault('q', []).append(1)
      k = d.pop('a'); d.popitem()
      return (
          x * k,
          list(d),
          list(d.items())[0],
          {**d},
          d | {'z': 1},
          dict.fromkeys('ab', 1),
          d.get('none'),
          'b' in d,
          {k: v for k, v in d.items() if k != 'e'},
      )
    """,
)
row(
    "list of tensors remove",
    """
    def f(x):
      l = [x, x + 1]
      l.reverse()
      return l[0] * 2, l
    """,
)
row(
    "sort with key",
    """
    def f(x):
      l = [('b', x), ('a', x * 2)]
      l.sort(key=lambda p: p[0])
      return l[0][1] + 1
    """,
)
row(
    "int and float methods",
    """
    def f(x):
      return (
          x + 1,
          (3).bit_length(),
          (2.5).is_integer(),
          int('7'),
          float('1.5'),
          bin(5),
          hex(255),
          chr(97),
          ord('a'),
          (1.5).hex(),
          int.from_bytes(b'a', 'big'),
          complex(1, 2).real,
          bool([]),
          str(3),
          repr('a'),
          str([1, 'a']),
          ascii('a'),
          hash(3),
          7 // 2,
          -7 % 3,
          2 ** 10,
          1 << 4,
          ~5,
          id(x) + 1 - id(x),
      )
    """,
    breaks=1,
)
row(
    "string building in loop",
    """
    def f(x):
      s = ''
      for i in range(3): s += str(i) + ','
      return x * len(s), s
    """,
)
row(
    "global read through functions",
    """
    K = {'a': [1, 2]}
    def g(): return K['a']
    def f(x): return x * g()[1]
    """,
)
row(
    "del variable",
    """
    def f(x):
      y = x + 1
      z = y
      del y
      try: y
      except UnboundLocalError as e: return z, str(e)
    """,
)
row(
    "exec",
    """
    def f(x):
      y = x + 1
      d = {}
      exec('a = 2', d)
      return y * d['a']
    """,
    breaks=1,
)
row(
    "star assignment in for",
    """
    def f(x):
      r = []
      for a, *b in [(1, 2, 3), (4,)]: r.append(x * a + len(b))
      return r
    """,
)
row(
    "return in finally",
    """
    def f(x):
      try: raise ValueError
      finally: return x + 1
    """,
)
row(
    "break in finally",
    """
    def f(x):
      for i in range(3):
        try: continue
        finally: x = x + i
      return x
    """,
)
row(
    "nested functions recursion",
    """
    def f(x):
      def fact(n): return 1 if n < 2 else n * fact(n - 1)
      return x * fact(5)
    """,
)
row(
    "type annotations",
    """
    def f(x: 'torch.Tensor', k: int = 2) -> 'torch.Tensor':
      y: torch.Tensor = x * k
      z: int
      return y, f.__annotations__
    """,
)
row(
    "function attributes",
    """
    def g(): pass
    g.k = 3
    def f(x):
      def h(): pass
      h.z = 4
      return x * g.k, h.z, g.__name__, g.__doc__, g.__defaults__, g.__module__, h.__qualname__
    """,
)
row(
    "random choice of dispatch table",
    """
    T = {'a': lambda x: x + 1, 'b': torch.relu}
    def f(x): return [T[k](x) for k in sorted(T)]
    """,
)
