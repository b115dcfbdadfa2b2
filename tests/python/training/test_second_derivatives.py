"""Second derivatives of what a forward that cannot be repeated has computed are refused by name."""

import pytest
import torch
from torch.autograd import grad

import braze


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, gradient):
        return 3 * gradient * ctx.saved_tensors[0] ** 2


count = torch.ones(())


def counted(x):
    count.add_(1)
    return (x * count).exp()


REFUSED = {
    "a function with a gradient of its own": (lambda x: Cube.apply(x.sin()), "gradient of its own"),
    "a tensor that is read and written": (counted, "writes to"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    function, reason = REFUSED[name]
    f = braze.compile(function)
    for _ in range(2):
        x = torch.ones(3, requires_grad=True)
        (g,) = grad(f(x).sum(), x, create_graph=True)
        with pytest.raises(RuntimeError, match=f"cannot be differentiated again.*{reason}"):
            g.sum().backward()


def test_large_inputs_are_held_once_it_is_known_that_they_are_needed():
    f = braze.compile(lambda x: x.exp() * 2)
    w = torch.ones(300, 300, requires_grad=True)
    (g,) = grad(f(w + 1).sum(), w, create_graph=True)
    with pytest.raises(RuntimeError, match="is gone"):
        g.sum().backward()
    (g,) = grad(f(w + 1).sum(), w, create_graph=True)
    (second,) = grad(g.sum(), w)
    torch.testing.assert_close(second, (w + 1).exp().detach() * 2)


def test_the_first_derivative_is_the_programs():
    f = braze.compile(lambda x: x.exp() * x)
    x = torch.ones(3, requires_grad=True)
    (g,) = grad(f(x).sum(), x, create_graph=True)
    assert g.grad_fn.name() == "BrazeBackwardBackward"
    assert f.counts() == {"captured": 1, "replayed": 0, "native": 0}
