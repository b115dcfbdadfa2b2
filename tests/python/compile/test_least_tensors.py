"""min() and max() of tensors of one number: computed where the next instruction only computes with the result."""

import pytest
import torch
from compiling import compiled, same
from torch.utils._pytree import tree_map

from braze._load import C

pytestmark = pytest.mark.skipif(not hasattr(C, "CompiledFunction"), reason="no evaluator for this Python")


@pytest.fixture(autouse=True)
def no_grad():
    with torch.no_grad():
        yield


def dynamic_time_warping(x, y):
    cost = (x[:, None] - y[None]).abs()
    n, m = cost.shape
    best = torch.full((n + 1, m + 1), float("inf"))
    best[0, 0] = 0
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            best[i, j] = cost[i - 1, j - 1] + min(best[i - 1, j], best[i, j - 1], best[i - 1, j - 1])
    return best[n, m], best


def edit_distance(x, y):
    row = [x[0] * 0 + j for j in range(4)]
    for i in range(3):
        following = [row[0] + 1]
        for j in range(3):
            following.append(1 + min(row[j + 1], following[j], row[j] + (x[i] != y[j]) - 1))
        row = following
    return row


def largest_first(x, y):
    return max(x[0], y[0], x[1]) * 2, 3 - max(x[0], y[0]), (x + y) / max(x[2], y[2]) + 1


def one_that_is_written_later(x, y):
    z = x * 1
    total = z.sum() + max(z[0], z[1], y[0])
    z[0] = total
    return total - min(z[0], z[1]), z


WHOLE = [dynamic_time_warping, edit_distance, largest_first, one_that_is_written_later]


def arguments(number, special=False):
    generator = torch.Generator().manual_seed(number)
    x, y = torch.randn(2, 4, generator=generator)
    if special:
        x[torch.randint(0, 4, (2,), generator=generator)] = float("nan") if number % 2 else -0.0
        y[torch.randint(0, 4, (2,), generator=generator)] = float("inf") if number % 3 else 0.0
    return x, y


@pytest.mark.parametrize("special", [False, True], ids=["plain", "special"])
@pytest.mark.parametrize("program", WHOLE, ids=lambda program: program.__name__)
def test_programs_are_one_graph(program, special):
    for number in range(10):
        program(*arguments(number))
    fast = compiled(program)
    for number in range(5):
        both = fast(*arguments(number, special)), program(*arguments(number, special))
        same(*tree_map(lambda tensor: tensor.nan_to_num(nan=1234.0), both))
    assert not [one["break"] for one in fast.report()["segments"] if one["break"]]
    assert fast.counts() == {"captured": 1, "replayed": 4, "native": 0}


class Adding:
    def __radd__(self, other):
        self.other = other
        return other

    __add__ = __radd__


class Own(torch.Tensor):
    pass


def handed_on(x, y):
    least = min(x[0], y[0])
    least += 1
    return x, y


def returned(x, y):
    return max(x[:1].view(()), y[0]), x, y


def written_in_place(x, y):
    z = x * 1
    try:
        z += min(z[1], y[2])  # An operator in place refuses a view of what it writes.
    except RuntimeError:
        return x * 3
    return z


def kept_by_an_operator(x, y):
    a, b, adding = x[0] * 1, y[0] * 1, Adding()
    least = adding + min(a, b)
    return least is a, least is b, adding.other is least


def of_a_class(x, y):
    return x[0] + max(x.as_subclass(Own)[0], y[0]), type(y[0] - max(x.as_subclass(Own)[1], y[1]))


def of_two_types(x, y):
    return x.double().sum() * min(x[0].double(), y[0]), (y.sum() + max(x[1].int(), y[1])).dtype


def beside_a_number(x, y):
    return x.sum() + max(x[0], 0.25), y.sum() - min(1, y[1])


def by_a_key(x, y):
    return x.sum() + min(x[0], y[0], key=lambda one: -one)


def of_several_numbers(x, y):
    try:
        return x + max(x[:2], y[:2])
    except RuntimeError:
        return y * 2


OTHERS = [
    handed_on,
    returned,
    written_in_place,
    kept_by_an_operator,
    of_a_class,
    of_two_types,
    beside_a_number,
    by_a_key,
    of_several_numbers,
]


@pytest.mark.parametrize("program", OTHERS, ids=lambda program: program.__name__)
def test_what_shows_which_object_it_is_runs_as_ever(program):
    for number in range(10):
        program(*arguments(number))
    fast = compiled(program)
    for number in range(6):
        ours, theirs = arguments(number), arguments(number)
        same((fast(*ours), ours), (program(*theirs), theirs))


def test_with_gradients():
    def program(x, y):
        return (x * y).sum() * max(x[0], y[1]) + y.sum()

    fast = compiled(program)
    for number in range(4):
        ours, theirs = ([one.requires_grad_() for one in arguments(number)] for _ in range(2))
        with torch.enable_grad():
            fast(*ours).backward()
            program(*theirs).backward()
        same([one.grad for one in ours], [one.grad for one in theirs])
