"""Rows of test_language.py: what C code calls on behalf of the function - getters, generic functions, heaps."""

from language import expressions, statements

HEAD = """
import bisect, functools, heapq, itertools, operator
from operator import attrgetter, itemgetter, methodcaller
class O:
    def __init__(self, k, j=0): self.k, self.j = k, j
    @property
    def twice(self): return self.k * 2
    def times(self, n, plus=0): return self.k * n + plus
class N:
    def __init__(self, o): self.o = o
objects = [O(3), O(1, 1), O(2)]
nested = N(O(5))
pairs = [(3, 'c'), (1, 'a'), (2, 'b')]
by_k, get_first, doubled = attrgetter('k'), itemgetter(0), methodcaller('times', 2)
"""
expressions(
    "getters given to C code",
    HEAD,
    *("[o.k for o in sorted(objects, key=attrgetter('k'))]", "[o.k for o in sorted(objects, key=by_k)]"),
    *("[o.k for o in sorted(objects, key=attrgetter('j', 'k'))]", "min(objects, key=by_k).k"),
    *("max(objects, key=attrgetter('twice')).k", "max(objects, key=by_k, default=None).k"),
    *("[o.k for o in sorted(objects, key=attrgetter('twice'), reverse=True)]", "list(map(by_k, objects))"),
    *("sum(map(attrgetter('k'), objects))", "max(map(by_k, objects))", "dict(map(attrgetter('k', 'j'), objects))"),
    *("list(map(attrgetter('o.k'), [nested]))", "[o.k for o in filter(attrgetter('j'), objects)]"),
    *(
        "[(k, len(list(g))) for k, g in itertools.groupby(objects, key=attrgetter('j'))]",
        "sorted(pairs, key=get_first)",
    ),
    *("max(pairs, key=itemgetter(1, 0))", "list(map(itemgetter(1), pairs))", "set(list(map(get_first, pairs)))"),
    *("list(itertools.takewhile(attrgetter('k'), objects))[0].k", "list(map(methodcaller('times', 2), objects))"),
    *("list(map(doubled, objects))", "list(map(methodcaller('times', 2, plus=1), objects))"),
    *("list(map(methodcaller('upper'), 'abc'))", "list(map(methodcaller('bit_length'), [1, 2, 3]))"),
    *("[t.sum() for t in map(methodcaller('sum', 0), [x, x * 2])]", "list(map(attrgetter('shape'), [x, x]))"),
    "[o.k for o in sorted([(o.k, o) for o in objects], key=itemgetter(0))[0][1:]]",
    "functools.reduce(operator.add, map(by_k, objects))",
)
expressions(
    "getters that are called",
    HEAD,
    *(
        "attrgetter('o.k')(nested)",
        "attrgetter('k', 'twice')(objects[0])",
        "attrgetter('twice', 'twice')(objects[1])",
    ),
    *(
        "methodcaller('times', 3)(objects[0])",
        "methodcaller('times', n=3, plus=1)(objects[0])",
        "doubled(objects[1])",
    ),
    *("methodcaller('sum', dim=0)(x)", "methodcaller('index', 2)([1, 2])", "methodcaller('get', 'a', 0)({'b': 1})"),
    *(
        "itemgetter(0, 1)(x)",
        "itemgetter((0, 1))(x)",
        "itemgetter(slice(1))([1, 2])",
        "methodcaller('split', ',')('a,b')",
    ),
    "attrgetter('shape.__len__')(x)()",
    "(lambda g: g(x) + g(x + 1))(methodcaller('mul', 2))",
)
expressions(
    "sorted lists and heaps",
    HEAD + "ordered = sorted(objects, key=by_k)\nL = [1, 2, 2, 5]",
    *(
        "bisect.bisect_left(L, 2)",
        "bisect.bisect(L, 2)",
        "bisect.bisect_right(L, 2, 1)",
        "bisect.bisect_left([1, 3], x.shape[0])",
    ),
    *("bisect.bisect_left(ordered, 2, key=by_k)", "bisect.bisect_right(ordered, 2, key=lambda o: o.k)"),
    "heapq.nsmallest(1, objects, key=by_k)[0].k",
    *("heapq.nsmallest(2, [3, 1, 2])", "heapq.nlargest(1, L)"),
)
expressions(
    "what still breaks",
    HEAD,
    "[o.k for o in heapq.nlargest(2, objects, key=by_k)]",
    "list(heapq.merge([1, 4], [2, 3]))",
    breaks=1,
)
expressions("sets of what functions give", HEAD, "set(map(get_first, pairs))", "frozenset(map(type, pairs))")
statements(
    "changes of sorted lists and heaps",
    HEAD,
    "h, made = [3, 1, 2], [O(2), O(1)]",
    "h, [o.k for o in made]",
    *("bisect.insort(h[:1], 2)", "h.sort(); bisect.insort(h, 2)", "h.sort(); bisect.insort_left(h, 2, 0, 2)"),
    *("heapq.heapify(h)", "heapq.heapify(h); heapq.heappush(h, 0)", "heapq.heapify(h); y = y * heapq.heappop(h)"),
    *("heapq.heapify(h); heapq.heapreplace(h, 7)", "heapq.heapify(h); y = y + heapq.heappushpop(h, 7)"),
    *("made.sort(key=attrgetter('k'))", "made.sort(key=by_k, reverse=True)", "bisect.insort(made, O(0), key=by_k)"),
    "heapq.heapify(h)\nwhile h: y = y + heapq.heappop(h)",
)
ODD = (
    HEAD
    + """
class Loud(list):
    def append(self, v): super().append(v * 2)
    def insert(self, i, v): super().insert(0, v)
    def __getitem__(self, i): return -super().__getitem__(i)
class Grows:
    def __init__(self, k, heap): self.k, self.heap = k, heap
    def __lt__(self, other):
        if len(self.heap) < 9: self.heap.append(self)
        return self.k < other.k
class Raises(O):
    def __lt__(self, other):
        if self.k + other.k == 5: raise KeyError(self.k)
        return self.k < other.k
def tried(function, *arguments, **keywords):
    try: return function(*arguments, **keywords)
    except Exception as error: return type(error), str(error)
def told(function, h, *arguments): return tried(function, h, *arguments), [getattr(o, 'k', o) for o in h]
def growing(*keys):
    h = []
    h.extend([Grows(k, h) for k in keys])
    return h
raising = [Raises(k) for k in (7, 3, 2, 9, 1)]
"""
)
statements(
    "unusual sorted lists and heaps",
    ODD,
    "h, loud, seen = [1, 3, 5], Loud([1, 3, 5]), None",
    "h, list(loud), seen",
    "seen = heapq.heappushpop([], 1)",
    "heapq.heapify([])",
    "seen = tried(bisect.bisect, h, 4, 0, 9)",
    "seen = bisect.bisect((1, 2), True)",
    "seen = bisect.bisect(a=h, x=3, key=None)",
    "bisect.insort(h, 3, 1, 2)",
    "seen = told(heapq.heapify, raising[:])",
    "seen = told(heapq.heapreplace, raising[:], Raises(4))",
    "seen = told(heapq.heappop, raising[:])",
    "seen = told(heapq.heappush, raising[:], Raises(3))",
    "seen = told(heapq.heapify, growing(3, 2, 1))",
    "seen = told(heapq.heappop, growing(1, 2, 3, 4))",
    "seen = told(heapq.heappush, h := growing(3, 2, 1), h[1])",
    "seen = [heapq.heappop(q) for q in [[3, 4, 5]] for _ in range(3)]",
    "seen = heapq.nsmallest(2, h), heapq.nlargest(2, h)",
)
statements(
    "sorted lists and heaps left to C",
    ODD,
    "h, loud, seen = [1, 3, 5], Loud([1, 3, 5]), None",
    "h, list(loud), seen",
    "seen = tried(heapq.heappop, [])",
    "seen = tried(heapq.heapreplace, [], 1)",
    "seen = tried(heapq.heappush, (1,), 2)",
    "seen = tried(heapq.heappush, heap=h, item=2)",
    "seen = tried(heapq.heappush, h, 'a')",
    "heapq.heappush(loud, 0)",
    "seen = heapq.heappop(loud)",
    "heapq.heapify(loud)",
    "seen = heapq.heapreplace(loud, 9)",
    "bisect.insort(loud, 9)",
    "seen = bisect.bisect(h, 4, 0, -1)",
    "seen = tried(bisect.bisect, h, 4, -1)",
    "seen = tried(bisect.bisect, {}, 4)",
    "seen = tried(bisect.bisect, {1: 2}, 4)",
    "seen = bisect.bisect('ace', 'd')",
    "seen = bisect.bisect(range(9), 4)",
    "seen = bisect.bisect_left(loud, -2)",
    "seen = tried(bisect.bisect, h, 4, 0.0)",
    "seen = bisect.bisect(h, 4, lo=True)",
    "seen = tried(bisect.bisect, h)",
    "seen = tried(bisect.insort, (1, 2), 1)",
    "seen = told(heapq.heappushpop, growing(1, 2), h[1])",
    "seen = tried(bisect.insort, growing(2, 3), h[0])",
    "heapq.heapify(big := list(range(2600, 0, -1))); seen = big",
    "seen = heapq.nsmallest(2, raising[3:] + raising[:1], key=lambda o: -o.k)[0].k",
    breaks=1,
)
GENERIC = (
    HEAD
    + """
import collections.abc
@functools.singledispatch
def size(v, x): return x
@size.register
def _(v: int, x): return x * v
@size.register(list)
@size.register(tuple)
def _(v, x): return x + len(v)
@size.register(O)
def _(v, x): return x + v.k
@size.register(torch.Tensor)
def _(v, x): return x + v
@size.register(collections.abc.Mapping)
def _(v, x): return x - len(v)
class P(O): pass
class M:
    @functools.singledispatchmethod
    def f(self, v, x): return x
    @f.register
    def _(self, v: int, x): return x * v
    @f.register
    def _(self, v: str, x): return x + len(v)
    @functools.singledispatchmethod
    @classmethod
    def g(cls, v): return 1
    @g.register
    @classmethod
    def _(cls, v: int): return v
m = M()
"""
)
expressions(
    "generic functions",
    GENERIC,
    *("size(3, x)", "size([1, 2], x)", "size((1,), x)", "size('a', x)", "size(None, x)", "size(objects[0], x)"),
    *("size(P(2), x)", "size(x, x)", "size({1: 2}, x)", "size(True, x)", "size(1.5, x) + size(2, x)"),
    *("size(v=3, x=x) if False else size(2, x=x)", "m.f(3, x)", "m.f('ab', x)", "m.f(1.5, x)"),
    *("[size(v, x).sum() for v in (1, [1], 'a')]", "methodcaller('f', 3, x)(M())", "size.dispatch(int)(2, x)"),
    "functools.reduce(lambda a, v: size(v, a), [2, [1]], x)",
)
expressions("generic class methods", GENERIC, "M.g(3), M.g('a')", breaks=1)
