"""C code that goes through objects whose classes say in Python how: one graph, and what they give is guarded."""

import collections
import functools
import itertools
import math

import pytest
import torch
from compiling import same

import braze
from braze._load import C

pytestmark = pytest.mark.skipif(not hasattr(C, "CompiledFunction"), reason="no evaluator for this Python")
X = torch.rand(4)


class Whole:
    """Another class for each test: guards are about classes too."""

    def __init__(self, *items):
        self.items = items


def by_builtin():
    class Items(Whole):
        def __iter__(self):
            return iter(self.items)

    return Items


def by_generator():
    class Items(Whole):
        def __iter__(self):
            yield from self.items

    return Items


def by_index():
    class Items(Whole):
        def __getitem__(self, index):
            return self.items[index]

        def __len__(self):
            return len(self.items)

    return Items


def by_itself():
    class Items(Whole):
        def __iter__(self):
            self.at = -1
            return self

        def __next__(self):
            self.at += 1
            if self.at >= len(self.items):
                raise StopIteration
            return self.items[self.at]

    return Items


def by_derived_list():
    class Items(list):
        def __init__(self, *items):
            super().__init__(items)

        def __iter__(self):
            return iter([item + 10 for item in list.__getitem__(self, slice(None))])

        items = property(lambda self: tuple(self), lambda self, items: self.__setitem__(slice(None), items))

    return Items


def extended(items):
    log = [0]
    log.extend(items)
    log += items
    log[1:1] = items
    return log


def unpacked(items):
    a, *b = items
    c, d = items
    return a, b, c, d


def collected(items):
    made, queue = {1, 20}, collections.deque()
    made.update(items)
    queue.extend(items)
    return sorted(made | {3}.union(items)), queue, sorted(made - {1}.difference(items)), {1, 2}.isdisjoint(items)


KINDS = (by_builtin, by_generator, by_index, by_itself, by_derived_list)
GOES = {
    "sum": lambda o: (sum(o), sum(o, 5), sum(a for a in o)),
    "any and all": lambda o: (any(o), all(o)),
    "extremes": lambda o: (min(o), max(o), min(o, default=3), max(o, key=lambda a: -a), max(3, 4)),
    "sorted": lambda o: (sorted(o), sorted(o, reverse=True), sorted(o, key=lambda a: -a), sorted([*o, 0])),
    "containers": lambda o: (list(o), tuple(o), len(set(o)), len(frozenset(o)), dict.fromkeys(o)),
    "displays": lambda o: ([*o], (*o, 1), len({*o}), [a * 2 for a in o], {a for a in o} == set(o)),
    "counted": lambda o: (collections.deque(o), collections.Counter(o), dict((a, a) for a in o)),
    "text": lambda o: (",".join(str(i) for i in o), ",".join(map(str, o))),
    "map": lambda o: (list(map(lambda a: a + 1, o)), list(map(float, o)), list(map(max, o, [2, 3]))),
    "filter": lambda o: list(filter(lambda a: a > 1, o)),
    "pairs": lambda o: (list(zip(o, o, strict=True)), list(enumerate(o)), list(itertools.pairwise(o))),
    "chain": lambda o: (list(itertools.chain(o, [1])), list(itertools.islice(o, 2)), next(iter(o))),
    "product": lambda o: list(itertools.product(o, o)),
    "reduce": lambda o: (functools.reduce(lambda a, b: a + b, o), functools.reduce(max, o, 1)),
    "math": lambda o: (math.prod(o), math.fsum(o)),
    "extended": extended,
    "unpacked": unpacked,
    "collected": collected,
    "call": lambda o: (lambda *a: a)(*o),
    "tensor": lambda o: torch.tensor(list(o)),
}
# Of what holds no storage of its own.
LOOKS = {
    "in": lambda o: (2 in o, 7 in o),
    "true ones": lambda o: list(filter(None, o)),
    "sums so far": lambda o: (list(itertools.accumulate(o)), list(itertools.accumulate(o, lambda a, b: a * b))),
}
CASES = [(kind, GOES[name]) for kind in KINDS for name in GOES]
CASES += [(kind, LOOKS[name]) for kind in KINDS[:-1] for name in LOOKS]
NAMES = [f"{kind.__name__}-{name}" for kind in KINDS for name in GOES]
NAMES += [f"{kind.__name__}-{name}" for kind in KINDS[:-1] for name in LOOKS]


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("kind, goes", CASES, ids=NAMES)
def test_c_code_goes_through_it(kind, goes, dynamic):
    make = kind()

    def f(x, items):
        return x * 2, goes(items)

    fast = braze.compile(f, fullgraph=True, dynamic=dynamic)
    for values in ((1, 2), (1, 2), (3, 5), (3, 0)):
        items, other = make(*values), make(*values)
        for _ in range(2):
            same(fast(X, items), f(X, other))


@pytest.mark.parametrize("kind", KINDS[:-1])
def test_items_may_be_tensors(kind):
    make = kind()

    def f(x, items):
        return sum(items) * x, torch.stack(list(items)), list(map(torch.sin, items)), torch.cat([*items])

    fast = braze.compile(f, fullgraph=True)
    for count in (2, 3, 2):
        items = make(*[torch.rand(4) for _ in range(count)])
        same(fast(X, items), f(X, items))


def test_it_ends_where_c_code_ends():
    log = []

    class Items:
        def __iter__(self):
            for item in (0, 1, 2):
                log.append(item)
                yield item

    def f(x, items):
        return x * 2, any(items), 1 in items

    fast, items = braze.compile(f, fullgraph=True), Items()
    for _ in range(3):
        log.clear()
        same(fast(X, items), f(X, items))
        assert log == [0, 1, 0, 1] * 2


@pytest.mark.parametrize("given", ["__iter__", "__len__", "__getitem__"])
def test_methods_that_the_class_is_given_later(given):
    class Items(Whole):
        def __iter__(self):
            return iter(self.items)

    def f(x, items):
        return x * 2, sum(items), sorted(items), list(items), 2 in items

    fast, items, log = braze.compile(f), Items(1, 2), []
    for _ in range(2):
        same(fast(X, items), f(X, items))
    methods = {
        "__iter__": lambda self: iter((5, 6)),
        "__len__": lambda self: log.append(1) or 2,
        "__getitem__": lambda self, k: 3,
    }
    setattr(Items, given, methods[given])
    same(fast(X, items), f(X, items))
    assert len(log) % 2 == 0
    del Items.__iter__
    if given == "__iter__":
        with pytest.raises(TypeError):
            fast(X, items)


# ------------------------------------------------------------------------------------------------------- mappings


class Entries(collections.abc.Mapping):
    def __init__(self, **entries):
        self.entries = entries

    def __getitem__(self, key):
        return self.entries[key]

    def __iter__(self):
        return iter(self.entries)

    def __len__(self):
        return len(self.entries)


class Sorted(Entries):
    def __iter__(self):
        yield from sorted(self.entries)


class Keys:
    def __init__(self, **entries):
        self.entries = entries

    def keys(self):
        return list(self.entries)

    def __getitem__(self, key):
        return self.entries[key]


class Output(collections.OrderedDict):
    def __getitem__(self, key):
        return dict(self.items())[key] if isinstance(key, str) else tuple(self.values())[key]


class Doubled(dict):
    """C code does not ask it for items."""

    def __getitem__(self, key):
        return dict.__getitem__(self, key) * 2


class Chosen(dict):
    """C code asks it for keys and items."""

    def __iter__(self):
        return iter(["a"])

    def keys(self):
        return ["b"]


def filled(given):
    made, counted, ordered = {"z": 1}, collections.defaultdict(list), collections.OrderedDict(y=1)
    made.update(given)
    made.update(given, y=4)
    counted.update(given)
    ordered.update(given)
    return made, dict(counted), ordered


MAPPINGS = {
    "user dict": lambda **entries: collections.UserDict(entries),
    "mapping": Entries,
    "sorted": Sorted,
    "keys": Keys,
    "output": Output,
    "doubled": Doubled,
    "chosen": Chosen,
    "chain": lambda **entries: collections.ChainMap(entries, {"c": 3}),
    "counter": lambda **entries: collections.Counter(entries),
}
ENTRIES = {
    "keywords": lambda d: (lambda a=0, b=0, **more: (a, b, more))(**d),
    "display": lambda d: {**d, "x": 1, **d},
    "dict": lambda d: (dict(d), dict(d, z=3), collections.OrderedDict(d)),
    "filled": filled,
    "partial": lambda d: functools.partial(lambda **more: more, **d)(c=1),
}


@pytest.mark.parametrize("asks", ENTRIES)
@pytest.mark.parametrize("kind", MAPPINGS)
def test_c_code_asks_a_mapping(kind, asks):
    def f(x, mapping):
        return x * 2, ENTRIES[asks](mapping)

    fast = braze.compile(f, fullgraph=True)
    for entries in ({"a": 1, "b": 2}, {"a": 3, "b": 2}, {"b": 2, "a": 3}, {"b": X}):
        mapping = MAPPINGS[kind](**entries)
        for _ in range(2):
            same(fast(X, mapping), f(X, mapping))


@pytest.mark.parametrize("kind", MAPPINGS)
def test_an_older_dict_is_updated(kind):
    def f(x, mapping, log):
        log.update(mapping)
        log.update(mapping, y=4)
        return x * 2

    fast, own, other = braze.compile(f, fullgraph=True), {"z": 1}, {"z": 1}
    for entries in ({"a": 1, "b": 2}, {"a": 3, "b": 2}, {"b": X}):
        mapping = MAPPINGS[kind](**entries)
        for _ in range(2):
            same(fast(X, mapping, own), f(X, mapping, other))
            same(own, other)


def test_values_of_any_kind():
    layers = torch.nn.ModuleDict({"a": torch.nn.ReLU(), "b": torch.nn.Tanh()})
    weights = torch.nn.ParameterDict({"a": torch.rand(4), "b": torch.rand(4)})

    def f(x):
        every = {**layers}
        for name, weight in {**weights, **{}}.items():
            x = every[name](x) * weight
        return x, list(dict(layers)), list(dict(weights.items()))

    fast = braze.compile(f, fullgraph=True)
    with torch.no_grad():
        same(fast(X), f(X))
        layers["b"] = torch.nn.ReLU()
        same(fast(X), f(X))
        weights["a"] = torch.nn.Parameter(torch.rand(4))
        same(fast(X), f(X))


def test_mappings_that_the_function_makes():
    def f(x):
        made = Output(a=x + 1, b=x * 2)
        return (lambda a, b: a * b)(**made), {**made}, dict(made), made[0]

    fast = braze.compile(f, fullgraph=True)
    for _ in range(2):
        same(fast(X), f(X))


def test_constructors_called_on_an_instance():
    class Made(dict):
        def __init__(self, entries):
            dict.__init__(self, entries)

    def f(x, entries):
        return x * 2, dict(Made(entries))

    fast = braze.compile(f)
    for value in (1, 2):
        same(fast(X, Keys(a=value)), f(X, Keys(a=value)))


@pytest.mark.parametrize("where", ["class", "object"])
def test_keys_that_are_replaced(where):
    class Own(Keys):
        pass

    def f(x, mapping):
        return x * 2, {**mapping}, dict(mapping)

    fast, mapping = braze.compile(f), Own(a=1, b=2)
    for _ in range(2):
        same(fast(X, mapping), f(X, mapping))
    if where == "class":
        Own.keys = lambda self: ["b"]
    else:
        mapping.keys = lambda: ["b"]
    for _ in range(2):
        same(fast(X, mapping), f(X, mapping))
