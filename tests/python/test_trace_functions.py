"""Small functions: values, dtypes, strides, views, in-place writes and aliasing as in eager."""

import pytest
import torch
import torch.nn.functional as F
from compare import check

import braze

N = torch.nn


def x(*shape, dtype=torch.float32):
    return torch.randn(shape).to(dtype)


POINTWISE = {
    "add one": lambda a: a + 1,
    "chain": lambda a: torch.tanh(a * 2 - 0.5).exp() / 3,
    "gelu": F.gelu,
    "gelu tanh": lambda a: F.gelu(a, approximate="tanh"),
    "silu": F.silu,
    "relu of neg": lambda a: F.relu(-a),
    "where": lambda a: torch.where(a > 0, a, a * 0.1),
    "clamp": lambda a: a.clamp(-0.5, 0.5),
    "masked fill": lambda a: a.masked_fill(a < 0, float("-inf")),
    "compare": lambda a: (a > 0) & (a < 1),
    "to double": lambda a: a.double() * 3,
    "to int": lambda a: (a * 10).to(torch.int32),
    "to half": lambda a: a.half() + 1,
    "pow": lambda a: a**2 + a**3,
    "addcmul": lambda a: torch.addcmul(a, a, a, value=0.5),
    "sigmoid log": lambda a: torch.log(torch.sigmoid(a) + 1e-9),
    "reciprocal": lambda a: 1 / (a.abs() + 1),
    "sqrt": lambda a: (a.abs() + 1).sqrt() * (a.abs() + 1).rsqrt(),
    "erf": torch.erf,
    "sin cos": lambda a: a.sin() + a.cos(),
    "round": lambda a: a.round() + a.floor() + a.ceil() + a.trunc(),
}


@pytest.mark.parametrize("name", POINTWISE)
@pytest.mark.parametrize("shape", [(), (1,), (7,), (5, 33), (2, 3, 4, 5), (0, 4), (4000,)])
def test_pointwise(name, shape):
    check(POINTWISE[name], x(*shape))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", ["add one", "chain", "gelu", "where", "clamp", "to double", "pow"])
def test_pointwise_dtypes(name, dtype):
    check(POINTWISE[name], x(5, 33, dtype=dtype))


@pytest.mark.parametrize(
    "one", [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.int32, torch.bool]
)
@pytest.mark.parametrize("other", [torch.float32, torch.int64, torch.uint8, torch.bool, torch.float16])
def test_promotion(one, other):
    a, b = (x(4, 5) * 3).to(one), (x(5) * 3).abs().to(other)
    check(lambda a, b: (a + b, a * b, a / (b + 2), a > b), a, b)


def test_numbers_keep_the_dtype():
    check(lambda a, i: (a * 2.0, i * 2, i * 2.5, i / 2, i // 3, i % 3), x(4), torch.arange(-4, 4))


REDUCTIONS = {
    "sum": lambda a: a.sum(),
    "sum last": lambda a: a.sum(-1),
    "sum first keep": lambda a: a.sum(0, keepdim=True),
    "mean": lambda a: a.mean((0, 2)),
    "max": lambda a: a.amax(1),
    "max with index": lambda a: tuple(a.max(dim=1)),
    "argmax": lambda a: a.argmax(-1),
    "var": lambda a: a.var(-1),
    "std": lambda a: a.std(-1, unbiased=False),
    "softmax": lambda a: a.softmax(-1),
    "softmax middle": lambda a: a.softmax(1),
    "log softmax": lambda a: a.log_softmax(-1),
    "entropy": lambda a: -(a.softmax(-1) * torch.log(a.softmax(-1) + 1e-9)).sum(-1),
    "norm": lambda a: a / a.norm(dim=-1, keepdim=True),
    "any all": lambda a: ((a > 0).any(-1), (a > -1).all(0)),
    "logsumexp": lambda a: a.logsumexp(-1),
    "cumsum": lambda a: a.cumsum(-1),
    "layer norm": lambda a: F.layer_norm(a, a.shape[-1:]),
    "centre and scale": lambda a: (a - a.mean(-1, keepdim=True)) * a.var(-1, keepdim=True).rsqrt(),
}


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("shape", [(2, 3, 4), (3, 5, 67), (1, 2, 768)])
def test_reductions(name, shape):
    check(REDUCTIONS[name], x(*shape))


VIEWS = {
    "transpose": lambda a: a.t() + 1,
    "return a view": lambda a: a.t(),
    "return a slice": lambda a: a[1:, ::2],
    "reshape of transpose": lambda a: a.t().reshape(-1) * 2,
    "flatten": lambda a: a.flatten() + 1,
    "expand": lambda a: a[:, None].expand(-1, 3, -1) * 2,
    "split": lambda a: [part * 2 for part in a.split(2)],
    "chunk": lambda a: a.chunk(2, dim=1),
    "unbind": lambda a: torch.stack(a.unbind(0), 1),
    "select": lambda a: a[0] + a[-1],
    "cat": lambda a: torch.cat([a, a * 2, a[:1]], 0),
    "stack": lambda a: torch.stack([a, a + 1], -1),
    "flip": lambda a: a.flip(0),
    "pad": lambda a: F.pad(a, (1, 2, 0, 1), value=3.0),
    "narrow": lambda a: a.narrow(1, 1, 3) * 2,
    "permute": lambda a: a[None].permute(2, 0, 1).contiguous(),
    "squeeze": lambda a: a[None].squeeze(0) + 0,
    "clone": lambda a: a.t().clone(),
    "contiguous": lambda a: a.t().contiguous(),
    "the input": lambda a: a,
    "the input twice": lambda a: (a, a),
    "input and result": lambda a: (a, a + 1),
    "result twice": lambda a: (lambda b: (b, b))(a + 1),
    "result and its view": lambda a: (lambda b: (b, b.t()))(a + 1),
    "diagonal": lambda a: a.diagonal() * 2,
    "as strided": lambda a: a.as_strided((3, 2), (1, 3)) + 1,
    "unfold": lambda a: a.unfold(1, 2, 1).sum(-1),
    "tril": lambda a: a.tril() + a.triu(1),
}


@pytest.mark.parametrize("name", VIEWS)
def test_views(name):
    check(VIEWS[name], x(4, 6))


@pytest.mark.parametrize("name", VIEWS)
def test_views_of_transposed_inputs(name):
    check(VIEWS[name], x(6, 4).t())


def in_place_on_view(a):
    a[1:3] += 1
    a.t()[0].mul_(2)
    return a.sum()


def in_place_on_fresh(a):
    b = a * 2
    b.add_(1)
    c = b[0]
    b[0] = 7
    return b, c


def swap(a, b):
    old = a.clone()
    a.copy_(b)
    b.copy_(old)


def write_and_return_input(a):
    a.add_(1)
    return a, a * 2


def out_argument(a):
    out = torch.empty_like(a)
    torch.add(a, a, out=out)
    return out


IN_PLACE = {
    "view": (in_place_on_view, (4, 6)),
    "fresh": (in_place_on_fresh, (4, 6)),
    "input": (write_and_return_input, (4, 6)),
    "out": (out_argument, (4, 6)),
    "fill": (lambda a: a.fill_(3).sum(), (5,)),
    "zero and add": (lambda a: a.zero_().add_(2), (5,)),
    "index put": (lambda a: a.__setitem__((slice(None), 1), a[:, 0]), (4, 6)),
    "masked fill": (lambda a: a.masked_fill_(a > 0, 0), (4, 6)),
    "relu": (lambda a: F.relu(a + 0, inplace=True), (4, 6)),
}


@pytest.mark.parametrize("name", IN_PLACE)
def test_in_place(name):
    fn, shape = IN_PLACE[name]
    check(fn, x(*shape))


def test_two_inputs_change_places():
    check(swap, x(3, 4), x(3, 4))


def test_results_alias_as_in_eager():
    program = braze.trace(lambda a: (a, a[1:], (a * 2).t()), (x(4, 6),))
    a = x(4, 6)
    same, view, _ = program(a)
    assert same is a
    assert view.data_ptr() == a[1:].data_ptr()
    program = braze.trace(lambda a: (lambda b: (b, b[1:], b))(a + 1), (x(4, 6),))
    b, part, again = program(a)
    assert again is b
    assert part.data_ptr() == b[1:].data_ptr()
    assert b.data_ptr() != a.data_ptr()


def test_results_are_new_at_every_call():
    program = braze.trace(lambda a: a + 1, (x(10),))
    first = program(torch.zeros(10))
    program(torch.ones(10))
    assert torch.equal(first, torch.ones(10))


def test_matmuls():
    check(lambda a, b, c: (a @ b, torch.addmm(c, a, b), F.linear(a, b.t(), c)), x(5, 7), x(7, 9), x(9))
    check(lambda a, b: (torch.bmm(a, b), a @ b), x(3, 5, 7), x(3, 7, 4))
    check(lambda a, b: (a @ b).relu() + 1, x(2, 3, 5, 7), x(7, 4))
    check(lambda a, b: a @ b, x(7), x(7))


def test_attention():
    q, k, v = x(2, 4, 8, 16), x(2, 4, 8, 16), x(2, 4, 8, 16)
    check(lambda q, k, v: F.scaled_dot_product_attention(q, k, v), q, k, v)
    check(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), q, k, v)
    check(lambda q, k, v: (q @ k.transpose(-1, -2) / 4).softmax(-1) @ v, q, k, v)


@pytest.mark.parametrize("heads", [1, 2, 4])
def test_heads_that_share_keys_and_values(heads):
    q, k = torch.randn(2, 4, 5, 8), torch.randn(2, heads, 6, 8)
    check(lambda q, k: F.scaled_dot_product_attention(q, k, k, enable_gqa=True), q, k)
    mask = torch.randn(5, 6)
    check(lambda q, k, m: F.scaled_dot_product_attention(q, k, k, attn_mask=m, enable_gqa=True), q, k, mask)


def test_convolution_and_pooling():
    check(lambda a, w: F.conv2d(a, w, padding=1).relu(), x(2, 3, 8, 8), x(4, 3, 3, 3))
    check(lambda a: F.avg_pool2d(a, 3, 1, 1) - a, x(2, 1, 8, 8))


def test_indexing():
    index = torch.tensor([[0, 2], [3, 1]])
    check(lambda t, i: F.embedding(i, t) * 2, x(5, 6), index)
    check(lambda t, i: t.gather(1, i), x(2, 6), index)
    check(lambda t, i: t.index_select(0, i[0]), x(5, 6), index)
    check(lambda t, i: t[i], x(5, 6), index)


def test_factories():
    check(lambda a: a + torch.arange(6) * torch.ones(4, 1) + torch.zeros(6) + torch.full((6,), 2.0), x(4, 6))
    check(lambda a: a / torch.sqrt(torch.tensor(6.0)) + torch.tensor([1.0, 2, 3, 4, 5, 6]), x(4, 6))
    check(lambda a: torch.eye(4) @ a, x(4, 6))


RANDOM = {
    "rand": lambda a: a + torch.rand(4, 6),
    "dropout": lambda a: F.dropout(a, 0.5),
    "randn like": lambda a: a * torch.randn_like(a) + torch.randn_like(a),
    "bernoulli": lambda a: torch.bernoulli(a.sigmoid()),
    "randint": lambda a: a + torch.randint(0, 10, (6,)),
    "randperm": lambda a: a[:, torch.randperm(6)],
    "normal in place": lambda a: a.clone().normal_(),
}


@pytest.mark.parametrize("name", RANDOM)
def test_random_numbers_are_eagers(name):
    check(RANDOM[name], x(4, 6))


def test_tracing_draws_no_random_numbers():
    before = torch.get_rng_state()
    braze.trace(lambda a: F.dropout(a, 0.5), (torch.zeros(4),))
    assert torch.equal(torch.get_rng_state(), before)


def test_many_results():
    check(lambda a: [a + i for i in range(100)], x(3))


def test_large():
    check(lambda a: (a.softmax(-1) * 2 + a).sum(-1), x(3000, 777))
    check(lambda a: (a + 1).t().contiguous(), x(1111, 777))
