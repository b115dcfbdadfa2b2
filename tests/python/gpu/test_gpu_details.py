"""Where PyTorch's kernels for GPUs differ from those for CPUs in more than rounding, and checks of values there."""

import pytest
import torch
from on_gpu import assert_as_eager, in_double, needs_gpu, on_device
from torch.nn import functional as F

import braze

pytestmark = needs_gpu


def shuffled(x):
    return F.pixel_shuffle(x, 2), F.pixel_unshuffle(x, 2), F.channel_shuffle(x, 2)


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_shuffles_are_contiguous(layout):
    x = on_device(torch.randn(2, 8, 6, 4).to(memory_format=layout))
    compiled = braze.compile(shuffled)
    for _ in range(2):
        assert_as_eager(compiled(x), shuffled(x), shuffled(in_double(x)))
    assert compiled.counts()["native"] == 0, compiled.reasons()


@pytest.mark.parametrize("rows", [33, 1024, 5000])
@pytest.mark.parametrize(
    "function", [lambda x: x.sum(0), lambda x: (x * 2).mean(0), lambda x: x.amax(0), lambda x: x.argmin(0)]
)
def test_long_columns(function, rows):
    x = on_device(torch.randn(rows, 2000))
    compiled = braze.compile(function)
    for _ in range(2):
        got, wanted = compiled(x), function(x)
        if wanted.is_floating_point():
            exact = function(x.double())
            error, eagers = ((each.double() - exact).abs().max().item() for each in (got, wanted))
            assert error <= max(2 * eagers, 2 * torch.finfo(torch.float32).eps * exact.abs().max().item())
        else:
            assert torch.equal(got, wanted)
    assert compiled.counts()["native"] == 0, compiled.reasons()


def test_assertions_break_graphs():
    def fn(x):
        y = x * 2
        assert x.min() > 0, "positive"
        return y + 1

    compiled = braze.compile(fn)
    good = torch.ones(5, device="cuda")
    for x in (good, -good, good):
        try:
            wanted = fn(x)
        except AssertionError:
            with pytest.raises(AssertionError):
                compiled(x)
            continue
        assert torch.equal(compiled(x), wanted)


def test_asynchronous_assertions_that_hold():
    def fn(x):
        torch._assert_async(x.min() > 0)
        return x + 1

    compiled = braze.compile(fn, fullgraph=True)
    x = torch.ones(5, device="cuda")
    for _ in range(3):
        assert torch.equal(compiled(x), x + 1)
    assert compiled.counts() == {"captured": 1, "replayed": 2, "native": 0}


@pytest.fixture
def deterministic():
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


@pytest.mark.usefixtures("deterministic")
def test_deterministic_algorithms_are_compiled():
    index = torch.randint(0, 7, (4000,), device="cuda")

    def fn(x):
        return torch.zeros(7, 16, device="cuda").index_add(0, index, x), F.embedding(index, x[:7]).relu() + x

    compiled = braze.compile(fn, fullgraph=True)
    x = torch.randn(4000, 16, device="cuda")
    first = compiled(x)
    for _ in range(5):
        assert all(torch.equal(one, other) for one, other in zip(compiled(x), first, strict=True))
    for one, other in zip(first, fn(x), strict=True):
        torch.testing.assert_close(one, other)
    assert compiled.counts() == {"captured": 1, "replayed": 5, "native": 0}


@pytest.mark.usefixtures("deterministic")
def test_what_is_not_deterministic_raises_as_in_eager():
    def fn(x):
        return F.pad(x, (1, 1), "reflect")

    def step(function):
        x = torch.ones(5, 6, device="cuda", requires_grad=True)
        function(x).sum().backward()

    with pytest.raises(RuntimeError, match="deterministic implementation") as eager:
        step(fn)
    compiled = braze.compile(fn)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="deterministic implementation") as ours:
            step(compiled)
        assert str(ours.value).split(",")[0] in str(eager.value)
