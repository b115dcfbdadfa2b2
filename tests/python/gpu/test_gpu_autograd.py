"""Autograd on a GPU: graphs kept for a second backward, and second derivatives, whose forward runs again."""

import copy

import pytest
import torch
import torch.nn.functional as F
from on_gpu import needs_gpu
from torch import nn

import braze

pytestmark = [needs_gpu, pytest.mark.filterwarnings("ignore")]
CALLS = 3


@pytest.fixture(autouse=True)
def exact_products():
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        yield


def both_ways(model, step, flatten=True):
    """What `step(call, model)` returns at each call: of the model in eager, and of its copy, compiled. Weights of
    recurrent nets lie apart in a copy, unless they are laid together again."""
    outcomes = []
    for compile in (lambda m: m, braze.compile):
        torch.manual_seed(3)
        own = copy.deepcopy(model)
        for part in own.modules():
            if flatten and isinstance(part, nn.RNNBase):
                part.flatten_parameters()
        call = compile(own)
        outcomes.append([step(call, own) for _ in range(CALLS)])
    torch.testing.assert_close(outcomes[1], outcomes[0], rtol=2e-4, atol=2e-5)
    return call


def gradients(model):
    return [p.grad.clone() for p in model.parameters()]


@pytest.mark.parametrize("kind", [nn.RNN, nn.GRU, nn.LSTM])
def test_graph_of_recurrent_net_is_kept(kind):
    """What cuDNN has reserved is used up by its backward, and eager's autograd gives it a copy."""

    def step(call, model):
        model.zero_grad()
        y, _ = call(torch.randn(2, 5, 4, device="cuda"))
        y.sum().backward(retain_graph=True)
        once = gradients(model)
        y.square().sum().backward(retain_graph=True)
        twice = gradients(model)
        y.sin().sum().backward()
        return once, twice, gradients(model)

    both_ways(kind(4, 5, 2, batch_first=True, bidirectional=True).cuda(), step)


class Recurrent(nn.Module):
    def __init__(self, kind, *args, **kwargs):
        super().__init__()
        self.net, self.head = kind(*args, **kwargs), nn.LazyLinear(3)

    def forward(self, x, state=None):
        y, state = self.net(x, state)
        return self.head(y), state


RECURRENT = {
    "rnn": (nn.RNN, (4, 6), {}),
    "relu": (nn.RNN, (4, 6), {"nonlinearity": "relu"}),
    "gru": (nn.GRU, (4, 6, 2), {}),
    "lstm": (nn.LSTM, (4, 6, 3), {}),
    "both ways": (nn.LSTM, (4, 6, 2), {"bidirectional": True, "batch_first": True}),
    "without biases": (nn.GRU, (4, 6, 2), {"bias": False}),
    "projected": (nn.LSTM, (4, 6, 2), {"proj_size": 2}),
    "projected without biases": (nn.LSTM, (4, 6, 2), {"proj_size": 2, "bias": False, "bidirectional": True}),
    "f64": (nn.GRU, (4, 6), {"dtype": torch.float64}),
}


@pytest.mark.parametrize("flatten", [True, False])
@pytest.mark.parametrize("name", RECURRENT)
def test_recurrent_net_is_trained(name, flatten):
    """The weights change between calls."""
    kind, sizes, options = RECURRENT[name]
    dtype = options.get("dtype", torch.float32)
    model = Recurrent(kind, *sizes, **options).to("cuda", dtype)
    model(torch.randn(5, 2, 4, device="cuda", dtype=dtype))
    optimizers = {}

    def step(call, model):
        optimizer = optimizers.setdefault(id(model), torch.optim.SGD(model.parameters(), 0.05))
        optimizer.zero_grad()
        x = torch.randn(5, 2, 4, device="cuda", dtype=dtype, requires_grad=True)
        y, state = call(x)
        leaves = (state,) if torch.is_tensor(state) else state
        (y.square().sum() + sum(s.sin().sum() for s in leaves)).backward()
        optimizer.step()
        return y, x.grad, gradients(model), [p.detach().clone() for p in model.parameters()]

    compiled = both_ways(model, step, flatten)
    counts = compiled.counts() if hasattr(compiled, "counts") else compiled.forward.counts()
    assert counts["native"] == 0 and counts["replayed"] >= 1, counts


@pytest.mark.parametrize("kind", [nn.GRU, nn.LSTM])
def test_recurrent_net_with_a_state_of_its_own(kind):
    """The state has a gradient, and what is carried on from call to call has a history."""
    model = Recurrent(kind, 4, 6).cuda()
    model(torch.randn(5, 2, 4, device="cuda"))

    def step(call, model):
        model.zero_grad()
        first = [torch.randn(1, 2, 6, device="cuda", requires_grad=True) for _ in range(2)]
        state = first[0] if kind is nn.GRU else tuple(first)
        y, state = call(torch.randn(5, 2, 4, device="cuda"), state)
        z, _ = call(torch.randn(5, 2, 4, device="cuda"), state)
        (y.sum() + z.square().sum()).backward()
        return y, z, [s.grad for s in first], gradients(model)

    both_ways(model, step)


@pytest.mark.parametrize("kind", [nn.RNN, nn.GRU, nn.LSTM])
def test_recurrent_net_of_a_packed_sequence(kind):
    from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

    class Packed(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = kind(4, 6, 2)

        def forward(self, x):
            packed = pack_padded_sequence(x, torch.tensor([5, 3, 1]))
            return pad_packed_sequence(self.net(packed)[0])[0]

    def step(call, model):
        model.zero_grad()
        x = torch.randn(5, 3, 4, device="cuda", requires_grad=True)
        y = call(x)
        y.square().sum().backward()
        return y, x.grad, gradients(model)

    both_ways(Packed().cuda(), step)


def test_weights_of_a_recurrent_net_that_lie_apart():
    """Eager warns at each call."""

    def step(call, model):
        model.zero_grad()
        with pytest.warns(UserWarning, match="not part of single contiguous"):
            y, _ = call(torch.randn(5, 3, 4, device="cuda"))
        y.sum().backward()
        return y, gradients(model)

    both_ways(nn.GRU(4, 6).cuda(), step, flatten=False)


def test_dropout_between_recurrent_layers():
    def step(call, model):
        model.zero_grad()
        torch.cuda.manual_seed(5)
        y, _ = call(torch.randn(5, 3, 4, device="cuda"))
        y.sum().backward()
        return y, gradients(model)

    both_ways(nn.LSTM(4, 6, 2, dropout=0.5).cuda(), step)


@pytest.mark.parametrize("shape", [(6, 4), (6, 4, 5, 5)])
def test_graph_of_batch_norm_is_kept(shape):
    kind = nn.BatchNorm1d if len(shape) == 2 else nn.BatchNorm2d

    def step(call, model):
        model.zero_grad()
        x = torch.randn(shape, device="cuda", requires_grad=True)
        y = call(x)
        y.square().sum().backward(retain_graph=True)
        once = x.grad.clone(), gradients(model)
        y.sin().sum().backward()
        return once, x.grad, gradients(model)

    both_ways(kind(4).cuda(), step)


PENALISED = {
    "dropout": lambda: nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Dropout(0.4), nn.Linear(8, 1)),
    "two dropouts": lambda: nn.Sequential(
        nn.Dropout(0.2), nn.Linear(4, 8), nn.Tanh(), nn.Dropout(), nn.Linear(8, 1)
    ),
    "batch norm": lambda: nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 1)),
    "batch norm of images": lambda: nn.Sequential(
        nn.Unflatten(1, (1, 2, 2)),
        nn.Conv2d(1, 3, 1),
        nn.BatchNorm2d(3),
        nn.Softplus(),
        nn.Flatten(),
        nn.Linear(12, 1),
    ),
}


@pytest.mark.parametrize("name", PENALISED)
def test_gradient_penalty(name):
    """The forward is run again under autograd, with the numbers that it drew."""

    def step(call, model):
        model.zero_grad()
        x = torch.randn(6, 4, device="cuda", requires_grad=True)
        y = call(x)
        (g,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        torch.rand(5, device="cuda")  # Others draw meanwhile.
        (y.mean() + (g.norm(dim=1) - 1).square().mean()).backward()
        return y.detach(), g.detach(), gradients(model), [b.clone() for b in model.buffers()], torch.rand(1).cuda()

    torch.manual_seed(0)
    call = both_ways(PENALISED[name]().cuda(), step)
    assert call.counts()["native"] == 0, call.reasons()


def test_second_derivative_of_drawn_numbers():
    def f(x):
        noise = torch.rand_like(x)
        return (F.dropout(x.sin(), 0.3) * noise * torch.empty_like(x).normal_()).exp()

    def run(f):
        torch.manual_seed(1)
        found = []
        for _ in range(CALLS):
            x = torch.linspace(0, 1, 50, device="cuda", requires_grad=True)
            (g,) = torch.autograd.grad(f(x).sum(), x, create_graph=True)
            found += [g.detach(), *torch.autograd.grad(g.sum(), x), torch.rand(2, device="cuda")]
        return found

    torch.testing.assert_close(run(braze.compile(f)), run(f), rtol=1e-4, atol=1e-5)
