"""Products of few rows are kernels of ours on a GPU; they are as near the exact result as eager's."""

import itertools

import pytest
import torch
from on_gpu import needs_gpu

import braze

pytestmark = needs_gpu


def numbers(*shape, dtype=torch.float32, seed=0):
    return torch.randn(shape, generator=torch.manual_seed(seed)).to("cuda", dtype)


def assert_as_near(got, wanted, exact):
    assert got.stride() == wanted.stride() and got.dtype == wanted.dtype
    error, of_eager = ((y.double() - exact).abs().max() for y in (got, wanted))
    assert error <= 2 * of_eager + 4 * torch.finfo(got.dtype).eps * exact.abs().max()


def check(f, *arguments, **options):
    compiled = braze.compile(f, fullgraph=True, **options)
    for _ in range(2):
        assert_as_near(compiled(*arguments), f(*arguments), f(*(a.double() for a in arguments)))
    return compiled


def calls(compiled):
    return [step for program in compiled.programs() for step in program.steps if step.kind == "call"]


LINEAR = torch.nn.functional.linear
MATRICES = [(768, 768), (64, 3072), (96, 50), (33, 77), (1, 40), (4096, 3)]  # added up, columns


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("rows", [1, 2, 3, 7, 8, 9, 16, 17])
def test_results(rows, dtype):
    for (length, columns), biased in itertools.product(MATRICES, (False, True)):
        x, w = numbers(rows, length, dtype=dtype), numbers(columns, length, dtype=dtype, seed=1)
        bias = [numbers(columns, dtype=dtype, seed=2)] if biased else []
        compiled = check(LINEAR, x, w, *bias)
        few = 16 if dtype == torch.float32 else 8
        assert bool(calls(compiled)) == (rows > few), (length, columns)
        as_it_is = (lambda x, w, b: torch.addmm(b, x, w)) if biased else torch.matmul
        check(as_it_is, x, w.t().contiguous(), *bias)


@pytest.mark.parametrize("form", ["rows", "columns", "every other", "shifted", "expanded", "one tensor"])
def test_layouts(form):
    x, w = numbers(40, 70), numbers(130, 140, seed=1)
    functions = {
        "rows": lambda x, w: x[3:9, 1:65] @ w[:64, :90],
        "columns": lambda x, w: x[:, 4:9].t() @ w[:40],
        "every other": lambda x, w: x[:8] @ w[:70, ::2],
        "shifted": lambda x, w: x[:8, 3:] @ w[1:, 1:68].t()[:, :100],
        "expanded": lambda x, w: x[:1].expand(8, 70) @ w[:70, :33],
        "one tensor": lambda x, w: w[:8, :100] @ w[:100, 40:],
    }
    check(functions[form], x, w)


def test_what_a_kernel_computes_beside():
    def block(x, w, v, b):
        h = torch.nn.functional.gelu(LINEAR(torch.nn.functional.layer_norm(x, (96,)), w, b))
        return x + h @ v

    check(block, numbers(8, 96), numbers(384, 96, seed=1), numbers(384, 96, seed=2), numbers(384, seed=3))


def test_gradients():
    x, w = numbers(8, 200).requires_grad_(), numbers(60, 200, seed=1).requires_grad_()

    def loss(x, w):
        return LINEAR(x, w).tanh().sum()

    for _ in range(2):
        found = torch.autograd.grad(braze.compile(loss)(x, w), (x, w))
        wanted = torch.autograd.grad(loss(x, w), (x, w))
        exact = torch.autograd.grad(loss(x.double(), w.double()), (x, w))
        for ours, theirs, precise in zip(found, wanted, exact, strict=True):
            assert_as_near(ours, theirs, precise.double())


def test_columns_that_vary():
    compiled = braze.compile(LINEAR, dynamic=True)
    for columns, length in [(64, 32), (65, 48), (300, 100), (7, 5)]:
        x, w = numbers(4, length), numbers(columns, length, seed=1)
        assert_as_near(compiled(x, w), LINEAR(x, w), LINEAR(x.double(), w.double()))
    assert compiled.counts()["captured"] == 1


def test_numbers_that_are_not_finite():
    x, w = numbers(3, 64), numbers(64, 40, seed=1)
    x[1, 3], x[2, 5], w[7, 2] = float("inf"), float("nan"), float("-inf")
    for weights in (w, w.t().contiguous().t()):
        got, wanted = braze.compile(torch.matmul)(x, weights), x @ weights
        assert torch.equal(got.isnan(), wanted.isnan()) and torch.equal(got.isinf(), wanted.isinf())
