"""What autograd knows of tensors around composite operators where sizes vary: versions and bases."""

import pytest
import torch

import braze
from braze._load import C

pytestmark = [
    pytest.mark.skipif(not hasattr(C, "CompiledFunction"), reason="no evaluator for this Python"),
    pytest.mark.usefixtures("no_grad"),
]


def test_covariances_are_views():
    compiled = braze.compile(lambda x: x.cov(), dynamic=True)
    for size in (3, 4, 5):
        x = torch.rand(size, size + 1)
        wanted, got = x.cov(), compiled(x)
        torch.testing.assert_close(got, wanted)
        assert got._is_view() and got._base.shape == wanted._base.shape


COMPOSITES = {
    "einsum": lambda x: torch.einsum("i,j->ij", x, x),
    "tensordot": lambda x: torch.tensordot(x, x, 1),
    "matmul": lambda x: x @ x,
    "quantile": lambda x: x.quantile(0.5),
    "split": lambda x: torch.tensor_split(x, 2)[0] + 1,
}


@pytest.mark.parametrize("name", COMPOSITES)
def test_writes_before_a_composite_are_counted(name):
    """It is given what stands for the argument, which has counted writes of its own by then."""

    def function(x):
        x.add_(1)
        result = COMPOSITES[name](x)
        x.mul_(2)
        return result

    compiled = braze.compile(function, dynamic=True)
    for size in (4, 4, 7, 9):
        x, y = torch.arange(1.0, size + 1), torch.arange(1.0, size + 1)
        assert torch.equal(compiled(x), function(y)) and torch.equal(x, y)
        assert x._version == y._version
