"""Compiled functions under save_on_cpu, and under hooks of the user's on saved tensors."""

import contextlib

import torch
from program_cases import case, grads_of, leaf
from program_checkpoints import again, dropping, whole
from torch.autograd.graph import save_on_cpu, saved_tensors_hooks

# ---- save_on_cpu


@whole
def kept_on_cpu(compile):
    model = dropping()
    f = compile(model)
    for k, n in enumerate((3, 3, 4, 3, 4)):
        x = leaf(n, 4)
        model.zero_grad()
        with save_on_cpu() if k != 3 else contextlib.nullcontext():
            y = f(x)
        y.square().sum().backward(retain_graph=k == 2)
        if k == 2:
            y.sum().backward()
        yield grads_of(model), x.grad


@whole
def kept_on_cpu_within_checkpoints(compile):
    model = dropping()
    f = compile(model)

    def run(x):
        with save_on_cpu():
            h = f(x)
        return f(h)

    for n in (3, 3, 4, 3):
        model.zero_grad()
        again(run, leaf(n, 4)).sum().backward()
        yield grads_of(model)


@whole
def checkpoints_kept_on_cpu(compile):
    model = dropping()
    f = compile(model)
    for n in (3, 3, 4, 3):
        model.zero_grad()
        with save_on_cpu():
            y = f(again(f, leaf(n, 4)))
        y.sum().backward()
        yield grads_of(model)


# ---- hooks of the user's: they see what eager saves


def hooked(pack, unpack):
    def program(compile):
        packed = []

        def noted(tensor):
            packed.append(tuple(tensor.shape))
            return pack(tensor)

        f = compile(lambda x, w: (x @ w).tanh().exp().sum())
        for k in range(5):
            w, x = leaf(4, 2), leaf(3, 4)
            with saved_tensors_hooks(noted, unpack) if k % 3 else contextlib.nullcontext():
                loss = f(x, w)
            loss.backward()
            yield w.grad, x.grad, list(packed)

    return program


for name, (pack, unpack) in {
    "hooks_that_count": (lambda t: t.detach(), lambda t: t),
    "hooks_that_scale": (lambda t: t * 2, lambda t: t),
    "hooks_that_lose_digits": (lambda t: t.bfloat16(), lambda t: t.float()),
    "hooks_that_copy": (lambda t: t.numpy(force=True).copy(), torch.from_numpy),
    "hooks_by_number": (lambda t: (t.detach(), torch.rand(())), lambda pair: pair[0] * pair[1]),
}.items():
    program = hooked(pack, unpack)
    program.__name__ = name
    case(program)


@case
def hooks_that_raise(compile):
    f = compile(lambda x: x.sin().exp())

    def refuse(tensor):
        raise ValueError("not packed")

    for k in range(4):
        x = leaf(3)
        try:
            with saved_tensors_hooks(refuse, lambda t: t) if k % 2 else contextlib.nullcontext():
                y = f(x)
            y.sum().backward()
            yield x.grad
        except ValueError as error:
            yield str(error)


@case
def hooks_by_the_name_of_others(compile):
    """Who calls his own function `pack_to_cpu` is not taken for PyTorch's."""

    def pack(t):
        return t * 2

    pack.__qualname__ = "save_on_cpu.__init__.<locals>.pack_to_cpu"
    f = compile(lambda x: x.sin().exp().sum())
    for _ in range(3):
        x = leaf(3)
        with saved_tensors_hooks(pack, lambda t: t):
            loss = f(x)
        loss.backward()
        yield x.grad
