#!/usr/bin/env python3
"""Fits the polynomials of codegen/math and prints src/codegen/math_coefficients.h.

    python tools/fit_math.py > src/codegen/math_coefficients.h

Method: weighted minimax (Remez exchange, 40 digits). The two lowest coefficients, whose rounding costs most, are
rounded first, and the others are fitted again to make up for it; then they are rounded as well.
"""

import functools
import struct
import sys

from mpmath import mp, mpf

mp.dps = 40
GRID = 500
ROUNDED_FIRST = 2  # of f32 polynomials


def to_f32(x):
    return mpf(struct.unpack("f", struct.pack("f", float(x)))[0])


def to_f64(x):
    return mpf(float(x))


@functools.cache
def chebyshev(lo, hi, n):
    return [(lo + hi) / 2 - (hi - lo) / 2 * mp.cos(mp.pi * i / n) for i in range(n + 1)]


def solve_remez(target, weight, lo, hi, powers):
    """Coefficients c of sum(c[k] * x**powers[k]) with the smallest max |weight * (sum - target)| on [lo, hi]."""
    n = len(powers)
    nodes = [(lo + hi) / 2 - (hi - lo) / 2 * mp.cos(mp.pi * (2 * i + 1) / (2 * n + 2)) for i in range(n + 1)]
    grid = chebyshev(lo, hi, GRID)
    values = [(x, target(x), weight(x)) for x in grid]
    coefficients, worst = [], mpf("inf")
    for _ in range(30):
        system, right = mp.matrix(n + 1, n + 1), mp.matrix(n + 1, 1)
        for i, x in enumerate(nodes):
            for k, power in enumerate(powers):
                system[i, k] = x**power
            system[i, n] = (-1) ** i / weight(x)
            right[i] = target(x)
        try:
            solution = mp.lu_solve(system, right)
        except ZeroDivisionError:  # the exchange has met two points that say the same: it can get no better
            return coefficients, worst
        coefficients, level = [solution[k] for k in range(n)], abs(solution[n])
        errors = [w * (sum(c * x**p for c, p in zip(coefficients, powers, strict=True)) - t) for x, t, w in values]
        extrema = []  # the largest error of each run of one sign
        for i, error in enumerate(errors):
            if extrema and (error > 0) == (errors[extrema[-1]] > 0):
                if abs(error) > abs(errors[extrema[-1]]):
                    extrema[-1] = i
            else:
                extrema.append(i)
        while len(extrema) > n + 1:  # drop the smaller end
            extrema.pop(0 if abs(errors[extrema[0]]) < abs(errors[extrema[-1]]) else -1)
        worst = max(abs(e) for e in errors)
        if len(extrema) < n + 1 or worst < level * mpf("1.001"):
            return coefficients, worst
        nodes = [grid[i] for i in extrema]
    return coefficients, worst


def fit(target, effect, lo, hi, powers, rounding):
    """As solve_remez, with coefficients rounded; also returns the error left. `effect` says what an error of the
    polynomial does to the result; where that is nothing (at 0) the weight stays just above nothing."""

    def weight(x):
        return abs(effect(x)) + mpf(10) ** -9

    target = functools.cache(target)
    fixed, rest = {}, list(powers)
    for _ in range(ROUNDED_FIRST if rounding is to_f32 else 0):
        coefficients, _ = solve_remez(lambda x: target(x) - polynomial(fixed, x), weight, lo, hi, rest)
        fixed[rest.pop(0)] = rounding(coefficients[0])
    coefficients, _ = solve_remez(lambda x: target(x) - polynomial(fixed, x), weight, lo, hi, rest)
    fixed |= {power: rounding(c) for power, c in zip(rest, coefficients, strict=True)}
    worst = max(weight(x) * abs(polynomial(fixed, x) - target(x)) for x in chebyshev(lo, hi, GRID))
    return [fixed[p] for p in powers], worst


def polynomial(coefficients, x):
    return sum(c * x**p for p, c in coefficients.items())


def exp_tail(x):  # (e**x - 1 - x) / x**2
    return mpf(1) / 2 + x / 6 if abs(x) < mpf(10) ** -12 else (mp.expm1(x) - x) / x**2


def exp2_tail(x):  # (2**x - 1) / x
    ln2 = mp.log(2)
    return ln2 + x * ln2**2 / 2 if abs(x) < mpf(10) ** -12 else mp.expm1(x * ln2) / x


def log_tail(f):  # (log(1+f) - f + f**2/2) / f**3
    return mpf(1) / 3 - f / 4 if abs(f) < mpf(10) ** -12 else (mp.log1p(f) - f + f**2 / 2) / f**3


def atanh_tail(z):  # with z = s**2: (atanh(s) - s) / s**3
    if abs(z) < mpf(10) ** -20:
        return mpf(1) / 3 + z / 5
    s = mp.sqrt(z)
    return (mp.atanh(s) - s) / s**3


def atan_of_square(z):  # with z = q**2: atan(q) / q
    if abs(z) < mpf(10) ** -20:
        return 1 - z / 3
    q = mp.sqrt(z)
    return mp.atan(q) / q


def sin_tail(z):  # with z = r**2: (sin(r) - r) / r**3
    if z < mpf(10) ** -12:
        return -mpf(1) / 6 + z / 120
    r = mp.sqrt(z)
    return (mp.sin(r) - r) / r**3


def cos_tail(z):  # with z = r**2: (cos(r) - 1 + r**2/2) / r**4
    if z < mpf(10) ** -8:
        return mpf(1) / 24 - z / 720 + z**2 / 40320
    return (mp.cos(mp.sqrt(z)) - 1 + z / 2) / z**2


def tan_tail(z):  # with z = r**2: (tan(r) - r) / r**3
    if z < mpf(10) ** -12:
        return mpf(1) / 3 + 2 * z / 15
    r = mp.sqrt(z)
    return (mp.tan(r) - r) / r**3


ERF_SLOPE = to_f32(2 / mp.sqrt(mp.pi))  # the first coefficient of erfc_log, which has to be exact to more than f32


def erfc_log(a):  # -log(erfc(a)) / a - ERF_SLOPE
    near_zero = 2 / mp.sqrt(mp.pi) + a * 2 / mp.pi
    return (near_zero if a < mpf(10) ** -15 else -mp.log(mp.erfc(a)) / a) - ERF_SLOPE


def erfc_log_weight(a):
    """What an error in erfc_log(a) does to erf(a), relative to it."""
    return mpf(1) if a < mpf(10) ** -15 else a * mp.erfc(a) / mp.erf(a)


def erf_of_square(z):  # with z = a**2: erf(a) / a
    if z < mpf(10) ** -20:
        return 2 / mp.sqrt(mp.pi) * (1 - z / 3)
    a = mp.sqrt(z)
    return mp.erf(a) / a


def erfc_log2(a):  # -log2(erfc(a)) / a
    return -mp.log(mp.erfc(a), 2) / a


def erfc_tail(w):  # with w = 1/(1 + a/2): log(erfc(a) / w) + a**2
    a = 2 * (1 / w - 1)
    return mp.log(mp.erfc(a) / w) + a * a


ERFC_END = 1 / (1 + mpf("10.3") / 2)
LN2 = mp.log(2)
HALF_LN2 = LN2 / 2 * mpf("1.0001")
SQRT_HALF, SQRT_TWO = mp.sqrt(mpf(1) / 2) - 1, mp.sqrt(mpf(2)) - 1
PI4 = (mp.pi / 4 * mpf("1.0001")) ** 2
ATANH = (SQRT_TWO / (mp.sqrt(2) + 1)) ** 2

# name, C type, why, target, weight, lo, hi, powers
# fmt: off
TABLES = [
    ("exp_f32", "float", "(e**r - 1 - r) / r**2, |r| <= ln(2)/2", exp_tail,
     lambda r: r**2, -HALF_LN2, HALF_LN2, range(5)),
    ("exp_f64", "double", "(e**r - 1 - r) / r**2, |r| <= ln(2)/2", exp_tail,
     lambda r: r**2, -HALF_LN2, HALF_LN2, range(11)),
    ("tanh_f32", "float", "(e**r - 1 - r) / r**2, -0.555 <= r <= 0.139, for tanh", exp_tail,
     lambda r: r, mpf("-0.5551"), mpf("0.1391"), range(6)),
    ("tanh_f64", "double", "(e**r - 1 - r) / r**2, -0.555 <= r <= 0.139, for tanh", exp_tail,
     lambda r: r, mpf("-0.5551"), mpf("0.1391"), range(12)),
    ("exp2_f32", "float", "(2**r - 1) / r, |r| <= 1/2", exp2_tail,
     lambda r: r, mpf("-0.5001"), mpf("0.5001"), range(7)),
    ("log_f32", "float", "(log(1+f) - f + f**2/2) / f**3, sqrt(1/2) <= 1+f < sqrt(2)", log_tail,
     lambda f: f**3 / mp.log1p(f) if f != 0 else mpf(0), SQRT_HALF, SQRT_TWO, range(9)),
    ("log_f64", "double", "(atanh(s) - s) / s**3 in s**2, |s| <= (sqrt(2)-1)/(sqrt(2)+1)", atanh_tail,
     lambda z: z, mpf(0), ATANH * mpf("1.0001"), range(8)),
    ("sin_f32", "float", "(sin(r) - r) / r**3 in r**2, |r| <= pi/4", sin_tail,
     lambda z: z, mpf(0), PI4, range(3)),
    ("cos_f32", "float", "(cos(r) - 1 + r**2/2) / r**4 in r**2, |r| <= pi/4", cos_tail,
     lambda z: z**2, mpf(0), PI4, range(3)),
    ("tan_f32", "float", "(tan(r) - r) / r**3 in r**2, |r| <= pi/4", tan_tail,
     lambda z: z, mpf(0), PI4, range(7)),
    ("erf_f32", "float", "-log(erfc(a)) / a - f32(2/sqrt(pi)), 0 <= a <= 3.95; weighted by its effect on erf",
     erfc_log, erfc_log_weight, mpf(0), mpf("3.95"), range(11)),
    ("erf_near_f32", "float", "erf(a) / a in a**2, 0 <= a <= 0.7, for GPUs", erf_of_square,
     lambda z: 1 / erf_of_square(z), mpf(0), mpf("0.7") ** 2, range(5)),
    ("erf_far_f32", "float", "-log2(erfc(a)) / a, 0.7 <= a <= 3.95, for GPUs; weighted by its effect on erf",
     erfc_log2, lambda a: LN2 * erfc_log_weight(a), mpf("0.7"), mpf("3.95"), range(6)),
    ("atan_f64", "double", "atan(q) / q in q**2, 0 <= q <= 1, for atan2 of f32", atan_of_square,
     lambda z: mpf(1), mpf(0), mpf(1), range(12)),
    ("pow_log2_f64", "double", "log2((1+s)/(1-s)) / s in s**2, for pow of f32",
     lambda z: (1 + z * atanh_tail(z)) * 2 / LN2, lambda z: mpf(1), mpf(0), ATANH * mpf("1.0001"), range(7)),
    ("pow_exp2_f64", "double", "(2**r - 1) / r, |r| <= 1/2, for pow of f32", exp2_tail,
     lambda r: r, mpf("-0.5001"), mpf("0.5001"), range(7)),
    ("exp2_f64", "double", "(2**r - 1) / r, |r| <= 1/2", exp2_tail,
     lambda r: r, mpf("-0.5001"), mpf("0.5001"), range(13)),
    ("erfc_f64", "double", "log(erfc(a) / w) + a**2 in w = 1/(1 + a/2), 0 <= a <= 10.3, for erfc of f32", erfc_tail,
     lambda w: mpf(1), ERFC_END, mpf(1), range(14)),
]
# fmt: on


def literal(value, c_type):
    return float(value).hex() + ("f" if c_type == "float" else "")


def main():
    print("// codegen/math_coefficients.h: polynomials of codegen/math, lowest power first.")
    print("// Written by tools/fit_math.py. The error given is the polynomial's largest, times its weight.")
    print("#pragma once\n\nnamespace braze::codegen::coefficients {\n")
    for name, c_type, why, target, weight, lo, hi, powers in TABLES:
        rounding = to_f32 if c_type == "float" else to_f64
        values, worst = fit(target, weight, lo, hi, powers, rounding)
        error = f"2**{float(mp.log(worst, 2)):.1f}"
        print(f"{name}: {error}", file=sys.stderr)
        print(f"// {why}: {error}")
        print(f"inline constexpr {c_type} {name}[] = {{" + ", ".join(literal(v, c_type) for v in values) + "};\n")
    print("}  // namespace braze::codegen::coefficients")


if __name__ == "__main__":
    main()
