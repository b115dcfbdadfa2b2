"""Modules: parameters and buffers are bound, not copied; models from transformers."""

import copy

import pytest
import torch
import torch.nn.functional as F
from compare import assert_same, check

import braze


def mlp(*widths):
    layers = []
    for before, after in zip(widths, widths[1:], strict=False):
        layers += [torch.nn.Linear(before, after), torch.nn.GELU()]
    return torch.nn.Sequential(*layers[:-1])


def agree(program, model, *args):
    with torch.no_grad():
        assert_same(program(*args), model(*args))


def test_mlp():
    model, x = mlp(32, 64, 16), torch.randn(8, 32)
    with torch.no_grad():
        program = braze.trace(model, (x,))
    agree(program, model, torch.randn(8, 32))


def test_later_changes_of_parameters_are_seen():
    model, x = mlp(6, 5, 4), torch.randn(3, 6)
    program = braze.trace(model, (x,))
    agree(program, model, x)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    model(x).square().sum().backward()
    optimizer.step()
    agree(program, model, x)
    model.load_state_dict(mlp(6, 5, 4).state_dict())
    agree(program, model, x)
    for parameter in model.parameters():
        parameter.data = torch.randn_like(parameter)
    agree(program, model, x)


def test_changed_parameters_are_refused_by_name():
    model, x = mlp(6, 5), torch.randn(3, 6)
    program = braze.trace(model, (x,))
    model[0].weight.data = torch.randn(5, 6, dtype=torch.float64)
    with torch.no_grad(), pytest.raises(braze.Error, match=r"0\.weight.*f32\[5,6\].*f64\[5,6\]"):
        program(x)
    model[0].weight.data = torch.randn(7, 6)
    with torch.no_grad(), pytest.raises(braze.Error, match=r"0\.weight.*f32\[5,6\].*f32\[7,6\]"):
        program(x)


def test_unaligned_parameters():
    model, x = mlp(6, 5), torch.randn(3, 6)
    program = braze.trace(model, (x,))
    for parameter in model.parameters():
        parameter.data = torch.randn(parameter.numel() + 1)[1:].view(parameter.shape)
    agree(program, model, x)


class Counter(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x):
        self.count.add_(1)
        return x * self.count


def test_buffers_are_written():
    module = Counter()
    program = braze.trace(module, (torch.ones(3),))
    assert module.count == 0, "tracing and checking put the buffer back"
    assert torch.equal(program(torch.ones(3)), torch.ones(3))
    assert torch.equal(program(torch.ones(3)), torch.ones(3) * 2)
    assert module.count == 2


def test_batch_norm_in_training():
    torch.manual_seed(3)
    mine = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU())
    theirs = copy.deepcopy(mine)
    x = torch.randn(2, 3, 8, 8)
    program = braze.trace(mine, (x,))
    for _ in range(3):
        with torch.no_grad():
            assert_same(program(x), theirs(x))
    assert_same(dict(mine.state_dict()), dict(theirs.state_dict()))


def test_layers():
    x = torch.randn(2, 7, 32)
    with torch.no_grad():
        check(torch.nn.TransformerEncoderLayer(32, 4, 64, batch_first=True).train(), x)
        check(torch.nn.MultiheadAttention(32, 4, batch_first=True).eval(), x, x, x)
        check(torch.nn.LSTM(32, 8, batch_first=True).eval(), x)
        check(torch.nn.LayerNorm(32), x)
        check(torch.nn.GroupNorm(7, 7), x)


def test_method_of_a_module():
    model, x = mlp(6, 5), torch.randn(3, 6)
    program = braze.trace(model.forward, (x,))
    agree(program, model, x)
    assert "0.weight" in program.graph


def test_hooks_and_closures():
    model, scale = mlp(6, 5), torch.tensor([2.0])
    model.register_forward_hook(lambda module, args, result: result * scale)
    program = braze.trace(model, (torch.randn(3, 6),))
    scale.fill_(3.0)
    agree(program, model, torch.randn(3, 6))


def test_detached_results_are_told():
    model, x = mlp(6, 5), torch.randn(3, 6)
    program = braze.trace(model, (x,))
    with pytest.warns(UserWarning, match="detached"):
        assert not program(x).requires_grad


def test_inference_mode():
    model, x = mlp(6, 5), torch.randn(3, 6)
    with torch.inference_mode():
        program = braze.trace(model, (x,))
        got = program(x)
    assert got.is_inference()
    agree(program, model, x)


def test_autocast():
    model, x = mlp(6, 5), torch.randn(3, 6)

    def fn(x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return model(x)

    with torch.no_grad():
        check(fn, x)
        program = braze.trace(model, (x,))
        expected = program(x)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert torch.equal(program(x), expected)


def test_autocast_of_arguments_alone():
    def fn(x, y):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return x @ y

    check(fn, torch.randn(3, 4), torch.randn(4, 5))


def test_gradients_inside_of_the_function():
    def fn(x, w):
        w = w.detach().requires_grad_()
        (gradient,) = torch.autograd.grad((x @ w).tanh().sum(), w)
        return gradient

    check(fn, torch.randn(3, 4), torch.randn(4, 5))


class Entropy(torch.nn.Module):
    def forward(self, features):
        p = features.softmax(-1)
        return -(p * torch.log(p + 1e-9)).sum(-1)


class Salience(torch.nn.Module):
    def forward(self, features):
        grid = features.mean(-1).view(features.shape[0], 1, 14, 14)
        sobel = torch.tensor([[1.0, 0, -1], [2, 0, -2], [1, 0, -1]]).view(1, 1, 3, 3)
        gx, gy = F.conv2d(grid, sobel, padding=1), F.conv2d(grid, sobel.transpose(2, 3), padding=1)
        contrast = (grid - F.avg_pool2d(grid, 3, 1, 1)).abs()
        return (torch.sqrt(gx**2 + gy**2 + 1e-6) + contrast).flatten(1)


class QueryContent(torch.nn.Module):
    def forward(self, features, query):
        scale = torch.sqrt(torch.tensor(float(features.shape[-1])))
        return ((query @ features.transpose(1, 2)) / scale).softmax(-1).squeeze(1)


def test_scorers():
    features, query = torch.randn(2, 196, 64), torch.randn(2, 1, 64)
    assert len(check(Entropy(), features).kernels) == 1
    check(Salience(), features)
    check(QueryContent(), features, query)


def bert(**sizes):
    from transformers import BertConfig, BertModel

    return BertModel(BertConfig(**sizes)).eval()


def gpt2(**sizes):
    from transformers import GPT2Config, GPT2Model

    return GPT2Model(GPT2Config(**sizes)).eval()


TINY_BERT = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, vocab_size=100)
TINY_GPT2 = dict(n_embd=32, n_layer=2, n_head=4, vocab_size=100)


@torch.no_grad()
def check_model(model, vocabulary, batch, length):
    ids = torch.randint(0, vocabulary, (batch, length))
    program = braze.trace(model, (ids,))
    ids = torch.randint(0, vocabulary, (batch, length))
    got, expected = program(ids), model(ids)
    assert type(got) is type(expected)
    torch.testing.assert_close(got.last_hidden_state, expected.last_hidden_state, rtol=1e-4, atol=1e-4)
    return program


def test_tiny_bert():
    program = check_model(bert(**TINY_BERT), 100, 2, 9)
    assert "embeddings.word_embeddings.weight" in program.graph


def test_tiny_bert_with_a_mask():
    model, ids = bert(**TINY_BERT), torch.randint(0, 100, (2, 9))
    mask = torch.ones(2, 9, dtype=torch.int64)
    mask[1, 5:] = 0
    with torch.no_grad():
        check(model, input_ids=ids, attention_mask=mask)


def test_tiny_gpt2():
    check_model(gpt2(use_cache=False, **TINY_GPT2), 100, 2, 9)


def test_tiny_gpt2_with_its_cache():
    model, ids = gpt2(**TINY_GPT2), torch.randint(0, 100, (2, 9))
    with torch.no_grad():
        got, expected = braze.trace(model, (ids,), check=False)(ids), model(ids)
    assert type(got.past_key_values) is type(expected.past_key_values)
    for mine, theirs in zip(got.past_key_values.layers, expected.past_key_values.layers, strict=True):
        torch.testing.assert_close(mine.keys, theirs.keys, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("make", [bert, gpt2])
@pytest.mark.parametrize("batch, length", [(1, 8), (4, 256)])
def test_base_models(make, batch, length):
    model = make() if make is bert else make(use_cache=False)
    check_model(model, 30000, batch, length)
