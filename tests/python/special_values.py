"""Every elementwise operator on values where formulas fail: zeros of both signs, infinities, NaN, denormals, the
ends of the range, halves. Compared bit for bit but for rounding: also signs of zeros."""

import itertools
import math
from collections.abc import Callable, Iterator

import torch
from torch.nn import functional as F

DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16,
          torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool)  # fmt: skip
_WIDER = {torch.float32: torch.float64, torch.float16: torch.float64, torch.bfloat16: torch.float64}

EXPONENTS = (0, 1, 2, 3, 0.5, -0.5, -1, -2, 1.5, 7, math.inf, -math.inf, math.nan)
UNARY: dict[str, Callable] = {
    **{name: getattr(torch, name) for name in (
        "abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "bitwise_not", "ceil", "cos", "cosh", "deg2rad",
        "digamma", "erf", "erfc", "erfinv", "exp", "exp2", "expm1", "floor", "frac", "i0", "isfinite", "isinf",
        "isnan", "isneginf", "isposinf", "lgamma", "log", "log10", "log1p", "log2", "logical_not", "logit",
        "nan_to_num", "neg", "positive", "rad2deg", "reciprocal", "relu", "round", "rsqrt", "sgn",
        "sigmoid", "sign",
        "signbit", "sin", "sinc", "sinh", "sqrt", "square", "tan", "tanh", "trunc", "angle", "frexp")},
    **{f"special.{name}": getattr(torch.special, name) for name in (
        "entr", "erfcx", "i0e", "i1", "i1e", "log_ndtr", "ndtr", "ndtri", "expit", "bessel_j0", "psi")},
    **{f"F.{name}": getattr(F, name) for name in (
        "gelu", "silu", "mish", "elu", "selu", "celu", "softplus", "logsigmoid", "hardtanh", "hardswish",
        "hardsigmoid", "hardshrink", "softshrink", "tanhshrink", "relu6", "leaky_relu", "softsign")},
    "gelu tanh": lambda x: F.gelu(x, approximate="tanh"),
    "threshold": lambda x: F.threshold(x, 0.5, 7),
    "round 2": lambda x: torch.round(x, decimals=2),
    "clamp": lambda x: x.clamp(-1, 2),
    "clamp 0": lambda x: x.clamp(0, 2),
    "clamp -0": lambda x: x.clamp(-1, -0.0),
    "clamp min": lambda x: x.clamp(min=0),
    "clamp max": lambda x: x.clamp(max=-0.0),
    "hardtanh 0": lambda x: F.hardtanh(x, 0, 2),
    "clamp nan": lambda x: x.clamp(max=math.nan),
    "nan_to_num 3": lambda x: x.nan_to_num(1.0, 2.0, 3.0),
    "% 2": lambda x: x % 2,
    "% -2.5": lambda x: x % -2.5,
    "2 %": lambda x: 2 % x,
    "fmod 2": lambda x: torch.fmod(x, 2),
    "// 2": lambda x: x // 2,
    "// -2.5": lambda x: x // -2.5,
    "/ 3": lambda x: x / 3,
    "3 /": lambda x: 3 / x,
    "* 1e30": lambda x: x * 1e30,
    "+ 1e-45": lambda x: x + 1e-45,
    "== 0": lambda x: x == 0,
    "<= 1.5": lambda x: x <= 1.5,
    "<< 3": lambda x: x << 3,
    ">> 3": lambda x: x >> 3,
    **{f"pow {e}": (lambda x, e=e: x**e) for e in EXPONENTS},
    **{f"{b} pow": (lambda x, b=b: torch.pow(b, x)) for b in (0, 1, -1, 2, 0.5, -2.0, math.inf)},
    **{f"div {m} 2.5": (lambda x, m=m: torch.div(x, 2.5, rounding_mode=m)) for m in ("floor", "trunc")},
    **{f"to {d}": (lambda x, d=d: x.to(d)) for d in DTYPES},
}  # fmt: skip

BINARY: dict[str, Callable] = {
    **{name: getattr(torch, name) for name in (
        "add", "sub", "mul", "div", "true_divide", "floor_divide", "remainder", "fmod", "pow", "float_power",
        "atan2", "copysign", "fmax", "fmin", "maximum", "minimum", "hypot", "logaddexp", "logaddexp2",
        "nextafter", "xlogy",
        "heaviside", "eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_xor", "bitwise_and",
        "bitwise_or", "bitwise_xor", "bitwise_left_shift", "bitwise_right_shift", "ldexp",
        "isclose", "clamp_min", "clamp_max")},
    "special.xlog1py": torch.special.xlog1py,
    "div floor": lambda x, y: torch.div(x, y, rounding_mode="floor"),
    "div trunc": lambda x, y: torch.div(x, y, rounding_mode="trunc"),
    "clamp both": lambda x, y: x.clamp(y, y + 1),
    "lerp": lambda x, y: torch.lerp(x, y, 0.25),
    "where": lambda x, y: torch.where(x > y, x, y),
    # By at most 1: whether a product that overflows f32 on the way does so depends on what is multiplied and added
    # at once, in eager as here.
    "addcmul": lambda x, y: torch.addcmul(x, x, y.clamp(-1, 1), value=0.5),
    "addcdiv": lambda x, y: torch.addcdiv(x, x, y, value=2),
    "prelu": lambda x, y: F.prelu(x, y[:1].to(x.dtype)),
}  # fmt: skip


def values(dtype: torch.dtype) -> torch.Tensor:
    if dtype == torch.bool:
        return torch.tensor([False, True])
    if not dtype.is_floating_point:
        info = torch.iinfo(dtype)
        small = (0, 1, 2, 3, 5, 7, 63, 100, 127)
        numbers = {
            *small,
            *(-n for n in small if info.min),
            info.min,
            info.max,
            info.min + 1,
            info.max - 1,
            info.max // 2,
        }
        return torch.tensor(sorted(numbers), dtype=dtype)
    info = torch.finfo(dtype)
    smallest = info.tiny * info.eps
    sizes = [0.0, smallest, info.tiny, info.eps, 1e-3, 0.3, 0.5, 1.0, 1 + info.eps, 1.5, 2.0, 2.5, 3.0, 7.75, 20.0,
             88.0, 89.0, 100.0, 127.5, 128.0, 255.0, 256.0, 710.0, 32768.0, 65504.0, 2.0**31, 2.0**32, 2.0**52 + 1,
             2.0**63, 2.0**64, 1e30, info.max / 2, info.max, math.inf]  # fmt: skip
    numbers = [s * n for n in sizes for s in (1, -1)] + [math.nan]
    return torch.tensor(numbers, dtype=torch.float64).to(dtype)


def _divides(x: torch.Tensor, y: torch.Tensor) -> bool:
    """By zero raises, and the lowest number by -1 ends the process, in eager."""
    lowest = torch.iinfo(x.dtype).min if x.dtype.is_signed else None
    return bool(y != 0) and sorted((int(x), int(y))) != [lowest, -1]


def pairs(dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Every value with every other; integers without what cannot be divided."""
    some = values(dtype)
    if len(some) > 30:
        some = some[[k for k in range(len(some)) if k % 3 < 2 or k > 60]]
    both = [(x, y) for x, y in itertools.product(some, some) if dtype.is_floating_point or _divides(x, y)]
    return torch.stack([x for x, _ in both]), torch.stack([y for _, y in both])


def differences(
    name: str, fn: Callable, arguments: tuple[torch.Tensor, ...], got: torch.Tensor, expected: torch.Tensor
) -> Iterator[str]:
    """Elements that are not eager's: bits of integers, kinds and signs of floats, sizes beyond 2 ulp of eager's
    and twice its error."""
    if got.dtype != expected.dtype:
        yield f"{name}: {got.dtype}, in eager {expected.dtype}"
        return
    bad = ~_same(got, expected)
    if bad.any() and expected.is_floating_point():
        bad &= ~_near(fn, arguments, got, expected)
    for (place,) in bad.nonzero().tolist()[:3]:
        given = ", ".join(repr(argument[place].item()) for argument in arguments)
        outcome = f"{got[place].item()!r}, in eager {expected[place].item()!r}"
        yield f"{name} {arguments[0].dtype} of {given}: {outcome} ({int(bad.sum())})"


def _same(got: torch.Tensor, expected: torch.Tensor) -> torch.Tensor:
    if not expected.is_floating_point():
        return got == expected
    return (got.isnan() & expected.isnan()) | ((got == expected) & (got.signbit() == expected.signbit()))


def _near(fn: Callable, arguments: tuple, got: torch.Tensor, expected: torch.Tensor) -> torch.Tensor:
    info = torch.finfo(expected.dtype)
    wide, eager = got.double(), expected.double()
    ulp = torch.ldexp(
        torch.tensor(info.eps, dtype=torch.float64), torch.frexp(eager.abs().clamp(info.tiny, info.max))[1] - 1
    )
    allowed = 2 * ulp
    both = got.isfinite() & expected.isfinite()
    zeros = (got == 0) & (expected == 0)  # which differ in sign
    if expected.dtype in _WIDER and arguments[0].dtype != torch.float64:
        true = fn(*(argument.double() for argument in arguments))
        if isinstance(true, torch.Tensor) and true.dtype == torch.float64:
            error = (eager - true).abs().nan_to_num(0.0, posinf=0.0)
            allowed = torch.where((wide - true).abs() <= torch.maximum(2 * error, 2 * ulp), math.inf, allowed)
            zeros &= true == 0
    elif expected.dtype == torch.float64:
        allowed = torch.maximum(8 * ulp, torch.tensor(1e-15))
    return ((wide - eager).abs() <= allowed) & both & ~zeros
