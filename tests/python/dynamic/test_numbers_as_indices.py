"""Numbers that vary among the indices of a tensor: one program for all of them, wherever the items beside them
say which dimension they are about."""

import pytest
import torch

import braze
from braze._load import C

pytestmark = [
    pytest.mark.skipif(not hasattr(C, "CompiledFunction"), reason="no evaluator for this Python"),
    pytest.mark.usefixtures("no_grad"),
]

ROWS = torch.tensor([2, 0, 1])
INDICES = {
    "the last": lambda i: (..., i),
    "the last, negative": lambda i: (..., -i),
    "one before the last": lambda i: (..., i, slice(1, 3)),
    "one before a number": lambda i: (..., i, 2),
    "two at the end": lambda i: (..., i, i + 1),
    "first and last": lambda i: (i, ..., i),
    "behind an ellipsis for nothing": lambda i: (slice(None), slice(None), ..., i),
    "behind an ellipsis, before a new dimension": lambda i: (..., i, None),
    "behind a new dimension": lambda i: (None, i),
    "between new dimensions": lambda i: (slice(None), None, i, None, 1),
    "behind a truth value": lambda i: (True, i),
    "before a truth value": lambda i: (..., i, True),
    "rows, an ellipsis": lambda i: (ROWS, ..., i),
    "rows, an ellipsis and slices": lambda i: (ROWS, ..., i, slice(1, None)),
    "before rows": lambda i: (i, ROWS),
}
# Which dimension these are about depends on the tensor before them.
UNCLEAR = {
    "behind rows": lambda i: (ROWS, i),
    "between rows": lambda i: (ROWS, i, ROWS),
    "behind a mask": lambda i: (torch.tensor([True, False, True] * 3), i),
    "between ellipsis and rows": lambda i: (..., i, ROWS),
}


def read(x, i, index):
    return x[index(i)] + 1, x.data[index(i)] * 2


def write(x, i, index):
    x = x.clone()
    x[index(i)] = 7
    x.data[index(i - 1)] = x[index(i)].cos()
    return x


def same(ours, theirs):
    for one, other in zip(ours, theirs, strict=True):
        assert one.stride() == other.stride()
        assert torch.equal(one, other)


def called_with_numbers(function, index):
    """Each call beside eager's. Returns the compiled function."""
    compiled = braze.compile(function)
    for number in (4, 3, 5, 6, 7, 2):
        x = torch.randn(9, 9, 9)
        same(compiled(x, number, index), function(x, number, index))
    return compiled


@pytest.mark.parametrize("index", INDICES)
@pytest.mark.parametrize("function", [read, write])
def test_one_program_for_all_numbers(index, function):
    compiled = called_with_numbers(function, INDICES[index])
    assert compiled.counts() == {"captured": 2, "replayed": 4, "native": 0}


@pytest.mark.parametrize("index", UNCLEAR)
@pytest.mark.parametrize("function", [read, write])
def test_what_the_items_do_not_tell(index, function):
    called_with_numbers(function, UNCLEAR[index])


@pytest.mark.parametrize(
    "index",
    [
        lambda i: (..., i, slice(None), slice(None)),
        lambda i: (slice(None), slice(None), ..., i),
        lambda i: (..., i, ..., 0),
        lambda i: (..., i * 5),
        lambda i: (..., -5 * i, None),
    ],
)
def test_words_of_errors(index):
    def function(x, i):
        try:
            return x[index(i)] + 1
        except (IndexError, RuntimeError) as error:
            return str(error)

    compiled = braze.compile(function)
    for number in (1, 2, 3, 4, 5):
        x = torch.randn(6, 6)
        ours, theirs = compiled(x, number), function(x, number)
        assert ours == theirs if isinstance(theirs, str) else torch.equal(ours, theirs)


def test_a_loop_that_fills_the_last_dimension():
    def function(k, v, n):
        for i in range(n):
            k.data[..., i + 1] = v * k[..., i]
            if v.sum() > 1e9:  # A graph ends here.
                break
        return k

    compiled = braze.compile(function)
    for number in (7, 8):
        k, v = torch.ones(4, 2, 9), torch.rand(4, 2)
        assert torch.equal(compiled(k.clone(), v, number), function(k.clone(), v, number))
    # The first round, that with 1 in it, all others.
    assert sum(segment["op_count"] > 0 for segment in compiled.report()["segments"]) <= 4


@pytest.mark.parametrize(
    "part",
    [
        lambda w, i: w[i],
        lambda w, i: w[i : i + 1][0],
        lambda w, i: w.narrow(0, i, 1).squeeze(0).t(),
        lambda w, i: w[:, i].clone(),
    ],
)
def test_the_first_round_of_a_loop_is_like_the_others(part):
    def function(w, order):
        total = torch.zeros(6)
        for i in order:
            print(end="")
            total = total + part(w, i) * 2
        return total

    compiled = braze.compile(function)
    for order in ([1, 2, 3, 4], [2, 5, 0, 3], [3, 1, 0, 2]):
        w = torch.randn(6, 6)
        torch.testing.assert_close(compiled(w, order), function(w, order))
    guards = [guard for segment in compiled.report()["segments"] for guard in segment["guards"]]
    assert any("i >= 0" in guard for guard in guards)
    assert not [guard for guard in guards if "i == 0" in guard or "i != 0" in guard]


AT_A_PLACE = {
    "isin": lambda part, e: torch.isin(part, e),
    "isin, inverted": lambda part, e: torch.isin(part, e, invert=True).any(-1),
    "bucketize": lambda part, e: torch.bucketize(part, e.sort()[0]),
    "kthvalue": lambda part, e: torch.kthvalue(part, 1, -1)[0],
    "renorm": lambda part, e: torch.renorm(part, 2, 0, 1.0),
    "cdist": lambda part, e: torch.cdist(part, part),
    "mode": lambda part, e: torch.mode(part, -1)[0],
    "histc": lambda part, e: torch.histc(part, 4, -2, 2),
}


@pytest.mark.parametrize("place", ["at the end", "from the start", "up to it"])
@pytest.mark.parametrize("name", AT_A_PLACE)
def test_operators_of_a_part_of_a_buffer(name, place):
    """Sizes that no operand has stand between two bounds: there are few others to ask the operator for."""
    operator = AT_A_PLACE[name]
    cut = {
        "at the end": lambda x, n: x[:, : n + 1][:, -1:],
        "from the start": lambda x, n: x[:, n:],
        "up to it": lambda x, n: x[:, :n],
    }[place]

    def function(x, e, n):
        return operator(cut(x, n), e)

    compiled = braze.compile(function)
    for n in (5, 6, 7, 3, 2, 4, 6):
        x, e = torch.randn(4, 9), torch.randn(3)
        e[0] = x[1, n]
        torch.testing.assert_close(compiled(x, e, n), function(x, e, n), equal_nan=True)
    assert compiled.counts()["captured"] == 2
