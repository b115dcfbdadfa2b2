"""Sizes that are kept in containers and objects over a graph break are symbols of the piece behind it, too."""

import copy
import dataclasses
import functools
import math
import threading
from collections import deque

import pytest
import torch
from any_size import rows, same, second_capture_serves_all
from torch import nn

import braze
from braze._load import C

pytestmark = [
    pytest.mark.skipif(not hasattr(C, "CompiledFunction"), reason="no evaluator for this Python"),
    pytest.mark.usefixtures("no_grad"),
]


def end_graph():
    print(end="")


def shape_by_index(x):
    shape = x.shape
    y = x * 2
    end_graph()
    return y.reshape(shape[0], 2, -1) + 1


def whole_shape(x):
    shape = x.shape
    y = x.flatten()
    end_graph()
    return y.reshape(shape) + 1, y.reshape(*shape) - 1


def unpacked_shape(x):
    shape = x.shape
    y = x.flatten()
    end_graph()
    n, m = shape
    return y.reshape(n, m) + n


def list_of_sizes(x):
    sizes = [x.shape[0], x.shape[1] * 2]
    y = x * 2
    end_graph()
    n, m = sizes
    return y.reshape(sizes[0], 2, -1) + m, torch.zeros([n + 1, m]), sizes


def sizes_in_a_loop(x):
    sizes = [(x.shape[0], 2), (x.shape[0] * 2, 3)]
    y = x * 2
    end_graph()
    return y + 1, [torch.zeros(h, w) + 1 for h, w in sizes]


def totals(x):
    sizes = [x.shape[0], x.shape[0] + 1]
    shape = x.shape
    y = x * 2
    end_graph()
    return y + sum(sizes), max(sizes), y / shape.numel() + math.prod(shape)


def nested(x):
    kept = (x.shape, {"half": (x.shape[0] // 2,)})
    y = x.flatten()
    end_graph()
    return y.reshape(kept[0]) + kept[1]["half"][0]


def dict_of_sizes(x):
    sizes = {"n": x.shape[0], "m": x.shape[1] * 2}
    y = x * 2
    end_graph()
    return y.reshape(sizes["n"], 2, -1) + sizes.get("m"), sizes.get("q", 1)


def entries(x):
    sizes = {"n": x.shape[0], "m": x.shape[1] * 2}
    y = x * 2
    end_graph()
    for size in sizes.values():
        y = y + size
    return y, {name: size + 1 for name, size in sizes.items()}


def keywords(x):
    sizes = {"n": x.shape[0], "m": x.shape[1] * 2}
    y = x * 2
    end_graph()

    def reshaped(n, m):
        return y.reshape(n, 2, -1) + m

    return reshaped(**sizes)


@dataclasses.dataclass
class Kept:
    count: int
    shape: tuple


def attributes(x):
    kept = Kept(x.shape[0], tuple(x.shape))
    y = x.flatten()
    end_graph()
    return y.reshape(kept.shape) + kept.count


class Keeper(nn.Module):
    """Its `__setattr__` is Python code, which ends in object's."""

    def forward(self, x):
        self.count, self.shape, self.sizes = x.shape[0], x.shape, [x.shape[0] * 2]
        y = x * 2
        end_graph()
        return y.reshape(self.count, 2, -1) + self.shape[0], self.sizes[0]


keeper = Keeper()


def attributes_of_a_module(x):
    return keeper(x), keeper.count, keeper.shape, list(keeper.sizes)


def derived_numbers(x):
    numbers = [1 / math.sqrt(x.shape[0]), x.shape[0] * 0.5]
    y = x * 2
    end_graph()
    return y * numbers[0] + numbers[1]


def parameters(x):
    def inner(y, *sizes, **named):
        end_graph()
        return y.reshape(sizes[0], 2, -1) + named["m"]

    return inner(x * 2, x.shape[0], 3, m=x.shape[0])


def two_breaks(x):
    n, m = x.shape
    y = x * 2
    end_graph()
    z = y.reshape(n, 2, -1)
    shape = z.shape
    end_graph()
    return z.reshape(shape[0], shape[1] * shape[2]) + n


def changed_list(x):
    sizes = [x.shape[0], 7]
    y = x * 2
    end_graph()
    sizes.append(sizes[0] + 1)
    return y + sizes[0], sizes


@pytest.mark.parametrize(
    "program",
    [
        shape_by_index,
        whole_shape,
        unpacked_shape,
        list_of_sizes,
        sizes_in_a_loop,
        totals,
        nested,
        dict_of_sizes,
        entries,
        keywords,
        attributes,
        attributes_of_a_module,
        derived_numbers,
        parameters,
        two_breaks,
        changed_list,
    ],
    ids=lambda program: program.__name__,
)
def test_two_captures_for_all_sizes(program):
    assert second_capture_serves_all(program, rows(4, 8, 10, 12, 14, 16)) == 0
    compiled = braze.compile(program)
    for (x,) in rows(4, 8, 2, 1, 0, 10, 1, 0):
        try:
            expected = program(x)
        except (RuntimeError, ZeroDivisionError) as error:
            with pytest.raises(type(error)):
                compiled(x)
        else:
            same(compiled(x), expected)


def test_a_shape_of_one_size_is_captured_once():
    """It is another object at each call."""
    compiled = braze.compile(shape_by_index)
    for call in rows(4, 4, 4):
        same(compiled(*call), shape_by_index(*call))
    assert compiled.counts() == {"captured": 1, "replayed": 2, "native": 0}


@pytest.mark.parametrize("whole", [True, False])
def test_a_program_of_one_element_leaves_other_sizes_to_their_own(whole):
    """The second capture makes the length a symbol, but for one that is 1."""

    def function(x, y):
        z = x.sin() + y
        if not whole:
            end_graph()
        return z.cos() + x.shape[1], x.shape

    compiled = braze.compile(function)
    native = []
    for size in (8, 1, 8, 1, 8, 5, 1, 8, 7):
        x, y = torch.randn(6, size), torch.randn(6, 1)
        ours, theirs = compiled(x, y), function(x, y)
        same(ours[0], theirs[0])
        assert ours[1] == theirs[1]
        native.append(compiled.report()["operators"]["native"])
    assert native == [0] * len(native)
    segments = [segment for segment in compiled.report()["segments"] if segment["op_count"]]
    assert len(segments) == (3 if whole else 6)  # 8, 1 and all others.


# ---- what looks at the numbers of a container sees those of its call


def text(x):
    sizes = (x.shape[0], 3)
    y = x * 2
    end_graph()
    return y + 1, f"{sizes}", str(sizes), "%d %d" % sizes, repr([sizes])  # noqa: UP031


def methods(x):
    sizes = [x.shape[0], 7, 9]
    y = x * 2
    end_graph()
    sizes.sort()
    return y + sizes[0], sizes, sorted(sizes, reverse=True), sizes.index(7), sizes.count(8)


def changes(x):
    sizes, named = [x.shape[0], 7], {"a": x.shape[0], "b": 7}
    y = x * 2
    end_graph()
    sizes[1] = sizes[0] * 2
    sizes.insert(0, 3)
    sizes.extend((1, sizes[1]))
    del sizes[0]
    named["b"] = named["a"] * 2
    named.setdefault("q", named.pop("a"))
    return y + sizes.pop(), sizes, named


def iterators(x):
    sizes = [x.shape[0], 3, x.shape[0] + 1]
    before = iter(sizes)
    y = x * 2
    end_graph()
    after = iter(sizes)
    return y + next(after), sum(after), next(before), list(before), any(size > 8 for size in sizes)


def held_by_others(x):
    part, queue = functools.partial(torch.zeros, x.shape[0]), deque([x.shape[0], (x.shape[0], 3)])
    named = {"n": x.shape[0], "m": 3}
    y = x * 2
    end_graph()
    return (
        part(2) + 1,
        y + queue[0],
        sum(queue[1]),
        8 in named.values(),
        ("n", 8) in named.items(),
        sum(named.values()),
    )


def keys(x):
    sizes, named = (x.shape[0], 3), {(4, 3): 1, (8, 3): 2}
    y = x * 2
    end_graph()
    return y + named.get(sizes, 5), sizes in named, hash(sizes) == hash((8, 3)), {sizes: 1}


def comparisons(x):
    sizes = (x.shape[0], 2)
    y = x * 2
    end_graph()
    return (y + 1 if sizes[0] > 8 else y - 1), sizes < (8, 1), sizes == (8, 2), sizes + (1,), sizes * 2, [*sizes, 4]


def identities(x):
    shape = x.shape
    kept = [shape]
    y = x * 2
    end_graph()
    return y + shape[0], kept[0] is shape, shape is x.shape


def copies(x):
    sizes = [x.shape[0], [2]]
    y = x * 2
    end_graph()
    copied = copy.deepcopy(sizes)
    copied[1].append(sizes[0])
    return y + 1, sizes, copied, copy.copy(sizes)


@pytest.mark.parametrize("beside_a_thread", [False, True], ids=["alone", "beside a thread"])
@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize(
    "program",
    [text, methods, changes, iterators, held_by_others, keys, comparisons, identities, copies],
    ids=lambda program: program.__name__,
)
def test_what_looks_at_them(program, dynamic, beside_a_thread):
    done = threading.Event()
    if beside_a_thread:
        threading.Thread(target=done.wait).start()
    try:
        compiled = braze.compile(program, dynamic=dynamic)
        for call in rows(4, 8, 10, 8, 12, 7, 2, 1, 0, 9):
            same(compiled(*call), program(*call))
    finally:
        done.set()


def test_numbers_of_a_dict_that_is_not_the_functions():
    settings, x = {"rows": 3, "scale": 0.5}, torch.randn(30, 4)

    def f(x):
        return x[: settings["rows"]] * settings.get("scale") + settings.get("rows")

    calls = [(3, 0.5), (4, 0.25), (5, 0.75), (9, 0.5), (1, 2.0), (0, 3.0), (12, 0.1)]
    compiled = braze.compile(f)
    for settings["rows"], settings["scale"] in calls:
        same(compiled(x), f(x))
        assert settings == {"rows": settings["rows"], "scale": settings["scale"]}
    assert compiled.counts()["captured"] <= 4 and compiled.counts()["native"] == 0


def test_a_capture_leaves_containers_as_they_were():
    sizes, one = [1000, 2000], 3000
    shape = (one, sizes)

    def f(x):
        return x + sum(shape[1]) + shape[0]

    compiled = braze.compile(f)
    for sizes[0] in (1000, 1001, 1002, 1003):
        given = sizes[0]
        same(compiled(torch.ones(3)), torch.ones(3) + sum(sizes) + one)
        assert sizes[0] is given and shape[0] is one and shape[1] is sizes
    assert compiled.counts()["captured"] == 2


# What lies over the memory of x, the first half of the rows of `base`, or beside it.
BESIDE = {
    "the same": lambda x, base: x,
    "first rows": lambda x, base: x[:2],
    "later rows": lambda x, base: x[1:],
    "every other row": lambda x, base: x[::2],
    "columns": lambda x, base: x[:, :2],
    "transposed": lambda x, base: x.t(),
    "one element": lambda x, base: x[0, 0],
    "rows that go on": lambda x, base: base[1 : len(x) + 1],
    "rows behind it": lambda x, base: base[len(x) :],
    "a copy": lambda x, base: x.clone(),
}
# Of whole numbers, so that sums are exact.
OVER_ONE_MEMORY = {
    "reads": "r = x.sum() + y.sum(), y * y.dim()",
    "writes to the first": "x.add_(1); r = y * 2",
    "writes to the second": "y.mul_(2); r = x + 0",
    "writes to both": "x.add_(len(x)); y.sub_(1); r = x.sum(), x + 0, y * 2",
    "writes to a part": "x[1:].mul_(2); r = y + 1, x.t()",
    "writes to a column": "y[..., 0].add_(3); r = x * 2",
    "writes what was read": "x.copy_(x.cumsum(0)); r = y.clone()",
}


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("first", ["x", "y"])
@pytest.mark.parametrize("name", OVER_ONE_MEMORY)
def test_tensors_over_one_memory_vary_together(name, first, dynamic):
    """At each call they lie as at the one before, or in another way."""
    scope = {}
    exec(f"def f(x, y):\n    z = {first}.sum()\n    {OVER_ONE_MEMORY[name]}\n    return r, z, x, y", scope)
    function = scope["f"]
    kinds = list(BESIDE)
    for k, kind in enumerate(kinds):
        compiled = braze.compile(function, dynamic=dynamic)
        others = [kind, kind, kind, kinds[(3 * k + 1) % len(kinds)], kind, kinds[(k + 5) % len(kinds)], kind]
        for (n, m), beside in zip([(5, 6), (8, 6), (13, 7), (3, 4), (9, 12), (4, 4), (6, 3)], others, strict=True):

            def given(n=n, m=m, beside=beside):
                base = torch.arange(2.0 * n * m).view(2 * n, m)
                return base[:n], BESIDE[beside](base[:n], base)

            one, other = given(), given()
            try:
                expected = function(*one)
            except (RuntimeError, IndexError) as error:
                with pytest.raises(type(error)):
                    compiled(*other)
            else:
                same(compiled(*other), expected)
            same(other, one)


@pytest.mark.parametrize("gradients", [False, True])
def test_a_batch_and_its_views_behind_a_break(gradients):
    """As a decoder is given the first tokens of what an encoder has seen."""
    first, last = nn.Linear(6, 6), nn.Linear(6, 6)

    def inner(x, y):
        z = x.sum() + y.sum()
        if bool(z > -1e9):
            z = z + 1
        return z * y.shape[0]

    def f(x, y):
        return inner(first(x), y) + last(y)

    def whole(x):
        return f(x, x[:, :2])

    compiled = braze.compile(whole)
    with torch.set_grad_enabled(gradients):
        for n in (5, 8, 13, 3, 34):
            x = torch.randn(2, n, 6, requires_grad=True)
            twin = x.detach().clone().requires_grad_()
            results = compiled(x), whole(twin)
            same(*results)
            if gradients:
                same(*[torch.autograd.grad(y.sin().sum(), z) for y, z in zip(results, (x, twin), strict=True)])
    assert compiled.counts()["captured"] == 2
