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


@pytest.mark.parametrize("layer", [torch.nn.GRU, torch.nn.LSTM, torch.nn.RNN])
@pytest.mark.parametrize("batch_first", [False, True])
def test_recurrent_layers_turn_their_output_around_in_place(layer, batch_first):
    model = layer(2, 3, batch_first=batch_first)
    compiled = braze.compile(model, dynamic=True)
    for size in (3, 3, 5, 6):
        for x in (torch.rand(size, 2), torch.rand(4, size, 2)):
            wanted, got = model(x)[0], compiled(x)[0]
            torch.testing.assert_close(got, wanted)
            assert got._version == wanted._version


def mode_of(tensor):
    if tensor.is_inference():
        return "inference"
    base = None if tensor._base is None else tensor._base.shape
    return tensor._version, tensor.requires_grad, tensor._is_view(), base


IN_INFERENCE_MODE = {
    "view": lambda t: t[0],
    "view and number": lambda t: (t[1:], t * 2),
    "write": lambda t: t.mul_(2),
    "write into view": lambda t: (t[0].mul_(2), t.t()),
    "itself": lambda t: (t, t.view(-1)),
    "ordinary within": lambda t: within_ordinary(t),
}


def within_ordinary(t):
    with torch.inference_mode(False):
        made = t * 2
    return made, made[0], t[0]


@pytest.mark.parametrize("name", IN_INFERENCE_MODE)
@pytest.mark.parametrize("of_inference", [False, True])
@pytest.mark.parametrize("wanting", [False, True])
def test_ordinary_arguments_in_inference_mode(name, of_inference, wanting):
    """They stay ordinary: what is written to them is counted, and their views are views."""
    function = IN_INFERENCE_MODE[name]
    compiled = braze.compile(function, dynamic=True)
    if wanting and (of_inference or "write" in name):
        pytest.skip("writes into a leaf")
    for size in (3, 3, 5, 6):
        seen = []
        for one in (function, compiled):
            with torch.inference_mode(of_inference):
                t = torch.rand(size, 4).requires_grad_(wanting)
            with torch.inference_mode():
                results = one(t)
            results = results if isinstance(results, tuple) else (results,)
            seen.append([mode_of(tensor) for tensor in (t, *results)])
        assert seen[0] == seen[1]
