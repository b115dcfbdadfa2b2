"""What C code calls, reads and changes on behalf of the function: no instruction shows it."""

from staleness import call, case, module, tensor

HEAD = "import collections, functools, itertools, operator\n"


def reads(name, setup, expression, change):
    """`expression` is a number that `change` alters."""

    @case(name=f"reads {name}")
    def made():
        m = module(f"{HEAD}{setup}\ndef f(x): return x * ({expression})")
        yield m.f, tensor()
        exec(change, m.__dict__)


def changes(name, setup, statement, watched="log"):
    """`statement` changes `log`, at every call."""

    @case(name=f"changes {name}", evolves=True)
    def made():
        m = module(f"{HEAD}{setup}\ndef f(x):\n  {statement}\n  return x * 2")
        yield call(m.f, tensor()).watch(getattr(m, watched))


SCORES = "names = ['a', 'b']\nscore = {'a': 1, 'b': 2}"
for way in ("max(names, key=score.get)", "min(names, key=score.get)", "sorted(names, key=score.get)[0]"):
    reads(way, SCORES, f"ord({way})", "score['a'] = 5")
for way in (
    "max(names, key=score.__getitem__)",
    "min(names, key=functools.partial(dict.get, score))",
    "sorted(names, key=lambda n: score.get(n))[0]",
    "max(names, key=functools.partial(operator.getitem, score))",
    "list(sorted(names, key=score.get, reverse=True))[0]",
    "next(iter(sorted(names, key=score.get)))",
):
    reads(way, SCORES, f"ord({way})", "score['a'] = 5")

ORDER = "items = ['p', 'q']\norder = ['p', 'q']"
for way in ("sorted(items, key=order.index)[0]", "min(items, key=order.index)", "max(items, key=order.index)"):
    reads(way, ORDER, f"ord({way})", "order.reverse()")

COUNTS = "kinds = ['u', 'v', 'u']\nitems = ['v', 'u']"
for way in ("max(items, key=kinds.count)", "sorted(items, key=kinds.count)[0]"):
    reads(way, COUNTS, f"ord({way})", "kinds[:] = ['v', 'v', 'u']")

TABLE = "d = {'x': 1, 'y': 2}\nkeys = ['x', 'y']"
for way in (
    "next(map(d.get, keys))",
    "sum(map(d.get, keys))",
    "list(map(d.get, keys))[0]",
    "sum(map(d.__getitem__, keys))",
    "max(map(d.get, keys, [0, 0]))",
    "functools.reduce(operator.add, map(d.get, keys))",
    "list(itertools.accumulate(map(d.get, keys)))[-1]",
    "sum(itertools.starmap(d.get, [('x', 0), ('z', 3)]))",
    "sum(itertools.chain(map(d.get, keys), [1]))",
    "list(zip(map(d.get, keys), keys))[0][0]",
    "dict(zip(keys, map(d.get, keys)))['x']",
    "[v for v in map(d.get, keys)][0]",
    "sum(v for v in map(d.get, keys))",
    "operator.getitem(d, 'x')",
    "operator.itemgetter('x')(d)",
    "sum(operator.itemgetter('x', 'y')(d))",
    "sum(map(operator.itemgetter('x'), [d]))",
    "functools.partial(d.get, 'x')()",
    "functools.partial(operator.getitem, d)('x')",
    "dict.get(d, 'x')",
    "dict.__getitem__(d, 'x')",
    "sum(map(functools.partial(dict.get, d), keys))",
    "collections.ChainMap(d)['x']",
    "(lambda get: get('x'))(d.get)",
    "sum(map(d.pop, [], []), d['x'])",
    "sum(filter(None, map(d.get, keys)))",
    "sum(itertools.islice(map(d.get, keys), 1))",
    "min(itertools.takewhile(bool, map(d.get, keys)))",
    "sum(d.values())",
    "sum(map(abs, d.values()))",
    "max(d.items(), key=operator.itemgetter(1))[1]",
    "sorted(d.items(), key=operator.itemgetter(1))[0][1]",
    "operator.length_hint(d) + operator.getitem(d, 'x')",
    "'{x}'.format_map(d) == '1' or 7",
    "int('%(x)d' % d)",
):
    reads(way, TABLE, way, "d['x'] = 10")

MEMBERS = "s = {1, 2}\nl = [1, 2]\nd = {1: 0, 2: 0}\nvalues = [1, 2, 3]"
for holder, change in (("s", "s.add(3)"), ("l", "l.append(3)"), ("d", "d[3] = 0")):
    for way in (
        "sum(filter({0}.__contains__, values))",
        "sum(itertools.filterfalse({0}.__contains__, values)) + 1",
        "len(list(itertools.takewhile({0}.__contains__, values)))",
        "len(list(itertools.dropwhile({0}.__contains__, values))) + 2",
        "sum(map({0}.__contains__, values))",
        "len(list(itertools.groupby(values, {0}.__contains__)))",
        "[k for k, g in itertools.groupby(values, key={0}.__contains__)].count(True) + "
        "sum(operator.contains({0}, v) for v in values)",
        "operator.contains({0}, 3) + 1",
    ):
        reads(way.format(holder), MEMBERS, way.format(holder), change)

LISTS = "rows = [[1], [2, 3]]\nlog = []"
for way in (
    "sum(map(len, rows))",
    "len(max(rows, key=len))",
    "sum(map(sum, rows))",
    "functools.reduce(operator.concat, rows)[-1]",
    "sum(functools.reduce(operator.iadd, rows, []))",
    "operator.add(rows[0], rows[1])[-1]",
    "operator.countOf(rows[1], 3) + 1",
    "operator.indexOf(rows[1], 3) + 1",
    "operator.mul(rows[1], 2)[1]",
    "sum(operator.getitem(rows[1], slice(0, 2)))",
    "list(map(list, rows))[1][1]",
    "list(map(tuple, rows))[1][1]",
    "list(map(operator.itemgetter(-1), rows))[1]",
    "sum(map(operator.itemgetter(-1), rows))",
    "list(itertools.chain.from_iterable(rows))[-1]",
    "sum(map(int, map(str, rows[1])))",
    "int(''.join(map(str, rows[1])))",
    "len('-'.join(map(str, rows[1])))",
    "list(map(list.__len__, rows))[1] * rows[1][-1]",
    "functools.reduce(lambda a, b: a + b, map(sum, rows))",
    "operator.eq(rows[1], [2, 3]) + 1",
    "operator.ne(rows[1], [2, 3]) + 1",
    "operator.lt(rows[0], rows[1]) * rows[1][-1]",
):
    reads(way, LISTS, way, "rows[1][-1] = 30; rows[1].append(4)")

# Iterators that call until they are told to stop.
reads("iter of a method until it gives a value", "l = [5, 3]\n", "sum(iter([*l, 0].pop, 5))", "l[:] = [5, 4, 2]")
reads("iter of a function until it gives a value", "k = [3]\n", "next(iter(lambda: k[0], 0))", "k[0] = 4")
reads("a factory", "d = [7]\n", "collections.defaultdict(lambda: d[0])['q']", "d[0] = 8")
reads("a factory by operator", "d = [7]\n", "operator.getitem(collections.defaultdict(d.copy), 1)[0]", "d[0] = 8")
reads("an attribute by getter", "class C: pass\nc = C(); c.v = 2", "operator.attrgetter('v')(c)", "c.v = 3")
reads(
    "a path by getter", "class C: pass\nc = C(); c.v = C(); c.v.w = 2", "operator.attrgetter('v.w')(c)", "c.v.w = 3"
)
reads(
    "attributes of several",
    "class C: pass\nc = C(); c.v = 2",
    "sum(map(operator.attrgetter('v'), [c, c]))",
    "c.v = 3",
)
reads(
    "a sort by attribute", "class C: pass\nc = C(); c.v = 2", "max([c], key=operator.attrgetter('v')).v", "c.v = 3"
)
reads("a method by name", "d = {'x': 2}", "operator.methodcaller('get', 'x')(d)", "d['x'] = 3")
reads("methods by name", "d = {'x': 2}", "sum(map(operator.methodcaller('get', 'x'), [d]))", "d['x'] = 3")
reads(
    "a substitution", "import re\nw = {'a': '1'}", "int(re.sub('a', lambda m: w[m.group()], 'a'))", "w['a'] = '5'"
)
reads("a bound method kept", "d = {'x': 2}\nget = d.get", "get('x')", "d['x'] = 3")
reads("a bound method kept, mapped", "d = {'x': 2}\nget = d.get", "sum(map(get, ['x']))", "d['x'] = 3")
reads("a partial kept", "d = {'x': 2}\np = functools.partial(d.get, 'x')", "p()", "d['x'] = 3")
reads(
    "a partial kept, mapped", "d = {'x': 2}\np = functools.partial(dict.get, d)", "sum(map(p, ['x']))", "d['x'] = 3"
)
reads("what a subclass holds", "class L(list): pass\nr = [[1]]", "max(L(r))[0]", "r[0][0] = 4")
reads("joined text", "w = ['a', 'b']", "len(''.join(map(str.upper, w)))", "w.append('c')")
reads("formatted text", "w = [1, 2]", "len(''.join(map('{}'.format, w)))", "w.append(333)")

EMPTY = "log = []"
for statement in (
    "list(map(log.append, [1, 2]))",
    "sorted([2, 1], key=log.append) if False else list(map(log.append, 'ab'))",
    "list(filter(log.append, [1, 2]))",
    "any(map(log.append, [1, 2]))",
    "next(map(log.append, [1]))",
    "[v for v in map(log.append, [1, 2])]",
    "functools.partial(log.append, 3)()",
    "list(map(functools.partial(log.insert, 0), [1, 2]))",
    "list(itertools.starmap(log.insert, [(0, 1), (0, 2)]))",
    "list(map(list.append, [log, log], [1, 2]))",
    "list.append(log, 4)",
    "operator.iadd(log, [1])",
    "operator.iconcat(log, [1])",
    "functools.reduce(operator.iadd, [log, [1], [2]])",
    "functools.reduce(operator.iadd, [[1], [2]], log)",
    "list(itertools.accumulate([log, [1], [2]], operator.iadd))",
    "list(map(operator.iadd, [log], [[1]]))",
    "sum(1 for _ in map(log.append, [1]))",
    "list(zip(map(log.append, [1]), [2]))",
    "dict(zip([1], map(log.append, [1])))",
    "tuple(map(log.extend, [[1], [2]]))",
    "list(itertools.takewhile(lambda v: log.append(v) is None, [1, 2]))",
    "max([1, 2], key=lambda v: log.append(v) or v)",
    "functools.reduce(lambda a, b: log.append(b) or b, [1, 2, 3])",
    "list(itertools.groupby([1, 2], log.append))",
    "operator.call(log.append, 1) if hasattr(operator, 'call') else log.append(1)",
    "operator.methodcaller('append', 5)(log)",
    "list(map(operator.methodcaller('append', 5), [log]))",
    "collections.deque(map(log.append, [1, 2]), maxlen=0)",
    "(lambda add: [add(v) for v in (1, 2)])(log.append)",
    "operator.setitem(log, slice(0, 0), [1])",
    "log.__iadd__([1])",
    "list.extend(log, map(abs, [-1]))",
    "getattr(log, 'append')(1)",
):
    changes(statement, EMPTY, statement)

GROUPS = "log = [[1], [2]]"
changes("the first of many by reduce", GROUPS, "functools.reduce(operator.iadd, log)")
changes("the first of many by accumulate", GROUPS, "list(itertools.accumulate(log, operator.iadd))")
changes("each by imul", "log = [[1], [2]]", "list(map(operator.imul, log, [2, 2]))")
changes("one by imul", "log = [1]", "operator.imul(log, 2)")
changes("an entry by setitem", "log = {'n': 0}", "operator.setitem(log, 'n', log['n'] + 1)")
changes("entries by setitem", "log = {'n': 0}", "list(map(operator.setitem, [log], ['n'], [log['n'] + 1]))")
changes("an item by delitem", "log = [0] * 9", "operator.delitem(log, 0)")
changes("items by delitem", "log = [0] * 9", "list(map(operator.delitem, [log], [0]))")
changes("an entry by delitem", "log = dict.fromkeys(range(9))", "operator.delitem(log, len(log) - 1)")
changes("a set by ior", "log = set()", "operator.ior(log, {len(log)})")
changes("a dict by ior", "log = {}", "operator.ior(log, {len(log): 1})")
changes("a set by map", "log = set()", "list(map(log.add, [len(log)]))")
changes("a dict by setdefault", "log = {}", "list(map(log.setdefault, [len(log)]))")
changes("a dict by pop", "log = dict.fromkeys(range(9))", "list(map(log.pop, [len(log) - 1]))")
changes("a dict by update", "log = {}", "list(map(log.update, [{len(log): 1}]))")
changes("a deque by append", "log = collections.deque()", "list(map(log.append, [1]))")
changes("an older default dict", "log = collections.defaultdict(int)", "operator.getitem(log, len(log))")
changes(
    "an older default dict by map", "log = collections.defaultdict(int)", "list(map(log.__getitem__, [len(log)]))"
)
changes("a list by a kept method", "log = []\nadd = log.append", "add(1)")
changes("a list by a kept method, mapped", "log = []\nadd = log.append", "list(map(add, [1]))")
changes("a list by a kept partial", "log = []\nadd = functools.partial(log.append, 1)", "add()")
changes("a list by a method as sentinel's function", "log = [0] * 99", "next(iter(log.pop, 1))")
