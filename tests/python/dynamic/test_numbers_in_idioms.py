"""Numbers that vary, in the idioms of programs: state that each call replaces, counters by getattr(), patterns,
merged dicts, partials. Few captures serve all calls."""

import collections
import dataclasses
import functools
import itertools
import operator
import sys
import types
import typing

import pytest
import torch
import torch.utils._pytree as pytree
from torch import nn

import braze
from braze._load import C

pytestmark = pytest.mark.skipif(not hasattr(C, "CompiledFunction"), reason="no evaluator for this Python")
CALLS = 8
NAMES = {
    "collections": collections,
    "dataclass": dataclasses.dataclass,
    "dataclasses": dataclasses,
    "functools": functools,
    "itertools": itertools,
    "nn": nn,
    "operator": operator,
    "pytree": pytree,
    "torch": torch,
    "types": types,
    "typing": typing,
}

# By name: how many calls are captured, and the source. `args(i)` gives what call i is given besides the tensor.
PROGRAMS = {
    # ---- what each call replaces
    "state_replaced": (
        2,
        """
        class State:
            def __init__(self, n): self.n = n
            def next(self): return State(self.n + 1)
        s = State(2)
        def f(x):
            global s
            s = s.next()
            return x * s.n
        """,
    ),
    "state_in_an_attribute": (
        2,
        """
        @dataclass
        class State: n: int = 2; v: float = 1.0
        class Holder: pass
        h = Holder(); h.s = State()
        def f(x):
            h.s = State(h.s.n + 1, h.s.v * 1.5)
            return x * h.s.n + h.s.v
        """,
    ),
    "state_by_dataclasses_replace": (
        2,
        """
        @dataclass(frozen=True)
        class State: n: int = 2; v: float = 1.0
        s = State()
        def f(x):
            global s
            s = dataclasses.replace(s, n=s.n + 1, v=s.v * 1.5)
            return x * s.n + s.v
        """,
    ),
    "state_with_a_tensor": (
        3,
        """
        class State:
            def __init__(self, n, t): self.n = n; self.t = t
        s = State(2, torch.zeros(3))
        def f(x):
            global s
            s = State(s.n + 1, s.t + x)
            return x * s.n + s.t
        """,
    ),
    "namespace_replaced": (
        2,
        """
        s = types.SimpleNamespace(n=2)
        def f(x):
            global s
            s = types.SimpleNamespace(n=s.n + 1)
            return x * s.n
        """,
    ),
    "item_of_a_list_replaced": (
        2,
        """
        class State:
            def __init__(self, n): self.n = n
        all_of_them = [State(2)]
        def f(x):
            all_of_them[0] = State(all_of_them[0].n + 1)
            return x * all_of_them[0].n
        """,
    ),
    "named_tuple_by_replace": (
        2,
        """
        class State(typing.NamedTuple):
            n: int
            t: object
        s = State(2, torch.zeros(3))
        def f(x):
            global s
            s = s._replace(t=s.t + x)._replace(n=s.n + 1)
            return x * s.n + s.t
        """,
    ),
    "named_tuple_made_of_a_generator": (
        2,
        """
        Given = collections.namedtuple("Given", "n v")
        def args(i): return (Given(i + 2, i * 0.5),)
        def f(x, g):
            made = Given._make(one for one in g)
            return x * made.n + made.v
        """,
    ),
    # ---- getattr() and its like
    "counter_by_getattr": (
        3,
        """
        class Counts: pass
        c = Counts()
        def f(x):
            c.n = getattr(c, "n", 1) + 1
            return x * c.n
        """,
    ),
    "float_by_getattr": (
        3,
        """
        class Sums: pass
        c = Sums()
        def f(x):
            c.v = getattr(c, "v", 0.5) + 0.25
            return x * c.v
        """,
    ),
    "asked_by_hasattr": (
        3,
        """
        class Counts: pass
        c = Counts()
        def f(x):
            if not hasattr(c, "n"): c.n = 2
            setattr(c, "n", getattr(c, "n") + 1)
            return x * c.n
        """,
    ),
    "only_asked_by_hasattr": (
        3,
        """
        class Counts: pass
        c = Counts()
        def args(i): c.n = i; return ()
        def f(x): return x * 2 if hasattr(c, "n") else x
        """,
    ),
    "counter_of_a_descriptor": (
        3,
        """
        class Number:
            def __set_name__(self, owner, name): self.key = "_" + name
            def __get__(self, one, cls): return getattr(one, self.key, 2)
            def __set__(self, one, value): setattr(one, self.key, value)
        class Counts: n = Number()
        c = Counts()
        def f(x):
            c.n += 1
            return x * c.n
        """,
    ),
    "counter_of_a_module_that_sets_attributes": (
        3,
        """
        class Layer(nn.Module):
            def __init__(self): super().__init__(); self.n = 2
            def __setattr__(self, name, value):
                if name == "n": object.__setattr__(self, "log", getattr(self, "log", 2) + 1)
                super().__setattr__(name, value)
            def forward(self, x): self.n += 1; return x * self.n + self.log
        m = Layer()
        def f(x): return m(x)
        """,
    ),
    "fields_by_getattr": (
        2,
        """
        @dataclass
        class Given: n: int = 2; v: float = 1.0
        def args(i): return (Given(i + 2, i * 1.5),)
        def f(x, g):
            for one in dataclasses.fields(g): x = x * getattr(g, one.name)
            return x
        """,
    ),
    # ---- attributes of containers
    "dict_with_attributes": (
        2,
        """
        class Config(dict):
            def __getattr__(self, name): return self[name]
            def __setattr__(self, name, value): self[name] = value
        c = Config(a=2, b=Config(c=3))
        def args(i): c.b.c = i + 2; return ()
        def f(x):
            c.last = c.b.c
            return x * c.a + c.b.c
        """,
    ),
    # ---- patterns
    "class_pattern_of_a_number": (
        2,
        """
        def args(i): return (i + 2,)
        def f(x, n):
            match n:
                case 0: return x
                case int() if n > 100: return x + 1
                case _: return x * n
        """,
    ),
    "sequence_pattern": (
        2,
        """
        def args(i): return ((i + 2, (i + 3, i * 0.5)),)
        def f(x, t):
            match t:
                case (int(a), (b, float() as c)): return x * a * b + c
        """,
    ),
    "mapping_pattern": (
        2,
        """
        def args(i): return ({"kind": "affine", "w": i + 2, "b": {"v": i * 0.5}},)
        def f(x, t):
            match t:
                case {"kind": "affine", "w": w, "b": {"v": v}}: return x * w + v
        """,
    ),
    # ---- C code that hands on
    "dict_of_pairs": (
        2,
        """
        def args(i): return ([("n", i + 2), ("v", i * 1.5)],)
        def f(x, pairs):
            d = dict(pairs)
            return x * d["n"] + d["v"]
        """,
    ),
    "sorted_dict": (
        2,
        """
        def args(i): return ({"b": i + 2, "a": i + 5},)
        def f(x, d):
            for k in sorted(d): x = x * d[k]
            for k in sorted(d.keys()): x = x + d[k]
            return x
        """,
    ),
    "united_dicts": (
        2,
        """
        def args(i): return ({"a": i + 2},)
        def f(x, d):
            both = {"a": 1, "b": 3} | d
            both |= {"c": d["a"] * 2}
            return x * both["a"] + both["b"] + both["c"]
        """,
    ),
    "kept_in_a_deque": (
        2,
        """
        kept = collections.deque(maxlen=3)
        def args(i): return (i * 0.5, i + 2)
        def f(x, v, n):
            kept.append(v)
            kept.appendleft(n)
            return x * v + n
        """,
    ),
    "partial_of_a_function": (
        2,
        """
        def affine(x, k, v): return x * k + v
        def args(i): return (functools.partial(affine, k=i + 2, v=i * 0.5),)
        def f(x, p): return p(x)
        """,
    ),
    # ---- iterators that C code goes through
    "accumulated": (
        2,
        """
        def args(i): return ([i + 2, i + 3, 4],)
        def f(x, sizes):
            ends = list(itertools.accumulate(sizes))
            return x * ends[-1] + ends[1], ends, [*itertools.accumulate(sizes, lambda a, b: a * 2 + b)]
        """,
    ),
    "accumulated_by_an_operator": (
        2,
        """
        def args(i): return (i + 2,)
        def f(x, n):
            strides = tuple(itertools.accumulate((n, 3, n + 1), operator.mul, initial=n))
            offsets = list(itertools.accumulate([n, n + 3], initial=0))
            return x * strides[2], strides, offsets
        """,
    ),
    "accumulated_in_a_loop": (
        2,
        """
        def args(i): return ([i + 2, i + 3, 4],)
        def f(x, sizes):
            total = 0
            for size, end in zip(sizes, itertools.accumulate(sizes)):
                total = total + x * (end - size)
            return total
        """,
    ),
    "accumulated_floats": (
        2,
        """
        def args(i): return ([i / 4, i + 0.5],)
        def f(x, shares): return x * list(itertools.accumulate(shares))[-1]
        """,
    ),
    "iterators_asked_by_next": (
        2,
        """
        def args(i): return ([i + 2, i + 3, 4], (i + 5, i / 2))
        def f(x, sizes, pair):
            it, other = iter(sizes), iter(pair)
            first, rest = next(it), list(it)
            return x * first + rest[0] + next(other), [v * 2 for v in other], x[: next(iter(x.shape))]
        """,
    ),
    "dict_of_zip": (
        2,
        """
        def args(i): return ("ab", [i + 2, i + 5])
        def f(x, names, values):
            d, e = dict(zip(names, values), c=values[0]), dict(enumerate(values))
            return x * d["a"] + e[1] + d["c"], d, collections.OrderedDict(zip(names, values))
        """,
    ),
    "dict_of_a_generator": (
        2,
        """
        settings = {"a": 2, "b": 3}
        def f(x):
            settings["a"] += 1
            doubled = dict((k, v * 2) for k, v in settings.items())
            copied = collections.OrderedDict(settings.items())
            return x * doubled["a"] + copied["a"], dict(map(lambda k: (k, copied[k]), "ab"))
        """,
    ),
    "dict_updated_by_pairs": (
        2,
        """
        def args(i): return (i + 2,)
        d = {"a": 1}
        def f(x, n):
            own = {}
            own.update(zip("ab", (n, 3)))
            own.update([("c", n + 1)], e=n)
            d.update(own.items())
            return x * d["a"] + own["c"], dict(d)
        """,
    ),
    "ordered_dict_updated_by_pairs": (
        2,
        """
        def args(i): return (i + 2,)
        d = collections.OrderedDict(a=1)
        def f(x, n):
            d.update(zip("ba", (n, n + 3)), c=n)
            return x * d["a"], list(d.values())
        """,
    ),
    # ---- trees
    "leaves_of_a_tree": (
        2,
        """
        def args(i): return ({"a": i + 2, "b": [i + 5, {"c": i / 4 + 0.3}]},)
        def f(x, tree):
            leaves, spec = pytree.tree_flatten(tree)
            return x * leaves[0] + pytree.tree_leaves(tree)[1], leaves, pytree.tree_unflatten(leaves, spec)
        """,
    ),
    "tree_mapped": (
        2,
        """
        settings = {"rate": 0.5, "steps": (2, 4)}
        def f(x):
            doubled = pytree.tree_map(lambda v: v * 2, settings)
            settings["rate"], settings["steps"] = settings["rate"] * 0.75, (settings["steps"][0] + 1, 4)
            return x * doubled["rate"] + doubled["steps"][0], pytree.tree_map(lambda v: x * v, doubled)
        """,
    ),
}


def module(source):
    lines = source.strip("\n").splitlines()
    indent = len(lines[0]) - len(lines[0].lstrip())
    made = types.ModuleType(__name__)
    made.__dict__.update(NAMES)
    exec("\n".join(line[indent:] for line in lines), made.__dict__)
    return made


def outcomes(source, wrap):
    made = module(source)
    function = wrap(made.f)
    args = getattr(made, "args", lambda i: ())
    return function, [function(torch.arange(3.0) + i, *args(i)) for i in range(CALLS)]


@pytest.mark.parametrize("dynamic", [None, True, False])
@pytest.mark.parametrize("name", PROGRAMS)
def test_few_captures_serve_all_calls(name, dynamic):
    most, source = PROGRAMS[name]
    wanted = outcomes(source, lambda f: f)[1]
    compiled, found = outcomes(source, lambda f: braze.compile(f, dynamic=dynamic))
    for ours, theirs in zip(found, wanted, strict=True):
        torch.testing.assert_close(ours, theirs)
    counts = compiled.counts()
    assert counts["native"] == 0 or dynamic is False
    if dynamic is None:
        assert counts["captured"] <= most


def test_sums_of_floats():
    """From Python 3.12 on C code adds them in a way of its own."""

    def mean(x, losses):
        return x * (sum(losses) / len(losses)), sum(losses)

    compiled = braze.compile(mean)
    for losses in ([0.5, 0.25], [1.5, 0.1], [-0.0, -0.0], [1e300, 1e300], [0.1, 0.7], [2.5, float("inf")]):
        ours, theirs = compiled(torch.ones(2), losses), mean(torch.ones(2), losses)
        assert str(ours) == str(theirs)
    for losses in ([-0.0], [3, 0.5], [0.5, 3], [0.5, True], [], [0.1] * 20):
        if losses:
            assert str(compiled(torch.ones(2), losses)) == str(mean(torch.ones(2), losses))
    assert sys.version_info >= (3, 12) or compiled.counts()["captured"] <= 9
