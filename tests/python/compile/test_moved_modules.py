"""`Module.to` within a compiled function: what is there already stays, in a graph; the rest is moved natively."""

import pytest
import torch
from compiling import compiled, same
from torch import nn

from braze._load import C

pytestmark = pytest.mark.skipif(not hasattr(C, "CompiledFunction"), reason="no evaluator for this Python")


def moved(to, grad_mode=True, with_gradients=False):
    """What a module that a call moves is left with, compiled and natively: `to` says where a call moves it."""
    seen = []
    for compile in (compiled, lambda function: function):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)).eval()
        parameters = list(net.parameters())
        call = compile(lambda x, net=net: to(net, x)(x) * 2)
        told = []
        with torch.set_grad_enabled(grad_mode):
            for k in range(6):
                x = torch.randn(4, 3, dtype=torch.float64 if k >= 4 else torch.float32)
                memory = [p.data_ptr() for p in parameters]
                y = call(x)
                if with_gradients:
                    y.sum().backward()
                told.append((y.detach().clone(), [p.dtype for p in parameters], [p._version for p in parameters]))
                told.append([p.data_ptr() == before for p, before in zip(parameters, memory, strict=True)])
                told.append([None if p.grad is None else p.grad.clone() for p in parameters])
        assert [id(p) for p in parameters] == [id(p) for p in net.parameters()]
        seen.append((told, call))
    return seen


@pytest.mark.parametrize(("grad_mode", "with_gradients"), [(False, False), (True, False), (True, True)])
@pytest.mark.parametrize(
    "to",
    [
        lambda net, x: net.to(x.device),
        lambda net, x: net.to(x),
        lambda net, x: net.to("cpu", x.dtype),
        lambda net, x: net.to(dtype=x.dtype, non_blocking=True),
    ],
)
def test_a_module_that_is_moved_to_where_it_is(to, grad_mode, with_gradients):
    def moving(net, x):
        to(net, x)
        return net.to(x.dtype)

    (mine, call), (theirs, _) = moved(moving, grad_mode, with_gradients)
    for one, other in zip(mine, theirs, strict=True):
        same(one, other)
    assert call.counts()["replayed"] >= 2
