"""Where PyTorch's kernels for GPUs differ from those for CPUs in more than rounding, and checks of values there."""

import textwrap

import pytest
import torch
from on_gpu import assert_as_eager, in_double, needs_gpu, on_device
from processes import fresh
from torch.nn import functional as F
from torch.utils import checkpoint

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


@pytest.mark.parametrize("sizes", [(0, 3, 4, 6), (2, 3, 0, 6), (2, 4, 4, 6)])
def test_pixels_of_nothing(sizes):
    """A kernel of the CPU gives them back as they are."""
    x = on_device(torch.randn(sizes))
    compiled = braze.compile(lambda x: F.pixel_unshuffle(x, 2))
    for _ in range(2):
        assert_as_eager(compiled(x), F.pixel_unshuffle(x, 2))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("limit", [0.1, 0.3, 1 / 3])
def test_limits_are_rounded_to_the_type(limit, dtype):
    """Elements that equal the limit in the tensor's type, and its neighbours."""
    at = torch.tensor([limit, -limit, 0.0, 1.0]).to(dtype)
    x = on_device(torch.cat([at, torch.nextafter(at, at + 1), torch.nextafter(at, at - 1)]))

    def limited(x):
        y = F.threshold(x, limit, 7.0), F.softshrink(x, limit), F.hardshrink(x, limit), x.clamp(-limit, limit)
        return *y, F.hardtanh(x, -limit, limit), F.leaky_relu(x, limit)

    def gradients(x):
        x = x.detach().requires_grad_()
        return [torch.autograd.grad(each.sum(), x, retain_graph=True)[0] for each in limited(x)]

    for function in (limited, gradients):
        compiled = braze.compile(function)
        for _ in range(2):
            for ours, theirs in zip(compiled(x), function(x), strict=True):
                assert torch.equal(ours, theirs)
    fast = braze.compile(limited)
    for _ in range(2):
        leaf, other = (x.detach().requires_grad_() for _ in range(2))
        for ours, theirs in zip(fast(leaf), limited(other), strict=True):
            mine = torch.autograd.grad(ours.sum(), leaf, retain_graph=True)[0]
            assert torch.equal(mine, torch.autograd.grad(theirs.sum(), other, retain_graph=True)[0])


def test_checkpoints_run_again_on_the_engines_thread():
    layer = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU(), torch.nn.Linear(8, 8)).cuda()
    compiled = braze.compile(layer)
    for _ in range(3):
        x = torch.randn(4, 8, device="cuda")
        mine, theirs = (x.clone().requires_grad_() for _ in range(2))
        checkpoint.checkpoint(compiled, mine, use_reentrant=False).square().sum().backward()
        ours = [each.grad.clone() for each in layer.parameters()]
        layer.zero_grad()
        checkpoint.checkpoint(layer, theirs, use_reentrant=False).square().sum().backward()
        torch.testing.assert_close([mine.grad, *ours], [theirs.grad, *(each.grad for each in layer.parameters())])
        layer.zero_grad()
    assert compiled.counts()["native"] == 0, compiled.reasons()


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("kernel", [1, 3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_strided_convolutions_are_trained(dtype, kernel, layout, dynamic):
    """The gradient's shapes are asked of the GPU's kernel: a CPU's ends the process for some of these."""
    module = torch.nn.Conv2d(3, 32, kernel, stride=2).to("cuda", dtype, memory_format=layout)
    compiled = braze.compile(module, dynamic=dynamic)
    for batch, size in ((2, 32), (2, 32), (3, 57)):
        x = torch.randn(batch, 3, size, size, device="cuda", dtype=dtype).to(memory_format=layout)
        both = []
        for call in (compiled, module):
            leaf = x.detach().requires_grad_()
            module.zero_grad()
            call(leaf).square().mean().backward()
            both.append([leaf.grad, *(each.grad.clone() for each in module.parameters())])
        exact = {} if dtype == torch.float64 else {"rtol": 1e-2, "atol": 1e-3}
        torch.testing.assert_close(*both, **exact)
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


def test_threads_of_autograd_are_no_others():
    """From the first backward of a process on there is one for each GPU, with a state of Python's."""
    program = """
        import torch
        import braze

        layer = torch.nn.Linear(8, 4).cuda()
        layer(torch.randn(3, 8, device="cuda")).sum().backward()

        def fn(x):
            seen, kept = [], [None] * 3
            handle = layer.register_forward_hook(lambda module, given, output: seen.append(output * 2))
            y = layer(x)
            handle.remove()
            for k in range(3):
                kept[k] = y * k
            return y + seen[0], kept

        compiled = braze.compile(fn, fullgraph=True)
        with torch.no_grad():
            for _ in range(5):
                x = torch.randn(3, 8, device="cuda")
                torch.testing.assert_close(compiled(x), fn(x))
        assert compiled.counts()["native"] == 0 and compiled.counts()["replayed"] > 0
    """
    fresh(textwrap.dedent(program))


@pytest.mark.parametrize("dynamic", [None, True])
def test_subscripts_by_tensors_of_the_cpu(dynamic):
    """PyTorch's kernels copy them to the device: one graph, with gradients, too."""

    def f(x, rows, columns):
        y = x * 2
        picked = y[rows], y[:, columns], y[rows, columns] + 1
        z = y.clone()
        z[rows] = 0.5
        z.index_put_((rows, columns), picked[2], accumulate=True)
        return *picked, z

    compiled = braze.compile(f, dynamic=dynamic, fullgraph=True)
    x = torch.randn(5, 7, device="cuda")
    for shift in range(3):
        rows, columns = torch.tensor([0, 3, 1]) + shift % 2, torch.tensor([4, 0, 2]) + shift
        for one, other in zip(compiled(x, rows, columns), f(x, rows, columns), strict=True):
            torch.testing.assert_close(one, other)
    assert compiled.counts()["captured"] == 1
    ours, theirs = (x.clone().requires_grad_() for _ in range(2))
    for leaf, function in ((ours, compiled), (theirs, f)):
        sum(each.square().sum() for each in function(leaf, rows, columns)).backward()
    torch.testing.assert_close(ours.grad, theirs.grad)
