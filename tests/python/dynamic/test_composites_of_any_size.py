"""Operators that PyTorch takes apart with numbers for sizes: one program for all, with gradients and without."""

import pytest
import torch
from any_size import same
from torch import nn
from torch.nn import functional as F

import braze
from braze._load import C

pytestmark = pytest.mark.skipif(not hasattr(C, "CompiledFunction"), reason="no evaluator for this Python")

ROWS = [(4, 6), (5, 10), (9, 8), (13, 14), (20, 22)]
SQUARES = [(4, 4), (5, 5), (9, 9), (13, 13), (7, 7)]
IMAGES = [(2, 3, 8, 9), (3, 3, 10, 12), (4, 3, 13, 11), (5, 3, 9, 9), (2, 3, 20, 30)]
SMALL = {2: [(1, 6), (6, 1), (1, 1), (0, 5), (5, 0)], 4: [(1, 3, 8, 9), (2, 3, 1, 5), (0, 3, 4, 4)]}


def resampled(x):
    theta = torch.eye(2, 3).expand(x.shape[0], 2, 3) * x.mean((1, 2, 3))[:, None, None]
    return F.grid_sample(x, F.affine_grid(theta, x.shape, align_corners=False), align_corners=False)


def pooled(x):
    """As networks for texts and for images end."""
    height, width = x.shape[2:]
    return [
        F.max_pool2d(x, (height, width)),
        F.max_pool2d(x.round(), x.shape[2:], 3),
        F.avg_pool2d(x, x.shape[2:]).flatten(1),
        F.avg_pool2d(x[0], x.shape[2:], ceil_mode=True),
        F.max_pool1d(x[:, :, 0].contiguous(), width).squeeze(2),
        F.avg_pool1d(x[0, 0], width),
    ]


def pooled_across(x):
    """As networks for lines of text and for sounds do: over one side alone."""
    height, width = x.shape[2:]
    return [
        F.max_pool2d(x, (height, 1)),
        F.max_pool2d(x.round(), (1, width), 1),
        F.avg_pool2d(x, (height, 1)).squeeze(2),
        F.avg_pool2d(x[0], (1, width), (1, 7)),
    ]


def padded(x):
    """To the length of the longest one, whichever that is."""
    pad = nn.utils.rnn.pad_sequence
    return [
        pad([x * 2, x[1:], x[:2]]),
        pad([x[: x.shape[0] // 2], x.sin()], batch_first=True, padding_value=-1.5),
        pad([x[0], x[:, 0], x[0, 1:]], padding_side="left"),
    ]


def diagonals(x):
    y, turned = x * 2, (x * 3).t()
    y.fill_diagonal_(1.5)
    turned.fill_diagonal_(2)
    return [y, turned, torch.ones_like(x).fill_diagonal_(0) * x]


def repeated(x):
    n = x.shape[0]
    return [
        x.repeat_interleave(n, 1),
        torch.repeat_interleave(x, n - 1, dim=0) * 2,
        x.repeat_interleave(repeats=n),
        x.repeat_interleave(2, dim=1, output_size=2 * x.shape[1]),
    ]


def norms(x):
    norm = torch.linalg.matrix_norm
    return [
        norm(x, 2),
        norm(x, -2, keepdim=True),
        norm(x.expand(2, *x.shape), "nuc"),
        torch.linalg.norm(x[:, None], 2, (0, 2), True),
    ]


def moments(x):
    """The mean that comes with a variance, which infinite elements decide."""
    return [*torch.var_mean(x, 0, correction=0), *torch.std_mean(x, (0, 1), keepdim=True, unbiased=False)]


def spectra(x):
    """Backward formulas write to parts of complex tensors."""
    return [torch.fft.rfft(x).abs(), torch.fft.irfft(x + 0j), torch.fft.rfft2(x, s=(3, x.shape[1])).real]


def parts_of_spectra(x):
    y = torch.fft.rfft(x)
    y[:, 1:3].mul_(2)
    y[::2] = 1.0
    y.t()[1:].add_(x[0, 0])
    z = torch.zeros(x.shape[0], x.shape[1] + 4, dtype=torch.complex64)
    z[:, 2:-2].copy_(x + 1j)
    z[0, 1:].fill_(3)
    return [torch.view_as_real(y), torch.view_as_real(z)]


WINDOW = torch.hann_window(6) + 0.1


def there_and_back(x):
    """The rows as a signal, and as a few of them."""
    settings = {"n_fft": 8, "hop_length": 2, "win_length": 6, "window": WINDOW}
    x = x.repeat(1, 5)
    frames = torch.stft(x, **settings, return_complex=True)
    all_frequencies = torch.stft(x[0], **settings, onesided=False, return_complex=True)
    return [
        frames.abs(),
        torch.istft(frames, **settings),
        torch.istft(frames[0], **settings, length=x.shape[1] - 3),
        torch.istft(all_frequencies, **settings, onesided=False, length=9),
        torch.istft(frames, **settings, normalized=True, length=x.shape[1] - x.shape[1] % 2),
    ]


FUNCTIONS = {
    "padded to the longest": (padded, ROWS),
    "diagonals filled": (diagonals, ROWS),
    "repeated as often as there are rows": (repeated, ROWS),
    "norms of singular values": (norms, [(4, 6), (5, 10), (8, 9), (13, 14), (20, 22)]),
    "variances and means": (moments, ROWS),
    "spectra": (spectra, ROWS),
    "parts of spectra": (parts_of_spectra, ROWS),
    "spectra of signals and back": (there_and_back, ROWS),
    "pools of all": (pooled, IMAGES),
    "pools of one side": (pooled_across, IMAGES),
    "unsafe chunks": (lambda x: list(torch.unsafe_chunk(x * 2, 2, 0)), [(5, 6), (7, 8), (9, 3), (21, 4)]),
    "blocks and back": (
        lambda x: F.fold(F.unfold(x * 2, 3, padding=1), x.shape[2:], 3, padding=1),
        [(2, 3, 8, 9), (3, 3, 10, 12), (4, 3, 13, 11), (5, 3, 9, 9), (2, 3, 20, 30)],
    ),
    "picked along": (lambda x: torch.take_along_dim(x, x.detach().argsort(0), 0), ROWS),
    "picked along the last": (lambda x: torch.take_along_dim(x, x.detach().argsort(-1, True)[:, :3], -1), ROWS),
    "picked from the end": (lambda x: torch.take_along_dim(x, -1 - x.detach().argsort(0), 0), ROWS),
    "picked, by fewer": (lambda x: torch.take_along_dim(x, x.detach().argmax(0, True), 0) * x, ROWS),
    "picked, from fewer": (lambda x: torch.take_along_dim(x[:1] * 2, x.detach().argsort(1), 1), ROWS),
    "all by all": (lambda x: torch.kron(x, x[:2, 1:]), ROWS),
    "all by all, of other ranks": (lambda x: torch.kron(x[None], x[0].sin()), ROWS),
    "blocks": (lambda x: torch.block_diag(x, x[0], x.sum(), x[:, 1:] * 2), ROWS),
    "products of two": (lambda x: torch.linalg.multi_dot([x, x.t()]), ROWS),
    "products of three": (lambda x: torch.linalg.multi_dot([x[0] / 8, x.t(), x / 8]), ROWS),
    "slopes": (lambda x: list(torch.gradient(x)), ROWS),
    "slopes along one": (lambda x: torch.gradient(x, dim=0)[0], ROWS),
    "slopes of the second order": (lambda x: torch.gradient(x, dim=-1, edge_order=2)[0], ROWS),
    "slopes of wide steps": (lambda x: list(torch.gradient(x, spacing=2.5, dim=(0, 1))), ROWS),
    "slopes of steps of their own": (lambda x: list(torch.gradient(x, spacing=(2.0, 0.5))), ROWS),
    "an affine grid": (resampled, IMAGES),
    "covariances": (torch.cov, ROWS),
    "covariances of all there is": (lambda x: torch.cov(x.t(), correction=0), ROWS),
    "a variance": (lambda x: torch.cov(x[0]) + torch.cov(x[:1, 1:], correction=2), ROWS),
    "correlations": (lambda x: torch.corrcoef(x) + torch.corrcoef(x.double()), ROWS),
}


def leaves_of(result):
    return result if isinstance(result, list) else [result]


def compare(compiled, function, sizes, gradients):
    """With one another, or both raise the same."""
    torch.manual_seed(0)
    x = torch.randn(sizes, requires_grad=gradients)
    try:
        expected = function(x)
    except (RuntimeError, IndexError, ValueError) as error:
        with pytest.raises(type(error)):
            compiled(x)
        return
    found = compiled(x)
    same(found, expected)
    if gradients:
        of = [torch.autograd.grad(sum(y.sin().sum() for y in leaves_of(ys)), [x]) for ys in (found, expected)]
        same(*of)


@pytest.mark.parametrize("gradients", [False, True])
@pytest.mark.parametrize("dynamic", [True, None])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_one_program_for_all_sizes(name, dynamic, gradients):
    function, shapes = FUNCTIONS[name]
    same(x := torch.zeros(1), x)  # Modules that this imports register classes with abstract ones.
    with torch.set_grad_enabled(gradients):
        compiled = braze.compile(function, dynamic=dynamic)
        for sizes in shapes:
            compare(compiled, function, sizes, gradients)
        assert compiled.counts()["native"] == 0, compiled.reasons()
        assert compiled.counts()["captured"] == (1 if dynamic else 2)
        for sizes in SMALL[len(shapes[0])]:
            compare(compiled, function, sizes, gradients)


SIGNALS = [(2, 3, 8), (3, 3, 11), (4, 3, 20), (5, 3, 9)]
VOLUMES = [(2, 1, 7, 6, 8), (3, 1, 8, 9, 7), (4, 1, 9, 10, 12)]
MODES = {
    "nearest": IMAGES,
    "nearest-exact": IMAGES,
    "bilinear": IMAGES,
    "bicubic": IMAGES,
    "area": IMAGES,
    "linear": SIGNALS,
    "trilinear": VOLUMES,
}


@pytest.mark.parametrize("gradients", [False, True])
@pytest.mark.parametrize("factor", [1 / 3, 0.7, 1.9])
@pytest.mark.parametrize("mode", MODES)
def test_images_resized_by_any_factor(mode, factor, gradients):
    """17 times 0.7 is 11.899999999999999 for a float: sizes at which the product is rounded are among them."""
    mixed = [factor] * (len(MODES[mode][0]) - 3) + [1.3]

    def f(x):
        return [F.interpolate(x, scale_factor=each, mode=mode) for each in (factor, mixed)]

    with torch.set_grad_enabled(gradients):
        compiled = braze.compile(f, dynamic=True)
        rounded = tuple(170 if k == len(MODES[mode][0]) - 1 else size for k, size in enumerate(MODES[mode][0]))
        for sizes in [*MODES[mode], rounded]:
            compare(compiled, f, sizes, gradients)
        assert compiled.counts()["native"] == 0, compiled.reasons()
        assert compiled.counts()["captured"] == 1
        compare(compiled, f, (1, *MODES[mode][0][1:]), gradients)
        with pytest.raises(RuntimeError):
            compiled(torch.randn(*MODES[mode][0][:2], *[0] * (len(mixed))))


@pytest.mark.usefixtures("no_grad")
def test_images_resized_by_operators_themselves():
    """In all forms in which they may be called."""
    operators = torch._C._nn

    def f(x):
        size = [x.shape[2] * 2, x.shape[3] + 1]
        return (
            operators.upsample_nearest2d(x, size),
            operators.upsample_nearest2d(x, None, [0.7, 1.3]),
            operators.upsample_nearest2d(x, size, 2.0, None),
            operators.upsample_bilinear2d(x, size, True),
            operators.upsample_bilinear2d(x, None, False, (0.7, 1.3)),
            operators.upsample_bilinear2d(x, size, False, 0.5, 0.7),
            operators.upsample_bilinear2d(input=x, output_size=size, align_corners=False),
        )

    compiled = braze.compile(f)
    for sizes in IMAGES:
        x = torch.randn(sizes)
        same(compiled(x), f(x))
    assert compiled.counts()["native"] == 0


@pytest.mark.parametrize("gradients", [False, True])
def test_a_diagonal_that_begins_anew_below_the_last_column(gradients):
    """Where its parts lie among the elements is guarded."""

    def f(x):
        y, z = x * 2, (x * 3).t().contiguous()
        return [y.fill_diagonal_(1.5, wrap=True), z.fill_diagonal_(0.5, True), (x * 2).t().fill_diagonal_(2, True)]

    with torch.set_grad_enabled(gradients):
        compiled = braze.compile(f, dynamic=True)
        for sizes in [(9, 6), (20, 3), (22, 3), (31, 4), (6, 9), (7, 6), (8, 6), (4, 40), (5, 50), (2, 1), (1, 9)]:
            compare(compiled, f, sizes, gradients)
        assert compiled.counts()["native"] == 0
        assert compiled.counts()["captured"] < 9


@pytest.mark.usefixtures("no_grad")
def test_parts_of_unlike_length():
    """How many parts are longer decides nothing."""

    def f(x):
        return [part.exp() for part in (x * 2).tensor_split(3)], x.tensor_split(4, dim=1)[1] + 1

    compiled = braze.compile(f, dynamic=True)
    for sizes in ((8, 6), (7, 9), (9, 10), (20, 11), (12, 8), (2, 5), (1, 6), (0, 6)):
        x = torch.randn(sizes)
        same(compiled(x), f(x))
    assert compiled.counts()["native"] == 0


@pytest.mark.usefixtures("no_grad")
def test_the_cheaper_order_of_three_products_is_guarded():
    def f(x):
        x = x / 8  # What is compared is the sine of a sum of products: it must not be large.
        return torch.linalg.multi_dot([x, x.t(), x])

    for gradients, captured in ((False, 1), (True, 2)):
        with torch.set_grad_enabled(gradients):
            compiled = braze.compile(f, dynamic=True)
            for n in (4, 20, 3, 5, 33):
                compare(compiled, f, (n, 6), gradients)
            assert compiled.counts()["captured"] == captured


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.usefixtures("no_grad")
def test_alignments_of_lengths_in_tensors(reduction):
    def f(x, lengths):
        targets = torch.ones(x.shape[1], 2, dtype=torch.long)
        return F.ctc_loss(x.log_softmax(-1), targets, lengths, torch.full_like(lengths, 2), reduction=reduction)

    compiled = braze.compile(f)
    for steps, batch in ((12, 2), (15, 3), (20, 4), (9, 6), (9, 1)):
        lengths = torch.randint(5, steps + 1, (batch,))
        x = torch.randn(steps, batch, 5)
        same(compiled(x, lengths), f(x, lengths))
    assert compiled.counts()["native"] == 0
    assert compiled.counts()["captured"] == 3  # A batch of one is another.
    with pytest.raises(RuntimeError, match="length"):
        compiled(torch.randn(9, 2, 5), torch.tensor([4, 12]))


@pytest.mark.parametrize("gradients", [False, True])
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_alignments_of_lengths_that_are_sizes(reduction, gradients):
    def f(x):
        targets = torch.ones(2, 3, dtype=torch.long)
        lengths = [x.shape[0], x.shape[0] - 1], (3, 2)
        return F.ctc_loss(x.view(-1, 2, 5).log_softmax(-1), targets, *lengths, reduction=reduction) * 2

    for dynamic in (True, None):
        with torch.set_grad_enabled(gradients):
            compiled = braze.compile(f, dynamic=dynamic)
            for steps in (12, 15, 20, 9, 33):
                compare(compiled, f, (steps, 10), gradients)
            assert compiled.counts()["native"] == 0
            assert compiled.counts()["captured"] == (1 if dynamic else 2)
            compare(compiled, f, (12, 5), gradients)  # Twice as long as there are steps: both raise.


def test_the_least_of_many_sizes_needs_no_order():
    def f(x, y):
        least = min(x.shape[0], x.shape[1], y.shape[0])
        return x * least + max([*x.shape, *y.shape, 3]), y + (1 if least > 2 else 2), y.new_zeros(least)

    compiled = braze.compile(f, dynamic=True)
    for n, m, k in ((4, 5, 6), (6, 5, 4), (5, 7, 3), (9, 3, 20), (3, 20, 9), (12, 12, 12)):
        x, y = torch.randn(n, m), torch.randn(k)
        same(compiled(x, y), f(x, y))
    assert compiled.counts()["captured"] == 1
    same(compiled(x[:2], y), f(x[:2], y))


def test_the_log_names_a_composite_operator(caplog):
    braze.set_logs(recompiles=True)
    compiled = braze.compile(lambda x: torch.vander(x[:, 0], 3), dynamic=True)
    with caplog.at_level("INFO"):
        compiled(torch.randn(6, 4))
    braze.set_logs()
    assert "asked for by aten::vander" in caplog.text


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("gradients", [False, True])
def test_what_is_known_of_results_beside_their_elements(dynamic, gradients):
    """How often a result was written, and, where autograd sees it, whether it is a view."""

    def f(x, y):
        chains = [torch.linalg.multi_dot(chain) for chain in ([x, x.t()], [x, x.t(), x], [x[0], x.t(), x, x[1]])]
        batches = [nn.utils.rnn.pad_sequence([x, y], first) for first in (True, False)]
        return *chains, *batches, nn.utils.rnn.pad_sequence([x]), torch.linalg.multi_dot([x[0], x[1]])

    compiled = braze.compile(f, dynamic=dynamic)
    for n, m in ((4, 7), (5, 3), (8, 8), (3, 11)):
        x, y = torch.randn(n, 6), torch.randn(m, 6)
        with torch.set_grad_enabled(gradients):
            given = [one.clone().requires_grad_(gradients) for one in (x, y)]
            for mine, eager in zip(compiled(*given), f(*given), strict=True):
                torch.testing.assert_close(mine, eager, rtol=1e-3, atol=1e-3)
                assert mine._version == eager._version
                assert not gradients or (mine._base is None) == (eager._base is None)
