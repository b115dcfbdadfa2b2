"""What the sweeps against eager (test_opinfo.py, test_random_programs.py) found wrong once, as small as it gets."""

import warnings

import oracle
import pytest
import torch
from torch.nn import functional as F

import braze

CASES = {
    "lazy conjugates": (lambda x: torch.fft.ifft(x), [torch.randn(4, 6)]),
    "conjugate view": (lambda x: torch.view_as_real(torch.fft.fft(x).conj().clone()), [torch.randn(5)]),
    "formula on smaller operands": (
        lambda x, a, b: torch.addcmul(x, a, b, value=2),
        [*map(torch.randn, (5, 1, 5))],
    ),
    "floor division by a row": (lambda x, y: torch.floor_divide(x, y), [torch.randn(4, 5), torch.rand(5) + 1]),
    "lerp with a number of dimensions": (
        lambda x, y: torch.lerp(x, y, 0.3),
        [torch.randn(3, 1), torch.randn(3, 4)],
    ),
    "t_ of an intermediate": (lambda x: x.clone().t_(), [torch.randn(3, 4)]),
    "unsqueeze_ and squeeze_": (lambda x: (x + 1).unsqueeze_(0).mul_(2).squeeze_(1), [torch.randn(1, 4)]),
    "write through t_": (lambda x: (x.add_(1), x.clone().t_().add_(x.t()))[1], [torch.randn(3, 4)]),
    "as_strided with its own offset": (lambda x: x[1:].as_strided((3,), (2,), 3), [torch.randn(10)]),
    "as_strided of a window, written": (lambda x: x.as_strided((3,), (2,), 1).mul_(2), [torch.randn(10)]),
    "cat of channels_last": (
        lambda x: torch.cat([x, x], 1),
        [torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last)],
    ),
    "cat of one channel": (lambda x: torch.cat([x, x], 1), [torch.randn(2, 2, 2, 1).permute(0, 3, 1, 2)]),
    "unsafe_split shares memory": (lambda x: torch.unsafe_split(x, 2), [torch.randn(5, 2)]),
    "strides of singular vectors": (lambda x: torch.linalg.svd(x), [torch.randn(3, 5, 5)]),
    "strides of eigenvectors": (lambda x: torch.linalg.eig(x)[1].abs(), [torch.randn(5, 5)]),
    "transposed result of a frozen operator": (lambda x: torch.argwhere(torch.ones(3, 4)) + 0, [torch.randn(1)]),
    "a flip that a call reads": (lambda x: torch.lgamma(x.flip(1).t()), [torch.rand(3, 4) + 1]),
    "a flip that is written back": (lambda x: x.copy_(x.flip(1).clone().flip(0)), [torch.randn(3, 4)]),
    "a variance too large for f16": (lambda x: x.std(), [torch.tensor([1e4, 0, 0, 0]).half()]),
    "masked_fill is row-major": (
        lambda x, m: x.masked_fill(m, 7),
        [torch.randn(3, 4), torch.ones(4, 3).bool().t()],
    ),
    "writes to an empty diagonal": (lambda x: x.diagonal().mul_(2), [torch.randn(0, 2)]),
    "statistics that layer norm gives": (
        lambda x, b: torch.native_layer_norm(x, (4,), None, b, 1e-5),
        [torch.randn(3, 4).bfloat16(), torch.randn(4).bfloat16()],
    ),
    "statistics that batch norm does not give": (
        lambda x, m, v: torch.native_batch_norm(x, None, None, m, v, False, 0.1, 1e-5),
        [torch.randn(3, 4).double(), torch.zeros(4).double(), torch.ones(4).double()],
    ),
    "logsigmoid is row-major": (lambda x: torch.nn.functional.logsigmoid(x), [torch.randn(3, 4).t()]),
    "a size": (lambda x: (torch.broadcast_shapes((2, 1), (3,)), x.shape), [torch.randn(2)]),
    "an unknown gelu": (lambda x: torch.nn.functional.gelu(x, approximate="cubic"), [torch.randn(3)]),
    "a number written to a strided row": (lambda x: x[::2, 0].fill_(1), [torch.randn(2, 1).half()]),
    "strides of an index beside a dimension of 1": (
        lambda x, i: x[(i % 4).long()],
        [torch.randn(4, 7, 1), torch.ones(33, 4).long().t()],
    ),
    "strides of a Fourier transform": (lambda x: torch.fft.rfftn(x), [torch.randn(5, 6, 7)]),
    "strides of a transform of two dimensions": (lambda x: torch.fft.hfft2(x, dim=(0, -1)), [torch.randn(5, 6, 7)]),
    "a row of an expanded tensor, written": (
        lambda x: (y := torch.exp(x), y.expand(2, 3, 4)[0::2, 1:].clamp_(-1, 1)),
        [torch.randn(3, 4)],
    ),
    "an expanded tensor, written": (
        lambda x: torch.exp(x).expand(2, 3, 4)[0:, 1:].clamp_(-1, 1),
        [torch.randn(3, 4)],
    ),
    "a negative lambda": (lambda x: torch.nn.functional.softshrink(x, -0.5), [torch.randn(3)]),
    "out= of another dtype": (lambda x: torch.sum(x, 0, out=torch.zeros(4).double()), [torch.randn(3, 4)]),
    "out= of a dtype that is refused": (
        lambda x: torch.aminmax(x, dim=0, out=(torch.zeros(4), torch.zeros(4).double())),
        [torch.randn(3, 4)],
    ),
    "cat into one of its parts": (
        lambda x, y: torch.cat([x, y[:0]], out=x),
        [torch.randn(3, 2), torch.randn(3, 2)],
    ),
    "cat into a part of a part": (lambda x: torch.cat([x[:1], x[1:2]], out=x[:2]), [torch.randn(3, 2)]),
    "rows of an arange, joined": (
        lambda x: torch.stack([torch.arange(11), torch.arange(11).flip(0)], 0) + x,
        [torch.tensor(True)],
    ),
    "a part of an arange": (
        lambda x: torch.cat([torch.arange(9).view(3, 3).t()[1:], x]),
        [torch.ones(2, 3).long()],
    ),
    "softmax of huge products": (lambda x: torch.softmax(x * x, 0), [torch.tensor([3.3e10, -1.7e10, 3.1e10])]),
    "log_softmax of huge products": (
        lambda x: torch.log_softmax(-(x * x).view(2, 2), 1),
        [torch.tensor([3.3e10, 1.7e10, 1.1e10, 3e10])],
    ),
    "an expanded tensor, filled": (
        lambda x: (x.expand(3, 4).fill_(2), x[:, :2].t().expand(5, 2, 1).zero_(), x + 1),
        [torch.randn(1, 4)],
    ),
    "empty integers divided by zeros": (
        lambda x, y: (x // y, x % y, torch.fmod(x, y)),
        [torch.ones(0, 3).long(), torch.zeros(3).long()],
    ),
    "a complex intermediate, transposed in place": (
        lambda x: (torch.fft.rfft(x).transpose_(0, 1), torch.fft.fft(x[:, :3]).t_().abs()),
        [torch.randn(3, 6)],
    ),
    "a short-time Fourier transform": (
        lambda x, w: torch.stft(x, 8, window=w, return_complex=True).abs(),
        [torch.randn(2, 32), torch.hann_window(8)],
    ),
    "a wrong embedding": (lambda x: torch.nn.functional.embedding(torch.tensor([0]), x), [torch.randn(3, 2, 2)]),
}


@pytest.mark.parametrize("name", CASES)
def test_as_eager(name):
    fn, arguments = CASES[name]
    oracle.check(fn, tuple(arguments))


def test_larger_than_its_memory():
    with pytest.raises(RuntimeError, match="resizes a tensor"):
        oracle.braze.trace(lambda x: (x * 2).resize_(5, 2), (torch.randn(4, 2),), check=False)


def used(x, y):
    return x * 2


# What checks its operands, and of which the result is never used: (function, good operands, bad operands).
UNUSED = {
    "embedding": (lambda w, i: used(w, F.embedding(i, w)), torch.tensor([3]), torch.tensor([4])),
    "index": (lambda w, i: used(w, w[i] + 1), torch.tensor([-4]), torch.tensor([5])),
    "gather": (lambda w, i: used(w, w.gather(0, i).sum()), torch.tensor([[3]]), torch.tensor([[4]])),
    "scatter": (lambda w, i: used(w, w.scatter(0, i, 1.0)), torch.tensor([[3]]), torch.tensor([[4]])),
    "division": (lambda w, i: used(w, 5 // i), torch.tensor([3]), torch.tensor([0])),
    "probability": (
        lambda w, p: used(w, F.binary_cross_entropy(p, torch.ones(2))),
        torch.tensor([0.5, 1]),
        torch.tensor([0.5, 1.5]),
    ),
}


@pytest.mark.parametrize("name", UNUSED)
def test_what_nobody_uses_raises_as_well(name):
    fn, good, bad = UNUSED[name]
    weight = torch.randn(4, 3)
    program = braze.trace(fn, (weight, good), check=False)
    assert torch.equal(program(weight, good), weight * 2)
    assert oracle.check(fn, (weight, bad)) is None
    with pytest.raises(Exception) as eager:
        fn(weight, bad)
    with pytest.raises(eager.type):
        program(weight, bad)


@pytest.mark.parametrize("lengths", ["lists", "tensors"])
def test_ctc_loss_is_computed_anew(lengths):
    inputs, targets = ([10, 9], [3, 2]) if lengths == "lists" else (torch.tensor([10, 9]), torch.tensor([3, 2]))

    def loss(x, labels):
        return F.ctc_loss(x.log_softmax(2), labels, inputs, targets)

    def draw():
        return torch.randn(10, 2, 5), torch.randint(1, 5, (2, 3))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # That the lengths are frozen.
        program = braze.trace(loss, draw(), check=False)
    for arguments in (draw(), draw()):
        torch.testing.assert_close(program(*arguments), loss(*arguments))


def test_shapes_of_inputs_stay():
    with pytest.raises(RuntimeError, match="changes the shape of a tensor that is an input"):
        oracle.braze.trace(lambda x: x.t_(), (torch.randn(2, 3),), check=False)


class TestOracle:
    """The oracle itself must notice."""

    def differs(self, got, expected):
        fn = iter([expected, got])
        state = {"calls": 0}

        def changing(x):
            state["calls"] += 1
            return next(fn)(x)

        with pytest.raises(oracle.Mismatch) as caught:
            oracle.check(changing, (torch.randn(4, 4) + 2,))
        return str(caught.value)

    def test_values(self):
        assert "of 16 elements differ" in self.differs(lambda x: x * 1.00001, lambda x: x * 1)

    def test_strides(self):
        assert "strides" in self.differs(lambda x: x.t().clone(), lambda x: x.t().contiguous())

    def test_dtypes(self):
        assert "dtype" in self.differs(lambda x: x.double(), lambda x: x + 0)

    def test_shared_memory(self):
        assert "memory shared" in self.differs(lambda x: x.view(16), lambda x: x.view(16).clone())

    def test_written_arguments(self):
        assert "argument after the call" in self.differs(lambda x: x.add_(1).sum(), lambda x: (x + 1).sum())

    def test_exceptions(self):
        assert "eager raises" in self.differs(lambda x: x, lambda x: x.view(3))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_rounded_where_a_kernel_stores(dtype):
    """As docs/compile.md says: nearer to the exact values than eager, and eager's own bits without fusion. What may
    be beyond f16's range is rounded at once, so that it is infinite where eager's is."""
    torch.manual_seed(0)
    x, y, z = (torch.randn(1000).to(dtype) for _ in range(3))

    def f(x, y, z):
        return (x * y + z) * y - x

    exact, eager = f(x.double(), y.double(), z.double()), f(x, y, z)
    fused = braze.compile(f)(x, y, z)
    if dtype == torch.float16:
        assert torch.equal(fused, eager)
    else:
        assert (fused - exact).abs().mean() < 0.7 * (eager - exact).abs().mean()
    assert torch.equal(braze.compile(f, options={"fusion": False})(x, y, z), eager)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_rounded_after_every_operator_on_request(dtype):
    torch.manual_seed(0)
    # Of eighths: their sums are exact in any order.
    x, y, z = ((torch.randn(16, 60) * 8).round().to(dtype) / 8 for _ in range(3))

    def f(x, y, z):
        a = (x * y + z) * y - x * 0.1
        b = torch.addcmul(a, x, z, value=0.3).relu().sqrt() / (y.abs() + 0.7)
        return b, x.sum(-1, keepdim=True) * a, (a > b).sum(), torch.where(a > 0.5, a * 3, b / 3), x.mean(0) + z

    def same(compiled):
        pairs = zip(compiled(x, y, z), f(x, y, z), strict=True)
        return all(torch.equal(one.nan_to_num(-1), other.nan_to_num(-1)) for one, other in pairs)

    assert same(braze.compile(f, options={"emulate_precision_casts": True}))
    if dtype == torch.bfloat16:  # What may overflow is rounded, and what is compared.
        smooth = lambda x, y, z: ((x * y + z) * y - x * 0.1) * z  # noqa: E731
        assert not torch.equal(braze.compile(smooth)(x, y, z), smooth(x, y, z))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_remainders_of_half_types_by_a_number_that_they_do_not_hold(dtype):
    x = torch.arange(-4000, 4000).to(dtype) / 997
    program = braze.trace(lambda x: (x.remainder(0.7), x.fmod(0.7)), x, check=False)
    for got, eager in zip(program(x), (x.remainder(0.7), x.fmod(0.7)), strict=True):
        assert torch.equal(got, eager)


# By name, as Python and torch have them. Floor division of a number by a tensor takes several roundings in eager.
NUMBERS_AND_HALVES = {
    "c / x": lambda x: 3 / x,
    "c / x of a fraction": lambda x: -0.7 / x,
    "div(c, x)": lambda x: torch.div(2.3, x),
    "x / c": lambda x: x / 2.3,
    "x // c": lambda x: x // 2.3,
    "x * c": lambda x: x * 0.3,
    "c - x": lambda x: 2.3 - x,
    "x + c": lambda x: x + 0.3,
    "x - c": lambda x: x - 0.3,
    "add(x, x, alpha)": lambda x: torch.add(x, x, alpha=1.7),
    "add(x, c, alpha)": lambda x: torch.add(x, 0.3, alpha=1.7),
    "add(x, large, alpha)": lambda x: torch.add(x, 1e6, alpha=0.337),
    "sub(x, c, alpha)": lambda x: torch.sub(x, 0.37, alpha=1.7),
    "rsub(x, c, alpha)": lambda x: torch.rsub(x, 0.3, alpha=1.7),
    "x ** c": lambda x: x**2.3,
    "x ** c, nearly 2": lambda x: x**2.0001,
    "c ** x": lambda x: 2.3**x,
    "x == c": lambda x: x == 0.3,
    "x > c": lambda x: x > 0.3,
    "c < x": lambda x: x.gt(0.7),
    "where": lambda x: torch.where(x > 0.3, x, 0.7),
    "hardshrink": lambda x: F.hardshrink(x, 0.3),
}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", NUMBERS_AND_HALVES)
def test_numbers_beside_half_types_have_eagers_bits(name, dtype):
    """All 65,536: kernels of the CPU take a number in the type of the tensor, but for factors and divisors."""
    function = NUMBERS_AND_HALVES[name]
    x = torch.arange(-(2**15), 2**15).to(torch.int16).view(dtype)
    got, eager = braze.trace(function, x, check=False)(x), function(x)
    assert got.dtype == eager.dtype
    assert torch.equal(got.isnan(), eager.isnan())
    assert torch.equal(got.nan_to_num(7), eager.nan_to_num(7))


def test_the_cpu_has_no_number():
    def f(x):
        made = [torch.zeros(3, device="cpu:0"), x.to("cpu:0"), x.new_zeros(2, device=torch.device("cpu", 0))]
        made += [
            torch.arange(3, device="cpu:0"),
            torch.empty_like(x, device="cpu:0"),
            torch.rand(3, device="cpu:0"),
        ]
        return [(one.device, str(one.device)) for one in made], made[0] + x

    x = torch.ones(3)
    for function in (braze.compile(f, fullgraph=True), braze.compile(f, dynamic=True)):
        assert function(x)[0] == function(x)[0] == f(x)[0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("count", [3, 8, 40])
def test_sigmoid_is_zero_where_eagers_exponential_overflows(dtype, count):
    edges = torch.tensor([-88.5, -88.72283, -88.72284, -89, -104, -709.7, -709.79, -745, -1e30, -float("inf")])
    x = edges.repeat(4)[:count].to(dtype)

    got, expected = braze.trace(torch.sigmoid, x)(x), x.sigmoid()
    torch.testing.assert_close(got, expected)
    assert torch.equal(got == 0, expected == 0)
    if dtype in (torch.float32, torch.float64):  # Halves are not rounded between operators.
        torch.testing.assert_close(braze.trace(lambda x: x.sigmoid().log(), x)(x), x.sigmoid().log())


#: What eager refuses by a type or a dimension, and beside it what it takes.
REFUSED = {
    "largest of windows": lambda x: F.max_pool1d(x, 2),
    "largest of one window": lambda x: F.max_pool1d(x, x.shape[-1]),
    "largest of windows, with indices": lambda x: F.max_pool1d(x, 2, return_indices=True),
    "largest of windows of two dimensions": lambda x: F.max_pool2d(x[None], (1, 2)),
    "logsumexp of no dimension": lambda x: torch.logsumexp(x, ()),
    "logsumexp of a number": lambda x: torch.logsumexp(x[0, 0], 0),
    "logsumexp of a dimension that there is not": lambda x: torch.logsumexp(x[0, 0], (0, 1)),
    "logsumexp far beyond": lambda x: torch.logsumexp(x[0, 0], 7),
    "mean in a half": lambda x: torch.mean(x, -1, dtype=torch.float16),
    "mean in the other half": lambda x: torch.mean(x[0, 0], dtype=torch.bfloat16),
}


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize(
    "dtype", [torch.bool, torch.uint8, torch.int8, torch.int16, torch.int64, torch.float16, torch.float32], ids=str
)
@pytest.mark.parametrize("name", REFUSED)
def test_refused_by_a_type_or_a_dimension(name, dtype, dynamic):
    def outcome(f, x):
        try:
            return f(x), None
        except (RuntimeError, IndexError, NotImplementedError) as error:
            return None, (type(error), str(error))

    compiled = braze.compile(REFUSED[name], dynamic=dynamic)
    for count in (4, 6):
        x = (torch.arange(2 * count).reshape(2, count) * 37 % 127).to(dtype)
        wanted, error = outcome(REFUSED[name], x)
        got, raised = outcome(compiled, x)
        assert raised == error
        torch.testing.assert_close(got, wanted, rtol=2e-3, atol=0)


def test_a_mean_of_integers_in_a_half_is_rounded_once():
    x = torch.tensor([5, 7, 32767, -32768], dtype=torch.int16)
    for dtype in (torch.float16, torch.bfloat16):
        wanted = torch.mean(x, 0, dtype=dtype)
        assert braze.compile(lambda x, dtype=dtype: torch.mean(x, 0, dtype=dtype))(x) == wanted
