"""What raises in eager raises the same exception in compiled functions; what warns, warns at every call."""

import warnings

import opinfo_sweep
import pytest
import refusals
import torch
from torch.nn import functional as F

import braze

PARTS = 4
KNOWN = ("stft torch.bool", "gather error 6")  # stft's own check comes first; overlapping out=


@pytest.fixture(scope="module")
def operators():
    return opinfo_sweep.operators()


@pytest.mark.parametrize("part", range(PARTS))
def test_refused_calls(operators, part):
    found = [line for op in operators[part::PARTS] for line in refusals.differences(op)]
    assert not [line for line in found if not line.startswith(KNOWN)], "\n".join(found)


def outcome(fn, x):
    try:
        return fn(x.clone()).tolist()
    except Exception as error:
        return type(error).__name__, str(error)


NUMBERS = [(torch.int8, 1000), (torch.int8, 1e10), (torch.uint8, -1), (torch.float16, 1e6), (torch.int8, 2**40),
           (torch.float32, 1e300), (torch.bfloat16, 1e39), (torch.int64, 3)]  # fmt: skip
WITH_NUMBER = {
    "fill_": lambda x, v: x.clone().fill_(v),
    "masked_fill": lambda x, v: x.masked_fill(x > 1, v),
    "masked_fill by an element": lambda x, v: x.masked_fill(x > 1, torch.tensor(v)),
    "full": lambda x, v: torch.full((2,), v, dtype=x.dtype),
    "full_like": torch.full_like,
    "new_full": lambda x, v: x.new_full((2,), v),
    "index_fill": lambda x, v: x.index_fill(0, torch.tensor([1]), v),
    "clamp": lambda x, v: x.clamp(-v, v),
    "clamp max": lambda x, v: x.clamp(max=v),
    "add": lambda x, v: x + v,
    "add alpha": lambda x, v: torch.add(x, x, alpha=v),
    "sub alpha": lambda x, v: torch.sub(x, x, alpha=v),
    "addcmul": lambda x, v: torch.addcmul(x, x, x, value=v),
    "scatter": lambda x, v: x.scatter(0, torch.tensor([1]), v),
    "pad": lambda x, v: F.pad(x, (1, 1), value=v),
    "threshold": lambda x, v: F.threshold(x, 0.0, v),
    "hardtanh": lambda x, v: F.hardtanh(x, -v, v),
    "hardshrink": F.hardshrink,
    "fill_diagonal_": lambda x, v: x.clone().view(2, 2).fill_diagonal_(v),
    "pow of a number": lambda x, v: torch.pow(v, x),
    "remainder of a number": lambda x, v: torch.remainder(v, x + 5),
    "where": lambda x, v: torch.where(x > 1, x, v),
    "==": lambda x, v: x == v,
}


@pytest.mark.parametrize("name", WITH_NUMBER)
@pytest.mark.parametrize(("dtype", "number"), NUMBERS, ids=str)
def test_numbers_beyond_the_type(name, dtype, number):
    fn, x = WITH_NUMBER[name], torch.arange(4).to(dtype)
    compiled = braze.compile(lambda x: fn(x, number))
    expected = outcome(lambda x: fn(x, number), x)
    assert str(outcome(compiled, x)) == str(expected)
    assert str(outcome(compiled, x)) == str(expected)


WARNING = {
    "std of one": lambda x: x[:1].std(),
    "var of rows of one": lambda x: x[:, None].var(1),
    "var_mean": lambda x: torch.var_mean(x[:1])[0],
    "std with a correction": lambda x: torch.std(x, correction=4),
}


@pytest.mark.parametrize("name", WARNING)
def test_warnings_of_operators(name):
    compiled = braze.compile(WARNING[name])

    def told(fn):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            fn(torch.arange(4.0))
        return [(w.category, str(w.message)) for w in caught]

    expected = told(WARNING[name])
    assert expected
    for _ in range(3):
        assert told(compiled) == expected


def test_a_warning_made_an_exception():
    compiled = braze.compile(lambda x: x[:1].std())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            with pytest.raises(UserWarning, match="degrees of freedom"):
                compiled(torch.arange(4.0))


@pytest.mark.parametrize("mode", ["floor", "trunc"])
def test_quotients_rounded_at_every_step(mode):
    x, y = (
        torch.tensor([131.0, 32.25, 139.0, 129.0]).bfloat16(),
        torch.tensor([-1.117, -0.206, 19.875, 3.92]).bfloat16(),
    )
    fn = lambda x, y: (torch.div(x, y, rounding_mode=mode), torch.sinc(x))  # noqa: E731
    got = braze.compile(fn, options={"emulate_precision_casts": True})(x, y)
    assert [t.tolist() for t in got] == [t.tolist() for t in fn(x, y)]


ONES = torch.ones(1, 3, 4, 4)

# What eager refuses for how large something is, or for the types that come together.
BY_SIZES = {
    "reflected from no channels": lambda: F.pad(torch.ones(2, 0, 4), (1, 1), mode="reflect"),
    "replicated from no rows": lambda: F.pad(torch.ones(0, 3), (1, 1), mode="replicate"),
    "reflected planes of none": lambda: F.pad(torch.ones(2, 0, 4, 4), (1, 1, 0, 1), mode="reflect"),
    "folded from no channels": lambda: F.fold(torch.ones(1, 0, 1), (1, 1), 1),
    "softmax of an element along 1": lambda: torch.tensor(3.0).softmax(1),
    "log_softmax of an element along -2": lambda: torch.tensor(3.0).log_softmax(-2),
    "cross product of elements": lambda: torch.linalg.cross(torch.tensor(1.0), torch.tensor(2.0)),
    "cross product of elements along -1": lambda: torch.linalg.cross(torch.tensor(1.0), torch.tensor(2.0), dim=-1),
    "adaptive average to one size": lambda: torch._C._nn.adaptive_avg_pool2d(ONES, [2]),
    "adaptive maximum to one size": lambda: torch._C._nn.adaptive_max_pool2d(ONES, [2]),
    "addcdiv of integers": lambda: torch.addcdiv(ONES, ONES.int(), ONES.long()),
    "addcdiv of truths": lambda: torch.addcdiv(ONES, ONES > 0, ONES.long()),
    "scattered nowhere along no dimension": lambda: ONES.scatter(
        5, torch.ones(0, 0, 0, 0).long(), ONES, reduce="add"
    ),
    "scattered nowhere in no way": lambda: ONES.scatter(0, torch.ones(0, 0, 0, 0).long(), 1.0, reduce="mean"),
    "squeezed twice": lambda: ONES.squeeze((0, -4)),
    "soft margins of one and many": lambda: F.soft_margin_loss(torch.ones(1), torch.ones(3, 1)),
    "huber loss of integers": lambda: F.huber_loss(ONES.int(), ONES),
    "a range that ends just below its start": lambda: torch.arange(-0.5),
    "a range of a step the wrong way": lambda: torch.arange(1, 0.5, 1),
}


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("name", BY_SIZES)
def test_refused_for_sizes_and_types(name, dynamic):
    compiled = braze.compile(lambda x: x + BY_SIZES[name](), dynamic=dynamic)
    expected = outcome(lambda x: BY_SIZES[name](), ONES)
    assert isinstance(expected, tuple)
    assert [outcome(compiled, ONES) for _ in range(3)] == [expected] * 3


def test_out_of_another_size_warns_as_eager():
    """Also where PyTorch tells shapes by functions in Python, which warn on their own."""
    calls = {
        "matmul": lambda out: torch.matmul(torch.ones(2, 3), torch.ones(3), out=out),
        "eq": lambda out: torch.eq(torch.ones(4), torch.ones(4), out=out),
        "full": lambda out: torch.full((5,), 2.0, out=out),
        "zeros": lambda out: torch.zeros((2, 2), out=out),
        "linspace": lambda out: torch.linspace(0, 1, 5, out=out),
        "arange": lambda out: torch.arange(5.0, out=out),
        "of the right size": lambda out: torch.full((3,), 2.0, out=out),
    }
    for name, call in calls.items():
        told = []
        for function in (call, braze.compile(call)):
            for _ in range(3):
                with warnings.catch_warnings(record=True) as caught:
                    warnings.simplefilter("always")
                    result = function(torch.empty(3))
                told.append((result.tolist(), [str(one.message) for one in caught]))
        assert told[:3] == told[3:], name


NOT_DETERMINISTIC = {
    "max_unpool1d": lambda x: F.max_unpool1d(*F.max_pool1d(x, 2, return_indices=True), 2),
    "max_unpool2d": lambda x: F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2),
    "max_unpool3d": lambda x: F.max_unpool3d(*F.max_pool3d(x[None], 2, return_indices=True), 2),
    "put_": lambda x: x.clone().put_(torch.tensor([0, 1, 0]), torch.ones(3)),
}


@pytest.mark.parametrize("name", NOT_DETERMINISTIC)
def test_what_deterministic_algorithms_refuse(name):
    function, x = NOT_DETERMINISTIC[name], torch.rand(2, 4, 4)
    compiled = braze.compile(function)
    torch.testing.assert_close(compiled(x), function(x))
    torch.use_deterministic_algorithms(True)
    try:
        with pytest.raises(RuntimeError) as expected:
            function(x)
        for _ in range(3):
            with pytest.raises(RuntimeError) as raised:
                compiled(x)
            assert str(raised.value) == str(expected.value)
    finally:
        torch.use_deterministic_algorithms(False)
    torch.testing.assert_close(compiled(x), function(x))
