"""torch.func, torch.cond, and what they close over."""

import torch
from staleness import case, module, tensor

torch.vmap(torch.sin)(torch.ones(1))  # Loads what warns, before anything is compared.

ROWS = """
scale = 2.0
weights = torch.ones(4)
def inner(row): return (row * scale + weights[0]).sum()
def vmapped(x): return torch.vmap(inner)(x + 1)
def differentiated(x): return torch.func.grad(lambda a: inner(a).sin())(x[0]) + 1
before = torch.vmap(inner)
def made_before(x): return before(x + 1)
within = torch.vmap(torch.func.grad(lambda row: inner(row).sin()))
def gradients_made_before(x): return within(x + 1)
twice = torch.func.grad(lambda a: torch.func.grad(lambda b: inner(b) ** 3)(a).sum())
def differentiated_twice(x): return twice(x[0]) + 1
def branches(x): return torch.cond(x.shape[0] > 1, lambda a: a * scale, lambda a: a - scale, (x,))
def selected(x): return torch.cond(x.sum() > 0, lambda a: a * scale, lambda a: a - scale, (x,))
def mapped(x): return torch.utils._pytree.tree_map(lambda a: a * scale, {'a': x, 'b': [x + 1]})['b'][0]
"""
NAMES = (
    *("vmapped", "differentiated", "made_before", "gradients_made_before", "differentiated_twice"),
    *("branches", "mapped"),
)


def changes(name, change):
    @case(name=f"{name}_{change.__name__}")
    def cases():
        m = module(ROWS)
        function = getattr(m, name)
        yield function, tensor(2, 4)
        change(m)
        yield tensor(2, 4)


def global_read_inside(m):
    m.scale = 3.0


def inner_function(m):
    m.inner.__code__ = (lambda row: row.prod()).__code__


for _name in NAMES:
    changes(_name, global_read_inside)
for _name in NAMES[:5]:
    changes(_name, inner_function)


@case
def predicate():
    m = module(ROWS)
    m.torch = torch
    yield m.branches, tensor(2, 4)
    yield tensor(1, 4)


@case
def dims_of_a_transform_made_before():
    m = module(ROWS)
    yield m.made_before, tensor(4, 4)
    m.before = torch.vmap(m.inner, in_dims=1)
    yield tensor(4, 4) * 2


@case
def data_of_another_tensor():
    m = module("w = torch.ones(4)\ndef f(x): return x * w.data + w.detach().data")
    yield m.f, tensor()
    m.w = torch.full((4,), 2.0)
    yield tensor()
    m.w.data = torch.full((4,), 3.0)
    yield tensor()


@case
def classes():
    m = module("count = 6\ndef f(x): return torch.nn.functional.one_hot(x.long(), count) + 1")
    yield m.f, tensor()
    m.count = 5
    yield tensor()
