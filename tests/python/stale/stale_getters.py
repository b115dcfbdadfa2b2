"""What getters, sorted lists, heaps and generic functions read and change."""

from stale_ccode import changes, reads
from staleness import case, module, tensor

OBJECTS = """
import bisect, heapq
from operator import attrgetter, itemgetter, methodcaller
class O:
    def __init__(self, k, j=0): self.k, self.j = k, j
    @property
    def twice(self): return self.k * 2
    def times(self, n, plus=0): return self.k * n + plus
class N:
    def __init__(self, o): self.o = o
objects = [O(3), O(1), O(2)]
nested = N(O(5))
pairs = [[3, 1], [1, 2], [2, 4]]
getter, item, caller = attrgetter('k'), itemgetter(0), methodcaller('times', 2)
"""
FIRST = "objects[1].k = 7"
for way, change in (
    ("sorted(objects, key=attrgetter('k'))[0].k", FIRST),
    ("sorted(objects, key=getter)[0].k", FIRST),
    ("sorted(objects, key=attrgetter('j', 'k'))[0].k", "objects[2].j = -1"),
    ("min(objects, key=getter).k", FIRST),
    ("max(objects, key=attrgetter('twice')).k", FIRST),
    ("max(objects, key=attrgetter('twice')).k", "O.twice = property(lambda self: -self.k)"),
    ("max(objects, key=attrgetter('k')).j", "objects[0].j = 4"),
    ("sum(map(getter, objects))", FIRST),
    ("sum(map(attrgetter('k'), objects))", "objects.append(O(4))"),
    ("sum(map(getter, objects))", "getter = attrgetter('j')"),
    ("sum(map(attrgetter('o.k'), [nested]))", "nested.o = O(8)"),
    ("sum(map(attrgetter('o.k'), [nested]))", "nested.o.k = 8"),
    ("attrgetter('o.k')(nested)", "nested.o.k = 8"),
    ("attrgetter('k', 'twice')(objects[0])[1]", "objects[0].k = 9"),
    ("attrgetter('twice')(objects[0])", "O.twice = 5"),
    ("len(list(filter(attrgetter('j'), objects))) + 1", "objects[0].j = 1"),
    ("len(list(itertools.groupby(objects, key=attrgetter('j'))))", "objects[1].j = 2"),
    ("sum(map(item, pairs))", "pairs[1][0] = 9"),
    ("sum(map(item, pairs))", "item = itemgetter(1)"),
    ("max(pairs, key=itemgetter(1))[0]", "pairs[0][1] = 9"),
    ("max(pairs, key=itemgetter(1, 0))[0]", "pairs.append([7, 9])"),
    ("sum(map(methodcaller('times', 2), objects))", FIRST),
    ("sum(map(methodcaller('times', 2), objects))", "O.times = lambda self, n: n"),
    ("sum(map(caller, objects))", "caller = methodcaller('times', 3)"),
    ("methodcaller('times', 2, plus=1)(objects[0])", "objects[0].k = 9"),
    ("methodcaller('times', 2)(objects[0])", "objects[0].times = lambda n: 1"),
    ("caller(objects[0])", "O.times = lambda self, n: self.j + n"),
    ("methodcaller('count', 3)(kinds := [o.k for o in objects]) + 1", "objects[1].k = 3"),
    ("bisect.bisect_left([objects[0].k, 9], 2) + 1", "objects[0].k = 1"),
    ("bisect.bisect(objects, 2, key=getter)", "objects[:] = [O(1), O(2), O(3)]"),
    ("bisect.bisect(objects, 2, key=lambda o: o.k)", "objects[:] = [O(1), O(2), O(3)]"),
    ("heapq.nsmallest(1, objects, key=getter)[0].k", FIRST),
    ("heapq.nlargest(2, objects, key=attrgetter('k'))[1].k", FIRST),
    ("next(heapq.merge([objects[0].k], [5]))", "objects[0].k = 9"),
    ("next(iter(objects)).k", "objects[0] = O(8)"),
    ("functools.reduce(operator.add, map(getter, objects))", FIRST),
):
    reads(f"{way}, then {change}", OBJECTS, way, change)

for way in (
    "bisect.insort(log, 2)",
    "bisect.insort_left(log, 4, key=lambda n: -n)",
    "heapq.heappush(log, len(log))",
    "heapq.heapreplace(log, log[0] + 1)",
    "heapq.heappush(log, heapq.heappushpop(log, 7) + 1)",
    "log.extend(map(methodcaller('times', len(log)), objects))",
    "log.append(sum(map(getter, objects)) + len(log))",
):
    changes(way, OBJECTS + "log = [1, 2, 3]", way)


GENERIC = """
import functools, collections.abc
@functools.singledispatch
def f(v, x): return x
@f.register
def of_int(v: int, x): return x * v
class A: k = 1
class B(A): pass
class C: k = 5
class M:
    @functools.singledispatchmethod
    def f(self, v, x): return x + 1
    @f.register
    def of_int(self, v: int, x): return x * v
m, a, b = M(), A(), B()
"""


def generic(name, body, change):
    @case(name=f"generic: {name}")
    def made():
        m = module(f"{GENERIC}\ndef g(x): return {body}")
        yield m.g, tensor()
        exec(change, m.__dict__)


generic("a class is registered", "f('a', x)", "f.register(str, lambda v, x: x - 1)")
generic("another function is registered", "f(3, x)", "f.register(int, lambda v, x: x - 1)")
generic("one for a base", "f(b, x)", "f.register(A, lambda v, x: x - 1)")
generic("one that is nearer", "f(True, x)", "f.register(bool, lambda v, x: x - 1)")
generic("one for all objects", "f(a, x)", "f.register(object, lambda v, x: x - 1)")
generic("one for an abstract class", "f([1], x)", "f.register(collections.abc.Sized, lambda v, x: x - 1)")
generic(
    "an abstract class is registered",
    "f(a, x) + (f(0, x) if m is None else 0)",
    "f.register(collections.abc.Sized, lambda v, x: x - 1); collections.abc.Sized.register(A)",
)
generic("other bases", "f(b, x)", "f.register(C, lambda v, x: x - 1); B.__bases__ = (C,)")
generic("another object", "f(a, x)", "f.register(B, lambda v, x: x - 1); a = b")
generic("another class of the object", "f(a, x)", "f.register(B, lambda v, x: x - 1); a.__class__ = B")
generic("the code of a function", "f(3, x)", "of_int.__code__ = (lambda v, x: x - 9).__code__")
generic("what a function reads", "f(a, x)", "f.register(A, lambda v, x: x * 4)")
generic("a method is registered", "m.f('a', x)", "M.__dict__['f'].register(str, lambda self, v, x: x - 1)")
generic("another method is registered", "m.f(3, x)", "M.__dict__['f'].register(int, lambda self, v, x: x - 1)")
generic("a method of the object", "m.f(3, x)", "m.f = lambda v, x: x - 2")
generic("the method of the class", "m.f(3, x)", "M.f = lambda self, v, x: x - 2")
generic("the function itself", "f(3, x)", "f = lambda v, x: x - 2")
generic("the function that is asked", "f.dispatch(int)(3, x)", "f.register(int, lambda v, x: x - 1)")
