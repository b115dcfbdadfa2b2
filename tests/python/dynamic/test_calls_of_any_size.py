"""Operators of which one program holds for all sizes: captures are counted, and results compared with eager's."""

import pytest
import torch
from any_size import run, same
from torch import nn
from torch.nn import functional as F

import braze
from braze._load import C

pytestmark = [
    pytest.mark.skipif(not hasattr(C, "CompiledFunction"), reason="no evaluator for this Python"),
    pytest.mark.usefixtures("no_grad"),
]


def tensors(*sizes):
    return [(torch.randn(*each),) for each in sizes]


REPEATED = [
    (x, 3 + torch.arange(len(x)).eq(0).long() - torch.arange(len(x)).eq(1).long())
    for (x,) in tensors((4, 6), (7, 6), (5, 6), (9, 6))
]
SIGNALS = tensors((2, 64), (3, 80), (4, 100), (5, 128), (6, 74), (33, 50))
FIRST_OF_ONE = tensors((1, 4, 6), (1, 7, 6), (1, 9, 6), (1, 3, 6), (1, 30, 6))  # Batches of one.

WINDOW = torch.hann_window(16)
PLANES = tensors((2, 4, 8, 9), (3, 4, 10, 12), (4, 4, 13, 11), (5, 4, 9, 9), (2, 4, 20, 30))
ROWS = tensors((4, 6), (5, 10), (9, 8), (13, 14), (20, 22))


def halves(x):
    y, n = x.clone(), x.shape[1] // 2
    y[:, :n] += y[:, n : 2 * n]
    y[:, n:] *= y[:, :n].sum()
    return y


def columns(x):
    y = x.clone()
    y[:, 0] = y[:, 1] * 2
    y[:, -1] = y[:, 0] + y[:, x.shape[1] // 2]
    y[1:-1, 2].add_(y[1:-1, 3])
    y[0].copy_(y[-1])
    return y


def borders(x):
    y = F.pad(x, (1, 1, 1, 1))
    y[:, :, 0] = y[:, :, -2]
    y[:, :, -1] = y[:, :, 1]
    y[..., :1].copy_(y[..., -2:-1])
    y[..., -1:].copy_(y[..., 1:2])
    return y


LSTM = nn.LSTM(6, 5, batch_first=True)
GRU = nn.GRU(6, 5, batch_first=True, bidirectional=True)
RNN = nn.RNN(6, 5, 2, batch_first=True)

OPERATORS = {
    "as many repeats as is told": (
        lambda x, counts: torch.repeat_interleave(x * 2, counts, dim=0, output_size=3 * x.shape[0]) + 1,
        REPEATED,
    ),
    "repeats of places": (
        lambda x, counts: x[torch.ops.aten.repeat_interleave.Tensor(counts, output_size=3 * x.shape[0])],
        REPEATED,
    ),
    # The sizes at which an operator is asked grew alike, so that half of one seemed to be another one.
    "half of a spectrum": (torch.fft.rfft, SIGNALS),
    "a spectrum and back": (lambda x: torch.fft.irfft(torch.fft.rfft(x), n=x.shape[1]), SIGNALS),
    "two dimensions of a spectrum": (torch.fft.rfft2, SIGNALS),
    "frames": (lambda x: torch.stft(x, 16, window=WINDOW, return_complex=True), SIGNALS),
    "frames that are a part": (
        lambda x: torch.stft(
            x, 16, 5, 10, window=WINDOW[:10], center=False, normalized=True, return_complex=True
        ).abs(),
        SIGNALS,
    ),
    "frames of both sides": (
        lambda x: torch.view_as_real(torch.stft(x, 16, window=WINDOW, onesided=False, return_complex=True)),
        SIGNALS,
    ),
    "frames without a window": (
        lambda x: [torch.stft(x, 16, return_complex=True), torch.stft(x, 16, 4, 9, return_complex=True)],
        SIGNALS,
    ),
    "frames of one signal": (
        lambda x: torch.stft(x, 16, 4, window=WINDOW, pad_mode="constant", return_complex=True).abs(),
        tensors((64,), (80,), (33,), (128,), (16,), (17,)),
    ),
    # What is written lies between what is read.
    "halves": (halves, ROWS),
    "columns": (columns, ROWS),
    "borders": (borders, PLANES),
    "around in a circle": (lambda x: F.pad(x, (1, 2, 1, 1), mode="circular"), PLANES),
    "around in a circle, more": (lambda x: F.pad(x, (3, 0, 0, 3), mode="circular"), PLANES),
    "a convolution in a circle": (nn.Conv2d(4, 3, 3, padding=1, padding_mode="circular"), PLANES),
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


@pytest.mark.parametrize("sizes", [(4, 6), (4, 7), (5, 5), (9, 16), (2, 3), (33, 12)])
def test_what_shares_elements_is_no_pair_of_halves(sizes):
    """Rows of a third of the elements, which meet for some sizes."""

    def f(x):
        y, n = x.clone(), x.shape[1]
        y[:, : n - 2] = y[:, 2:] + 1
        y[:, n // 3 : n // 3 + 2] *= y[:, n // 2 : n // 2 + 2]
        return y

    def g(x):
        y = x.clone()
        y[:, : x.shape[1] - 3].add_(y[:, 3:])
        return y

    run(f, tensors((4, 12), sizes), dynamic=True)
    compiled = braze.compile(g, dynamic=True)
    for (x,) in tensors((4, 12), sizes):
        try:
            expected = g(x)
        except RuntimeError as error:
            with pytest.raises(RuntimeError, match=str(error)[:30]):
                compiled(x)
        else:
            same(compiled(x), expected)
