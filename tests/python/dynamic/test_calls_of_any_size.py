"""Operators of which one program holds for all sizes: captures are counted, and results compared with eager's."""

import pytest
import torch
from any_size import run
from torch import nn

from braze._load import C

pytestmark = [
    pytest.mark.skipif(not hasattr(C, "CompiledFunction"), reason="no evaluator for this Python"),
    pytest.mark.usefixtures("no_grad"),
]


def tensors(*sizes):
    return [(torch.randn(*each),) for each in sizes]


SIGNALS = tensors((2, 64), (3, 80), (4, 100), (5, 128), (6, 74), (33, 50))
FIRST_OF_ONE = tensors((1, 4, 6), (1, 7, 6), (1, 9, 6), (1, 3, 6), (1, 30, 6))  # Batches of one.

LSTM = nn.LSTM(6, 5, batch_first=True)
GRU = nn.GRU(6, 5, batch_first=True, bidirectional=True)
RNN = nn.RNN(6, 5, 2, batch_first=True)

OPERATORS = {
    # The sizes at which an operator is asked grew alike, so that half of one seemed to be another one.
    "half of a spectrum": (torch.fft.rfft, SIGNALS),
    "a spectrum and back": (lambda x: torch.fft.irfft(torch.fft.rfft(x), n=x.shape[1]), SIGNALS),
    "two dimensions of a spectrum": (torch.fft.rfft2, SIGNALS),
    # Of one sequence, the stride of the batch is that of a step.
    "one sequence by an LSTM": (LSTM, FIRST_OF_ONE),
    "one sequence by a GRU": (GRU, FIRST_OF_ONE),
    "one sequence by an RNN": (RNN, FIRST_OF_ONE),
    "one sequence by a module of its own": (lambda x: GRU(x[None])[0], tensors((4, 6), (7, 6), (9, 6), (3, 6))),
}


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("dynamic", [True, None])
def test_one_program_for_all_sizes(name, dynamic):
    function, calls = OPERATORS[name]
    assert run(function, calls, dynamic=dynamic) == (1 if dynamic else 2)
