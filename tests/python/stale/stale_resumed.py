"""What a frame carries over a graph break: loops under way, parts of a tensor, layers that share their code."""

import sys

import torch
from staleness import call, case, module, tensor

# ---- loops: (name, target, iterable over the list L or the dict D, a number of the item)

LOOPS = [
    ("list", "a", "L", "a"),
    ("tuple", "a", "tuple(L)", "a"),
    ("range", "a", "range(len(L))", "a"),
    ("range_step", "a", "range(len(L), 0, -1)", "a"),
    ("enumerate", "i, a", "enumerate(L)", "(a + i)"),
    ("enumerate_start", "i, a", "enumerate(L, 2)", "(a * i)"),
    ("zip", "a, b", "zip(L, L[::-1])", "(a - 2 * b)"),
    ("zip_uneven", "a, b", "zip(L, range(9))", "(a + b)"),
    ("zip_of_enumerate", "(i, a), b", "zip(enumerate(L), L)", "(a * i + b)"),
    ("reversed", "a", "reversed(L)", "a"),
    ("slice", "a", "L[1:]", "a"),
    ("keys", "a", "D", "a"),
    ("values", "a", "D.values()", "a"),
    ("items", "k, a", "D.items()", "(a + k)"),
    ("map", "a", "map(abs, L)", "a"),
    ("map_lambda", "a", "map(lambda n: n + 1, L)", "a"),
    ("filter", "a", "filter(None, L)", "a"),
    ("generator", "a", "(n * 2 for n in L)", "a"),
    ("comprehension", "a", "[n * 2 for n in L]", "a"),
    ("nested", "a", "(m + n for m in L for n in L)", "a"),
    ("iter", "a", "iter(L)", "a"),
    ("starred", "a, *b", "[(n, n, n) for n in L]", "(a + len(b))"),
]

LOOP = """
def f(x, L, D):
    for {target} in {iterable}:
        x = x + {value}
        if x.sum() > 1e9:
            x = -x
        x = x * 0.5 - {value}
    else:
        x = x + 100
    return x
"""


def lengthen(numbers, table):
    numbers.append(7)
    table[9] = 7


def replace(numbers, table):
    numbers[1] = -3
    table[1] = -3


def shorten(numbers, table):
    del numbers[0]
    del table[0]


def loop_case(name, source, change):
    def make():
        m = module(source)
        numbers, table = [1, 2, 4], {0: 1, 1: 2, 2: 4}
        yield m.f, tensor(), numbers, table
        change(numbers, table)

    case(make, name=f"{name}_{change.__name__}")


for name, target, iterable, value in LOOPS:
    for change in (lengthen, replace, shorten):
        if name in ("range", "range_step", "keys") and change is replace:
            continue  # its numbers do not change
        loop_case(f"loop_{name}", LOOP.format(target=target, iterable=iterable, value=value), change)


@case
def loop_left_early():
    m = module("""
def f(x, stop):
    for i in range(5):
        x = x + i
        if x.sum() > 1e9: break
        if i == stop: break
        x = x * 2
    return x, i
""")
    yield m.f, tensor(), 1
    yield tensor(), 3


@case
def loop_over_tensors_by_value():
    m = module("""
def f(x):
    for part in x.unbind(0):
        if part.sum() > 10: x = x + part
        else: x = x - part
    return x
""")
    yield m.f, tensor(3, 4)
    yield -tensor(3, 4)


@case
def loop_changes_its_list():
    m = module("""
def f(x, L):
    for a in L:
        x = x + a
        if x.sum() < 0: L.append(a)
        if len(L) < 5: L.append(a + 1)
        x = x * 2
    return x
""")
    yield m.f, tensor(), [1, 2]
    yield tensor(), [3, 2, 1]


@case
def loops_inside_loops():
    m = module("""
def f(x, L):
    for a in L:
        for b in zip(L, L):
            x = x + a * b[0]
            if x.sum() > 1e9: return x
            x = x - b[1]
    return x
""")
    numbers = [1, 2]
    yield m.f, tensor(), numbers
    numbers.append(3)


@case
def generator_with_a_break_inside():
    m = module("""
def g(x, L):
    for a in L:
        if x.sum() > 1e9: yield 0
        yield x * a
def f(x, L):
    y = x
    for part in g(x, L): y = y + part
    return y
""")
    numbers = [1, 2]
    yield m.f, tensor(), numbers
    numbers[0] = 5


# ---- parts of a tensor, used after a break

PARTS = {
    "chunk": "a, b = y.chunk(2, 1)",
    "split": "a, b = y.split([1, 3], 1)",
    "unbind": "a, b = y.unbind(0)",
    "tensor_split": "a, b = y.tensor_split(2, 1)",
    "slices": "a, b = y[:1], y[1:]",
    "overlapping": "a, b = y[:, :3], y[:, 1:]",
    "max": "a, b = y.max(1)",
    "topk": "a, b = y.topk(2)",
    "views": "a, b = y.t(), y.view(-1)",
}
USES = {
    "read": "z = a.sum() + 1; z = z * b.sum()",
    "written": "a.add_(1); z = b.sum() * 2 + y.sum()",
    "written_after": "z = a.sum() * 2; b.mul_(2); z = z + a.sum() + y.sum()",
}


def part_case(name, split, use):
    def make():
        m = module(
            f"def f(x):\n    y = x * 2\n    {split}\n    print('break')\n    {use}\n    return y, z, a + 1\n"
        )
        yield m.f, tensor(2, 4)
        yield -tensor(2, 4)

    case(make, name=name)


def input_part_case(name, split, use):
    def make():
        m = module(f"def f(y):\n    {split}\n    print('break')\n    {use}\n    return z, a + 1\n")
        yield m.f, tensor(2, 4)
        yield -tensor(2, 4)

    case(make, name=name, evolves="written" in name)


for split, text in PARTS.items():
    for use, body in USES.items():
        part_case(f"part_{split}_{use}", text, body)
        if split not in ("max", "topk"):
            input_part_case(f"part_of_input_{split}_{use}", text, body)


# ---- layers that share a forward with a break

LAYERS = """
class Layer(torch.nn.Module):
    def __init__(self, n):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.register_buffer("shift", torch.full((4,), float(n)))
        self.cache = torch.zeros(4)
        self.n = n
    def forward(self, x):
        y = self.linear(x) + self.shift
        if y.sum() > 1e9: y = -y
        self.cache = self.cache * 0.5 + y
        return y * self.n + self.cache.sum()
class Stack(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layers = torch.nn.ModuleList(Layer(1 + n % 2) for n in range(4))
    def forward(self, x):
        for layer in self.layers: x = layer(x)
        return x
"""


def layer_case(change):
    def make():
        m = module(LAYERS)
        stack = m.Stack()
        with torch.no_grad():
            yield stack.forward, tensor()
            change(m, stack)

    case(make, evolves=True, name=f"layers_{change.__name__}")


def weight_written(m, stack):
    stack.layers[2].linear.weight.mul_(2)


def weight_replaced(m, stack):
    stack.layers[1].linear.weight = torch.nn.Parameter(torch.ones(4, 4))


def weights_tied(m, stack):
    stack.layers[3].linear.weight = stack.layers[0].linear.weight


def buffer_replaced(m, stack):
    stack.layers[1].shift = torch.full((4,), -3.0)


def cache_replaced(m, stack):
    stack.layers[0].cache = torch.ones(4)


def cache_shared(m, stack):
    stack.layers[0].cache = stack.layers[1].cache = torch.ones(4)


def number_changed(m, stack):
    stack.layers[2].n = 5


def layer_removed(m, stack):
    del stack.layers[1]


def layer_swapped(m, stack):
    stack.layers[0], stack.layers[1] = stack.layers[1], stack.layers[0]


def forward_shadowed(m, stack):
    stack.layers[1].forward = lambda x: x * 3


def dtype_changed(m, stack):
    stack.layers[1].shift = stack.layers[1].shift.double()


for change in (
    weight_written,
    weight_replaced,
    weights_tied,
    buffer_replaced,
    cache_replaced,
    cache_shared,
    number_changed,
    layer_removed,
    layer_swapped,
    forward_shadowed,
    dtype_changed,
):
    layer_case(change)


@case(evolves=True)
def tensor_attribute_replaced_by_each_call():
    m = module("""
class Grid(torch.nn.Module):
    def forward(self, x):
        if getattr(self, "n", None) != x.shape[0]:
            self.n = x.shape[0]
            self.grid = torch.zeros(4)
        self.grid = self.grid * 0.5 + torch.tensor((3.0, 4.0, 1.0, 2.0))
        return x / self.grid
""")
    grid = m.Grid()
    yield grid, tensor()
    yield tensor()
    grid.grid = torch.ones(4)
    yield tensor()
    yield tensor(2, 4)


@case(evolves=True)
def tensor_in_a_global_replaced_by_each_call():
    m = module("""
class State: pass
state = State()
state.mean = torch.zeros(4)
def f(x):
    state.mean = state.mean * 0.5 + x
    return x - state.mean
""")
    yield m.f, tensor()
    yield tensor()
    m.state.mean = torch.ones(4)
    yield tensor()


# ---- who looks from outside


def traced(switch):
    def make():
        m = module("def f(x):\n    y = x * 2\n    return y + 1\n")
        code, seen = m.f.__code__, []

        def hook(frame, event, argument):
            if frame.f_code is code:
                seen.append(event)
            return hook

        yield m.f, call(tensor()).args[0]
        switch(hook)
        try:
            yield call(tensor()).watch(seen)
        finally:
            switch(None)

    case(make, name=f"traced_by_{switch.__name__}")


for switch in (sys.settrace, sys.setprofile):
    traced(switch)


# ---- iterators that are given: (name, body, first arguments, then others)

ITERATORS = {
    "length": ("for a in it: x = x * 2 + a", lambda: iter([1, 2]), lambda: iter([1, 2, 3])),
    "ended": ("for a in it: x = x * 2 + a", lambda: iter([1]), lambda: iter([])),
    "item": ("x = x + next(it)", lambda: iter([1, 2]), lambda: iter([5, 2])),
    "position": ("x = x + next(it)", lambda: iter([1, 2, 3]), lambda: advanced([1, 2, 3])),
    "default": ("x = x + next(it, 9)", lambda: iter([1]), lambda: iter([])),
    "stops": ("x = x + next(it)", lambda: iter([1]), lambda: iter([])),
    "kind": ("x = x + next(it)", lambda: iter([1, 2]), lambda: iter((1, 3))),
    "range": ("x = x + next(it)", lambda: iter(range(3)), lambda: iter(range(4, 9))),
    "range_step": ("x = x + next(it) + next(it)", lambda: iter(range(3)), lambda: iter(range(0, 9, 4))),
    "reversed": ("x = x + next(it)", lambda: reversed([1, 2]), lambda: reversed([1, 2, 7])),
    "enumerate": ("i, a = next(it); x = x * i + a", lambda: enumerate([1, 2]), lambda: enumerate([1, 2], 3)),
    "enumerate_item": ("i, a = next(it); x = x * i + a", lambda: enumerate([1, 2]), lambda: enumerate([4, 2])),
    "zip": (
        "a, b = next(it); x = x * a + b",
        lambda: zip([1], [2], strict=False),
        lambda: zip([1], [3], strict=False),
    ),
    "zip_ends": (
        "for a, b in it: x = x * a + b",
        lambda: zip([1, 2], [2, 3], strict=False),
        lambda: zip([1, 2], [2], strict=False),
    ),
    "zip_more": (
        "a, b = next(it); x = x * a + b",
        lambda: zip([1], [2], strict=False),
        lambda: zip([1], [2], [3], strict=False),
    ),
    "keys": ("for k in it: x = x * 2 + k", lambda: iter({1: 2, 3: 4}), lambda: iter({3: 2, 1: 4})),
    "values": ("for v in it: x = x * 2 + v", lambda: iter({1: 2}.values()), lambda: iter({1: 5}.values())),
    "items": ("for k, v in it: x = x * k + v", lambda: iter({1: 2}.items()), lambda: iter({2: 2}.items())),
    "generator": ("for a in it: x = x * 2 + a", lambda: iter([1, 2]), lambda: (n for n in (1, 2, 3))),
    "tensor": ("for row in it: x = x * 2 + row", lambda: iter(tensor()), lambda: iter(tensor()[:1])),
}

ITERATOR = """
def f(x, it):
    {body}
    {rest}
    return x * 3, list(it)
"""


def advanced(items):
    it = iter(items)
    next(it)
    return it


def iterator_case(name, body, first, second, rest):
    def make():
        f = module(ITERATOR.format(body=body, rest=rest)).f
        yield f, tensor(), first()
        yield f, tensor(), second()

    case(make, evolves=True, name=f"iterator_{name}{'_after_a_break' if rest else ''}")


for name, (body, first, second) in ITERATORS.items():
    iterator_case(name, body, first, second, "")
    iterator_case(name, f"if x.sum() > 1e9: x = -x\n    {body}", first, second, "x = x + 1")


@case(evolves=True)
def iterator_is_another_argument():
    m = module("def f(x, a, b): return x * next(a) + next(b), next(a, 0), next(b, 0)")
    yield m.f, tensor(), iter([1, 2, 3, 4]), iter([1, 2, 3, 4])
    one = iter([1, 2, 3, 4])
    yield m.f, tensor(), one, one


@case(evolves=True)
def iterator_was_another_argument():
    m = module("def f(x, a, b): return x * next(a) + next(b), next(a, 0), next(b, 0)")
    one = iter([1, 2, 3, 4])
    yield m.f, tensor(), one, one
    yield m.f, tensor(), iter([1, 2, 3, 4]), iter([1, 2, 3, 4])


@case(evolves=True)
def iterated_list_grows():
    m = module("def f(x, it, more):\n    x = x + next(it)\n    more.append(9)\n    return x, list(it), more")
    yield m.f, tensor(), iter([1, 2]), [5]
    both = [1, 2]
    yield m.f, tensor(), iter(both), both


@case(evolves=True)
def iterated_list_grew_first():
    m = module("def f(x, it, more):\n    more.append(9)\n    return x + next(it, 4), list(it), more")
    yield m.f, tensor(), iter([]), [5]
    both = []
    yield m.f, tensor(), iter(both), both


@case(evolves=True)
def iterated_dict_changes():
    m = module("def f(x, it, more):\n    more[7] = x\n    return x + next(it), len(more)")
    yield m.f, tensor(), iter({1: 2}), {5: 6}
    both = {1: 2, 3: 4}
    yield m.f, tensor(), iter(both), both


@case(evolves=True)
def iterated_dict_has_changed():
    m = module("def f(x, it): return x + next(it)")
    yield m.f, tensor(), iter({1: 2, 3: 4})
    table = {1: 2, 3: 4}
    it = iter(table)
    table[5] = 6
    yield m.f, tensor(), it


@case(evolves=True)
def iterated_dict_has_other_keys():
    m = module("def f(x, it): return x + next(it) + next(it)")
    yield m.f, tensor(), iter({1: 2, 3: 4})
    table = {1: 2, 3: 4}
    it = iter(table)
    del table[1]
    table[8] = 6
    yield m.f, tensor(), it


@case(evolves=True)
def iterator_in_a_global():
    m = module("IT = iter(range(100))\ndef f(x): return x + next(IT)")
    yield m.f, tensor()
    m.IT = iter(range(50, 60))


@case(evolves=True)
def iterator_in_an_attribute():
    m = module("class Box: pass\nbox = Box()\ndef f(x): return x + next(box.it, 0), x * next(box.it, 7)")
    m.box.it = enumerate(range(100))
    m.box.it = iter(range(100))
    yield m.f, tensor()
    m.box.it = iter([3])


@case(evolves=True)
def number_that_is_only_kept():
    m = module("""
def f(x, n, kept):
    if x.sum() > 1e9: x = -x
    kept.append(n)
    kept.append((n, [n]))
    return x * 2, kept
""")
    yield m.f, tensor(), 3, []
    yield m.f, tensor(), 4, []
    yield m.f, tensor(), 4.0, [1]
    yield m.f, tensor(), True, []
    yield m.f, tensor(), float("nan"), []
    yield m.f, tensor(), 2**70, []
    yield m.f, tensor(), -1, []


@case(evolves=True)
def number_that_is_kept_and_read():
    m = module("""
def f(x, n, kept):
    if x.sum() > 1e9: x = -x
    kept.append(n)
    box = {"n": n}
    if kept[-1] > 3: x = x + 1
    return x * 2, kept, box
""")
    yield m.f, tensor(), 3, []
    yield m.f, tensor(), 4, []
    yield m.f, tensor(), 3.5, []
