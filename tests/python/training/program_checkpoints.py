"""Compiled functions under torch.utils.checkpoint."""

import contextlib
from functools import partial

import torch
from program_cases import case, grads_of, leaf, values_of
from torch import nn
from torch.utils.checkpoint import (
    CheckpointError,
    GraphExecGroup,
    checkpoint,
    create_selective_checkpoint_contexts,
    set_checkpoint_early_stop,
)

captured_whole = set()


def whole(program):
    """A case of which nothing runs natively."""
    captured_whole.add(program.__name__)
    return case(program)


def dropping():
    return nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Dropout(0.3), nn.LayerNorm(8), nn.Linear(8, 4))


def again(function, *args, **how):
    return checkpoint(function, *args, use_reentrant=False, **how)


def checkpointed(how):
    def program(compile):
        model = dropping()
        f = compile(model)
        for n in (3, 3, 4, 3, 4, 5):
            x = leaf(n, 4)
            model.zero_grad()
            again(f, x, **how).square().sum().backward()
            yield grads_of(model), x.grad, torch.rand(1)

    return program


for name, how in {
    "recomputed": {},
    "recomputed_to_the_end": dict(early_stop=False),
    "recomputed_with_other_numbers": dict(preserve_rng_state=False),
    "recomputed_unchecked": dict(determinism_check="none"),
}.items():
    program = checkpointed(how)
    program.__name__ = name
    whole(program)


@whole
def stop_is_set_around(compile):
    model = dropping()
    f = compile(model)
    for stops in (False, True, False, True):
        model.zero_grad()
        with set_checkpoint_early_stop(stops):
            y = again(f, leaf(3, 4))
        y.sum().backward()
        yield grads_of(model)


@whole
def nested(compile):
    inner, outer = dropping(), dropping()
    f, g = compile(inner), compile(outer)
    for n in (3, 3, 4, 3):
        x = leaf(n, 4)
        inner.zero_grad(), outer.zero_grad()
        again(lambda v: g(again(f, v.sin())).cos(), x).sum().backward()
        yield grads_of(inner), grads_of(outer), x.grad


@whole
def nested_thrice(compile):
    models = [dropping() for _ in range(3)]
    a, b, c = (compile(model) for model in models)
    for n in (3, 3, 4, 3):
        x = leaf(n, 4)
        [model.zero_grad() for model in models]
        again(lambda v: c(again(lambda u: b(again(a, u)), v)), x).sum().backward()
        yield [grads_of(model) for model in models], x.grad


@whole
def one_function_several_times(compile):
    model = dropping()
    f = compile(model)
    for n in (3, 3, 4, 3):
        x = leaf(n, 4)
        model.zero_grad()
        again(lambda v: f(f(f(v).tanh())), x).sum().backward()
        yield grads_of(model), x.grad


@whole
def sizes_cross(compile):
    """The first backward is that of the last forward, which has another program."""
    model = dropping()
    f = compile(model)
    for sizes in ((3, 3), (3, 4), (4, 5), (5, 3), (1, 6)):
        model.zero_grad()
        ys = [again(f, leaf(n, 4)) for n in sizes]
        for y in reversed(ys):
            y.square().sum().backward()
        yield grads_of(model)


@case
def forgotten_in_between(compile):
    model = dropping()
    f = compile(model)
    for k in range(4):
        model.zero_grad()
        y = again(f, leaf(3, 4))
        if k % 2 and hasattr(f, "reset"):
            f.reset()
        y.sum().backward()
        yield grads_of(model)


@case
def parts_of_functions(compile):
    """The graph breaks within: each part goes the way it went."""
    a, b = dropping(), dropping()
    seen = []

    @compile
    def f(x):
        h = a(x)
        seen.append(float(h.detach().sum()) > 1e9)
        if h.detach().sum() > 1e9:
            h = h * 2
        return b(h).square()

    for n in (3, 3, 4, 3, 3):
        x = leaf(n, 4)
        a.zero_grad(), b.zero_grad()
        again(f, x).sum().backward()
        yield grads_of(a), grads_of(b), x.grad, len(seen)


@case
def a_part_within_contexts(compile):
    """What ends the second run leaves the contexts that are open."""
    a, b = dropping(), dropping()
    depth = []

    @contextlib.contextmanager
    def context():
        depth.append(1)
        try:
            yield
        finally:
            depth.pop()

    @compile
    def f(x):
        with context(), torch.autocast("cpu", dtype=torch.bfloat16):
            h = a(x)
            if h.detach().float().sum() > 1e9:
                h = h * 2
            h = b(h).square()
            if h.detach().float().sum() < 0:
                h = h * 2
        return h.float() * 2

    for n in (3, 3, 4, 3, 3):
        x = leaf(n, 4)
        a.zero_grad(), b.zero_grad()
        again(f, x).sum().backward()
        yield [one is not None for one in grads_of(b).values()], len(depth), torch.is_autocast_enabled("cpu")


@case
def handlers_of_what_ends_it(compile):
    model = dropping()
    ended = []

    @compile
    def f(x):
        h = x.sin()
        try:
            if h.detach().sum() > 1e9:
                h = h * 2
            return model(h)
        finally:
            ended.append(x.shape[0])

    for n in (3, 3, 4, 3):
        model.zero_grad()
        again(f, leaf(n, 4)).sum().backward()
        yield grads_of(model), list(ended)


def autocast(inside):
    def program(compile):
        model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Dropout(0.3), nn.Linear(8, 4))

        def run(x):
            with torch.autocast("cpu", dtype=torch.bfloat16) if inside else contextlib.nullcontext():
                return model(x)

        f = compile(run)
        for n in (3, 3, 4, 3):
            x = leaf(n, 4)
            model.zero_grad()
            with contextlib.nullcontext() if inside else torch.autocast("cpu", dtype=torch.bfloat16):
                y = again(f, x)
            y.float().square().sum().backward()
            yield grads_of(model), x.grad

    program.rounds = True
    return program


for name, inside in {"autocast_around": False, "autocast_inside": True}.items():
    program = autocast(inside)
    program.__name__ = name
    whole(program)


def normalised(model):
    def program(compile):
        norm = model()
        f = compile(norm)
        for n in (3, 3, 4, 3):
            norm.zero_grad()
            again(f, leaf(n, 4)).square().sum().backward()
            yield grads_of(norm), dict(norm.named_buffers())

    return program


for name, make in {
    "statistics": lambda: nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Linear(4, 2)),
    "statistics_at_the_end": lambda: nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)),
}.items():
    program = normalised(make)
    program.__name__ = name
    case(program)
captured_whole.add("statistics")


class Counted(nn.Module):
    """Writes where the second run does not come, and where it does."""

    def __init__(self, where):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.where = where
        self.calls = 0
        self.register_buffer("count", torch.zeros(()))

    def note(self, where):
        if where == self.where:
            self.count.add_(1)
        if where + " in Python" == self.where:
            self.calls += 1

    def forward(self, x):
        self.note("first")
        h = self.layer(x).tanh()
        self.note("last")
        return h + 1


def counted(where, **how):
    def program(compile):
        model = Counted(where)
        f = compile(model)
        for n in (3, 3, 4, 3):
            model.zero_grad()
            again(f, leaf(n, 4), **how).sum().backward()
            yield grads_of(model), model.calls, model.count

    return program


for where in ("first", "last", "first in Python", "last in Python"):
    for stops in (True, False):
        program = counted(where, early_stop=stops)
        program.__name__ = f"counts_{where}_{'stops' if stops else 'goes_on'}".replace(" ", "_")
        case(program)


@case
def noise_at_the_end(compile):
    """Which the second run does not draw."""
    layer = nn.Linear(4, 4)
    f = compile(lambda x: layer(x).tanh() + torch.rand(x.shape))
    for n in (3, 3, 4, 3):
        layer.zero_grad()
        again(f, leaf(n, 4), preserve_rng_state=False).square().sum().backward()
        yield grads_of(layer), torch.rand(1)


@whole
def retained(compile):
    model = dropping()
    f = compile(model)
    for n in (3, 3, 4):
        model.zero_grad()
        y = again(f, leaf(n, 4))
        y.sum().backward(retain_graph=True)
        y.square().sum().backward()
        yield grads_of(model)
        try:
            y.sum().backward()
        except RuntimeError as error:
            yield "second time" in str(error)


@whole
def some_gradients(compile):
    model = dropping()
    f = compile(lambda x: (model(x), x.exp() * 2))
    for n in (3, 3, 4):
        x = leaf(n, 4)
        a, b = again(f, x)
        yield torch.autograd.grad(b.sum(), x, retain_graph=True)
        yield torch.autograd.grad(a.sum(), [x, model[0].weight], retain_graph=True)
        (a.sum() + b.sum()).backward()
        yield grads_of(model), x.grad
        model.zero_grad()


@case
def in_a_group(compile):
    model = dropping()
    f = compile(lambda x: (model(x), x.exp() * 2))
    for n in (3, 3, 4):
        x = leaf(n, 4)
        a, b = again(f, x)
        with GraphExecGroup():
            yield torch.autograd.grad(b.sum(), x, retain_graph=True)
            yield torch.autograd.grad(a.sum(), model[0].weight)


@case
def differentiated_twice(compile):
    layer = nn.Linear(4, 4)
    f = compile(lambda x: layer(x).tanh())
    for n in (3, 3, 4, 3):
        x = leaf(n, 4)
        layer.zero_grad()
        y = again(f, x).square().sum()
        (g,) = torch.autograd.grad(y, x, create_graph=True)
        g.square().sum().backward()
        yield g, x.grad, grads_of(layer)


def gradient_of(y, x, g):
    return torch.autograd.grad(y, x, g, retain_graph=True)[0]


def batched_backward(wrap):
    def program(compile):
        layer = nn.Linear(4, 4)
        f = compile(lambda x: layer(x).tanh())
        for n in (3, 3, 4):
            x = leaf(n, 4)
            y = again(lambda v: wrap(f(v)), x)
            eye = torch.eye(n * 4).view(-1, n, 4)
            yield torch.autograd.grad(y, x, eye, is_grads_batched=True, retain_graph=True)
            yield torch.vmap(partial(gradient_of, y, x))(eye)
            yield torch.autograd.grad(y, x, torch.ones_like(y))

    return program


for name, wrap in {"batched": lambda y: y, "batched_beside_eager": lambda y: y.exp()}.items():
    program = batched_backward(wrap)
    program.__name__ = name
    case(program)


@case
def changed_before_the_second_run(compile):
    """The second run sees the change; eager raises if the tensors are others."""
    layers = [nn.Linear(4, 4), nn.Linear(4, 4)]
    wide = [True]

    @compile
    def f(x):
        return layers[1](layers[0](x).tanh()).tanh() if wide[0] else layers[0](x).tanh()

    for k in range(4):
        wide[0] = True
        y = again(f, leaf(3, 4))
        wide[0] = k % 2 == 0
        try:
            y.sum().backward()
            yield grads_of(layers[0])
        except CheckpointError:
            yield "another number of tensors"
        [layer.zero_grad() for layer in layers]


@case
def counts_between_the_runs(compile):
    """Forwards of several micro-batches come before their backwards, and something counts them all."""
    layer, steps = nn.Linear(4, 4), [0]

    @compile
    def f(x):
        h = layer(x).tanh() * (1 + steps[0] // 100)
        return h.exp() if steps[0] >= 0 else h

    for k in range(4):
        layer.zero_grad()
        losses = []
        for n in (3, 4, 3):
            steps[0] += 1
            losses.append(again(f, leaf(n, 4)).sum())
        for loss in losses if k % 2 else reversed(losses):
            loss.backward()
        yield grads_of(layer)


@case
def raises_in_the_second_run(compile):
    layer = nn.Linear(4, 4)
    fails = [False]

    @compile
    def f(x):
        h = layer(x).tanh()
        if fails[0]:
            raise ValueError("no")
        return h.exp()

    for k in range(4):
        layer.zero_grad()
        fails[0] = False
        y = again(f, leaf(3, 4))
        fails[0] = k % 2 == 1
        try:
            y.sum().backward()
            yield grads_of(layer)
        except (ValueError, CheckpointError):
            yield "raised"


@case
def does_something_else_in_the_second_run(compile):
    """As many tensors of the same forms are saved, and they are others: eager computes of those, and what it gives
    means nothing. A program of the forward does not."""
    is_sine = [True]

    @compile
    def f(x):
        return x.sin().exp() if is_sine[0] else x.tanh().exp()

    for k in range(4):
        is_sine[0] = True
        x = leaf(3, 4)
        y = again(f, x)
        is_sine[0] = k % 2 == 0
        try:
            y.sum().backward()
            yield x.grad if k % 2 == 0 else "changed"
        except CheckpointError:
            yield "changed"


@case
def caches_of_the_first_run(compile):
    """What the forward makes once is there when it is run again."""

    class Rotated(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.cache = nn.Linear(4, 4), None

        def angles(self, x):
            if self.cache is None or len(self.cache) < len(x):
                self.cache = torch.arange(len(x) * 4.0).view(-1, 4).sin()
            return self.cache[: len(x)]

        def forward(self, x):
            return (self.layer(x) * self.angles(x)).tanh()

    model = Rotated()
    f = compile(model)
    for n in (3, 3, 4, 3, 6, 5):
        model.zero_grad()
        again(f, leaf(n, 4)).square().sum().backward()
        yield grads_of(model)


@case
def selective(compile):
    def policy(context, operator, *args, **kwargs):
        return operator == torch.ops.aten.mm.default

    model = dropping()
    f = compile(model)
    for n in (3, 3, 4):
        model.zero_grad()
        again(f, leaf(n, 4), context_fn=lambda: create_selective_checkpoint_contexts(policy)).sum().backward()
        yield grads_of(model)


@whole
def kept_weights_change(compile):
    model = dropping()
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    f = compile(model)
    for n in (3, 3, 4, 3, 5, 3):
        optimizer.zero_grad()
        again(f, leaf(n, 4)).square().sum().backward()
        optimizer.step()
        yield values_of(model)


@case
def blocks_in_a_row(compile):
    """Of one class, each with a compiled function of its own, as models with many layers do."""
    blocks = [dropping() for _ in range(3)]
    compiled = [compile(block) for block in blocks]
    for n in (3, 3, 4, 3):
        x = leaf(n, 4)
        h = x
        for f in compiled:
            h = again(f, h) + h
        h.sum().backward()
        yield [grads_of(block) for block in blocks], x.grad
        [block.zero_grad() for block in blocks]


@case
def without_gradients(compile):
    model = dropping()
    f = compile(model)
    for k in range(4):
        with torch.no_grad() if k % 2 else contextlib.nullcontext():
            y = again(f, torch.randn(3, 4))
        yield y, y.requires_grad


@case
def a_part_without_gradients(compile):
    model, frozen = dropping(), dropping()
    f, g = compile(model), compile(frozen)

    def both(x):
        with torch.no_grad():
            h = g(x)
        return f(h.sin())

    for n in (3, 3, 4):
        model.zero_grad()
        again(both, leaf(n, 4)).sum().backward()
        yield grads_of(model), grads_of(frozen)
