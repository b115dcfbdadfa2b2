"""What is seen of results beside their values: strides of dimensions of size 1, version counters, signs of zeros;
and what PyTorch's inner operators refuse when they are called by themselves."""

import pytest
import torch
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

import braze

aten = torch.ops.aten


def strided(sizes, strides):
    return torch.arange(1.0, 201.0).div(50).as_strided(sizes, strides)


def seen(function, *arguments):
    """Of each result: sizes, strides, type, version, and elements with the signs of their zeros. Or the error."""
    try:
        results = function(*arguments)
    except Exception as error:
        return type(error), str(error)
    results = results if isinstance(results, tuple) else (results,)
    return [(r.shape, r.stride(), r.dtype, r._version, str(r.tolist()), r.signbit().tolist()) for r in results]


def assert_as_eager(function, *arguments):
    expected = seen(function, *arguments)
    compiled = braze.compile(function)
    for _ in range(2):
        assert seen(compiled, *arguments) == expected


MADE_LIKE = {
    "nan_to_num": torch.nan_to_num,
    "hardtanh": F.hardtanh,
    "relu6": F.relu6,
    "frexp": torch.frexp,
    "prelu": lambda x: F.prelu(x, torch.tensor([0.25])),
    "huber_loss": lambda x: F.huber_loss(x, x + 1, reduction="none"),
    "roll": lambda x: x.roll(1),
    "isinf": torch.isinf,
    "isinf of integers": lambda x: torch.isinf(x.long()),
}
LAYOUTS = [
    ((1, 4), (8, 1)),
    ((4, 1), (1, 7)),
    ((1, 1), (5, 9)),
    ((2, 1, 3), (3, 99, 1)),
    ((1,), (5,)),
    ((0, 1), (7, 7)),
    ((2, 0), (5, 1)),
    ((0, 3), (6, 1)),
    ((3, 4), (4, 1)),
]


@pytest.mark.parametrize("name", MADE_LIKE)
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_strides_that_mean_nothing(name, layout):
    assert_as_eager(MADE_LIKE[name], strided(*layout))


FILLED = {
    "pad_sequence": lambda x: pad_sequence([x, x[:1]]),
    "full": lambda x: aten.full([2], 3.0),
    "zeros": lambda x: aten.zeros([2]),
    "ones": lambda x: aten.ones([2]),
    "eye": lambda x: aten.eye(2),
    "arange": lambda x: aten.arange(3),
    "arange from": lambda x: aten.arange(1, 5),
    "linspace": lambda x: aten.linspace(0.0, 1.0, 3),
    "empty, zeroed": lambda x: aten.empty([2]).zero_(),
    "scalar_tensor": lambda x: aten.scalar_tensor(2.0),
    "full of Python": lambda x: torch.full((2,), 3.0),
    "ones of Python": lambda x: torch.ones(2).add_(1),
    "full_like": lambda x: torch.full_like(x, 2),
    "max_pool1d of one": lambda x: F.max_pool1d(x.view(1, 4), 2),
    "max_pool1d of a batch": lambda x: F.max_pool1d(x.view(1, 1, 4), 2),
}


@pytest.mark.parametrize("name", FILLED)
def test_versions_of_what_is_made_and_then_written(name):
    assert_as_eager(FILLED[name], torch.arange(1.0, 5.0))


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("mode", ["reflection", "replication"])
def test_wrong_pads_are_refused(mode, dims):
    operator = getattr(aten, f"{mode}_pad{dims}d")
    for count in (0, 1, 2 * dims - 1, 2 * dims, 2 * dims + 2):
        for sizes in ([2, 3], [2, 3, 4], [2, 3, 4, 5], [2, 3, 4, 5, 3]):
            assert_as_eager(lambda x, count=count: operator(x, [1] * count), torch.rand(sizes))


REFUSED = {
    "glu_backward of an odd size": lambda: (aten.glu_backward, torch.ones(1), torch.ones(3), 0),
    "glu_backward of another size": lambda: (aten.glu_backward, torch.ones(3), torch.ones(4), 0),
    "too few strides": lambda: (aten._reshape_alias, torch.ones(2, 3), [3, 2], [2]),
    "other strides": lambda: (aten._reshape_alias, torch.ones(2, 3), [3, 2], [1, 3]),
}


@pytest.mark.parametrize("name", REFUSED)
def test_inner_operators_refuse(name):
    operator, *arguments = REFUSED[name]()
    tensors = [one for one in arguments if isinstance(one, torch.Tensor)]
    rest = arguments[len(tensors) :]
    assert_as_eager(lambda *given: operator(*given, *rest), *tensors)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("count", [7, 14, 16, 35, 64])
def test_signs_of_what_softshrink_takes_away(count, dtype):
    x = torch.tensor([-0.25, 0.25, -0.0, 0.0, -0.375] * 13, dtype=dtype)
    assert_as_eager(F.softshrink, x[:count])
    assert_as_eager(F.softshrink, torch.stack([x[:count], x[:count]], 1)[:, 0])


@pytest.mark.parametrize("numbers", [[1.7e308, 1.6e308, 1.5e308], [1.7e308, -1.6e308, 1.5e308], [1.0, 2.0, 4.0]])
@pytest.mark.parametrize("moments", [torch.std_mean, torch.var_mean])
def test_running_means_of_huge_numbers(moments, numbers):
    assert_as_eager(moments, torch.tensor(numbers, dtype=torch.float64))
