"""Writes into a part of a tensor that lives on between calls: as in eager, and at the cost of the part."""

import math
import random

import pytest
import torch
import torch.nn.functional as F

import braze


def randomly_viewed(draw, sizes):
    """Text that follows a tensor of these sizes, and the sizes of the view that it makes of it. `p` is a number."""
    text, sizes = "", list(sizes)
    for _ in range(draw.choice([1, 1, 2, 3])):
        kind, dim = draw.randrange(6), draw.randrange(len(sizes)) if sizes else 0
        size = sizes[dim] if sizes else 1
        if kind == 0 and len(sizes) > 1:
            text += f".select({dim}, {draw.choice([str(draw.randrange(size)), f'p % {size}'])})"
            del sizes[dim]
        elif kind == 1 and size > 1:
            length = draw.randint(1, size)
            start = draw.choice([str(draw.randint(0, size - length)), f"p % {size - length + 1}"])
            text += f".narrow({dim}, {start}, {length})"
            sizes[dim] = length
        elif kind == 2 and len(sizes) > 1:
            text += f".transpose({dim}, {dim - 1})"
            sizes[dim], sizes[dim - 1] = sizes[dim - 1], sizes[dim]
        elif kind == 3 and size > 1:
            text += f"[{', '.join([':'] * dim + ['::2'])}]"
            sizes[dim] = -(-size // 2)
        elif kind == 4:
            text += f".unsqueeze({dim})"
            sizes.insert(dim, 1)
        elif kind == 5 and not text and size % 2 == 0 and dim == 0:
            text += f".view(2, {size // 2}, {', '.join(map(str, sizes[1:]))})"
            sizes = [2, size // 2, *sizes[1:]]
    return text, sizes


def random_function(seed):
    """f(c, d, x, i, p): reads and writes parts of c and d."""
    draw = random.Random(seed)
    sizes = draw.choice([[4, 6], [4, 6, 3], [2, 4, 6, 3], [8, 5]])
    lines, results = [], []
    for _ in range(draw.randint(1, 5)):
        kind, to = draw.random(), draw.choice("cccd")
        view, shape = randomly_viewed(draw, sizes)
        many = f"torch.linspace(0, 1, {max(1, math.prod(shape))}).view({shape}) * x.sum()"
        if kind < 0.45:
            other = f"{draw.choice('cd')}{view}{draw.choice(['.clone()', ' * 0.5', ' + x.sum()'])}"
            lines.append(f"{to}{view}.copy_({draw.choice(['torch.tensor(1.5)', 'x.mean()', many, other])})")
        elif kind < 0.6:
            dim, count = draw.randrange(len(sizes)), draw.randint(1, 3)
            lines.append(f"{to}[{', '.join([':'] * dim + [f'i[:{count}] % {sizes[dim]}'])}] = x.sum()")
        elif kind < 0.7:
            lines.append(f"{to}{view}.{draw.choice(['mul_(0.5)', 'add_(x.sum())', 'zero_()', 'fill_(2.0)'])}")
        else:
            read = f"{to}{view}{draw.choice(['.sum()', ' * 2', '.clone()', '.sin()'])}"
            product = f"torch.mm(x.view(2, 3), x.view(3, 2)) + {to}.flatten()[:4].view(2, 2)"
            lines.append(f"r{len(results)} = {read if kind < 0.9 else product}")
            results.append(f"r{len(results)}")
    space: dict = {"torch": torch}
    exec("def f(c, d, x, i, p):\n  " + "\n  ".join([*lines, f"return [{', '.join(results)}]"]), space)
    return space["f"], sizes


@pytest.mark.parametrize("dynamic", [None, True, False])
@pytest.mark.parametrize("first", range(0, 120, 20))
def test_random_writes(first, dynamic):
    for seed in range(first, first + 20):
        function, sizes = random_function(seed)
        compiled = braze.compile(function, dynamic=dynamic)
        ours = [torch.randn(sizes), torch.randn(sizes)]
        if seed % 5 == 0:
            ours[0] = torch.randn(sizes[::-1]).permute(*range(len(sizes) - 1, -1, -1))
        eager = [torch.empty_strided(t.shape, t.stride()).copy_(t) for t in ours]
        for call in range(4):
            arguments = torch.randn(6), torch.randperm(6)[:3], call + 2
            results = compiled(*ours, *arguments), function(*eager, *arguments)
            try:
                torch.testing.assert_close(*results)
                torch.testing.assert_close(ours, eager)
            except AssertionError as error:
                raise AssertionError(f"of seed {seed}, call {call}: {error}") from None


class Attention(torch.nn.Module):
    """Keys and values of earlier calls are kept."""

    def __init__(self, write):
        super().__init__()
        self.project = torch.nn.Linear(32, 96)
        self.write = write
        self.register_buffer("keys", torch.zeros(2, 4, 4096, 8))
        self.register_buffer("values", torch.zeros(2, 4, 4096, 8))

    def forward(self, x, at):
        q, k, v = (part.view(2, -1, 4, 8).transpose(1, 2) for part in self.project(x).chunk(3, -1))
        self.write(self.keys, k, at)
        self.write(self.values, v, at)
        return F.scaled_dot_product_attention(q, self.keys, self.values).transpose(1, 2).flatten(2)


def write_slice(cache, new, at):
    cache[:, :, at : at + new.shape[2]] = new


def write_at_places(cache, new, at):
    cache.index_copy_(2, at + torch.arange(new.shape[2]), new)


def write_at_index(cache, new, at):
    cache[:, :, at + torch.arange(new.shape[2])] = new


@pytest.mark.parametrize("dynamic", [None, True, False])
@pytest.mark.parametrize("write", [write_slice, write_at_places, write_at_index])
def test_a_cache_of_keys_and_values(write, dynamic):
    torch.manual_seed(0)
    model = Attention(write).eval()
    like = Attention(write).eval()
    like.load_state_dict(model.state_dict())
    compiled = braze.compile(model, dynamic=dynamic, fullgraph=True)
    with torch.no_grad():
        at = 0
        for count in (5, 1, 1, 1, 3):
            x = torch.randn(2, count, 32)
            torch.testing.assert_close(compiled(x, at), like(x, at))
            torch.testing.assert_close(model.state_dict(), like.state_dict())
            at += count
    cache = model.keys.numel() * 4
    for program in compiled.programs():
        plan = program.plan()
        assert sum(buffer["kind"] == "mutated" for buffer in plan["buffers"]) == 2
        assert plan["arena_bytes"] < cache / 8


def test_what_fails_on_the_way_leaves_what_eager_leaves():
    def before(c, i, x):
        y = x[i]
        c[2:4] = x.sum()
        return y

    def after(c, i, x):
        c[2:4] = x.sum()
        return x[i] + c.sum()

    def itself(c, i, x):
        c[i] = x.sum()
        return c * 2

    def in_a_product(c, i, x):
        c[2:4] = x.sum()
        return torch.linalg.cholesky(x[i].view(1, 1)) + c.sum()

    for function in (before, after, itself, in_a_product):
        compiled = braze.compile(function)
        ours, eager = torch.zeros(6, 3), torch.zeros(6, 3)
        x = torch.arange(1.0, 6.0)
        for at in ([1], [2], [9], [3], [0], [2]):
            x = x + 1 if at != [0] else -x
            outcomes = []
            for one, cache in ((compiled, ours), (function, eager)):
                try:
                    outcomes.append(one(cache, torch.tensor(at), x))
                except (IndexError, RuntimeError) as error:
                    outcomes.append(torch.zeros(()) if isinstance(error, IndexError) else torch.ones(()))
            torch.testing.assert_close(*outcomes)
            torch.testing.assert_close(ours, eager)


def test_arguments_over_one_memory():
    def f(c, d, x):
        c[1] = x
        return d * 2

    compiled = braze.compile(f)
    for make in (lambda m: (m[:4], m[4:]), lambda m: (m[:4], m[:4]), lambda m: (m[:4], m[1:5])):
        ours, eager = torch.zeros(8, 3), torch.zeros(8, 3)
        for k in range(3):
            x = torch.full((3,), float(k))
            torch.testing.assert_close(compiled(*make(ours), x), f(*make(eager), x))
            torch.testing.assert_close(ours, eager)


def test_a_part_of_a_buffer_is_written_in_training():
    class Memory(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(8, 8)
            self.register_buffer("memory", torch.zeros(64, 8))

        def forward(self, x, at):
            y = self.linear(x)
            self.memory[at : at + len(x)] = y.detach()
            return (y @ self.memory.T).relu().sum()

    torch.manual_seed(0)
    ours, eager = Memory(), Memory()
    eager.load_state_dict(ours.state_dict())
    compiled = braze.compile(ours)
    for at in (0, 4, 8, 12):
        x = torch.randn(4, 8)
        for one in (compiled, eager):
            one(x, at).backward()
        torch.testing.assert_close(ours.state_dict(), eager.state_dict())
        torch.testing.assert_close(ours.linear.weight.grad, eager.linear.weight.grad)


def enqueue(c, x, at):
    logits = x @ c.T
    c[at : at + len(x)] = x
    return logits.softmax(1)


def moving_average(c, x, at):
    c[at] = c[at] * 0.9 + x.mean(0) * 0.1
    return x * 2


def added(c, x, at):
    c[at : at + len(x)] += x
    return x.sum()


def replaced(c, x, at):
    old = c[at].clone()
    c[at] = x[0]
    return old * 2


def moved_up(c, x, at):
    c[1:] = c[:-1].clone()
    c[0] = x[0]
    return c[at]


@pytest.mark.parametrize("dynamic", [None, True, False])
@pytest.mark.parametrize("function", [enqueue, moving_average, added, replaced, moved_up])
def test_what_was_there_is_read_as_well(function, dynamic):
    compiled = braze.compile(function, dynamic=dynamic)
    ours, eager = torch.ones(4096, 8), torch.ones(4096, 8)
    for at in (0, 3, 6, 9, 12):
        x = torch.randn(3, 8)
        torch.testing.assert_close(compiled(ours, x, at), function(eager, x, at))
        torch.testing.assert_close(ours, eager)
    if function is not moved_up and dynamic is not False:  # numbers that are constants end graphs after a few
        for program in compiled.programs():
            assert any(buffer["kind"] == "mutated" for buffer in program.plan()["buffers"])
            assert program.plan()["arena_bytes"] < 4096 * 32
