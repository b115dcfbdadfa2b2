"""Programs for all sizes: what varies becomes a symbol at the second capture, and no third is needed."""

import math
import random

import pytest
import torch
from any_size import rows, run, same, second_capture_serves_all
from torch import nn
from torch.nn import functional as F

import braze
from braze._load import C

pytestmark = [
    pytest.mark.skipif(not hasattr(C, "CompiledFunction"), reason="no evaluator for this Python"),
    pytest.mark.usefixtures("no_grad"),
]


def view_of_a_size(x):
    n = x.shape[0]
    return torch.softmax(x.view(n, 2, -1), -1).reshape(n, -1) + 1


def branch_on_a_size(x):
    return x + 1 if x.shape[0] > 10 else x - 1


def arithmetic_of_sizes(x):
    n, m = x.shape
    return x.reshape(-1), n * 3, n // 2 + m, n - 1, (n, [m, n % 4])


def sizes_beside_tensors(x):
    return x * x.shape[0] + x.size(0), x / x.shape[0], x.sum(0) / len(x.shape)


def slices(x):
    n = x.shape[0]
    return x[: n - 1], x[1:], x[n // 2 :], x[-1], x[:, 1:3]


def factories(x):
    n = x.shape[0]
    mask = torch.ones(n, n, dtype=torch.bool).tril()
    return torch.zeros(n, 3), torch.arange(n), mask, torch.full((n,), 2.0), x.new_zeros(x.shape[1], n)


def joined(x):
    return torch.cat([x, x[:2], torch.zeros(1, x.shape[1])]), torch.stack([x, x], 1), torch.cat([x, x], -1)


def reductions(x):
    return x.mean(0), x.var(0), x.amax(-1), x.sum(), x.argmax(0), x.std(1), torch.logsumexp(x, 0)


def repeated(x):
    return x.repeat(2, 3), x[None].expand(4, *x.shape), x.flip(0), x.t().contiguous(), x.roll(1, 0)


def padded(x):
    return F.pad(x, (0, 2)), F.pad(x, (1, 0, 0, 3))


def norms(x):
    return F.layer_norm(x, x.shape[-1:]), F.normalize(x, dim=-1), F.rms_norm(x, (x.shape[1],))


def products(x):
    return x @ x.t(), F.linear(x, torch.ones(3, x.shape[1])), torch.einsum("ij,ik->jk", x, x)


def chosen(x):
    index = torch.arange(x.shape[0] - 1, -1, -1)
    return x[index], x.index_select(0, index), x.gather(0, index[:, None].expand(-1, x.shape[1]))


def masked(x):
    return torch.where(x > 0, x, -x), x.masked_fill(x < 0, 0), x.triu(), x.clamp(0, 1)


def in_place(x):
    y = x.clone()
    y[1:] += 1
    y[:, 0] = 7
    y.mul_(2)
    return y


def parts_of_sizes(x):
    """What CPython 3.12 has instructions of its own for: slices, and what `*` passes."""
    y = x.clone()
    y[1 : x.shape[0]] = x.shape[0]
    sizes = [x.shape[0], x.shape[1], 3]
    sizes[:1] = [x.shape[1], 2]
    return y, x.new_zeros(sizes[1:]), x.reshape(*x.shape[:-1], -1, 1), F.layer_norm(x, x.shape[-1:]), x.shape[:1]


def split_evenly(x):
    a, b = x.split([2, x.shape[0] - 2])
    return a.sum(0), b * 2, x.chunk(2, dim=1)


PROGRAMS = [
    view_of_a_size,
    branch_on_a_size,
    arithmetic_of_sizes,
    sizes_beside_tensors,
    slices,
    factories,
    joined,
    reductions,
    repeated,
    padded,
    norms,
    products,
    chosen,
    masked,
    in_place,
    parts_of_sizes,
    split_evenly,
]


@pytest.mark.parametrize("dynamic", [None, True, False])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_any_size(program, dynamic):
    braze.config.recompile_limit = 64
    try:
        run(program, rows(4, 6, 3, 8, 20, 14, 33, 5), dynamic=dynamic)
    finally:
        braze.config.recompile_limit = 8


@pytest.mark.parametrize(
    "program",
    [
        view_of_a_size,
        parts_of_sizes,
        sizes_beside_tensors,
        joined,
        reductions,
        padded,
        norms,
        products,
        masked,
        repeated,
        factories,
    ],
    ids=lambda program: program.__name__,
)
def test_two_captures_for_all_sizes(program):
    assert run(program, rows(4, 6, 3, 8, 20, 14, 33, 5)) == 2
    assert run(program, rows(4, 6, 3, 8, 20, 14, 33, 5), dynamic=True) == 1


def test_a_branch_is_a_family_each():
    assert run(branch_on_a_size, rows(4, 6, 3, 20, 8, 30, 10, 11, 12), dynamic=True) == 2


def test_false_is_a_program_for_each_size():
    assert run(view_of_a_size, rows(4, 6, 8, 4), dynamic=False) == 3


def test_one_and_zero_are_specialised():
    assert run(lambda x: x.sum(0) + 1, rows(4, 6, 1, 0, 9, 1, 0, 4), dynamic=True) == 3


def test_one_size_is_static():
    compiled = braze.compile(view_of_a_size)
    for call in rows(4, 4, 4):
        compiled(*call)
    assert not any("sizes:" in text for text in compiled.guards()[0])


def test_equal_sizes_may_come_apart():
    def f(x, y):
        return x.shape[0] == y.shape[0], x.sum() + y.sum()

    calls = [(torch.randn(a), torch.randn(b)) for a, b in [(4, 4), (5, 5), (6, 6), (4, 7), (9, 3), (8, 8)]]
    assert run(f, calls, dynamic=True) == 2


def test_strides_follow():
    def f(x):
        return (x * 2).sum(-1), x.t() + 1

    calls = [(torch.randn(m, n).t(),) for m, n in [(3, 4), (5, 6), (7, 8), (2, 9)]]
    assert run(f, calls) == 2


def test_a_row_of_a_wider_tensor():
    whole = torch.randn(64, 40)
    calls = [(whole[:, :n],) for n in (4, 6, 9, 30)]
    assert run(lambda x: torch.softmax(x, -1), calls) == 2


def test_numbers_that_vary():
    def f(x, n):
        return x[:n] * 2, n + 1

    x = torch.randn(30, 4)
    assert run(f, [(x, n) for n in (3, 5, 9, 12, 20)]) == 2


def test_numbers_beside_tensors():
    def f(x, n):
        return x * n + n, x - n, n * x, x / n

    x = torch.randn(5)
    assert run(f, [(x, n) for n in (3, 5, 9, 12)]) == 2


def test_what_asks_for_the_number_specialises():
    def f(x):
        n = x.shape[0]
        return [x[i] for i in range(n)], f"{n} rows", {n: x.sum()}, math.sqrt(n)

    braze.config.recompile_limit = 64
    try:
        assert run(f, rows(4, 6, 3, 4), dynamic=True) == 3
    finally:
        braze.config.recompile_limit = 8


def test_marks():
    x = torch.randn(4, 6)
    braze.compiler.mark_dynamic(x, 0, min=2, max=8)
    compiled = braze.compile(view_of_a_size)
    for call in [(x,), *rows(5, 8)]:
        same(compiled(*call), view_of_a_size(*call))
    assert compiled.counts()["captured"] == 1
    y = torch.randn(9, 6)
    same(compiled(y), view_of_a_size(y))
    assert compiled.counts()["captured"] == 2


def test_marked_static():
    compiled = braze.compile(view_of_a_size, dynamic=True)
    for n in (4, 6, 8):
        x = torch.randn(n, 6)
        braze.compiler.mark_static(x, 0)
        same(compiled(x), view_of_a_size(x))
    assert compiled.counts()["captured"] == 3


@pytest.mark.parametrize("mark", [braze.compiler.mark_dynamic, braze.compiler.maybe_mark_dynamic])
@pytest.mark.parametrize("wants_gradients", [False, True])
def test_marks_where_nothing_else_varies(mark, wants_gradients):
    """As torch.compile has it, `dynamic=False` is about what is not marked."""
    functions = (view_of_a_size, lambda x: x.t().contiguous() * x.shape[0] + x.shape[1])
    for function, dim, count in [(functions[0], 0, 1), (functions[1], 0, 1), (functions[1], 1, 4)]:
        compiled = braze.compile(function, dynamic=False)
        for n in (4, 6, 9, 12):
            x, other = (torch.linspace(0, 1, n * 6).reshape(n, 6).requires_grad_(wants_gradients) for _ in "ab")
            mark(x, dim)
            with torch.set_grad_enabled(wants_gradients):
                ours, theirs = compiled(x), function(other)
                sums = ours.sum(), theirs.sum()
            same(ours, theirs)
            if wants_gradients:
                one, two = (torch.autograd.grad(*pair)[0] for pair in zip(sums, (x, other), strict=True))
                same(one, two)
        assert compiled.counts()["captured"] == count
        for x in (torch.ones(5, 8), torch.ones(5, 4)):  # Not marked.
            same(compiled(x), function(x))


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (lambda x: x * {4: 2}[x.shape[0]], "x.shape[0] was marked as dynamic, and is 4 to what is compiled"),
        (lambda x: x * x.shape[0], None),
    ],
)
def test_marks_in_vain_are_told(function, text, caplog):
    x = torch.randn(4, 6)
    braze.compiler.mark_dynamic(x, 0)
    braze.set_logs(recompiles=True)
    try:
        with caplog.at_level("INFO", logger="braze.recompiles"):
            same(braze.compile(function)(x), function(x))
    finally:
        braze.set_logs()
    told = [record.getMessage() for record in caplog.records if "marked" in record.getMessage()]
    assert told == ([] if text is None else [f"<lambda>: {text}"])


@pytest.mark.parametrize("attribute", ["_dynamo_unbacked_indices", "_dynamo_strict_unbacked_indices"])
def test_marks_of_pytorch_as_unbacked(attribute):
    x = torch.randn(4, 6)
    setattr(x, attribute, {0})
    compiled = braze.compile(view_of_a_size)
    for call in [(x,), *rows(5, 8)]:
        same(compiled(*call), view_of_a_size(*call))
    assert compiled.counts()["captured"] == 1


def test_a_break_in_the_middle():
    def f(x):
        n = x.shape[0]
        y = x * 2
        print(end="")
        return y.reshape(n, 2, -1) + n, n * 2

    compiled = braze.compile(f)
    for call in rows(4, 6, 8, 10, 12, 7):
        same(compiled(*call), f(*call))
    assert len(compiled.guards()) <= 8  # A number that a slot holds beyond the break is guarded by its value.


def test_sizes_kept_in_objects():
    class Keeper:
        def __init__(self):
            self.last = None

    keeper, other = Keeper(), Keeper()

    def f(x, keeper):
        keeper.last = x.shape[0]
        return x.reshape(-1, 2).sum(1)

    compiled = braze.compile(f)
    for n in (4, 6, 8, 10):
        x = torch.randn(n, 6)
        same(compiled(x, keeper), f(x, other))
        assert keeper.last == other.last and type(keeper.last) is int


def test_recompiles_say_what_failed(caplog):
    braze.set_logs(recompiles=True)
    try:
        with caplog.at_level("INFO", logger="braze.recompiles"):
            run(branch_on_a_size, rows(4, 20), dynamic=True)
    finally:
        braze.set_logs()
    text = " ".join(record.getMessage() for record in caplog.records)
    assert "x_0 <= 10" in text and "x.shape[0] = 20" in text


class Encoder(nn.Module):
    def __init__(self, width=32, heads=4):
        super().__init__()
        self.embedding, self.positions = nn.Embedding(50, width), nn.Embedding(64, width)
        layer = nn.TransformerEncoderLayer(width, heads, 64, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.norm, self.heads = nn.LayerNorm(width), heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, ids):
        batch, length = ids.shape
        x = self.embedding(ids) + self.positions(torch.arange(length))[None]
        q, k, v = self.qkv(self.norm(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(batch, length, -1))
        return self.layers(x).mean(1)


def test_a_transformer_encoder():
    rng = random.Random(0)
    sizes = [(4, 9), (5, 12)] + [(rng.randint(2, 9), rng.randint(2, 60)) for _ in range(200)]
    sizes += [(1, 9), (4, 1), (1, 20), (3, 1)]
    calls = [(torch.randint(0, 50, size),) for size in sizes]
    model = Encoder().eval()
    compiled = braze.compile(model.forward)
    for call in calls:
        same(compiled(*call), model(*call))
    assert compiled.counts()["native"] == 0
    assert compiled.counts()["captured"] <= 4


def test_a_convnet():
    rng = random.Random(0)
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, stride=2, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(3, 2, 1),
        nn.Conv2d(8, 16, 3, groups=2),
        nn.GELU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(16, 5),
    ).eval()
    sizes = [(2, 3, 30, 40), (3, 3, 50, 26)]
    sizes += [(rng.randint(2, 4), 3, rng.randint(24, 70), rng.randint(24, 70)) for _ in range(50)]
    calls = [(torch.randn(size),) for size in sizes]
    compiled = braze.compile(model.forward)
    for call in calls:
        same(compiled(*call), model(*call))
    assert compiled.counts()["native"] == 0 and compiled.counts()["captured"] <= 2


@pytest.mark.parametrize("kind", [nn.GRU, nn.LSTM, nn.RNN])
@pytest.mark.parametrize("batch_first", [True, False])
def test_a_recurrent_net(kind, batch_first):
    model = kind(6, 8, num_layers=2, batch_first=batch_first, bidirectional=batch_first).eval()
    rng = random.Random(0)
    calls = []
    for _ in range(50):
        length = rng.randint(2, 40)
        calls.append((torch.randn((3, length, 6) if batch_first else (length, 3, 6)),))
    compiled = braze.compile(model.forward)
    for call in calls:
        same(compiled(*call), model(*call))
    assert compiled.counts()["native"] == 0 and compiled.counts()["captured"] <= 2


def test_a_size_in_a_slot_beyond_a_break():
    def f(x):
        n = x.shape[0]
        y = x * 2
        print(end="")
        return y.reshape(n, 2, -1) + n, n * 2

    assert second_capture_serves_all(f, rows(4, 6, 8, 10, 12, 7)) == 0


def test_a_size_in_an_attribute_beyond_a_break():
    class Keeper:
        count = 0

    keeper = Keeper()

    def f(x):
        keeper.count = x.shape[0]
        y = x * 2
        print(end="")
        return y.reshape(keeper.count, 2, -1) + keeper.count

    assert second_capture_serves_all(f, rows(4, 6, 8, 10, 12, 7)) == 0


def test_a_number_put_away_and_read_later():
    def f(x):
        kept = [x.shape[0]]
        y = x * 2
        n = x.shape[0]
        print(end="")
        kept.append(n)
        return y.reshape(kept[1], 2, -1), kept

    run(f, rows(4, 6, 8, 10, 12, 7))


def test_attributes_that_vary():
    class Config:
        count = 3

    config, x = Config(), torch.randn(30, 4)

    def f(x):
        return x[: config.count] * config.count, config.count + 1, config.count > 6

    compiled = braze.compile(f)
    for count in (3, 4, 5, 6, 9, 12, 1, 0, 4, 8):
        config.count = count
        same(compiled(x), f(x))
    assert compiled.counts()["captured"] <= 5


def test_a_counter_of_calls():
    class Counter:
        def __init__(self):
            self.step = 0

        def scaled(self, x):
            self.step += 1
            return x * self.step

    counter, x = Counter(), torch.ones(3)
    compiled = braze.compile(counter.scaled)
    for step in range(1, 10):
        same(compiled(x), x * step)
        assert counter.step == step
    assert compiled.counts()["captured"] <= 3 and compiled.counts()["native"] == 0


def test_globals_and_cells_that_vary():
    count = 3

    def f(x):
        return x[:count].sum(0) * count + len(str(count))

    x = torch.randn(30, 4)
    compiled = braze.compile(f)
    for count in (3, 5, 8, 11, 2, 100, 20):  # noqa: B007  (the cell)
        same(compiled(x), f(x))


def test_c_code_is_given_sizes_by_a_function():
    """What sorts by them sees numbers, which are guarded."""

    def f(x, k):
        order = sorted(range(4), key=lambda i: (i * k.count) % 7)
        return x[order[0]] + order[1], order

    class Keeper:
        count = 2

    keeper, x = Keeper(), torch.randn(4)
    compiled = braze.compile(f)
    for count in (2, 3, 4, 5, 6):
        keeper.count = count
        same(compiled(x, keeper), f(x, keeper))


def test_sizes_that_are_zipped():
    def f(x):
        wanted = [v if v is not None else d for v, d in zip((3, None), x.shape[-2:], strict=False)]
        return F.adaptive_avg_pool2d(x, (1, 1)), wanted, [n + i for i, n in enumerate(x.shape)]

    calls = [(torch.randn(2, n, m),) for n, m in [(8, 9), (10, 12), (7, 16), (20, 5)]]
    assert second_capture_serves_all(f, calls) == 0
