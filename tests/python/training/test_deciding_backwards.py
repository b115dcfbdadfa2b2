"""Backwards in which PyTorch looks at values: where the largest element is, whether a factor is zero."""

import pytest
import torch

import braze

FUNCTIONS = {
    "max": torch.max,
    "min": torch.min,
    "median": torch.median,
    "nanmedian": torch.nanmedian,
    "prod": torch.prod,
    "prod along": lambda x: x.prod(1),
    "prod kept": lambda x: x.prod(0, keepdim=True) * x,
    "cumprod": lambda x: x.cumprod(1),
    "cumprod down": lambda x: x.cumprod(0),
    "max of a product": lambda x: (x * x.sum()).max() * x.min(),
}


def inputs():
    torch.manual_seed(0)
    plain = torch.randn(3, 4)
    ties = plain.clone()
    ties[0, 1] = ties[2, 3] = plain.max()
    ties[1, 1] = ties[2, 2] = plain.min()
    one_zero, zeros, nan, infinite = (plain.clone() for _ in range(4))
    one_zero[1, 2] = 0
    zeros[0, 1] = zeros[2, 1] = zeros[2, 2] = 0
    nan[0, 0] = nan[1, 1] = float("nan")
    infinite[2, 0] = float("inf")
    return [plain, ties, one_zero, zeros, nan, infinite, torch.zeros(3, 4), plain[:1], plain.T.contiguous().T]


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_as_eager(name, dynamic):
    function = FUNCTIONS[name]
    compiled = braze.compile(function, dynamic=dynamic)
    for value in inputs() * 2:
        for scale in (1.0, float("inf")):
            found = []
            for f in (function, compiled):
                x = value.clone().requires_grad_()
                y = f(x)
                y.backward(torch.full_like(y, scale))
                found.append((y.detach(), x.grad))
            for theirs, ours in zip(*found, strict=True):
                torch.testing.assert_close(ours, theirs, equal_nan=True, rtol=1e-4, atol=1e-5)
    assert compiled.counts()["native"] == 0, compiled.reasons()


@pytest.mark.parametrize("name", ["max", "median", "prod"])
def test_of_one_element(name):
    function = FUNCTIONS[name]
    compiled = braze.compile(function)
    for _ in range(3):
        x = torch.tensor(3.0, requires_grad=True)
        compiled(x).backward()
        assert x.grad.item() == 1


def put(x, value, mask, *before):
    written = x * 1
    written[(*before, mask)] = value
    return written


# What is written where a mask of some of the dimensions holds: of (x, value, mask), of how many dimensions of x the
# mask is, behind how many, and the form of the value for what it selects of x.
MASKED = {
    "number": (put, 2, 0, lambda n, rest: ()),
    "number for rows": (put, 1, 0, lambda n, rest: ()),
    "one of one": (put, 2, 0, lambda n, rest: (1,)),
    "row": (put, 1, 0, lambda n, rest: rest),
    "row of one": (put, 1, 0, lambda n, rest: (1, *rest)),
    "rows": (put, 1, 0, lambda n, rest: (n, *rest)),
    "column": (put, 1, 0, lambda n, rest: (n, *(1 for _ in rest))),
    "rows of planes": (put, 2, 0, lambda n, rest: (n, *rest)),
    "columns": (lambda x, v, m: put(x, v, m, slice(None)), 1, 1, lambda n, rest: (3, n, *rest)),
    "columns of one": (lambda x, v, m: put(x, v, m, slice(None)), 1, 1, lambda n, rest: (3, 1, *rest)),
    "added rows": (lambda x, v, m: x.index_put((m,), v, accumulate=True), 1, 0, lambda n, rest: (n, *rest)),
    "added row": (lambda x, v, m: x.index_put((m,), v, accumulate=True), 1, 0, lambda n, rest: rest),
    "another place": (lambda x, v, m: torch.index_put(x, (m,), v), 1, 0, lambda n, rest: (n, *rest)),
    "filled": (lambda x, v, m: x.masked_fill(m[:, None, None], v), 1, 0, lambda n, rest: ()),
    "filled in place": (lambda x, v, m: (x * 1).masked_fill_(m[..., None], v), 2, 0, lambda n, rest: ()),
    "filled by numbers": (lambda x, v, m: x.index_fill(0, m.long(), v), 1, 0, lambda n, rest: ()),
    "filled columns": (lambda x, v, m: x.index_fill(-2, m.long(), v), 1, 1, lambda n, rest: ()),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("dynamic", [None, True, False])
@pytest.mark.parametrize("name", MASKED)
def test_masked_writes(name, dynamic, dtype):
    function, rank, first, form = MASKED[name]

    def outcome(call, mask, wanted, infinite):
        torch.manual_seed(1)
        x = torch.randn(3, 4, 5).to(dtype)
        sizes = form(int(mask.sum()), x.shape[first + rank :])
        value = torch.randn(sizes).to(dtype)
        given = [x.requires_grad_("x" in wanted), value.requires_grad_("v" in wanted)]
        y = call(*given, mask)
        tangent = torch.randn(y.shape).to(dtype)
        if infinite:
            tangent[0, 0] = float("inf")
        y.backward(tangent)
        return [y.detach(), *(one.grad for one in given)]

    for wanted in ("xv", "v", "x"):
        compiled = braze.compile(function, dynamic=dynamic)
        for chosen in (0.5, 0.5, 0.0, 1.0, 0.3, 0.7):
            torch.manual_seed(int(chosen * 10))
            mask = torch.rand((3, 4, 5)[first : first + rank]) < chosen
            for infinite in (False, True):
                theirs = outcome(function, mask, wanted, infinite)
                for ours, other in zip(outcome(compiled, mask, wanted, infinite), theirs, strict=True):
                    tolerance = {"rtol": 2e-2, "atol": 6e-2} if dtype == torch.bfloat16 else {}
                    torch.testing.assert_close(ours, other, equal_nan=True, **tolerance)
                    assert other is None or ours.stride() == other.stride()
        assert compiled.counts()["native"] == 0, compiled.reasons()


@pytest.mark.parametrize("name", MASKED)
def test_masked_writes_differentiated_twice(name):
    function, rank, first, form = MASKED[name]
    compiled = braze.compile(lambda *given: function(*given).sin())
    mask = torch.tensor([[True, False, True, True], [False] * 4, [True, False, False, True]])
    mask = mask if rank == 2 else mask[:, 0] if first == 0 else mask[0]
    for _ in range(2):
        found = []
        for call in (compiled, lambda *given: function(*given).sin()):
            torch.manual_seed(2)
            x = torch.randn(3, 4, 5, dtype=torch.float64, requires_grad=True)
            sizes = form(int(mask.sum()), x.shape[first + rank :])
            value = torch.randn(sizes, dtype=torch.float64, requires_grad=True)
            of_x, of_value = torch.autograd.grad(call(x, value, mask).square().sum(), (x, value), create_graph=True)
            found.append(torch.autograd.grad(of_x.square().sum() + of_value.square().sum(), (x, value)))
        torch.testing.assert_close(*found)


@pytest.mark.parametrize("dynamic", [None, True])
def test_what_is_read_and_written_where_a_mask_holds(dynamic):
    """Only the read ends a graph."""

    def function(x, weight):
        h = x @ weight
        h[h < 0] = h[h < 0] * 0.1
        h[h[:, 0] > 0.3] += weight[0]
        return torch.sin(h)

    compiled = braze.compile(function, dynamic=dynamic)
    for n in (3, 4, 7, 5, 4):
        found = []
        for call in (compiled, function):
            torch.manual_seed(n)
            x, weight = torch.randn(n, 4, requires_grad=True), torch.randn(4, 6, requires_grad=True)
            call(x, weight).sum().backward()
            found.append((x.grad, weight.grad))
        torch.testing.assert_close(*found)
    assert compiled.operators()["native"] <= 3 * 5  # The reads alone.
