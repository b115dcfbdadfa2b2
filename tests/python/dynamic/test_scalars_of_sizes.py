"""Sizes as plain numbers: fills, limits and factors. One program for all sizes."""

import pytest
import torch

import braze


def item_set(x):
    y = x.clone()
    y[0] = x.shape[0]
    return y


FORMS = {
    "full": lambda x: torch.full((3,), x.shape[0], dtype=x.dtype),
    "full, of a type of its own": lambda x: torch.full((3,), x.shape[0]),
    "full_like": lambda x: torch.full_like(x, x.shape[0]),
    "new_full": lambda x: x.new_full((2,), x.shape[0]),
    "scalar_tensor": lambda x: torch.scalar_tensor(x.shape[0], dtype=x.dtype) + x,
    "fill_": lambda x: x.clone().fill_(x.shape[0]),
    "an element": item_set,
    "masked elements": lambda x: x.masked_fill(x > 0, x.shape[0]),
    "alpha": lambda x: torch.add(x, x, alpha=x.shape[0]),
    "alpha of sub": lambda x: torch.sub(x, x * 2, alpha=x.shape[0] - 3),
    "alpha of rsub": lambda x: torch.rsub(x, x * 2, alpha=x.shape[0]),
    "clamp": lambda x: (x * 9).clamp(-x.shape[0], x.shape[0]),
    "clamp to nothing": lambda x: (x * 9).clamp(x.shape[0], -x.shape[0]),
    "clamp, by keywords": lambda x: (x * 9).clamp(max=x.shape[0], min=0),
    "clamp of zeros": lambda x: (x * 0).clamp(min=x.shape[0] - x.shape[0]),
    "clamp_min": lambda x: (x * 9).clamp_min(x.shape[0]),
    "clamp_max_": lambda x: (x * 9).clamp_max_(x.shape[0] // 2),
    "addcmul": lambda x: torch.addcmul(x, x, x, value=x.shape[0]),
    "addcdiv": lambda x: torch.addcdiv(x, x, x.abs() + 1, value=x.shape[0]),
    "leaky_relu": lambda x: torch.nn.functional.leaky_relu(x, x.shape[0]),
}
SIZES = (8, 12, 20, 28, 44, 300)
# Those that hold every size: no other size is another program.
WIDE = (torch.float32, torch.float64, torch.bfloat16, torch.int64)
FLOATING = ("addcdiv", "leaky_relu")


def outcome(function, x):
    try:
        return function(x)
    except (RuntimeError, TypeError) as error:
        return str(error).splitlines()[0]


@pytest.mark.parametrize("dtype", [*WIDE, torch.float16, torch.int32, torch.int8, torch.uint8, torch.bool], ids=str)
@pytest.mark.parametrize("form", FORMS)
def test_results_errors_and_counts(form, dtype):
    if dtype is torch.int64 and form in FLOATING:
        pytest.skip("of floating numbers")
    function, compiled = FORMS[form], braze.compile(FORMS[form])
    for n in SIZES:
        x = torch.linspace(-30, 30, n * 3).view(n, 3).to(dtype)
        ours, theirs = outcome(compiled, x), outcome(function, x)
        if isinstance(theirs, str):
            assert ours == theirs
            continue
        # Intermediate results are not rounded to f16 and bf16, and a * b + c is one operation: as without symbols.
        exact = outcome(braze.compile(function, dynamic=False), x)
        torch.testing.assert_close(exact, theirs, rtol=0.02, atol=0.02)
        assert ours.dtype == theirs.dtype and ours.shape == theirs.shape and ours.stride() == theirs.stride()
        if form.startswith("alpha") and dtype in (torch.float16, torch.bfloat16) and n < 44:
            # Few elements of a fixed number round alpha's product, as eager's single elements do.
            torch.testing.assert_close(ours, exact, rtol=0.01, atol=0.01)
        else:
            assert torch.equal(ours, exact)
        if theirs.is_floating_point():
            assert torch.equal(torch.signbit(ours), torch.signbit(theirs))
    if dtype in WIDE:
        assert compiled.counts() == {"captured": 2, "replayed": len(SIZES) - 2, "native": 0}


def test_a_size_that_a_type_cannot_hold_raises_as_in_eager():
    def fill(x, y):
        return y.clone().fill_(x.shape[0])

    compiled, y = braze.compile(fill), torch.zeros(3, dtype=torch.float16)
    for n in (10, 20, 65504, 70000, 30):
        x = torch.zeros(n)
        ours, theirs = outcome(lambda x: compiled(x, y), x), outcome(lambda x: fill(x, y), x)
        assert ours == theirs if isinstance(theirs, str) else torch.equal(ours, theirs)


def test_roots_of_sizes_are_no_powers():
    """Of which kernels of a GPU have none in f64."""

    def attention(q):
        return torch.ops.aten._scaled_dot_product_attention_math(q, q, q)[0]

    compiled = braze.compile(attention, dynamic=True)
    with torch.no_grad():
        for n in (5, 8, 13):
            q = torch.randn(2, 2, n, n + 2)
            torch.testing.assert_close(compiled(q), attention(q))
    assert compiled.counts()["captured"] == 1
    assert "pow" not in compiled.programs()[0].code("traced")
