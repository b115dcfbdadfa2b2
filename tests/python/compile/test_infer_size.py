"""torch._C._infer_size, which torch.nn.functional calls for weights of losses."""

import pytest
import torch

import braze


@pytest.mark.parametrize(
    "shapes", [((2, 3), (3,)), ((1,), (4, 5)), ((), (2,)), ((2, 1, 3), (4, 1)), ((0, 2), (1, 2))], ids=str
)
def test_shapes(shapes):
    def both(x, y):
        size = torch._C._infer_size(x.size(), y.size())
        return x.expand(size) + y.expand(size), size

    x, y = (torch.randn(shape) for shape in shapes)
    compiled = braze.compile(both, fullgraph=True)
    for _ in range(3):
        got, wanted = compiled(x, y), both(x, y)
        torch.testing.assert_close(got[0], wanted[0])
        assert got[1] == wanted[1] and type(got[1]) is torch.Size
    assert compiled.counts() == {"captured": 1, "replayed": 2, "native": 0}


def test_sizes_that_vary():
    compiled = braze.compile(lambda x, y: x.expand(torch._C._infer_size(x.size(), y.size())) + y, fullgraph=True)
    for n in (3, 5, 7, 9):
        x, y = torch.randn(n), torch.randn(2, n)
        torch.testing.assert_close(compiled(x, y), x + y)
    assert compiled.counts()["captured"] == 2


def test_shapes_that_do_not_fit_raise_as_in_eager():
    compiled = braze.compile(lambda x, y: x.expand(torch._C._infer_size(x.size(), y.size())) + y)
    with pytest.raises(RuntimeError, match="must match"):
        compiled(torch.randn(3), torch.randn(4))
