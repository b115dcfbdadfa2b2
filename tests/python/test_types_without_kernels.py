"""Types that no kernel computes with (complex, float8, wide unsigned integers): ATen alone has kernels for them."""

import pytest
import torch

import braze

TYPES = [
    torch.complex64,
    torch.complex128,
    torch.complex32,
    torch.float8_e5m2,
    torch.float8_e4m3fn,
    torch.uint16,
    torch.uint32,
    torch.uint64,
]
pytestmark = pytest.mark.filterwarnings("ignore:ComplexHalf support")


def given(dtype, size=4):
    return torch.arange(1.0, size + 1).to(dtype)


def facts(tensor):
    bits = tensor.contiguous().view(torch.uint8).tolist()
    return tensor.dtype, tensor.shape, tensor.stride(), bits


def outcome(function, arguments):
    """Results, arguments afterwards, and which of the results share memory."""
    try:
        results = function(*arguments)
    except (RuntimeError, NotImplementedError) as error:
        return type(error), str(error)
    owners = [tensor.untyped_storage().data_ptr() for tensor in (*arguments, *results)]
    return [facts(t) for t in results], [facts(t) for t in arguments], [owners.index(owner) for owner in owners]


def check(function, make, compiled):
    for arguments in make:
        for _ in range(2):
            expected = outcome(function, [a.clone() for a in arguments])
            assert outcome(compiled, [a.clone() for a in arguments]) == expected


# What is equal is computed once, and each result has memory of its own.
EQUAL = {
    "conversions": lambda x: (x.float().to(x.dtype), x.float().to(x.dtype)),
    "clones": lambda x: (x.clone(), x.clone(), x.clone()),
    "clones of what is computed": lambda x: [
        (y, y.clone(), y.contiguous(), y.clone()) for y in [torch.cat([x, x])]
    ][0],
    "calls": lambda x: (torch.cat([x, x]), torch.cat([x, x]), torch.cat([x, x])[1:]),
    "constants": lambda x: (torch.zeros(3, dtype=x.dtype), torch.zeros(3, dtype=x.dtype)),
    "one that is read": lambda x: (torch.cat([x, x]), torch.cat([x, x]), torch.cat([x, x])[1:].clone()),
    "one that is written": lambda x: [
        (y.copy_(x), torch.stack([x]), torch.stack([x])) for y in [torch.stack([x])[0]]
    ][0],
    "windows": lambda x: (x[1:].clone(), x[1:].clone(), x.view(2, 2).t().clone(), x.view(2, 2).t().clone()),
}


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("name", EQUAL)
def test_equal_results_have_memory_of_their_own(name, dtype):
    check(EQUAL[name], [(given(dtype),)], braze.compile(EQUAL[name]))


def test_equal_complex_results_of_arithmetic():
    def f(x):
        return x * (2 + 1j), (x * (2 + 1j)).real, torch.fft.fft(x), torch.fft.fft(x), torch.complex(x, x)

    check(f, [(torch.arange(4.0),)], braze.compile(f))


def test_inputs_that_are_written_alike():
    def f(x, y):
        z = torch.complex(torch.ones(3), torch.ones(3))
        x.copy_(z)
        y.copy_(x)
        return x.clone(), y.clone(), z, x

    check(f, [(torch.zeros(3, dtype=torch.complex64),) * 2], braze.compile(f))


# No rule knows these sizes.
SIZED = {
    "cat": lambda x: (torch.cat([x, x]),),
    "stack": lambda x: (torch.stack([x, x], -1),),
    "repeat": lambda x: (x.repeat(2), x.flip(0)),
    "sum": lambda x: (x.sum(0, keepdim=True),),
    "windows": lambda x: (x[1:].clone(), x[:2].clone()),
    "conversion": lambda x: (x.to(torch.float32) + 1,) if not x.is_complex() else (x.real + 1,),
    "cat of float32 before": lambda x: (torch.cat([x.cfloat().real] * 2), torch.cat([x, x])),
}


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("name", SIZED)
def test_sizes_that_vary(name, dtype, dynamic):
    sizes = [(given(dtype, size),) for size in (4, 3, 6, 5)]
    check(SIZED[name], sizes, braze.compile(SIZED[name], dynamic=dynamic))
