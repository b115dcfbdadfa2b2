"""Effects whose target changes between calls: what is replayed goes to what is there now, in eager's order."""

from staleness import call, case, module, tensor


def target(name, source, change, evolves=False):
    @case(name=name, evolves=evolves)
    def make():
        m = module(source)
        yield call(m.f, tensor()).watch(m)
        change(m)

    return make


def run(source):
    """A change that is a statement in the module."""
    return lambda m: exec(source, m.__dict__)


LIST = "L = [3, 1, 2]\ndef f(x):\n  L[:] = L[:3]\n  {}\n  return x * len(L), list(L)"
target("list_sorted_was_replaced", LIST.format("L.sort()"), run("L = [9, 8, 7]"))
target("list_reversed_has_other_items", LIST.format("L.sort(); L.reverse()"), run("L[0] = 50"))
target("list_removed_from_has_the_item_elsewhere", LIST.format("L.append(5); L.remove(5)"), run("L[1] = 5"))
target("list_removed_from_lacks_the_item", LIST.format("L.remove(2); L.append(2)"), run("L.remove(2)"))
target("list_sorted_by_another_key", "k = -1\n" + LIST.format("L.sort(key=lambda v: v * k)"), run("k = 1"))
target("list_sorted_has_other_types", LIST.format("L.sort()"), run("L[0] = 'a'"))
target("list_popped_is_shorter", LIST.format("L.append(4); L.pop(3)"), run("L.pop()"))
target("list_extended_with_itself", "M = [1]\n" + LIST.format("L.extend(M)"), run("M = L"))
target(
    "list_is_two_names",
    "L = [1]\nM = [1]\ndef f(x):\n  L[:] = [1]\n  M.append(2)\n  return x * len(L)",
    run("M = L"),
    evolves=True,
)

SET = "S = {{3, 1, 2}}\ndef f(x):\n  {}\n  return x * len(S), 3 in S"
target("set_added_to_was_replaced", SET.format("S.add(7); S.discard(7)"), run("S = {1, 2, 3, 4}"))
target("set_added_to_has_the_item", SET.format("S.add(7)"), run("S = {7}"), evolves=True)
target("set_updated_with_another", "T = {5}\n" + SET.format("S.update(T)"), run("T.add(6)"), evolves=True)
target("set_subtracted_from_itself", "T = {5}\n" + SET.format("S.difference_update(T)"), run("T = S"), evolves=True)
target("set_intersected_with_more", "T = {1, 2, 3}\n" + SET.format("S.intersection_update(T)"), run("T.discard(3)"))
target("set_removed_from_lacks_the_item", SET.format("S.remove(2); S.add(2)"), run("S.discard(2)"))
target(
    "set_cleared_is_kept_elsewhere",
    "S = {1}\nK = [S]\ndef f(x):\n  S.clear()\n  S.add(1)\n  return x * len(K[0])",
    run("S = {1, 2}; K[0].add(9)"),
)
target(
    "set_order",
    "S = {8, 0}\ndef f(x):\n  S.add(16)\n  S.discard(16)\n  return x + 1, list(S)",
    run("S.clear(); S.add(0); S.add(8)"),
)

DICT = "D = {{'a': 1, 'b': 2}}\ndef f(x):\n  {}\n  return x * len(D), list(D.items())"
target("dict_popitem_of_another_order", DICT.format("k, v = D.popitem(); D[k] = v"), run("D['a'] = D.pop('a')"))
target("dict_popitem_of_another_value", DICT.format("k, v = D.popitem(); D[k] = v"), run("D['b'] = 5"))
target("dict_updated_with_others", "E = {'c': 1}\n" + DICT.format("D.update(E)"), run("E['d'] = 2"), evolves=True)
target("dict_joined_in_place", "E = {'a': 1}\n" + DICT.format("globals()['D'] |= E"), run("E['a'] = 2"))
target(
    "dict_updated_by_pairs", "E = [('a', 5)]\n" + DICT.format("D.update(E)"), run("E[0] = ('a', 6)"), evolves=True
)
ORDERED = "import collections\nD = collections.OrderedDict(a=1, b=2)\ndef f(x):\n  {}\n  return x * len(D), list(D)"
target(
    "ordered_dict_moves_what_is_last", ORDERED.format("D.move_to_end('a'); D.move_to_end('b')"), run("D['c'] = 1")
)
target(
    "ordered_dict_pops_another",
    ORDERED.format("k, v = D.popitem(last=False); D[k] = v\n  D.move_to_end(k, False)"),
    run("D.move_to_end('a')"),
)
DEFAULT = "import collections\nD = collections.defaultdict(list)\ndef f(x):\n  {}\n  return x + len(D), dict(D)"
target(
    "default_dict_has_the_key",
    DEFAULT.format("y = D['a']; y.append(1); D.pop('a')\n  x = x * len(y)"),
    run("D['a'] = [5]"),
)
target(
    "default_dict_has_another_factory",
    DEFAULT.format("y = D['a']; D.pop('a')\n  x = x + len(y)"),
    run("D.default_factory = lambda: [1, 2]"),
)
target(
    "counter_counts_on",
    "import collections\nD = collections.Counter()\ndef f(x):\n  D['a'] += 1\n  return x * D['a']",
    run("D['a'] = 10"),
    evolves=True,
)

CLASS = "class B: k = 1\nclass C(B): pass\nc = C()\ndef f(x):\n  {}\n  return x * c.k, B.k, C.k"
target("class_attribute_is_shadowed_by_a_subclass", CLASS.format("B.k = 5"), run("C.k = 3"))
target("class_attribute_is_shadowed_by_the_instance", CLASS.format("C.k = 5"), run("c.k = 3"))
target(
    "class_attribute_of_another_class", CLASS.format("type(c).k = 5"), run("class D(C): k = 0\nc = D(); C.k = 9")
)
target(
    "class_attribute_has_become_a_property", CLASS.format("C.k = 5"), run("C.k = property(lambda self: 8); B.k = 4")
)
target("class_counter", "class C: n = 0\ndef f(x):\n  C.n += 1\n  return x * C.n", run("C.n = 50"), evolves=True)
target(
    "class_has_other_bases",
    "class A: k = 1\nclass B: k = 2\nclass C(A): pass\ndef f(x):\n  C.j = 1\n  return x * C.k * C.j",
    run("C.__bases__ = (B,)"),
)
target("class_attribute_was_deleted", CLASS.format("C.j = 4; del C.j"), run("B.k = 7"))

target(
    "hook_is_added",
    "H = [lambda v: v + 1]\ndef f(x):\n  for h in H: x = h(x)\n  H.append(H[0]); H.pop()\n  return x",
    run("H.append(lambda v: v * 3)"),
)
target(
    "hook_is_replaced",
    "H = {'a': lambda v: v + 1}\ndef f(x):\n  H['b'] = H['a']\n  return H['b'](x)",
    run("H['a'] = lambda v: v * 3"),
)
target(
    "property_is_cached",
    "import functools\nk = 2\nclass C:\n  @functools.cached_property\n  def p(self): return k\n"
    "c = C()\ndef f(x):\n  return x * c.p",
    run("c = C(); k = 3"),
)
target(
    "property_was_cached",
    "import functools\nclass C:\n  @functools.cached_property\n  def p(self): return 2\n"
    "c = C()\ndef f(x):\n  return x * c.p",
    run("c.__dict__['p'] = 7"),
)

# What C code looks into, though a function or an iterator gives it.
GIVEN = "A, B = [], []\ndef f(x): return x * (2 if {} else 3)"
for name, test in {
    "any": "any(v for v in (A, B))",
    "all": "not all(not v for v in (A, B))",
    "iterator": "any(iter([A, B]))",
    "map": "any(map(lambda v: v, (A, B)))",
    "filter": "list(filter(None, (v for v in (A, B))))",
    "filter_by": "list(filter(lambda v: B, (1,)))",
    "values": "any({'a': A, 'b': B}.values())",
    "sum": "sum((v for v in (A, B)), [])",
    "max": "max(v for v in (A, B))",
    "zip": "any(v[0] for v in zip((A, B)))",
}.items():
    target(f"list_looked_into_by_{name}", GIVEN.format(test), run("B.append(1)"))
