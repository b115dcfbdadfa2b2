"""Gradients of recurrent nets and of alignments over any length: one program, with eager's results."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import braze
from braze._load import C

pytestmark = pytest.mark.skipif(not hasattr(C, "CompiledFunction"), reason="no evaluator for this Python")

NETS = {
    "LSTM": lambda: nn.LSTM(6, 5, batch_first=True),
    "LSTM of two layers": lambda: nn.LSTM(6, 5, num_layers=2, bidirectional=True),
    "LSTM with a projection": lambda: nn.LSTM(6, 5, proj_size=3, batch_first=True),
    "LSTM without biases": lambda: nn.LSTM(6, 5, bias=False),
    "GRU": lambda: nn.GRU(6, 5, batch_first=True),
    "GRU of two layers": lambda: nn.GRU(6, 5, num_layers=2, bidirectional=True),
    "RNN": lambda: nn.RNN(6, 5, num_layers=2, batch_first=True),
    "RNN of relu": lambda: nn.RNN(6, 5, nonlinearity="relu", bidirectional=True, batch_first=True),
    "LSTM that is evaluated": lambda: nn.LSTM(6, 5, num_layers=2, dropout=0.5).eval(),
    "LSTM of f64": lambda: nn.LSTM(6, 5).double(),
}
SHAPES = ((7, 3), (4, 2), (9, 4), (3, 5), (30, 2), (2, 2), (5, 3))


class Net(nn.Module):
    """What reads the last state alone, all outputs, or both."""

    def __init__(self, rnn, reads):
        super().__init__()
        self.rnn, self.reads = rnn, reads

    def forward(self, x):
        output, state = self.rnn(x * 1.5)
        state = state if isinstance(state, torch.Tensor) else torch.cat(state, -1)
        parts = {"output": [output], "state": [state], "both": [output, state]}[self.reads]
        return sum((part * part).sum() for part in parts)


def steps_of(tensor):
    """Strides, where there is more than one step."""
    return [stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if size > 1]


def check(compiled, net, twin, x):
    ours, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
    loss, wanted = compiled(ours), twin(theirs)
    torch.testing.assert_close(loss, wanted, rtol=1e-4, atol=1e-4)
    loss.backward()
    wanted.backward()
    assert steps_of(ours.grad) == steps_of(theirs.grad)
    torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-4, atol=1e-4)
    for a, b in zip(net.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-3, atol=1e-4)
        assert a.grad.stride() == b.grad.stride()
        a.grad = b.grad = None


@pytest.mark.parametrize("name", NETS)
def test_recurrent_nets_are_one_program(name):
    net = Net(NETS[name](), "both")
    twin, compiled = copy.deepcopy(net), braze.compile(net, dynamic=True)
    dtype = next(net.parameters()).dtype
    for first, second in SHAPES:
        check(compiled, net, twin, torch.randn(first, second, 6, dtype=dtype))
    assert compiled.counts() == {"captured": 1, "replayed": len(SHAPES) - 1, "native": 0}
    for shape in ((1, 3), (3, 1), (1, 1)):
        check(compiled, net, twin, torch.randn(*shape, 6, dtype=dtype))


@pytest.mark.parametrize("name", NETS)
@pytest.mark.parametrize("dynamic", [None, True])
def test_the_gradient_of_the_input_lies_as_eager_has_it(name, dynamic):
    rnn = NETS[name]()
    dtype = next(rnn.parameters()).dtype

    def gradients(x):
        x = x.clone().requires_grad_()
        return torch.autograd.grad(rnn(x)[0].sum(), [x, *rnn.parameters()])

    compiled = braze.compile(gradients, dynamic=dynamic)
    for shape in ((3, 2), (5, 4), (1, 3), (1, 7), (4, 1), (9, 2), (1, 1)):
        x = torch.randn(*shape, 6, dtype=dtype)
        for one, other in zip(compiled(x), gradients(x), strict=True):
            torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)
            assert one.stride() == other.stride()


@pytest.mark.parametrize("reads", ["output", "state"])
@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
def test_some_of_the_results(kind, reads):
    net = Net(kind(6, 5, batch_first=True), reads)
    twin, compiled = copy.deepcopy(net), braze.compile(net)
    for batch, length in SHAPES:
        check(compiled, net, twin, torch.randn(batch, length, 6))
    assert compiled.counts()["native"] == 0
    assert compiled.counts()["captured"] == 2
    for one in (compiled, twin):
        with pytest.raises(RuntimeError, match="larger than 0"):
            one(torch.randn(2, 0, 6))


def test_states_that_are_given_and_frozen_parameters():
    rnn = nn.LSTM(6, 5)
    rnn.weight_ih_l0.requires_grad_(False)

    def f(x, h, c):
        output, (h, c) = rnn(x, (h, c))
        return output.sin().sum() + (h * c).sum()

    compiled = braze.compile(f, dynamic=True)
    for length, batch in SHAPES:
        arguments = torch.randn(length, batch, 6), torch.randn(1, batch, 5), torch.randn(1, batch, 5)
        found = []
        for one in (compiled, f):
            given = [argument.clone().requires_grad_(k != 2) for k, argument in enumerate(arguments)]
            one(*given).backward()
            found.append([given[0].grad, given[1].grad, rnn.weight_hh_l0.grad, rnn.bias_ih_l0.grad])
            assert given[2].grad is None
            assert rnn.weight_ih_l0.grad is None
            rnn.zero_grad()
        torch.testing.assert_close(*found, rtol=1e-4, atol=1e-4)
    assert compiled.counts() == {"captured": 1, "replayed": len(SHAPES) - 1, "native": 0}


def test_second_derivatives_and_backwards_that_run_again():
    rnn = nn.GRU(6, 5)

    def f(x):
        return rnn(x)[0].pow(2).sum()

    compiled = braze.compile(f, dynamic=True)
    for length in (7, 4, 9):
        x = torch.randn(length, 2, 6)
        found = []
        for one in (compiled, f):
            given = x.clone().requires_grad_()
            (first,) = torch.autograd.grad(one(given), given, create_graph=True)
            (second,) = torch.autograd.grad(first.pow(2).sum(), given)
            found.append((first, second))
            loss = one(given)
            loss.backward(retain_graph=True)
            loss.backward()
            with pytest.raises(RuntimeError, match="second time"):
                loss.backward()
            rnn.zero_grad()
        torch.testing.assert_close(*found, rtol=1e-3, atol=1e-4)
    assert compiled.counts()["native"] == 0


def test_dropout_between_layers_draws_what_eager_draws():
    rnn = nn.LSTM(6, 5, num_layers=2, dropout=0.5)
    net = Net(rnn, "output")
    twin, compiled = copy.deepcopy(net), braze.compile(net, dynamic=True)
    for length in (7, 4, 9):
        x = torch.randn(length, 2, 6)
        losses = []
        for one in (compiled, twin):
            torch.manual_seed(length)
            losses.append(one(x))
            losses[-1].backward()
        torch.testing.assert_close(*losses, rtol=1e-4, atol=1e-4)
        for a, b in zip(net.parameters(), twin.parameters(), strict=True):
            torch.testing.assert_close(a.grad, b.grad, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_alignments(reduction):
    def f(x, lengths):
        targets = torch.ones(x.shape[1], 2, dtype=torch.long)
        steps = x.log_softmax(-1)
        return F.ctc_loss(steps, targets, lengths, torch.full_like(lengths, 2), reduction=reduction).sum()

    compiled = braze.compile(f, dynamic=True)
    calls = ((12, 2), (15, 3), (20, 4), (9, 6), (30, 2))
    for steps, batch in calls:
        lengths = torch.randint(5, steps + 1, (batch,))
        x = torch.randn(steps, batch, 5)
        ours, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
        loss, wanted = compiled(ours, lengths), f(theirs, lengths)
        loss.backward()
        wanted.backward()
        torch.testing.assert_close((loss, ours.grad), (wanted, theirs.grad), rtol=1e-4, atol=1e-4)
    assert compiled.counts() == {"captured": 1, "replayed": len(calls) - 1, "native": 0}
