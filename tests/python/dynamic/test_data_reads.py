"""Values and sizes out of data inside one graph: capture_scalar_outputs, capture_dynamic_output_shape_ops."""

import pytest
import torch
from torch import nn

import braze

BOTH = {"capture_scalar_outputs": True, "capture_dynamic_output_shape_ops": True}


def made_of_a_sum(x):
    return torch.zeros(int(x.sum().item())) + x[0]


def scaled(x, y):
    return (y * x.sum().item()).relu() + 1


def positions(x):
    return (x.nonzero().float() * 2 + 1).sum(1)


def masked(x):
    return (x[x > 0] * 2).relu()


def selected(x):
    return x.masked_select(x > 0) + 1


def different(x):
    values, counts = torch.unique(x, return_counts=True)
    return values * counts + 1


def first_rows(x, y):
    n = x.max().item()
    torch._check(n >= 0)
    torch._check(n <= y.shape[0])
    return y[:n] * 2


def in_a_closure(x, y):
    def total(v):
        return v.sum().item()

    return y * total(x) + 1


def in_a_loop(x, y):
    for k in range(3):
        y = y * x[k].item() + 1
    return y


def narrowed(x, y):
    start, length = x.tolist()
    return y.narrow(0, start, length) * 2


def pieces(x, y):
    return [piece * 2 for piece in y.split(x.tolist())]


def experts(x, chosen):
    out = torch.zeros_like(x)
    for expert in range(4):
        rows = torch.where(chosen == expert)[0]
        out = out.index_add(0, rows, x[rows] * (expert + 1))
    return out


def repeated(x, y):
    return y.repeat_interleave(x) + 1


def two_ways(x, y):
    return y + 1 if x.sum().item() > 5 else y - 1


def read_twice(x, y):
    n = x[0].item()
    y = y * 2
    m = x[1].item()
    return y[: n + m] + n


def only_the_value(x):
    return (x * 2).sum().item()


def numbers(*values):
    return torch.tensor(values)


# How many programs a place may need: sizes 0 and 1, and the ways of branches, are programs of their own.
CASES = {
    "made_of_a_sum": (made_of_a_sum, lambda k: (numbers(k + 2.0, 2.0),), 1),
    "scaled": (scaled, lambda k: (torch.randn(4), torch.randn(5)), 1),
    "positions": (positions, lambda k: ((torch.arange(12) < 2 + k).view(4, 3),), 1),
    "masked": (masked, lambda k: (torch.arange(14.0) - 11 + k,), 1),
    "selected": (selected, lambda k: (torch.arange(14.0) - 11 + k,), 1),
    "different": (different, lambda k: (torch.arange(10) % (2 + k),), 1),
    "first_rows": (first_rows, lambda k: (numbers(k, 1), torch.randn(9)), 3),
    "in_a_closure": (in_a_closure, lambda k: (torch.randn(3), torch.randn(4)), 1),
    "in_a_loop": (in_a_loop, lambda k: (torch.randn(3), torch.randn(4)), 1),
    "narrowed": (narrowed, lambda k: (numbers(k % 3, 2 + k % 2), torch.randn(9)), 3),
    "pieces": (pieces, lambda k: (numbers(k % 4, 9 - k % 4), torch.randn(9)), 3),
    "experts": (experts, lambda k: (torch.randn(8, 4), torch.randint(0, 4, (8,))), 6),
    "repeated": (repeated, lambda k: (torch.full((5,), 2 + k), torch.randn(5)), 1),
    "two_ways": (two_ways, lambda k: (numbers(k, 1), torch.randn(3)), 3),
    "read_twice": (read_twice, lambda k: (numbers(2 + k % 2, 2 + k % 3), torch.randn(9)), 1),
    "only_the_value": (only_the_value, lambda k: (torch.randn(5),), 1),
}


@pytest.mark.parametrize("dynamic", [None, False, True])
@pytest.mark.parametrize("name", CASES)
def test_one_graph(name, dynamic):
    torch.manual_seed(0)
    function, inputs, programs = CASES[name]
    compiled = braze.compile(function, fullgraph=True, dynamic=dynamic, options=BOTH)
    for k in range(10):
        given = inputs(k)
        torch.testing.assert_close(compiled(*given), function(*given))
    counts = compiled.counts()
    assert counts["native"] == 0 and counts["captured"] <= programs, counts
    told = braze.explain(function, options=BOTH)(*inputs(1))
    assert told.graph_count == 1 and told.graph_break_count == 0 and told.reads


@pytest.mark.parametrize("name", CASES)
def test_without_the_settings_it_is_no_one_graph(name):
    function, inputs, _ = CASES[name]
    with pytest.raises(braze.Error, match="cannot be captured as one graph"):
        braze.compile(function, fullgraph=True)(*inputs(1))
    compiled = braze.compile(function)
    for k in range(4):
        given = inputs(k)
        torch.testing.assert_close(compiled(*given), function(*given))


def test_each_setting_stands_for_its_own_reads():
    x = torch.tensor([1.0, -1.0, 2.0])
    scalars = {"fullgraph": True, "options": {"capture_scalar_outputs": True}}
    shapes = {"fullgraph": True, "options": {"capture_dynamic_output_shape_ops": True}}
    assert braze.compile(only_the_value, **scalars)(x) == only_the_value(x)
    torch.testing.assert_close(braze.compile(masked, **shapes)(x), masked(x))
    with pytest.raises(braze.Error, match="boolean mask"):
        braze.compile(masked, **scalars)(x)
    with pytest.raises(braze.Error, match="item"):
        braze.compile(only_the_value, **shapes)(x)


def test_config_is_read_when_a_function_is_compiled():
    with braze.config.patch(capture_scalar_outputs=True):
        compiled = braze.compile(only_the_value, fullgraph=True)
    assert compiled(torch.ones(3)) == 6


def test_another_break_is_an_error_still():
    def prints(x):
        n = x.sum().item()
        y = x * n
        print("here")
        return y + 1

    compiled = braze.compile(prints, fullgraph=True, options=BOTH)
    for _ in range(3):
        with pytest.raises(braze.Error, match="print"):
            compiled(torch.ones(3))


def test_an_error_of_the_function_comes_first():
    def fails(x):
        n = x.sum().item()
        torch._check(n < 3, lambda: "too many")
        return x * n

    compiled = braze.compile(fails, fullgraph=True, options=BOTH)
    for _ in range(3):
        torch.testing.assert_close(compiled(torch.ones(2)), torch.full((2,), 2.0))
        with pytest.raises(RuntimeError, match="too many"):
            compiled(torch.ones(5))


def test_gradients_on_both_sides():
    def loss(x, w):
        kept = (x * w)[x > 0]
        return (kept * kept.detach().sum().item()).sum()

    compiled = braze.compile(loss, fullgraph=True, options=BOTH)
    for k in range(6):
        x = torch.cat([torch.rand(2 + k) + 0.1, -torch.rand(3)])
        ours, theirs = (torch.randn(5 + k, generator=torch.manual_seed(k)).requires_grad_() for _ in range(2))
        compiled(x, ours).backward()
        loss(x, theirs).backward()
        torch.testing.assert_close(ours.grad, theirs.grad)
    assert compiled.counts()["native"] == 0


class Routed(nn.Module):
    """A mixture of experts that sends each token to one of them."""

    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(8, 3)
        self.up = nn.Parameter(torch.randn(3, 8, 16))
        self.down = nn.Parameter(torch.randn(3, 16, 8))

    def forward(self, x):
        chosen = self.gate(x).argmax(-1)
        out = torch.zeros_like(x)
        for expert in range(3):
            rows = (chosen == expert).nonzero().squeeze(1)
            hidden = nn.functional.gelu(x[rows] @ self.up[expert])
            out = out.index_add(0, rows, hidden @ self.down[expert])
        return out


@pytest.mark.parametrize("grad", [False, True])
def test_a_mixture_of_experts(grad):
    torch.manual_seed(1)
    model = Routed()
    compiled = braze.compile(model, fullgraph=True, options=BOTH)
    with torch.set_grad_enabled(grad):
        for k in range(8):
            x = torch.randn(12 + k, 8)
            torch.testing.assert_close(compiled(x), model(x))
    assert compiled.counts()["native"] == 0


@pytest.mark.parametrize("dynamic", [None, True])
def test_values_read_behind_a_library_call_that_is_given_sizes(dynamic):
    def function(x):
        whole = torch.stack([x.t(), x.t()], 0).sum(0)
        return torch.equal(whole, whole) + whole

    compiled = braze.compile(function, dynamic=dynamic)
    for size in (6, 3, 9, 3):
        x = torch.full((1, size), 5, dtype=torch.uint8)
        assert torch.equal(compiled(x), function(x))
