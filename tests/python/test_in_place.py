"""Results stored straight into the tensors that they replace: when it happens, and that nobody can tell."""

import numpy as np
import pytest
import torch

import braze


def adam(parameters, gradients, firsts, seconds, step):
    for p, g, m, v in zip(parameters, gradients, firsts, seconds, strict=True):
        m.mul_(0.9).add_(g, alpha=0.1)
        v.mul_(0.999).addcmul_(g, g, value=0.001)
        p.addcdiv_(m / (1 - 0.9**step), (v / (1 - 0.999**step)).sqrt_().add_(1e-8), value=-1e-3)


def copies_of(arguments):
    return [[t.clone() for t in x] if isinstance(x, list) else x for x in arguments]


def adam_arguments(shapes):
    torch.manual_seed(0)
    made = [[torch.rand(shape) for shape in shapes] for _ in range(4)]
    return [*made, 3]


@torch.no_grad()
def test_optimizers_write_in_place():
    shapes = [(33, 7), (5,), (64, 64), (1,), (3, 5, 7)]
    arguments = adam_arguments(shapes)
    wanted = copies_of(arguments)
    compiled = braze.compile(adam)
    for _ in range(4):
        compiled(*arguments)
        adam(*wanted)
        for got, want in zip(arguments[:4], wanted[:4], strict=True):
            for a, b in zip(got, want, strict=True):
                torch.testing.assert_close(a, b)
    (program,) = compiled.programs()
    assert program.memory()["arena_bytes"] == 0
    assert " = mutated " in program.code("loops")


def add_reversed(x):
    x.add_(x.flip(0))


def add_transposed(x):
    x.add_(x.t().clone())


def centre(x):
    x.sub_(x.mean())


def centre_rows(x):
    x.sub_(x.mean(1, keepdim=True))


def shift(x):
    x[1:].add_(x[:-1].clone())


def keep_old(x):
    old = x.clone()
    x.mul_(2)
    return old


def keep_part(x):
    part = x[1:, :2] + 0
    x.sqrt_()
    return part


def old_in_later_sum(x):
    y = x * 2
    x.zero_()
    return y.sum(0), (x + 1).sum()


def overwrite(x):
    x.copy_(torch.arange(x.numel(), dtype=x.dtype).view(x.shape))


def twice(x):
    x.add_(1)
    y = x.softmax(1)
    x.mul_(y)
    return x


def as_other_dtype(x):
    x.copy_((x.double() * 3).to(torch.float16))


def running_sum(x):
    x.copy_(x.cumsum(0))


def sort_of_norm(x):
    x.div_(x.norm(dim=1, keepdim=True) + 1)
    return x.sum(1)


CHANGES = [
    add_reversed,
    add_transposed,
    centre,
    centre_rows,
    shift,
    keep_old,
    keep_part,
    old_in_later_sum,
    overwrite,
    twice,
    as_other_dtype,
    running_sum,
    sort_of_norm,
]
LAYOUTS = {
    "whole": lambda x: x,
    "transposed": lambda x: x.t().contiguous().t(),
    "misaligned": lambda x: torch.empty(x.numel() + 1)[1:].view(x.shape).copy_(x),
    "part": lambda x: torch.zeros(x.shape[0] + 2, x.shape[1] + 3)[1:-1, 2:-1].copy_(x),
}


@torch.no_grad()
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("change", CHANGES, ids=lambda f: f.__name__)
def test_changes(change, layout):
    for side in (3, 8, 19, 67):
        x = LAYOUTS[layout](torch.rand(side, side) + 0.5)
        other = LAYOUTS[layout](x.clone())
        compiled = braze.compile(change)
        for _ in range(3):
            got, want = compiled(x), change(other)
            torch.testing.assert_close(x, other)
            for a, b in zip(*((r if isinstance(r, tuple) else (r,)) for r in (got, want)), strict=True):
                assert (a is None) == (b is None)
                if a is not None:
                    torch.testing.assert_close(a, b)
                    assert (a is x) == (b is other)


@torch.no_grad()
def test_large_ones_are_written_in_place():
    x = torch.rand(1 << 20)
    other = x.clone()
    compiled = braze.compile(lambda x: x.mul_(1.5).add_(1))
    for _ in range(3):
        compiled(x)
        other.mul_(1.5).add_(1)
        torch.testing.assert_close(x, other)
    assert compiled.programs()[0].memory()["arena_bytes"] == 0


@torch.no_grad()
def test_parts_of_one_buffer():
    flat = torch.rand(100)
    parts, other = [flat[:40], flat[40:73], flat[73:]], flat.clone()
    same = [other[:40], other[40:73], other[73:]]

    def f(parts):
        for k, part in enumerate(parts):
            part.mul_(k + 2)

    compiled = braze.compile(f)
    for _ in range(3):
        compiled(parts), f(same)
        torch.testing.assert_close(flat, other)


@torch.no_grad()
def test_memory_that_overlaps():
    def f(a, b):
        a.add_(b)
        b.mul_(a)

    def arguments(kind):
        base = np.arange(12, dtype=np.float32)
        t = torch.arange(12.0)
        return {
            "apart": lambda: (t.clone(), t.clone() + 1),
            "same": lambda: (t, t),
            "beside": lambda: (t[:6], t[6:]),
            "numpy": lambda: (torch.from_numpy(base[:8]), torch.from_numpy(base[4:])),
        }[kind]()

    for first in ("apart", "same", "beside", "numpy"):
        compiled = braze.compile(f)
        for kind in (first, "apart", "numpy", "same", "beside", first):
            got, want = arguments(kind), arguments(kind)
            compiled(*got), f(*want)
            for a, b in zip(got, want, strict=True):
                torch.testing.assert_close(a, b, msg=f"{kind} after {first}")


@torch.no_grad()
def test_what_fails_later_leaves_inputs_alone():
    table = torch.rand(5, 3)

    def f(x, i):
        x.mul_(2)
        return table[i] + x

    program = braze.trace(f, (torch.ones(3), torch.tensor([1])))
    x = torch.ones(3)
    with pytest.raises(IndexError):
        program(x, torch.tensor([7]))
    assert torch.equal(x, torch.ones(3))
    program(x, torch.tensor([4]))
    assert torch.equal(x, torch.full((3,), 2.0))
