"""Arguments of library calls, as plain values in the graph and back: every kind that ATen's schemas have."""

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
