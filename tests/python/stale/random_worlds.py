"""Random small programs over a world of globals, objects and containers, and random changes of that world.

Two worlds are built from one seed. One is used by plain Python, the other by what is tested; both are changed in
the same way between calls, and every call must show the same in both.
"""

from __future__ import annotations

import random

import torch
from staleness import Seen, call, module, observe, tensor

NUMBERS = [0, 1, 2, 3, True, False, 1.0, 2.0, 0.0, -0.0, -1, 0.5, 7]

WORLD = """
import math
class Base:
    shared = 1
    def scaled(self): return self.value * 2
class Thing(Base):
    def __init__(self, value):
        self.value = value
        self.child = None
    @property
    def doubled(self): return self.value + self.value
class Twin(Thing):
    shared = 5
    def scaled(self): return self.value * 3
class Slotted:
    __slots__ = ("value",)
def make_counter(value):
    def get(): return value
    def put(new):
        nonlocal value
        value = new
    return get, put
def helper(a, b=2, *, c=1): return a * b + c
def noisy(value):
    print("noisy", end=" ")
    log.append(value)
    return value
def stepper(x, by):
    y = x * 2 + by
    noisy(by)
    for item in items:
        y = y - item
        if item == 2: print("two", end=" ")
    try:
        return y + number
    finally:
        noisy(number)
get, put = make_counter(1)
number = 1
config = {"a": 1, "b": [1, 2], "c": {"d": 3}}
items = [1, 2, 3]
pair = (1, [2])
thing = Thing(1); thing.child = Thing(2)
slotted = Slotted(); slotted.value = 1
weights = torch.ones(4)
tensors = [torch.ones(4), torch.full((4,), 2.0)]
layer = torch.nn.Linear(4, 4)
with torch.no_grad():
    layer.weight.copy_(torch.eye(4)); layer.bias.zero_()
log = []
state = {"calls": 0}
"""

SCALARS = [
    "number",
    "config['a']",
    "config['c']['d']",
    "config.get('z', 4)",
    "len(config)",
    "config['b'][0]",
    "sum(config['b'])",
    "items[0]",
    "items[-1]",
    "len(items)",
    "sum(items)",
    "max(items)",
    "pair[0]",
    "pair[1][0]",
    "thing.value",
    "thing.child.value",
    "thing.shared",
    "thing.scaled()",
    "thing.child.scaled()",
    "thing.doubled",
    "slotted.value",
    "get()",
    "helper(2)",
    "helper(thing.value)",
    "k",
    "math.floor(2.5)",
    "isinstance(thing, Twin)",
    "getattr(thing, 'extra', 3)",
    "(1 if 2 in items else 0)",
    "int(layer.training)",
    "x.shape[0]",
]
TENSORS = ["x", "weights", "tensors[0]", "tensors[-1]", "layer.bias", "layer(x)", "torch.relu(x - 2)"]
STATEMENTS = [
    "r = r + ({s}) * ({t})",
    "r = r * ({s})",
    "r = r - ({t})",
    "r = torch.sin(r) + ({s})",
    "if ({s}) > ({s2}): r = r + 1",
    "if ({s}) == ({s2}): r = r * 2\n    else: r = r - ({t})",
    "for i in items: r = r + i",
    "for key, v in config.items(): r = r + len(key)",
    "r = sum([r * i for i in (1, ({s}))])",
    "out.append(({s}))",
    "out.append(type(({s})).__name__)",
    'out.append(f"{{({s})}}")',
    "try:\n        r = r + 1 / ({s})\n    except ZeroDivisionError: out.append('zero')",
    "a, *rest = items\n    r = r + a * len(rest)",
    "r = r + torch.tensor([({s}), 1.0, 2.0, ({s2})])",
    "r = torch.where(r > ({s}), r, ({t}))",
]
# What ends a graph: what follows is another segment.
BREAKS = [
    "print(end='')",
    "out.append(len(r.tolist()))",
    "r = r + noisy(({s}))",
    "r = stepper(r, ({s}))",
    "if bool((r == r).all()): r = r + ({s})",
    "for i in items:\n        r = r + i\n        print(i, end=' ')",
    "with torch.no_grad():\n        r = r * 2\n        print(end='')\n        r = r + ({s})",
    "try:\n        r = r + 1\n        noisy(1 / ({s}))\n    except ZeroDivisionError: r = r * 2",
    "late = lambda v: v + ({s}) * r\n    print(end='')\n    r = late(r)",
    "keep = [r, {{'r': r}}]\n    noisy(2)\n    r = keep[0] + keep[1]['r']",
]
EFFECTS = [
    "log.append(({s}))",
    "state['calls'] = ({s})",
    "thing.seen = ({s})",
    "print('s', ({s}))",
    "weights.add_(({s}))",
]

# What may change between two calls; `n` and `m` are random numbers, `w` the world.
CHANGES = [
    "w.number = n",
    "w.config['a'] = n",
    "w.config['c']['d'] = n",
    "w.config['z'] = n",
    "w.config.pop('z', None)",
    "w.config['b'][0] = n",
    "w.config['b'].append(n)",
    "w.config['c'] = {'d': n}",
    "w.config['a'] = w.config.pop('a')",
    "w.items[0] = n",
    "w.items.append(n)",
    "w.items.reverse()",
    "w.items[:] = [n, m]",
    "w.items = [m, n, m]",
    "w.pair = (n, [m])",
    "w.pair[1][0] = n",
    "w.thing.value = n",
    "w.thing.child.value = n",
    "w.thing.child = w.Thing(n)",
    "w.thing.child = w.thing",
    "w.thing = w.Twin(n); w.thing.child = w.Thing(m)",
    "w.thing.__class__ = w.Twin",
    "w.thing.__class__ = w.Thing",
    "w.thing.__dict__ = dict(w.thing.__dict__, value=n)",
    "w.thing.extra = n",
    "w.thing.shared = n",
    "w.Base.shared = n",
    "w.Base.scaled = lambda self: n",
    "w.Thing.doubled = property(lambda self: n)",
    "w.Thing.__getattr__ = lambda self, name: n",
    "w.slotted.value = n",
    "w.put(n)",
    "w.helper.__defaults__ = (n,)",
    "w.helper.__kwdefaults__ = {'c': n}",
    "w.helper.__code__ = (lambda a, b=2, *, c=1: a - b - c).__code__",
    "w.f.__defaults__ = (n,)",
    "w.weights = torch.full((4,), float(n))",
    "w.weights.fill_(n)",
    "w.weights = torch.ones(4, dtype=torch.float64)",
    "w.weights = torch.ones(8)[::2]",
    "w.weights = w.tensors[0]",
    "w.tensors[0] = torch.full((4,), float(m))",
    "w.tensors.append(torch.full((4,), float(n)))",
    "w.layer.bias.data.fill_(n)",
    "w.layer.bias = torch.nn.Parameter(torch.full((4,), float(m)))",
    "w.layer.eval()",
    "w.layer.train()",
    "w.layer.register_forward_hook(lambda mod, args, out: out + n)",
    "w.layer.forward = lambda x: x * n",
    "w.layer = torch.nn.Identity(); w.layer.bias = torch.ones(4)",
    "w.max = min",
    "w.len = lambda v: n",
]


def source_of(rng, effects, breaks):
    lines = []
    for _ in range(rng.randrange(1, 6)):
        line = rng.choice(EFFECTS if effects and rng.random() < 0.3 else STATEMENTS)
        if breaks and rng.random() < 0.4:
            line = rng.choice(BREAKS)
        lines.append(line.format(s=rng.choice(SCALARS), s2=rng.choice(SCALARS), t=rng.choice(TENSORS)))
    body = "\n    ".join(lines)
    return f"{WORLD}\ndef f(x, k=1):\n    r, out = x, []\n    {body}\n    return r, out\n"


def inputs(rng):
    x = tensor()
    return rng.choice([x, x, x, x * 2, x.double(), tensor(8)[::2], tensor(1).expand(4)])


def apply(change, world, seed):
    rng = random.Random(seed)
    names = {"w": world, "torch": torch, "n": rng.choice(NUMBERS), "m": rng.choice(NUMBERS)}
    exec(change, names)


def watched(world):
    """What programs write to. Not the layer: hooks are numbered through the whole process."""
    return world.log, world.state, world.thing, world.weights, world.tensors, world.items, world.config


def run_world(seed, compile, calls=8) -> tuple[list[Seen], list[str]]:
    """All that is seen of one random program, and what was done, for messages."""
    rng = random.Random(seed)
    source = source_of(rng, effects=seed % 3 == 0, breaks=seed % 2 == 0)
    world, story = module(source), [source.partition(WORLD)[2]]
    compiled = compile(world.f)
    seen = []
    with torch.no_grad():
        for _ in range(calls):
            x = inputs(rng)
            for _ in range(rng.choice([1, 1, 2])):
                story.append(f"call({x.dtype}, {x.tolist()}, {x.stride()})")
                seen.append(observe(compiled, call(x.clone() if x.is_contiguous() else x).watch(*watched(world))))
            change = rng.choice(CHANGES)
            number = rng.randrange(1000)
            story.append(change)
            apply(change, world, number)
    return seen, story
