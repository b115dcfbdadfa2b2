"""Backward formulas whose sizes are expressions: one capture, and code that is made once, for all sizes."""

import pytest
import torch
from programs_of_sizes import FUNCTIONS, SHAPES, check
from torch import nn

import braze
from braze._load import C

pytestmark = pytest.mark.skipif(not hasattr(C, "CompiledFunction"), reason="no evaluator for this Python")


@pytest.fixture
def logged(capfd):
    """A function that gives what was logged of recompiles."""
    braze.set_logs(recompiles=True)
    yield lambda: capfd.readouterr().err
    braze.set_logs()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_one_capture_and_one_code(name, logged):
    compiled = check(name)
    assert compiled.counts() == {"captured": 1, "replayed": len(SHAPES) - 1, "native": 0}
    assert "sizes alone" not in logged()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inside = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.LayerNorm(32), nn.Dropout(0.1))
        self.norm = nn.BatchNorm1d(32)
        self.outside = nn.Linear(32, 4)

    def forward(self, x):
        return self.outside(self.norm(self.inside(x)))


def test_new_sizes_bind_the_same_code(logged):
    net, twin = Net(), Net()
    twin.load_state_dict(net.state_dict())
    compiled = braze.compile(net, dynamic=True)
    for n in (8, 12, 33, 100, 7, 64, 3):
        x = torch.randn(n, 16)
        for one in (compiled, twin):
            torch.manual_seed(n)
            one(x).square().mean().backward()
        for a, b in zip(net.parameters(), twin.parameters(), strict=True):
            torch.testing.assert_close(a.grad, b.grad, rtol=1e-3, atol=1e-5)
            a.grad = b.grad = None
        for a, b in zip(net.buffers(), twin.buffers(), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
    assert compiled.counts() == {"captured": 1, "replayed": 6, "native": 0}
    assert "sizes alone" not in logged()
