"""Functions that are given a size where PyTorch's own code wants an int: one program for all sizes, as eager's."""

import pytest
import torch
from any_size import same
from torch.nn import functional as F

import braze
from braze._load import C

pytestmark = [
    pytest.mark.skipif(not hasattr(C, "CompiledFunction"), reason="no evaluator for this Python"),
    pytest.mark.usefixtures("no_grad"),
]

SIZES = (8, 12, 20, 6, 34, 10, 48, 1, 0, 2)


def n(x):
    return x.shape[0]


def written_as_complex(x):
    y = x.clone()
    torch.view_as_complex(y.view(n(x), 3, 2)).mul_(2j)
    torch.view_as_complex(y.view(n(x), 3, 2))[1:].real.add_(1)
    return y, y.sum(0)


WEIGHT = torch.linspace(-1, 1, 8 * 49).view(8, 1, 7, 7)


def patches(x):
    """Overlapping ones, seen as heads, as Segformer has them."""
    y = (
        F.conv2d(x.repeat(4, 6)[None, None], WEIGHT, stride=4, padding=3)
        if n(x)
        else x[None, None].expand(1, 8, 0, 6)
    )
    tokens = y.flatten(2).transpose(1, 2)
    return tokens.view(*tokens.shape[:-1], 2, 4).transpose(1, 2), tokens.permute(0, 2, 1).reshape(y.shape)


# Of (n, 6) floats.
FORMS = {
    "linspace": lambda x: torch.linspace(0, 1, n(x)) + x[:, 0],
    "linspace by keyword": lambda x: torch.linspace(-1, 1, steps=n(x), dtype=torch.float64),
    "linspace to a size": lambda x: torch.linspace(0, n(x) - 1, n(x)),
    "linspace, ends alone": lambda x: torch.linspace(0, n(x), 7),
    "logspace": lambda x: torch.logspace(0, 1, n(x)),
    "logspace by 2": lambda x: torch.logspace(0, 1, steps=n(x) + 2, base=2),
    "one_hot": lambda x: F.one_hot(x.argmax(-1) % max(n(x), 1), n(x)) if n(x) > 1 else x,
    "one_hot of many": lambda x: F.one_hot(x.argmax(-1), num_classes=n(x) + 6),
    "one_hot of any length": lambda x: F.one_hot(x.argmax(-1), 6),
    "hann_window": lambda x: torch.hann_window(n(x)),
    "hann_window, symmetric": lambda x: torch.hann_window(n(x), periodic=False),
    "hamming_window": lambda x: torch.hamming_window(n(x) * 2),
    "blackman_window": lambda x: torch.blackman_window(n(x), dtype=torch.float64),
    "bartlett_window": lambda x: torch.bartlett_window(n(x) // 2),
    "kaiser_window": lambda x: torch.kaiser_window(n(x)),
    "windows of torch.signal": lambda x: (
        torch.signal.windows.hann(n(x)),
        torch.signal.windows.gaussian(n(x)),
        torch.signal.windows.cosine(n(x), sym=False),
    ),
    "randperm": lambda x: x[torch.randperm(n(x))],
    "randint": lambda x: torch.randint(0, n(x) + 1, (n(x), 3)),
    "randint below": lambda x: torch.randint(n(x) + 1, (3,)),
    "multinomial": lambda x: torch.multinomial(x.softmax(-1), n(x) + 1, True) if n(x) else x,
    "histc": lambda x: torch.histc(x, bins=n(x) + 1),
    "bucketize": lambda x: torch.bucketize(x, torch.linspace(-1, 1, n(x))),
    "bincount": lambda x: torch.bincount(x.argmax(-1) * 0, minlength=n(x) + 6),
    "tril_indices": lambda x: torch.tril_indices(n(x), n(x)),
    "triu_indices": lambda x: torch.triu_indices(n(x), n(x), 1),
    "pairs": lambda x: (x @ x.t())[tuple(torch.triu_indices(n(x), n(x), 1))],
    "fftfreq": lambda x: torch.fft.fftfreq(n(x) + 1),
    "rfftfreq": lambda x: torch.fft.rfftfreq(n(x) + 1, 0.5),
    "irfft": lambda x: torch.fft.irfft(torch.fft.rfft(x, dim=0), n=n(x), dim=0) if n(x) else x,
    "unfold": lambda x: x.unfold(0, n(x) // 2, 1),
    "unfold by a step": lambda x: x.unfold(0, n(x) // 2 + 1, n(x) // 4 + 1) if n(x) > 1 else x,
    "pdist": lambda x: F.pdist(x),
    "nonzero_static": lambda x: torch.nonzero_static(x > 0, size=n(x)),
    "avg_pool2d by all": lambda x: F.avg_pool2d(x[None, None], (n(x), 1)) if n(x) else x,
    "avg_pool2d by its shape": lambda x: F.avg_pool2d(x[None, None], x.shape) if n(x) else x,
    "diagonal": lambda x: (x @ x.t()).diagonal(n(x) // 2),
    "repeat_interleave": lambda x: x.repeat_interleave(2, 0),
    "tile": lambda x: x.tile(n(x), 1),
    "complex": lambda x: torch.view_as_complex(x.view(n(x), 3, 2)) * 2,
    "as real": lambda x: torch.view_as_real(torch.complex(x, x + 1)),
    "real parts": lambda x: torch.complex(x, x).real + torch.complex(x, x).imag,
    "conjugates": lambda x: torch.view_as_real(torch.complex(x, x + 1).conj().resolve_conj()).flatten(1),
    "written as complex": written_as_complex,
    "bits": lambda x: (x.view(torch.int32), x.view(torch.int16), x.view(torch.int64)),
    "fft of more": lambda x: torch.fft.fft(x, n=n(x) * 2, dim=0).real if n(x) else x,
    "patches": patches,
}
#: Captures beside that for sizes above 1 and those for 0 and 1: sizes computed of them are 0 and 1 for others.
MORE = {"bartlett_window": 2, "pairs": 1, "pdist": 1, "triu_indices": 1, "written as complex": 1}


def call(function, x):
    torch.manual_seed(0)
    try:
        return function(x)
    except (RuntimeError, IndexError, ValueError) as error:
        return type(error)


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("form", FORMS)
def test_one_program_for_all_sizes(form, dynamic):
    function = FORMS[form]
    compiled = braze.compile(function, dynamic=dynamic)
    for size in SIZES:
        x = torch.randn(size, 6, generator=torch.Generator(torch.get_default_device()).manual_seed(size))
        same(call(compiled, x), call(function, x))
    counts = compiled.counts()
    assert counts["native"] == 0
    assert counts["captured"] <= (3 if dynamic else 4) + MORE.get(form, 0)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16, torch.int64], ids=str)
def test_linspace_of_other_types(dtype):
    def f(x):
        return torch.linspace(0, 9, x.shape[0], dtype=dtype)

    compiled = braze.compile(f)
    for size in SIZES:
        x = torch.zeros(size, 6)
        assert torch.equal(compiled(x), f(x)) and compiled(x).dtype == dtype
    assert compiled.counts()["captured"] <= 4


def test_classes_that_there_are_none_of_are_refused():
    def f(x, count):
        return F.one_hot(x, count.shape[0])

    compiled = braze.compile(f, dynamic=True)
    for size in (8, 12, 20):
        x = torch.arange(size)
        assert torch.equal(compiled(x, x), f(x, x))
        with pytest.raises(RuntimeError):
            compiled(x + 1, x)


def test_two_sizes_of_one_value():
    def f(x, y):
        return torch.tril_indices(x.shape[0], y.shape[0]), x.unfold(0, y.shape[0] // 4, y.shape[0] // 4)

    compiled = braze.compile(f)
    for one, other in ((8, 12), (12, 8), (20, 16), (16, 16), (24, 8), (9, 9), (32, 4)):
        x, y = torch.randn(one, 6), torch.randn(other)
        same(compiled(x, y), f(x, y))


def test_a_size_beside_a_number_of_the_same_value():
    def f(x):
        return (
            x.unfold(0, x.shape[0] // 4, 2),
            torch.tril_indices(x.shape[0], 8),
            F.avg_pool2d(x[None], (2, x.shape[1] // 4)),
        )

    compiled = braze.compile(f)
    for size in (8, 12, 16, 20, 8, 40):
        for width in (8, 12, 24):
            x = torch.randn(size, width)
            same(compiled(x), f(x))


@pytest.mark.parametrize(
    "function",
    [
        lambda x, n: F.avg_pool2d(x, (2, n)),
        lambda x, n: F.avg_pool2d(x, [n, 2], (2, n)),
        lambda x, n: F.avg_pool2d(x, n, 2),
        lambda x, n: F.avg_pool2d(x, n, (2, 2)),
        lambda x, n: F.avg_pool2d(x, 2, n),
        lambda x, n: F.max_pool2d(x, (n, 2), stride=(2, 2)),
        lambda x, n: F.max_pool2d(x, n, stride=2),
        lambda x, n: F.avg_pool1d(x[0], (2,), n),
        lambda x, n: F.lp_pool2d(x.abs(), 2, (n, 2)),
        lambda x, n: F.unfold(x, (2, n), stride=(n, 2)),
        lambda x, n: F.adaptive_max_pool2d(x, (2, n)),
        lambda x, n: x.unfold(2, 2, n),
        lambda x, n: torch.tril_indices(n, 2, 0),
        lambda x, n: torch.linspace(2, n, 2),
    ],
)
@pytest.mark.parametrize("dynamic", [None, True])
def test_numbers_beside_a_size_that_has_their_value(function, dynamic):
    """The size is 2 where it is captured, as some of the numbers are; and it is not elsewhere."""

    def f(x):
        return function(x, x.shape[1])

    for sizes in ((2, 4, 3, 5, 2, 1), (5, 2, 4, 3, 1, 2)):
        compiled = braze.compile(f, dynamic=dynamic)
        for n in sizes:
            x = torch.randn(1, n, 24, 20)
            same(compiled(x), f(x))


@pytest.mark.parametrize("pool", [F.avg_pool2d, F.avg_pool3d])
def test_one_size_for_all_of_a_kernel(pool):
    """`F.avg_pool2d(x, x.shape[-1])`"""
    rank = 3 if pool is F.avg_pool3d else 2
    compiled, captured = braze.compile(lambda x: pool(x, x.shape[-1])), 0
    for k, n in enumerate((6, 9, 4, 12, 7)):
        x = torch.randn(2, 3, *[n] * rank)
        same(compiled(x), pool(x, n))
        captured = captured if k > 1 else compiled.counts()["captured"]
    assert compiled.counts()["captured"] == captured
    assert compiled.counts()["native"] == 0
    x = torch.randn(2, 3, *[1] * rank)
    same(compiled(x), pool(x, 1))


def test_gradients_through_them():
    def f(x):
        return x.unfold(0, x.shape[0] // 2, 1) * torch.linspace(0, 1, x.shape[0] // 2)

    compiled = braze.compile(f)
    for size in (8, 12, 20, 6):
        x = torch.randn(size, 6)
        with torch.enable_grad():
            ours, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
            compiled(ours).pow(2).sum().backward()
            f(theirs).pow(2).sum().backward()
        torch.testing.assert_close(ours.grad, theirs.grad)
