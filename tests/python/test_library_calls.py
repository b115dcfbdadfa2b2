"""Arguments of library calls, as plain values in the graph and back: every kind that ATen's schemas have."""

import processes
import pytest
import torch

import braze

X = torch.linspace(-2, 2, 24).reshape(4, 6)
C = torch.complex(X, X.flip(0))

CALLS = {
    "integers, none, lists": (lambda x: torch.fft.rfft(x, n=8, dim=1, norm="ortho"), X),
    "a list of integers": (lambda x: torch.fft.fftn(x, dim=(0, 1)), C),
    "a text": (lambda x: torch.searchsorted(x[0].contiguous(), x, side="right"), X),
    "a text with odd characters": (lambda x: torch.einsum("ij,kj->ik", x, x).sort(dim=0)[0], X),
    "a device and a dtype": (lambda x: torch.linalg.cond(x[:, :4].to("cpu", torch.float64)), X),
    "a float": (lambda x: torch.nn.functional.hardshrink(torch.cdist(x, x, p=1.5).sort()[0], 0.75), X),
    "an infinite float": (lambda x: torch.linalg.vector_norm(torch.cdist(x, x, p=float("inf"))), X),
    "a complex number": (lambda x: torch.add(x, x, alpha=2 - 3j), C),
    "a number as a tensor": (lambda x: torch.mul(x, 2 + 1j), C),
    "tensors in a list": (lambda x: torch.block_diag(x.sort()[0], x.sort()[1].float()), X),
    "tensors and none in a list": (lambda x: torch.ops.aten._unsafe_index(x.cfloat(), [None, x[0].sort()[1]]), X),
    "several results": (lambda x: torch.linalg.svd(x, full_matrices=False), X),
    "results in a list": (lambda x: torch.ops.aten.unsafe_split(x.sort()[0], 2, 1), X),
    "an out= tensor": (
        lambda x: torch.sort(x, dim=0, out=(torch.empty(4, 6), torch.empty(4, 6, dtype=torch.int64))),
        X,
    ),
    "an overload": (lambda x: torch.sort(x, stable=True, dim=0, descending=True), X),
}


@pytest.mark.parametrize("name", CALLS)
def test_calls_give_what_eager_gives(name):
    function, x = CALLS[name]
    program = braze.trace(function, x)
    for given in (x, x.flip(1).contiguous()):
        torch.testing.assert_close(program(given), function(given))
    assert "object(" not in program.code("graph")


def test_writes_that_no_schema_tells():
    f = braze.compile(lambda x, mean, var: torch.batch_norm_update_stats(x, mean, var, 0.1))
    for _ in range(3):
        x, theirs = torch.randn(4, 3, 5), (torch.zeros(3), torch.ones(3))
        ours = tuple(each.clone() for each in theirs)
        wanted = torch.batch_norm_update_stats(x, *theirs, 0.1)
        torch.testing.assert_close((*f(x, *ours), *ours), (*wanted, *theirs))
    assert f.counts() == {"captured": 1, "replayed": 2, "native": 0}


def test_a_generator_is_kept_beside_the_graph():
    generator = torch.Generator().manual_seed(7)

    def draw(x):
        return torch.multinomial(x.softmax(1), 3, generator=generator)

    generator.manual_seed(3)
    wanted = [draw(X), draw(X)]
    generator.manual_seed(3)
    program = braze.trace(draw, (X,), check=False)
    generator.manual_seed(3)
    assert [program(X).tolist(), program(X).tolist()] == [w.tolist() for w in wanted]
    assert "object(0)" in program.code("graph")


def test_the_plan_says_what_a_call_is_given():
    program = braze.trace(lambda x: torch.sort(x.exp(), dim=0, descending=True), X)
    plan = program.code("loops")
    assert "call 'aten::sort'(#" in plan and ", 0, true) -> #" in plan


FIRST_CALLS = """
import sys
import processes
import torch
from torch.nn import functional as F
import braze

x, square = torch.randn(4, 6), torch.randn(4, 4)
programs = {
    "topk": lambda: torch.topk(x, 2),
    "sort": lambda: torch.sort(x, stable=True),
    "a matrix and a vector": lambda: x @ x[0],
    "two vectors": lambda: x[0] @ x[1],
    "isin": lambda: torch.isin(x, x[0]),
    "special functions": lambda: (torch.special.i0e(x), torch.igamma(x.abs(), x.abs())),
    "polar": lambda: torch.polar(x, x),
    "distances": lambda: torch.cdist(x, x),
    "determinant": lambda: (torch.linalg.det(square), torch.linalg.inv(square), torch.linalg.solve(square, x)),
    "bilinear": lambda: F.bilinear(x, x, torch.randn(2, 6, 6)),
    "transposed convolution": lambda: F.conv_transpose2d(torch.randn(1, 2, 5, 5), torch.randn(2, 3, 3, 3)),
    "random numbers": lambda: (torch.randn(3), torch.randint(5, (3,)), torch.rand_like(x)),
    "numbers in place": lambda: torch.empty(3).normal_(),
    "samples": lambda: (F.gumbel_softmax(x), torch.poisson(x.abs())),
    "encoder": lambda: encoder(torch.randn(2, 3, 16)),
}
encoder = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True).eval()
with torch.no_grad():
    for name, program in programs.items():
        braze.compile(program)()
        assert "sympy" not in sys.modules, name
"""


def test_first_calls_do_not_import_half_of_python():
    """Where PyTorch's shape functions are written in Python the first of them takes 250 ms."""
    processes.fresh(FIRST_CALLS)
