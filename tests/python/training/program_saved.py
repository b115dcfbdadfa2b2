"""Programs about what is saved for the backward: written in between, computed again, or carried on."""
# ruff: noqa: B023  Functions are called before their loop goes on.

import torch
from program_cases import attempt, case, grads_of, leaf, values_of
from torch import nn
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

# ---- what is saved, and written


def written(write):
    """`write(x, h)` between forward and backward: the error is eager's, or the gradient is."""

    def program(compile):
        def g(x, w):
            h = x * w
            return h.exp(), h

        f = compile(g)
        for k in range(4):
            x, w = torch.randn(3, 4), leaf(4)
            y, h = f(x, w)
            if k != 1:
                write(x, w, y, h)
            yield attempt(y.sum().backward) if k != 2 else None, w.grad

    return program


def no_grad(write):
    def done(*tensors):
        with torch.no_grad():
            write(*tensors)

    return done


WRITES = {
    "input": lambda x, w, y, h: x.add_(1),
    "leaf": no_grad(lambda x, w, y, h: w.add_(1)),
    "result": lambda x, w, y, h: y.data.add_(1),
    "result_in_place": no_grad(lambda x, w, y, h: y.mul_(2)),
    "other_result": no_grad(lambda x, w, y, h: h.mul_(2)),
    "detached": lambda x, w, y, h: h.detach().mul_(2),
    "detached_result": lambda x, w, y, h: y.detach().mul_(2),
    "view_of_input": lambda x, w, y, h: x[0].zero_(),
    "data_of_leaf": lambda x, w, y, h: w.data.zero_(),
    "leaf_is_set": lambda x, w, y, h: setattr(w, "data", torch.ones(4)),
    "input_is_resized": lambda x, w, y, h: x.resize_(3, 4),
    "input_is_copied_to": lambda x, w, y, h: x.copy_(torch.ones(3, 4)),
}
for name, write in WRITES.items():
    program = written(write)
    program.__name__ = f"written_before_the_backward_{name}"
    case(program)


def written_within(write):
    def program(compile):
        def g(x, w):
            h = x * w
            y = h.exp()
            write(x, w, y, h)
            return y.sum() + h.sum()

        f = compile(g)
        for _ in range(3):
            x, w = torch.randn(3, 4), leaf(4)
            yield attempt(lambda: f(x, w).backward()), w.grad, x, x._version

    return program


WRITES_WITHIN = {
    "input": lambda x, w, y, h: x.add_(1),
    "result": lambda x, w, y, h: y.mul_(2),
    "intermediate": lambda x, w, y, h: h.mul_(2),
    "detached": lambda x, w, y, h: h.detach().mul_(2),
    "data": lambda x, w, y, h: y.data.mul_(2),
    "row": lambda x, w, y, h: h[0].mul_(2),
    "row_of_input": lambda x, w, y, h: x[0].mul_(2),
    "masked": lambda x, w, y, h: h.masked_fill_(x > 0, 0.0),
    "zeroed": lambda x, w, y, h: h.zero_(),
    "indexed": lambda x, w, y, h: h.__setitem__(0, w),
    "relu": lambda x, w, y, h: torch.relu_(h),
}
for name, write in WRITES_WITHIN.items():
    program = written_within(write)
    program.__name__ = f"written_within_{name}"
    case(program)


@case
def a_chain_of_writes(compile):
    def g(x):
        h = x * 2
        h.add_(1).mul_(x).sub_(0.5)
        h[0] = h[1] * 2
        h[:, 1] += x[:, 0]
        return h.tanh_().sum()

    f = compile(g)
    for n in (3, 3, 4):
        x = leaf(n, 4)
        f(x).backward()
        yield x.grad


@case
def a_leaf_is_written(compile):
    def g(w):
        w.mul_(2)
        return w.sum()

    f = compile(g)
    for _ in range(3):
        yield attempt(f, leaf(3))


@case
def a_leaf_is_written_without_gradients(compile):
    w = leaf(3)

    def g(x):
        with torch.no_grad():
            w.mul_(0.5)
        return (w * x).sum()

    f = compile(g)
    for _ in range(4):
        w.grad = None
        f(torch.randn(3)).backward()
        yield w, w.grad, w._version


@case
def the_history_of_an_input_grows(compile):
    def g(h, x):
        h.mul_(x)
        return h.sum()

    f = compile(g)
    for _ in range(3):
        w, x = leaf(3), torch.randn(3)
        h = w * 2
        loss = f(h, x) + h.exp().sum()
        loss.backward()
        yield w.grad, h._version


@case
def a_buffer_takes_a_history(compile):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.randn(4))
            self.register_buffer("state", torch.zeros(4))

        def forward(self, x):
            self.state = self.state * 0.5 + x * self.w
            return self.state.sum()

    model = Model()
    f = compile(model)
    for k in range(6):
        loss = f(torch.randn(4))
        if k % 3 == 2:
            loss.backward()
            yield model.w.grad
            model.state = model.state.detach()
        yield loss


@case
def state_with_history_is_carried_on(compile):
    w = leaf(4)
    f = compile(lambda state, x: torch.tanh(state * w + x))
    for _ in range(3):
        w.grad = None
        state = torch.zeros(4)
        for _ in range(4):
            state = f(state, torch.randn(4))
        state.sum().backward()
        yield state, w.grad


# ---- other data between forward and backward


def given_other_data(make, *sizes):
    def program(compile):
        model = make()
        f = compile(model)
        for k in range(6):
            x = leaf(*sizes)
            model.zero_grad()
            y = f(x).square().sum()
            if k % 2:
                for p in model.parameters():
                    p.data = p.detach() * 2
            y.backward(retain_graph=k == 3)
            if k == 3:
                y.backward()
            yield grads_of(model), x.grad

    return program


for name, make, sizes in (
    ("linear", lambda: nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3)), (3, 4)),
    ("linear_3d", lambda: nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3)), (2, 3, 4)),
    ("convolution", lambda: nn.Sequential(nn.Conv1d(2, 3, 2), nn.Tanh()), (2, 2, 5)),
):
    program = given_other_data(make, *sizes)
    program.__name__ = f"other_data_for_a_{name}"
    case(program)


@case
def other_data_for_an_argument(compile):
    f = compile(lambda a, b: (a.view(-1) * b.t().reshape(-1)).exp().sum())
    for k in range(4):
        a, b = leaf(3, 4), leaf(4, 3)
        y = f(a, b)
        if k % 2:
            a.data, b.data = torch.zeros(3, 4), torch.zeros(4, 3)
        y.backward()
        yield a.grad, b.grad


@case
def moved_to_double_before_the_backward(compile):
    model = nn.Linear(4, 3)
    f = compile(model)
    for _ in range(3):
        x = leaf(2, 4)
        y = f(x).square().sum()
        model.double()
        yield torch.autograd.grad(y, x)
        model.float()


# ---- checkpoints


def checkpointed(**how):
    def program(compile):
        model, head = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.3), nn.ReLU(), nn.Linear(4, 4)), nn.Linear(4, 2)
        f = compile(lambda x: head(checkpoint(model, x, **how)).square().sum())
        for n in (3, 3, 4):
            x = leaf(n, 4)
            model.zero_grad(), head.zero_grad()
            f(x).backward()
            yield grads_of(model), grads_of(head), x.grad, torch.rand(1)

    return program


for name, how in {
    "again": dict(use_reentrant=False),
    "again_reentrant": dict(use_reentrant=True),
    "again_with_other_numbers": dict(use_reentrant=False, preserve_rng_state=False),
}.items():
    program = checkpointed(**how)
    program.__name__ = f"computed_{name}"
    case(program)


@case
def compiled_and_checkpointed(compile):
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.3), nn.Tanh())
    f = compile(model)
    for n in (3, 3, 4):
        x = leaf(n, 4)
        model.zero_grad()
        checkpoint(f, checkpoint(f, x, use_reentrant=False), use_reentrant=False).sum().backward()
        yield grads_of(model), x.grad


@case
def checkpoints_in_a_row(compile):
    model = nn.Sequential(*[nn.Sequential(nn.Linear(4, 4), nn.Tanh()) for _ in range(4)])
    f = compile(lambda x: checkpoint_sequential(model, 2, x, use_reentrant=False).sum())
    for n in (3, 3, 4):
        model.zero_grad()
        f(torch.randn(n, 4)).backward()
        yield grads_of(model)


# ---- a parameter is given other data, or written to past its version counter


class Scales(nn.Module):
    """Eager saves the scales themselves, and what is computed of them."""

    def __init__(self, norm):
        super().__init__()
        self.norm = norm
        self.scale = nn.Parameter(torch.rand(4) + 0.5)

    def forward(self, x):
        return ((self.norm(x).sin() * self.scale).exp() * self.scale).sigmoid()


NORMS = {
    "layer_norm": lambda: nn.LayerNorm(4),
    "rms_norm": lambda: nn.RMSNorm(4),
    "batch_norm": lambda: nn.BatchNorm1d(4),
    "group_norm": lambda: nn.GroupNorm(2, 4),
    "prelu": lambda: nn.PReLU(4),
    "linear": lambda: nn.Linear(4, 4),
}
CHANGES = {
    "assigned": lambda p: setattr(p, "data", torch.full_like(p, 0.25)),
    "copied_to": lambda p: p.data.copy_(torch.full_like(p, 0.25)),
    "stepped": lambda p: p.data.add_(0.1),
    "cast_and_back": lambda p: setattr(p, "data", p.data.double().mul(0.5).float()),
    "written": no_grad(lambda p: p.mul_(2)),
}


def between(make, change, only):
    def program(compile):
        model = Scales(make())
        f = compile(model)
        for k in range(3):
            for p in model.parameters():
                p.grad = None
            x = leaf(5, 4)
            loss = f(x).sum()
            for name, p in model.named_parameters():
                if k and (not only or only in name):
                    change(p)
            raised = attempt(loss.backward)
            yield raised or (x.grad, grads_of(model)), values_of(model)

    return program


for norm, make in NORMS.items():
    for how, change in CHANGES.items():
        program = between(make, change, "scale" if how == "stepped" else "")
        program.__name__ = f"weights_of_{norm}_are_{how}_before_the_backward"
        case(program)


def between_of_arguments(grad, count):
    """Leaves that are arguments."""

    def program(compile):
        def g(x, w, b):
            h = x * w + b
            return h.sin() * w, (h * w).exp()

        f = compile(g)
        for n in (3, 3, 5, 6):
            x, w, b = leaf(n, 4), leaf(4), leaf(4)
            y, z = f(x, w, b)
            for k in range(count):
                for tensor in (x, w):
                    tensor.data = tensor.data * 2 + k
                yield grad(y, z, (x, w, b), k + 1 < count)

    return program


GRADS = {
    "both": lambda y, z, to, keep: torch.autograd.grad(y.sum() + z.sum(), to, retain_graph=keep),
    "one": lambda y, z, to, keep: torch.autograd.grad(y.sum(), to, retain_graph=keep),
    "first_input": lambda y, z, to, keep: torch.autograd.grad(z.sum(), to[0], retain_graph=keep),
    "one_then_the_other": lambda y, z, to, keep: (
        torch.autograd.grad(y.sum(), to, retain_graph=True),
        torch.autograd.grad(z.sum(), to, retain_graph=keep),
    ),
}
for name, grad in GRADS.items():
    for count in (1, 3):
        program = between_of_arguments(grad, count)
        program.__name__ = f"arguments_are_given_other_data_{count}_times_{name}"
        case(program)


def sine_twice_weighed(x, w):
    return ((x * w).sin() * w).sum()


@case
def data_is_given_and_given_back(compile):
    f = compile(sine_twice_weighed)
    for _ in range(3):
        x, w = leaf(3, 4), leaf(4)
        loss = f(x, w)
        kept, w.data = w.data, torch.zeros(4)
        w.data = kept
        loss.backward()
        yield x.grad, w.grad


@case
def data_is_given_and_written_to(compile):
    f = compile(sine_twice_weighed)
    for _ in range(3):
        x, w = leaf(3, 4), leaf(4)
        loss = f(x, w)
        w.data = torch.ones(4)
        with torch.no_grad():
            w.add_(1)
        yield attempt(loss.backward) or (x.grad, w.grad)
