"""Rows of test_language.py: containers and classes from before the call are changed."""

from language import row, statements

row(
    "older deque read",
    """
    import collections
    Q = collections.deque([3, 1, 2], 5)
    def f(x): return x * Q[0], len(Q), list(Q), [v for v in Q], 1 in Q, Q.maxlen, Q.count(1), Q.index(2)
    """,
)
row(
    "class counter",
    """
    class C:
      n = 0
    def f(x):
      C.n += 1
      return x * 2, C.n
    """,
    replays=False,
)
row(
    "class instance counter",
    """
    class C:
      n = 0
      def __init__(self): C.n += 1
    def f(x):
      C(); C()
      return x * 2, C.n
    """,
    replays=False,
)
row(
    "global hooks",
    """
    H = []
    def f(x):
      def h(v): return v * 2
      H.append(h)
      for g in H: x = g(x)
      H.clear()
      return x + 1, len(H)
    """,
)
row(
    "global registry",
    """
    R = {}
    def reg(n):
      def d(g): R[n] = g; return g
      return d
    def f(x):
      @reg('a')
      def g(v): return v + 1
      return R['a'](x)
    """,
)
row(
    "global statement",
    """
    n = 0
    def f(x):
      global n
      n = 5
      return x * n
    """,
)
statements(
    "older list",
    "L = [3, 1, 2]",
    "global L\nL[:] = [3, 1, 2]",
    "len(L), L",
    "L.append(4)",
    "L.remove(1)",
    "L.sort()",
    "L.reverse()",
    "L.extend([1])",
    "L.insert(0, 9)",
    "L.pop()",
    "L.pop(0)",
    "del L[0]",
    "L[0:1] = [7, 7]",
    "L += [1]",
    "L *= 2",
    "L.clear()",
    "L[0] = 5",
    "L[-1] += 1",
    "del L[:]",
    "L.sort(key=lambda v: -v)",
    "L.sort(reverse=True)",
    "L[::2] = [0] * len(L[::2])",
    "L.__setitem__(0, 4)",
    "list.append(L, 3)",
)
statements(
    "older set",
    "S = {3, 1, 2}",
    "global S\nS.clear()\nS.update([3, 1, 2])",
    "len(S), sorted(S)",
    "S.add(9)",
    "S.add(1)",
    "S.discard(1)",
    "S.discard(9)",
    "S.remove(1)",
    "S.update([7])",
    "S |= {8}",
    "S &= {1}",
    "S -= {1}",
    "S ^= {1, 9}",
    "S.clear()",
    "S.difference_update([1])",
    "S.intersection_update([1])",
    "S.symmetric_difference_update([1])",
    breaks=1,
)
statements(
    "older set",
    "S = {3, 1, 2}",
    "global S\nS.clear()\nS.update([3, 1, 2])",
    "len(S), sorted(S)",
    "S.pop()",
    breaks=1,
    replays=False,
)
statements(
    "older dict",
    "D = {'a': 1, 'b': 2}",
    "global D\nD.clear(); D['a'] = 1; D['b'] = 2",
    "len(D), list(D.items())",
    "D['z'] = 1",
    "del D['a']",
    "D.pop('a')",
    "D.pop('q', 1)",
    "D.popitem()",
    "D.update(q=1)",
    "D.update({'q': 1})",
    "D |= {'q': 1}",
    "D.setdefault('q', 1)",
    "D.clear()",
    "D['a'] += 1",
    "D.update([('q', 1)])",
    "dict.__setitem__(D, 'a', 3)",
)
statements(
    "older odict",
    "import collections\nD = collections.OrderedDict({'a': 1, 'b': 2})",
    "global D\nD.clear(); D['a'] = 1; D['b'] = 2",
    "len(D), list(D.items())",
    "D['z'] = 1",
    "del D['a']",
    "D.pop('a')",
    "D.pop('q', 1)",
    "D.popitem()",
    "D.update(q=1)",
    "D.update({'q': 1})",
    "D |= {'q': 1}",
    "D.setdefault('q', 1)",
    "D.clear()",
    "D['a'] += 1",
    "D.update([('q', 1)])",
    "collections.OrderedDict.__setitem__(D, 'a', 3)",
)
statements(
    "older odict",
    "import collections\nD = collections.OrderedDict({'a': 1, 'b': 2})",
    "D.clear(); D['a'] = 1; D['b'] = 2",
    "len(D), list(D.items())",
    "D.move_to_end('a')",
    "D.move_to_end('b', last=False)",
    "D.popitem(last=False)",
)
statements(
    "older deque",
    "import collections\nQ = collections.deque([3, 1, 2])",
    "Q.clear(); Q.extend([3, 1, 2])",
    "len(Q), list(Q)",
    "del Q[0]",
    "Q.__iadd__([1])",
    breaks=1,
)
statements(
    "older defaultdict",
    "import collections\nD = collections.defaultdict(list)",
    "D.clear(); D['a'] = []",
    "len(D), list(D.items())",
    "D['q']",
    "D['q'].append(1)",
    "D['a'].append(2)",
    "D.pop('q', None)",
    "D['z'] = []",
)
statements(
    "older Counter",
    "import collections\nD = collections.Counter()",
    "D.clear(); D['a'] = 1",
    "len(D), list(D.items())",
    "D['q'] += 1",
    "D['a'] += 1",
    "D.update(a=3)",
    "D.subtract('a')",
    "D['zz']",
)
statements(
    "older Counter",
    "import collections\nD = collections.Counter()",
    "D.clear(); D['a'] = 1",
    "len(D), list(D.items())",
    "D.update('ab')",
    "D.update(['a', 3, 'a'])",
    "D.update(n for n in range(3))",
)
statements(
    "older deque is stored into",
    "import collections\nQ = collections.deque([3, 1, 2])",
    "Q.clear(); Q.extend([3, 1, 2])",
    "len(Q), list(Q), Q[0]",
    "Q[0] = 7",
    "Q[-1] = x",
    "Q[0], Q[1] = Q[1], Q[0]",
    "Q[0] += 3",
)
statements(
    "deque is stored into",
    "import collections",
    "q = collections.deque([3, x, 2], 3)",
    "len(q), list(q), q[0]",
    "q[0] = 7",
    "q[-1] = y",
    "q[0] += 3",
)
statements(
    "class attribute",
    "class B:\n  k = 0\nclass C(B):\n  k = 1\n  h = []\n  @classmethod\n  def bump(cls): cls.k = 9\nc = C()",
    "",
    "C.k + c.k, B.k",
    "C.k = 3",
    "C.new = 3",
    "C.k += 0",
    "setattr(C, 'k', 4)",
    "C.q = 1; del C.q",
    "C.q = 2; delattr(C, 'q')",
    "C().k",
    "C.m = lambda self: 5; C().m()",
    "B.k = 8",
    "type(c).k = 2",
    "c.__class__.k = 7",
    "C.h.append(1); C.h.clear()",
    "C.bump()",
)
statements(
    "older deque is stored into twice",
    "import collections\nQ = collections.deque([3, 1, 2])",
    "Q.clear(); Q.extend([3, 1, 2])",
    "len(Q), list(Q), Q[0]",
    "Q[1] = y; Q[1] = Q[1] * 2",
    replays=False,  # What a deque held before is guarded, and a tensor there is another one at each call.
)
