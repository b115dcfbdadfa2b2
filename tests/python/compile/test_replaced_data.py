"""`tensor.data = other` within a compiled function: one graph where nobody can see more than the elements. Results,
parameters, aliases and versions are as in eager, call after call, also where somebody changes them in between."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import braze


class Momentum(nn.Module):
    """MoCo's: a slow copy follows a fast one."""

    def __init__(self):
        super().__init__()
        self.fast, self.slow = nn.Linear(4, 4), nn.Linear(4, 4)
        for parameter in self.slow.parameters():
            parameter.requires_grad = False

    def forward(self, x):
        fast = self.fast(x)
        with torch.no_grad():
            for a, b in zip(self.fast.parameters(), self.slow.parameters(), strict=True):
                b.data = b.data * 0.9 + a.data * 0.1
            slow = self.slow(x)
        return (fast * slow).sum(1)


class Clipped(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        for parameter in self.layer.parameters():
            parameter.data = parameter.data.clamp(-0.2, 0.2)
        return self.layer(x)


class Binary(nn.Module):
    """As binarised networks have it: the weight is its sign for the time of the product."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        kept = self.layer.weight.data.clone()
        self.layer.weight.data = self.layer.weight.data.sign()
        y = self.layer(x)
        self.layer.weight.data = kept
        return y


class Codes(nn.Module):
    """A codebook that is an average of what it is given, written through `data`."""

    def __init__(self):
        super().__init__()
        self.register_buffer("codes", torch.randn(6, 4))
        self.register_buffer("sums", torch.ones(6, 4))

    def forward(self, x):
        nearest = torch.cdist(x, self.codes).argmin(-1)
        chosen = F.one_hot(nearest, 6).to(x.dtype)
        self.sums.data.mul_(0.9).add_(chosen.t() @ x, alpha=0.1)
        self.codes.data = F.normalize(self.sums.data, dim=-1)
        return x + (F.embedding(nearest, self.codes) - x).detach()


class Masked(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.register_buffer("mask", (torch.rand(4, 4) > 0.5).float())

    def forward(self, x):
        self.layer.weight.data *= self.mask
        return self.layer(x)


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        self.second.weight.data = self.first.weight.data
        return self.second(self.first(x))


class Twice(nn.Module):
    """Views that were made before go on being views of the memory that was there."""

    def __init__(self):
        super().__init__()
        self.register_buffer("state", torch.ones(3))

    def forward(self, x):
        before = self.state.view(3, 1)
        self.state.data = self.state.data * 2
        middle = self.state.data
        self.state.data = self.state + x.mean()
        middle.add_(1)
        return before.clone(), middle, self.state * 1


MODULES = [Momentum, Clipped, Binary, Codes, Masked, Tied, Twice]


def state_of(module):
    return [(name, value.detach().clone(), value._version) for name, value in module.state_dict().items()]


def same(ours, theirs):
    ours, theirs = (value if isinstance(value, tuple) else (value,) for value in (ours, theirs))
    for a, b in zip(ours, theirs, strict=True):
        assert (a.shape, a.dtype, a.requires_grad, a._version) == (b.shape, b.dtype, b.requires_grad, b._version)
        torch.testing.assert_close(a, b)


def disturb(module, call):
    """What somebody does between two calls."""
    with torch.no_grad():
        for value in module.state_dict().values():
            if call == 2:
                value.mul_(1.25)
    if call == 4:
        for value in [*module.parameters(), *module.buffers()]:
            value.data = value.data + 0.01


@pytest.mark.parametrize("trained", [False, True])
@pytest.mark.parametrize("make", MODULES)
def test_as_eager_call_after_call(make, trained):
    torch.manual_seed(0)
    made = make()
    plain, compiled_from = copy.deepcopy(made), copy.deepcopy(made)  # A copy's versions are others.
    compiled = braze.compile(compiled_from)
    generator = torch.Generator().manual_seed(1)
    for call in range(7):
        ours = torch.randn(3 if call < 6 else 5, 4, generator=generator).requires_grad_(trained and call % 2 == 1)
        theirs = ours.detach().clone().requires_grad_(ours.requires_grad)
        with torch.set_grad_enabled(trained):
            got, wanted = compiled(ours), plain(theirs)
        same(got, wanted)
        for (name, a, version), (_, b, other) in zip(state_of(compiled_from), state_of(plain), strict=True):
            torch.testing.assert_close(a, b, msg=name)
            assert version == other, name
        if isinstance(wanted, torch.Tensor) and wanted.requires_grad:
            got.sum().backward(), wanted.sum().backward()
            if theirs.grad is not None:
                torch.testing.assert_close(ours.grad, theirs.grad)
            for a, b in zip(compiled_from.parameters(), plain.parameters(), strict=True):
                assert (a.grad is None) == (b.grad is None)
                if a.grad is not None:
                    torch.testing.assert_close(a.grad, b.grad)
        disturb(plain, call), disturb(compiled_from, call)


@pytest.mark.parametrize("make", MODULES)
def test_is_one_graph_and_replayed(make):
    compiled = braze.compile(make(), fullgraph=True)
    with torch.no_grad():
        for _ in range(3):
            before = compiled.counts()
            compiled(torch.randn(3, 4))
    after = compiled.counts()
    assert after["captured"] == before["captured"] and after["replayed"] == before["replayed"] + 1
    report = compiled.report()
    assert not any(segment["break"] or segment["read"] for segment in report["segments"])
    assert report["operators"]["native"] == 0


@pytest.mark.parametrize("make", [Momentum, Masked])
def test_is_one_graph_where_others_are_trained(make):
    compiled = braze.compile(make(), fullgraph=True)
    for _ in range(3):
        before = compiled.counts()
        compiled(torch.randn(3, 4, requires_grad=True)).sum().backward()
    assert compiled.counts()["captured"] == before["captured"]
    assert not any(one["break"] or one["read"] for one in compiled.report()["segments"])


def test_ends_the_graph_where_a_trained_parameter_is_replaced():
    ours, theirs = nn.Linear(4, 4), nn.Linear(4, 4)
    theirs.load_state_dict(ours.state_dict())

    def make(layer):
        def f(x):
            y = x + 1
            layer.weight.data = layer.weight.data.clamp(-0.2, 0.2)
            return layer(y)

        return f

    compiled, plain = braze.compile(make(ours)), make(theirs)
    for _ in range(4):
        before = compiled.counts()
        x = torch.randn(3, 4)
        got, wanted = compiled(x), plain(x)
        torch.testing.assert_close(got, wanted)
        got.sum().backward(), wanted.sum().backward()
        torch.testing.assert_close(ours.weight.grad, theirs.weight.grad)
    assert compiled.counts()["captured"] == before["captured"]
    assert {one["break"]["id"] for one in compiled.report()["segments"] if one["break"]} == {"data_replaced"}


class BinaryInput(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        x.data = x.data.sign()
        return self.layer(x)


@pytest.mark.parametrize("make", [Codes, BinaryInput, Binary])
def test_ends_the_graph_where_gradients_are_wanted(make):
    compiled = braze.compile(make())
    for _ in range(4):
        before = compiled.counts()
        compiled(torch.randn(3, 4)).sum()
    assert compiled.counts()["captured"] == before["captured"]
    assert {one["break"]["id"] for one in compiled.report()["segments"] if one["break"]} == {"data_replaced"}


def test_another_shape():
    holder = nn.Module()
    holder.register_buffer("state", torch.zeros(0))

    def f(x):
        holder.state.data = x.sum(0)
        return holder.state + x

    compiled = braze.compile(f)
    for rows in (2, 3, 4, 5):
        x = torch.randn(rows, 4)
        torch.testing.assert_close(compiled(x), x.sum(0) + x)
        torch.testing.assert_close(holder.state, x.sum(0))


def test_an_argument_and_a_result_of_the_run():
    def f(x):
        x.data = x.data.clamp(-0.5, 0.5)
        y = x + 1
        y.data = y.data * 2
        return y, x.sum()

    compiled = braze.compile(f)
    with torch.no_grad():
        for _ in range(4):
            ours = torch.randn(3, 4)
            theirs = ours.clone()
            alias = ours[0]
            same(compiled(ours), f(theirs))
            torch.testing.assert_close(ours, theirs)
            assert alias.untyped_storage().data_ptr() != ours.untyped_storage().data_ptr()


def test_memory_is_shared_afterwards_as_in_eager():
    def f(x, y):
        x.data = y
        y.mul_(2)
        return x + 1

    compiled = braze.compile(f)
    with torch.no_grad():
        for _ in range(4):
            x, y = torch.zeros(4), torch.ones(4)
            torch.testing.assert_close(compiled(x, y), torch.full((4,), 3.0))
            assert x.data_ptr() == y.data_ptr() and x._version == 0 and y._version == 1


def test_writes_into_the_tensor_itself_afterwards():
    def f(x):
        x.data = x.data * 2
        x.add_(1)
        return x * 3

    compiled = braze.compile(f)
    with torch.no_grad():
        for _ in range(4):
            ours = torch.randn(4)
            theirs = ours.clone()
            same(compiled(ours), f(theirs))
            same(ours, theirs)


def test_leaves_are_asked_for_their_history():
    """As register_parameter() does, of which weight tying makes use."""
    embedding, layer = nn.Embedding(4, 4), nn.Linear(4, 4, bias=False)

    def f(x):
        layer.weight = embedding.weight
        return layer(x)

    compiled = braze.compile(f, fullgraph=True)
    for _ in range(4):
        x = torch.randn(3, 4)
        torch.testing.assert_close(compiled(x), F.linear(x, embedding.weight))
    assert compiled.counts()["captured"] <= 2


def test_a_parameter_that_each_call_makes():
    layer = nn.Linear(4, 4)

    def f(x):
        layer.weight = nn.Parameter(layer.weight.detach() * 0.9)
        return layer(x)

    compiled = braze.compile(f)
    with torch.no_grad():
        for call in range(5):
            before, weight = compiled.counts(), layer.weight.clone()
            x = torch.randn(3, 4)
            torch.testing.assert_close(compiled(x), F.linear(x, weight * 0.9, layer.bias))
            assert isinstance(layer.weight, nn.Parameter)
            if call > 1:
                assert compiled.counts()["captured"] == before["captured"]


def test_results_that_require_grad_under_no_grad():
    def f(x):
        zeros = torch.zeros_like(x).requires_grad_()
        return (x * 2).requires_grad_(), x + zeros, zeros.requires_grad

    compiled = braze.compile(f, fullgraph=True)
    with torch.no_grad():
        for _ in range(4):
            x = torch.randn(3, 4)
            first, second, flag = compiled(x)
            torch.testing.assert_close((first.detach(), second), (x * 2, x))
            assert flag and first.requires_grad and first.is_leaf and not second.requires_grad
    assert compiled.counts()["captured"] == 1
    first.sum().backward()
    torch.testing.assert_close(first.grad, torch.ones(3, 4))


def test_a_result_that_requires_grad_already():
    def f(x):
        y = (x * 2).requires_grad_()
        return y * 3

    compiled = braze.compile(f, fullgraph=True)
    for _ in range(3):
        x = torch.randn(3, requires_grad=True)
        compiled(x).sum().backward()
        torch.testing.assert_close(x.grad, torch.full((3,), 6.0))
