"""What ATen refuses for the elements that it is given raises as in eager, whether or not the result is used."""

import pytest
import torch

import braze

ones = torch.ones(3, 3)
zeros = torch.zeros(3, 3)
eye = torch.eye(3)
nan = zeros / 0
far = torch.full((3, 3), 70.0)

F = torch.nn.functional

# A call, what it takes, and what it refuses.
CALLS = {
    "inverse": (lambda x: torch.linalg.inv(x), eye, zeros),
    "cholesky": (lambda x: torch.linalg.cholesky(x), eye, -eye),
    "solve": (lambda x: torch.linalg.solve(x, x), eye, zeros),
    "singular values": (lambda x: torch.linalg.svdvals(x), eye, nan),
    "eigenvalues": (lambda x: torch.linalg.eigvalsh(x), eye, nan),
    "rank": (lambda x: torch.linalg.matrix_rank(x), eye, nan),
    "factors": (lambda x: torch.linalg.lu_factor(x), eye, zeros),
    "multinomial": (lambda x: torch.multinomial(x, 1), ones, -ones),
    "poisson": (lambda x: torch.poisson(x), ones, -ones),
    "normal": (lambda x: torch.normal(x, x), ones, -ones),
    "bag of embeddings": (lambda x: F.embedding_bag(x.long(), eye), ones, far),
    "embedding": (lambda x: F.embedding(x.long(), eye), ones, far),
    "index_add": (lambda x: x.index_add(0, x[0].long(), x), ones, far),
    "index_copy": (lambda x: x.index_copy(0, x[0].long(), x), ones, far),
    "index_fill": (lambda x: x.index_fill(0, x[0].long(), 1), ones, far),
    "index_put": (lambda x: x.index_put((x[0].long(),), x[0]), ones, far),
    "index_reduce": (lambda x: x.index_reduce(0, x[0].long(), x, "amax"), ones, far),
    "index_select": (lambda x: x.index_select(0, x[0].long()), ones, far),
    "put": (lambda x: x.put(x.long(), x), ones, far),
    "take": (lambda x: x.take(x.long()), ones, far),
    "gather": (lambda x: x.gather(0, x.long()), ones, far),
    "scatter_reduce": (lambda x: x.scatter_reduce(0, x.long(), x, "amax"), ones, far),
    "one_hot": (lambda x: F.one_hot(x.long(), 3), ones, far),
    "margin of one label": (lambda x: F.multi_margin_loss(x, x[0].long()), ones, far),
    "margins of labels": (lambda x: F.multilabel_margin_loss(x, x.long()), ones, far),
    "cross entropy": (lambda x: F.cross_entropy(x, x[0].long()), ones, far),
    "binary cross entropy": (lambda x: F.binary_cross_entropy(x, x), ones, far),
    "bincount": (lambda x: torch.bincount(x[0].long(), minlength=5), ones, -far),
    "histogram": (lambda x: torch.histc(x), ones, nan),
    "quantile": (lambda x: torch.quantile(x[0], x[1]), ones, far),
    "sorter": (lambda x: torch.searchsorted(x, x, sorter=x.long()), ones, far),
    "unpooling": (lambda x: F.max_unpool1d(x, x.long(), 2), eye, far),
    "repeats": (lambda x: x.repeat_interleave(x[0].long(), 0, output_size=3), ones, ones * 2),
    "median of nothing": (lambda x: x.median(1), ones, ones[:, :0]),
    "what is as large as what is not": (lambda x: (torch.histc(x), torch.linalg.eigvalsh(x)), eye, nan),
}


# What algebra makes of a value that nobody needs then: f(value, x).
UNNEEDED = {
    "times zero": lambda value, x: value * 0 + x,
    "less itself": lambda value, x: value - value + x,
    "either way": lambda value, x: torch.where(value > 1, x, x),
    "not chosen": lambda value, x: torch.where(torch.tensor(True), x, value),
    "alpha of zero": lambda value, x: torch.add(x, value, alpha=0),
    "filled by a mask that is known": lambda value, x: value.masked_fill(torch.tensor(True), 3) + x,
    "no part of it": lambda value, x: torch.cat([value[:0], x]),
    "overwritten": lambda value, x: torch.slice_scatter(value, x, 0),
    "to the power of zero": lambda value, x: value**0 + x,
    "one row": lambda value, x: value[:1] + x,
}


def outcome(function, *inputs):
    try:
        return function(*inputs)
    except Exception as error:
        return type(error)


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("name", CALLS)
def test_raises_as_eager_though_nobody_uses_it(name, dynamic):
    call, taken, refused = CALLS[name]

    def function(x):
        call(x)
        return x + 1

    compiled = braze.compile(function, dynamic=dynamic)
    assert isinstance(outcome(function, refused), type)
    for x in (taken, taken, refused, taken, refused):
        got, wanted = outcome(compiled, x), outcome(function, x)
        if isinstance(wanted, type):
            assert got is wanted
        else:
            torch.testing.assert_close(got, wanted)


@pytest.mark.parametrize("name", ["inverse", "solve", "singular values", "index_add", "margins of labels"])
def test_raises_as_eager_where_gradients_are_wanted(name):
    call, taken, refused = CALLS[name]

    def function(x):
        call(x)
        return (x * x).sum()

    compiled = braze.compile(function)
    for x in (taken, taken, refused, taken, refused):
        gradients = []
        for each in (function, compiled):
            leaf = x.clone().requires_grad_()
            got = outcome(each, leaf)
            if not isinstance(got, type):
                got.backward()
                got = leaf.grad
            gradients.append(got)
        if isinstance(gradients[0], type):
            assert gradients[1] is gradients[0]
        else:
            torch.testing.assert_close(gradients[1], gradients[0])


# Where its integers are divided, a zero raises; where they are places, 70 does.
VALUES = {
    "quotient": (lambda x: x.long() // x.long(), ones, zeros),
    "remainder": (lambda x: x.long() % x.long(), ones, zeros),
    "one_hot": (lambda x: F.one_hot(x[0].long(), 3), ones, far),
    "sorter": (lambda x: torch.searchsorted(x, x, sorter=x.long()), ones, far),
    "gather": (lambda x: x.gather(0, x.long()).long(), ones, far),
    "cross entropy": (lambda x: F.cross_entropy(x, x[0].long(), reduction="none"), ones, far),
    "inverse": (lambda x: torch.linalg.inv(x), eye, zeros),
}


@pytest.mark.parametrize("way", UNNEEDED)
@pytest.mark.parametrize("name", VALUES)
def test_raises_as_eager_though_algebra_needs_it_not(name, way):
    call, taken, refused = VALUES[name]
    compiled = braze.compile(function := lambda x, y: UNNEEDED[way](call(x), y))
    other = torch.full(call(taken).shape, 5, dtype=call(taken).dtype)
    for x in (taken, taken, refused, taken, refused):
        got, wanted = outcome(compiled, x, other), outcome(function, x, other)
        if isinstance(wanted, type):
            assert got is wanted
        else:
            torch.testing.assert_close(got, wanted)
    assert outcome(function, refused, other) is outcome(call, refused)


BOOL_PRODUCTS = {
    "of matrices": lambda x: x[0] @ x[0],
    "of batches": lambda x: x @ x,
    "added to a matrix": lambda x: torch.addmm(x[0], x[0], x[0]),
    "added to a batch": lambda x: torch.baddbmm(x, x, x),
    "of a layer": lambda x: F.linear(x, x[0]),
    "by indices": lambda x: torch.einsum("bij,bkj->bik", x, x),
}


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("name", BOOL_PRODUCTS)
def test_bools_have_no_products(name, dynamic):
    product = BOOL_PRODUCTS[name]

    def unused(x):
        product(x)
        return x + 1

    compiled = braze.compile(unused, dynamic=dynamic)
    for size in (3, 3, 4):
        x = torch.ones(2, size, size, dtype=torch.bool)
        with pytest.raises(NotImplementedError) as expected:
            unused(x)
        with pytest.raises(NotImplementedError) as raised:
            compiled(x)
        assert str(raised.value) == str(expected.value)
        assert compiled(x.float()).equal(x.float() + 1)
