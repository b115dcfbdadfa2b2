"""The option size_buckets: batches of many sizes by programs of few, where rows are independent."""

import logging
import threading

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import braze

SIZES = (13, 3, 16, 5, 9, 31, 2, 17, 32, 13, 40)


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(50, 32)
        self.layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, activation="gelu", dropout=0.0)
        self.head = nn.Linear(32, 5)

    def forward(self, tokens):
        x = self.embedding(tokens)
        q, k, v = (x.unflatten(-1, (4, 8)).transpose(1, 2) for _ in range(3))
        x = x + F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(-2)
        return self.head(F.layer_norm(x, (32,)).mean(1)).log_softmax(-1)


class Convolutions(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 4, 1))

    def forward(self, x):
        return self.layers(x).mean((2, 3))


def numbers(*shape):
    return lambda n: torch.randn(n, *shape)


#: By name: what is called, and the arguments of a batch.
INDEPENDENT = {
    "mlp": (nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 4)), [numbers(16)]),
    "encoder": (Encoder(), [lambda n: torch.randint(50, (n, 7))]),
    "convolutions": (Convolutions(), [numbers(3, 10, 10)]),
    "softmax": (lambda x: x.softmax(-1) * 2, [numbers(11)]),
    "two batches": (lambda x, y: (torch.cat([x, y], 1).relu(), (x * y).sum(1)), [numbers(6), numbers(6)]),
    "a number a row": (lambda x, i: x.gather(1, i[:, None]) + 1, [numbers(9), lambda n: torch.randint(9, (n,))]),
    "rows in columns": (lambda x: (x.t() * 2).cos(), [numbers(4)]),
    "transposed arguments": (lambda x: x * 2 + 1, [lambda n: torch.randn(4, n).t()]),
    "half": (lambda x: F.gelu(x) + x, [lambda n: torch.randn(n, 8).bfloat16()]),
    "the argument itself": (lambda x: (x, x + 1), [numbers(3)]),
    "positions": (lambda x: x + torch.arange(x.shape[1]), [numbers(5)]),
}


def programs_of(compiled):
    return {id(program) for program in compiled.programs()}


@pytest.mark.parametrize("buckets", ["powers_of_two", "4, 16,32"])
@pytest.mark.parametrize("name", INDEPENDENT)
def test_as_eager(name, buckets):
    function, arguments = INDEPENDENT[name]
    if isinstance(function, nn.Module):
        function.eval()
    compiled = braze.compile(function, dynamic=True, options={"size_buckets": buckets})
    with torch.no_grad():
        for n in SIZES:
            given = [make(n) for make in arguments]
            copies = [x.clone() for x in given]
            got, wanted = compiled(*given), function(*given)
            for one, other in zip(*(x if isinstance(x, tuple) else (x,) for x in (got, wanted)), strict=True):
                torch.testing.assert_close(one, other)
                assert one.stride() == other.stride() and one.storage_offset() == 0 and not one._is_view()
            assert all(torch.equal(x, y) for x, y in zip(given, copies, strict=True))
    assert compiled.counts()["captured"] == 1 and compiled.counts()["native"] == 0, compiled.counts()


def test_one_program_for_a_bucket():
    compiled = braze.compile(lambda x: F.gelu(x) * 2, dynamic=True, options={"size_buckets": "powers_of_two"})
    seen = set()
    for n in (16, 9, 13, 11, 15, 10):
        torch.testing.assert_close(compiled(torch.ones(n, 8)), F.gelu(torch.ones(n, 8)) * 2)
        seen |= {program.graph for program in compiled.programs()}
    assert all("f32[16,8]" in graph for graph in seen), seen


DEPENDENT = {
    "sum over rows": lambda x: x.sum(0),
    "mean over all": lambda x: x.mean(),
    "normalised by rows": lambda x: x - x.mean(0),
    "their number": lambda x: x / x.shape[0],
    "in another order": lambda x: x.flip(0),
    "all pairs": lambda x: x @ x.t(),
    "running sums": lambda x: x.cumsum(0),
    "a part of rows": lambda x: x[1:],
    "one row": lambda x: x[-1] * 2,
    "sorted": lambda x: x.sort(0).values,
    "random": lambda x: x + torch.rand_like(x),
    "written": lambda x: x.mul_(2),
    "a view of the argument": lambda x: (x[:, 1:], x + 1),
    "batch norm in training": lambda x: F.batch_norm(x, None, None, training=True),
    "flattened behind": lambda x: x.t().reshape(-1) * 2,
}


@pytest.mark.parametrize("name", DEPENDENT)
def test_rows_that_meet_are_not_padded(name, caplog):
    function = DEPENDENT[name]
    compiled = braze.compile(function, options={"size_buckets": "powers_of_two"})  # the rows alone vary
    braze.set_logs(recompiles=True)
    try:
        with caplog.at_level(logging.DEBUG), torch.no_grad():
            for n in SIZES:
                x = torch.randn(n, 6)
                mine, theirs = x.clone(), x.clone()
                torch.manual_seed(n)
                got = compiled(mine)
                torch.manual_seed(n)
                torch.testing.assert_close(got, function(theirs))
                torch.testing.assert_close(mine, theirs)
    finally:
        braze.set_logs(recompiles=False)
    assert "batches are not padded to size_buckets" in caplog.text


def test_the_last_row_fills_up():
    """Rows of nothing would be out of range here, and divide by zero."""
    table = torch.randn(10, 4)

    def f(i, x):
        return F.embedding(i - 5, table), x // i

    compiled = braze.compile(f, dynamic=True, options={"size_buckets": "16"})
    for n in (7, 12, 3):
        i, x = torch.randint(5, 15, (n,)), torch.randint(100, (n,))
        for one, other in zip(compiled(i, x), f(i, x), strict=True):
            assert torch.equal(one, other)


def test_errors_are_eagers():
    table = torch.randn(10, 4)
    compiled = braze.compile(lambda i: F.embedding(i, table), dynamic=True, options={"size_buckets": "16"})
    for n in (7, 5):
        compiled(torch.zeros(n, dtype=torch.long))
        with pytest.raises(IndexError, match="index out of range"):
            compiled(torch.full((n,), 10))


def test_with_gradients_nothing_is_padded():
    compiled = braze.compile(lambda x: (x * x).sum(1), dynamic=True, options={"size_buckets": "powers_of_two"})
    for n in (5, 7, 3):
        x = torch.randn(n, 4, requires_grad=True)
        compiled(x).sum().backward()
        torch.testing.assert_close(x.grad, 2 * x.detach())


def test_threads():
    net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2)).eval()
    compiled = braze.compile(net, dynamic=True, options={"size_buckets": "32"})
    wrong = []

    def work(seed):
        generator = torch.Generator(torch.get_default_device()).manual_seed(seed)
        with torch.no_grad():
            for n in range(2, 31):
                x = torch.randn(n, 8, generator=generator)
                if not torch.allclose(compiled(x), net(x), atol=1e-5):
                    wrong.append((seed, n))

    with torch.no_grad():
        compiled(torch.randn(4, 8))
    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize("text", ["eight", "8, -1", "0", "8;16", "power_of_two"])
def test_nonsense_is_refused(text):
    with pytest.raises(ValueError, match="size_buckets"):
        braze.compile(lambda x: x, options={"size_buckets": text})
