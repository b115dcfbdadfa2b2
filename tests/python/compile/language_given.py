"""Rows of test_language.py: functions that are given to C code, and those of module operator."""

from language import expressions, statements

HEAD = """
import collections, functools, itertools, operator
names, score, order = ['a', 'b'], {'a': 1, 'b': 2}, ['b', 'a']
rows, log = [[1, 2], [3]], []
"""

expressions(
    "given",
    HEAD,
    "max(names, key=score.get)",
    "min(names, key=score.__getitem__)",
    "sorted(names, key=order.index)",
    "sorted(names, key=functools.partial(dict.get, score))",
    "list(map(score.get, names))",
    "list(map(order.count, names))",
    "list(filter(score.__contains__, ['a', 'z']))",
    "list(filter({'a'}.__contains__, names))",
    "list(itertools.starmap(score.get, [('a', 0), ('z', 3)]))",
    "[k for k, g in itertools.groupby(names, score.get)]",
    "functools.reduce(operator.add, [1, 2, 3])",
    "functools.reduce(operator.mul, x.shape, 1)",
    "functools.reduce(operator.iadd, rows, [])",
    "functools.reduce(operator.mul, [x, x, x])",
    "functools.reduce(lambda a, b: a + b, map(len, rows))",
    "list(itertools.accumulate([1, 2, 3], operator.mul))",
    "list(map(functools.partial(pow, 2), [1, 2]))",
    "list(map(torch.relu, [x, x]))",
    "list(map(operator.neg, [1, 2]))",
    "list(map(int, '123'))",
    "sum(map(len, rows))",
    "max(rows, key=len)",
    "list(map([].append, names)) == [None, None]",
)
expressions(
    "operator",
    HEAD,
    "operator.add(x, 1)",
    "operator.matmul(x, x.T) if x.ndim > 1 else operator.mul(x, x)",
    "operator.getitem(score, 'a')",
    "operator.getitem(x, 0)",
    "operator.contains(names, 'a')",
    "operator.is_(names, names)",
    "operator.is_not(names, None)",
    "operator.not_(names)",
    "operator.truth([])",
    "operator.neg(x)",
    "operator.lt(1, 2)",
    "operator.eq(names, ['a', 'b'])",
    "operator.concat(names, ['c'])",
    "operator.countOf(names, 'a')",
    "operator.itemgetter('a')(score)",
    "operator.mod('%d', 3)",
)
statements(
    "operator changes",
    HEAD,
    "",
    "log",
    "operator.setitem(score, 'a', 5)",
    "operator.delitem(rows, 0) if len(rows) > 1 else None",
    "y = operator.imul(y, 3)",
    "y = operator.iadd(y, y)",
)
statements(
    "operator grows",
    HEAD,
    "",
    "log",
    "operator.iadd(log, [1])",
    "operator.iconcat(log, [1])",
    replays=False,
)
# What they change existed before the call: natively.
statements(
    "given what changes",
    HEAD,
    "",
    "log",
    "list(map(log.append, [1, 2]))",
    "functools.reduce(operator.iadd, [log, [1]])",
    "list(itertools.accumulate([log, [1]], operator.iadd))",
    "next(map(log.append, [3]))",
    breaks=1,
)
