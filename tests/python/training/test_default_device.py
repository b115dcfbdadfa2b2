"""A default device beside code that is not watched: transforms of torch.func, gradients that are Python code.

"cpu:0" is a default device like a GPU's: it shows on machines without one what happens where there is one.
"""

import pytest
import torch

import braze

X = torch.arange(12.0).reshape(3, 4) / 7


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin() + torch.ones(())

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.saved_tensors[0].cos() * torch.full((), 2.0)


def made(x):
    return (x * torch.ones(4) + torch.arange(4.0)).sin()


PROGRAMS = {
    "vmap": lambda x: torch.func.vmap(made)(x) + torch.zeros(3, 1),
    "grad": lambda x: torch.func.grad(lambda y: made(y).sum())(x),
    "jvp": lambda x: torch.func.jvp(made, (x,), (torch.ones(3, 4),)),
    "jacrev": lambda x: torch.func.jacrev(made)(x[0]),
    "hessian": lambda x: torch.func.hessian(lambda y: made(y).prod())(x[0]),
    "jacobian": lambda x: torch.autograd.functional.jacobian(made, x[0]),
    "tree": lambda x: torch.utils._pytree.tree_map(made, {"a": x, "b": [x + 1]}),
    "function": lambda x: Doubled.apply(x * 2) + torch.zeros(3, 1),
}


@pytest.fixture(autouse=True)
def default_device():
    torch.set_default_device("cpu:0")
    yield
    torch.set_default_device(None)


def same(ours, theirs):
    torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("name", PROGRAMS)
def test_inference(name):
    program, compiled = PROGRAMS[name], braze.compile(PROGRAMS[name])
    for k in range(3):
        same(compiled(X + k), program(X + k))
    assert compiled.counts()["native"] == 0, compiled.reasons()


def test_gradients_in_python():
    program, compiled = PROGRAMS["function"], braze.compile(PROGRAMS["function"])
    for k in range(3):
        mine, theirs = ((X + k).requires_grad_() for _ in range(2))
        compiled(mine).sum().backward()
        program(theirs).sum().backward()
        same(mine.grad, theirs.grad)
    assert compiled.counts()["native"] == 0, compiled.reasons()


def test_operators_in_python():
    @torch.library.custom_op("default_device::doubled", mutates_args=())
    def doubled(x: torch.Tensor) -> torch.Tensor:
        return x * 2 + torch.ones(())

    doubled.register_fake(torch.empty_like)
    doubled.register_autograd(lambda ctx, gradient: gradient * 2)
    compiled = braze.compile(lambda x: doubled(x).sin())
    for k in range(3):
        mine, theirs = ((X + k).requires_grad_() for _ in range(2))
        compiled(mine).sum().backward()
        doubled(theirs).sin().sum().backward()
        same(mine.grad, theirs.grad)
    assert compiled.counts()["native"] == 0, compiled.reasons()
