"""Rows of test_language.py: builtin functions and the standard library."""

from language import expressions, row

row(
    "warnings.warn",
    """
    import warnings
    def f(x):
      y = x + 1
      warnings.warn('careful')
      return y * 2
    """,
)
row(
    "print",
    """
    def f(x):
      y = x + 1
      print('a', 3)
      return y * 2
    """,
    breaks=1,
)
row(
    "catch_warnings",
    """
    import warnings
    def f(x):
      with warnings.catch_warnings():
        warnings.simplefilter('ignore')
        y = x + 1
      return y * 2
    """,
)
row(
    "time",
    """
    import time
    def f(x):
      t = time.perf_counter()
      y = x + 1
      return y * 2, time.perf_counter() >= t
    """,
    breaks=1,
)
row(
    "os.environ",
    """
    import os
    os.environ['QQ'] = '3'
    def f(x): return x * int(os.environ.get('QQ', '1')), os.getenv('NOPE') is None
    """,
)
row(
    "re",
    """
    import re
    def f(x): return x * len(re.findall('a', 'aba')), re.sub('a', 'b', 'a')
    """,
)
row(
    "copy",
    """
    import copy
    def f(x):
      a = [1, [2]]
      return x + 1, copy.copy(a), copy.deepcopy(a)
    """,
)
row(
    "copy of object",
    """
    import copy
    class C:
      def __init__(self): self.a = [1]
    c = C()
    def f(x): return x + 1, copy.copy(c).a is c.a
    """,
)
row(
    "json",
    """
    import json
    def f(x): return x + 1, json.dumps({'a': 1})
    """,
    breaks=1,
)
row(
    "weakref",
    """
    import weakref
    class C: k = 3
    c = C()
    r = weakref.ref(c)
    def f(x): return x * r().k
    """,
)
row(
    "threading local",
    """
    import threading
    l = threading.local()
    l.k = 3
    def f(x): return x * l.k
    """,
)
row(
    "lock",
    """
    import threading
    l = threading.Lock()
    def f(x):
      with l: y = x + 1
      return y * 2
    """,
    breaks=1,
)
row(
    "contextvar",
    """
    import contextvars
    v = contextvars.ContextVar('v', default=2)
    def f(x):
      t = v.set(3)
      y = x * v.get()
      v.reset(t)
      return y * v.get()
    """,
)
row(
    "types.SimpleNamespace",
    """
    import types
    n = types.SimpleNamespace(k=3)
    def f(x):
      m = types.SimpleNamespace(a=x)
      return m.a * n.k
    """,
    replays=False,
)
row(
    "types.MappingProxyType",
    """
    import types
    m = types.MappingProxyType({'a': 2})
    def f(x): return x * m['a']
    """,
)
row(
    "inspect.signature",
    """
    import inspect
    def g(a, b=2): pass
    def f(x): return x + 1, list(inspect.signature(g).parameters)
    """,
)
row(
    "heapq bisect",
    """
    import heapq, bisect
    def f(x):
      h = [3, 1, 2]
      heapq.heapify(h)
      return x + 1, heapq.heappop(h), bisect.bisect([1, 2], 2), heapq.nlargest(1, [1, 2])
    """,
)
row(
    "string module",
    """
    import string
    def f(x): return x + 1, string.ascii_lowercase[:2], string.Template('$a').substitute(a=1)
    """,
)
row(
    "decimal fractions",
    """
    import fractions, decimal
    def f(x): return x + 1, fractions.Fraction(1, 2) + 1, decimal.Decimal('1.5')
    """,
    breaks=1,
)
row(
    "random",
    """
    import random
    def f(x):
      random.seed(1)
      y = x * random.random()
      return y + 1
    """,
)
row(
    "uuid datetime",
    """
    import datetime
    def f(x): return x + 1, datetime.timedelta(1).days
    """,
    breaks=1,
)
expressions(
    "itertools",
    "import itertools as I",
    "list(I.chain([1], (2,)))",
    "list(I.islice(I.count(3), 2))",
    "list(I.product('ab', [1]))",
    "list(I.accumulate([1, 2, 3]))",
    "list(I.zip_longest([1], [2, 3]))",
    "list(I.repeat(1, 2))",
    "list(I.chain.from_iterable([[1], [2]]))",
    "list(I.starmap(pow, [(2, 3)]))",
    "list(I.takewhile(lambda v: v < 2, [1, 2]))",
    "list(I.dropwhile(lambda v: v < 2, [1, 2]))",
    "list(I.combinations([1, 2, 3], 2))",
    "list(I.permutations([1, 2]))",
    "list(I.pairwise([1, 2, 3]))",
    "list(I.compress('ab', [1, 0]))",
    "list(I.filterfalse(None, [0, 1]))",
    "list(I.combinations_with_replacement('ab', 2))",
    "list(I.islice(I.cycle('ab'), 5))",
    "list(((k, list(g)) for k, g in I.groupby([1, 1, 2])))",
    "list(zip(I.count(), 'ab'))",
)
expressions("itertools", "import itertools as I", "I.tee([1, 2], 2)[0]", breaks=1)
expressions(
    "operator",
    "import operator as O",
    "O.add(x, 1)",
    "O.itemgetter(1)([1, 2])",
    "O.itemgetter(1, 0)([1, 2])",
    "O.attrgetter('shape')(x)",
    "O.getitem([1, 2], 0)",
    "O.contains([1], 1)",
    "O.not_(1)",
    "O.truth([])",
    "O.is_(x, x)",
    "O.mul(x, 2)",
    "O.index(3)",
    "O.concat([1], [2])",
    "O.iadd([1], [2])",
    "O.countOf([1, 1], 1)",
    "O.length_hint([1])",
    "O.call(len, [1])",
    "O.eq([1], [1])",
    "O.lt(1, 2)",
    "O.attrgetter('__class__.__name__')(3)",
    "O.methodcaller('upper')('a')",
    "O.itemgetter(slice(0, 1))([1, 2])",
)
expressions(
    "math",
    "import math as M",
    "M.sqrt(2)",
    "M.floor(2.5)",
    "M.prod([1, 2])",
    "M.inf",
    "M.isclose(1, 1)",
    "M.gcd(4, 6)",
    "M.log2(8)",
    "M.comb(4, 2)",
    "M.hypot(3, 4)",
    "M.dist((0, 0), (3, 4))",
    "M.ceil(1.2)",
    "M.pi",
    "M.fsum([1, 2])",
)
expressions("collections", "import collections as C", "C.namedtuple('N', 'a')(1)")
expressions(
    "collections",
    "import collections as C",
    "C.Counter('aab').most_common(1)",
    "C.Counter('aab')",
    "C.Counter(a=1) + C.Counter(a=2)",
    "C.OrderedDict(a=1)",
    "C.OrderedDict(a=1, b=2).popitem(last=False)",
    "C.deque([1, 2], maxlen=2)",
    "C.deque([1, 2]).popleft()",
    "C.ChainMap({'a': 1}, {'b': 2})['b']",
    "C.defaultdict(list)",
    "dict(C.defaultdict(list, a=[1]))",
    "C.UserDict(a=1)['a']",
    "list(C.deque([1, 2]))",
)
expressions(
    "expression",
    "",
    "bin(5)",
    "hex(255)",
    "ascii('a')",
    "hash(3)",
    "hash('a') == hash('a')",
    "repr('a')",
    "format(3, '04d')",
    "str([1, 'a'])",
    "repr((1,))",
    "int.from_bytes(b'a', 'big')",
    "float.fromhex('0x1p3')",
    "(3).bit_length()",
    "isinstance(True, int)",
    "type(3)",
    "type(x) is torch.Tensor",
    "bytes([1])",
    "range(3)[1]",
    "len(range(5))",
    "2 in range(3)",
    "list(range(5))[::2]",
    "range(0, 10, 3).index(3)",
    "sum([[1], [2]], [])",
    "max('abc')",
    "min([], default=3)",
    "print",
    "object() is None",
    "NotImplemented is None",
    "... is Ellipsis",
    "__name__",
    "len('abc')",
    "sorted({'b': 1, 'a': 2})",
    "sorted([(1, 'b'), (1, 'a')])",
    "list('abc')",
    "dict(a=1)",
    "dict([('a', 1)])",
    "tuple([1])",
    "set([1, 1])",
    "frozenset([1])",
    "str(b'a', 'utf8')",
    "int(3.7)",
    "round(2.5)",
    "callable(len)",
    "issubclass(bool, int)",
    "input",
    "open",
    "super",
    "all(v > 0 for v in [1, 2])",
    "any(v > 1 for v in [1, 2])",
    "next(iter([1]))",
    "next(iter([]), 2)",
    "divmod(7.5, 2)",
    "1 < 2 < 3",
    "'a' 'b'",
    "[] == []",
    "{} == {}",
    "(1, 2) < (1, 3)",
    "[1, 2] + [3]",
    "(1,) * 2",
    "'%s' % [1]",
    "{1: 2} == {1: 2}",
    "[1] is None",
    "x is x",
    "x is not None",
    "not x.shape",
    "x.shape[0] * 2",
    "x.size(0), x.dim(), x.ndim, x.numel(), len(x)",
    "[*x.shape]",
    "x.shape == (2, 3)",
    "torch.Size([1]) + (2,)",
    "x.dtype == torch.float32",
    "x.device.type",
    "isinstance(x, torch.Tensor)",
    "torch.is_tensor(x)",
    "torch.is_floating_point(x)",
    "x.is_contiguous()",
    "vars()",
    "locals()['x'] is x",
)
expressions(
    "expression",
    "",
    "id(x) + 1 - id(x)",
    "dir(3)[:1]",
    "bytearray(b'a')",
    "memoryview(b'a')[0]",
    "iter(lambda: 1, 1)",
    "eval('1+1')",
    breaks=1,
)
