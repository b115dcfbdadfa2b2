"""Rows of test_language.py: operators of text and builtin containers that the other operand's class answers."""

from language import expressions, row, statements

ANSWERS = """
import collections
class A:
  def __radd__(self, other): return other + other
  def __rmul__(self, other): return other * 2
  def __ror__(self, other): return (other, 1)
  def __rsub__(self, other): return other - {1}
  def __eq__(self, other): return other == [1] or other == "a"
  def __gt__(self, other): return True
  def __ge__(self, other): return len(other)
  __hash__ = None
class N:
  def __radd__(self, other): return NotImplemented
a = A()
OLD = [1, 2]
"""
expressions(
    "reflected",
    ANSWERS,
    "[1] + a, (1,) + a, 'b' + a, b'c' + a",
    "[1] * a, (1,) * a, 'b' * a",
    "{1: 2} | a, {1, 2} - a, frozenset((1, 2)) - a",
    "collections.deque([1]) + a",
    "[x] + A()",
    "OLD + a",
    "[1] == a, 'a' == a, (2,) == a, {3} == a, {} == a, [1] != a",
    "[1] < a, 'b' <= a",
)
statements(
    "reflected in place",
    ANSWERS,
    "l, t, s, q = [x], (x,), 'b', collections.deque([1])",
    "l, t, s, q",
    "l += a",
    "t += a",
    "s += a",
    "q += a",
    "l *= a",
    "t *= a",
)
row(
    "reflected: nobody answers",
    f"""{ANSWERS.replace(chr(10), chr(10) + "    ")}
    def f(x):
      try: return [1] + N()
      except TypeError: return x + 1
    """,
)
statements(
    "made longer",
    "import collections",
    "q, p, d, o, g = collections.deque(), collections.deque(maxlen=2), {}, collections.OrderedDict(), {'a': x}",
    "list(q), list(p), d, list(o.items()), g",
    "q += (y + i for i in range(3))",
    "p += (y + i for i in range(3))",
    "q += map(abs, (-1, 2))",
    "q += q",
    "d |= ((k, y + i) for i, k in enumerate('abc'))",
    "d |= zip('ab', (y, y))",
    "d |= [('a', 1), ['b', y]]",
    "d |= g",
    "o |= ((k, y + i) for i, k in enumerate('abc'))",
    "o |= g; o |= d",
    "g |= o",
)
row(
    "older dict updated by pairs",
    """
    D = {'a': 1}
    def f(x):
      D.update((k, x + i) for i, k in enumerate('abc'))
      D.update(zip('cd', (x, 2)), e=x * 2)
      return x + D['c'], list(D)
    """,
)
row(
    "older dict of a derived class updated by pairs",
    """
    class S(dict):
      def __setitem__(self, key, value): super().__setitem__(key, value * 2)
    D = S(a=1)
    def f(x):
      D.update((k, i + 1) for i, k in enumerate('cab'))
      return x * D['b'], list(D.items())
    """,
)
row(
    "older OrderedDict updated by pairs",
    """
    import collections
    D = collections.OrderedDict(a=1)
    def f(x):
      D.update((k, i) for i, k in enumerate('cab'))
      return x * D['b'], list(D)
    """,
)
row(
    "older dict updated by what raises",
    """
    D = {}
    def g():
      yield 'q', 1
      raise KeyError
    def f(x):
      try: D.update(g())
      except KeyError: return x + len(D)
    """,
)
row(
    "older dict updated by what are no pairs",
    """
    D = {}
    def f(x):
      y = x + 1
      try: D.update(p for p in [('a', 2), ('b', 3, 4)])
      except ValueError: return y + len(D)
    """,
    breaks=1,
)
