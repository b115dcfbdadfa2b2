#!/usr/bin/env python3
"""Finds the tables of codegen/math_avx512 and the polynomials for what they leave; prints codegen/math_tables.h.

    python tools/fit_tables.py > src/codegen/math_tables.h

A table has 16 entries, as many floats as a register of AVX-512 holds. Of the many c near the inverse of an
interval's middle that one is taken whose -log(c) is nearest to a float: the table is then as good as one of twice
the precision.
"""

import sys

import numpy as np
from fit_math import exp2_tail, exp_tail, literal, polynomial, solve_remez, to_f32
from mpmath import mp, mpf

ENTRIES = 16
LN2_F32 = to_f32(mp.log(2))


def log_table():
    """c and float(-log(c)) for m in [1 + j/16, 1 + (j+1)/16)."""
    inverses, logs = [mpf(1)], [mpf(0)]
    for j in range(1, ENTRIES - 1):
        low, high = 1 + mpf(j) / ENTRIES, 1 + mpf(j + 1) / ENTRIES
        middle = np.float32(float(2 / (low + high))).view(np.int32)
        candidates = (middle + np.arange(-20000, 20001, dtype=np.int32)).view(np.float32).astype(np.float64)
        exact = -np.log(candidates)
        error = exact.astype(np.float32) - exact
        # The result is small where m is near 1, or near 2 with e = -1, when the rounding of ln 2 counts as well.
        from_below = np.abs(error) / float(mp.log(low))
        from_above = np.abs(error - float(LN2_F32 - mp.log(2))) / float(mp.log(2) - mp.log(high))
        best = np.maximum(from_below, from_above).argmin()
        inverses.append(mpf(float(candidates[best])))
        logs.append(to_f32(exact[best]))
    return [*inverses, mpf(1) / 2], [*logs, LN2_F32]


def log_rest(r):  # (log(1+r) - r) / r**2
    return -mpf(1) / 2 + r / 3 if abs(r) < mpf(10) ** -12 else (mp.log1p(r) - r) / r**2


def fit(target, effect, lo, hi, count):
    """Coefficients in float, and the largest error times `effect`."""

    def weight(x):
        return abs(effect(x)) + mpf(10) ** -9

    coefficients = [to_f32(c) for c in solve_remez(target, weight, lo, hi, range(count))[0]]
    grid = [lo + (hi - lo) * i / 400 for i in range(401)]
    powers = dict(enumerate(coefficients))
    return coefficients, max(weight(x) * abs(polynomial(powers, x) - target(x)) for x in grid)


def show(name, why, values):
    print(f"// {why}")
    print(f"inline constexpr float {name}[] = {{" + ", ".join(literal(v, "float") for v in values) + "};\n")


def show_fit(name, why, *what):
    values, worst = fit(*what)
    error = f"2**{float(mp.log(worst, 2)):.1f}"
    print(f"{name}: {error}", file=sys.stderr)
    show(name, f"{why}: {error}", values)


def main():
    half = mp.log(2) / 32 * mpf("1.001")
    inverses, logs = log_table()
    largest = max(max(abs(c * (1 + mpf(j + i) / ENTRIES) - 1) for i in (0, 1)) for j, c in enumerate(inverses))
    assert largest <= mpf(1) / 16, "the rest must lie where its polynomial was fitted"
    assert all(c * (1 + mpf(j) / ENTRIES) - 1 >= -mpf(1) / 32 for j, c in enumerate(inverses))
    print(
        "// codegen/math_tables.h: tables of codegen/math_avx512; polynomials, lowest power first, for the rests."
    )
    print("// Written by tools/fit_tables.py. The error given is the polynomial's largest, relative to the result.")
    print("#pragma once\n\nnamespace braze::codegen::tables {\n")
    show("exp2_sixteenths", "2**(j/16)", [to_f32(mpf(2) ** (mpf(j) / ENTRIES)) for j in range(ENTRIES)])
    show_fit("exp_rest", "(e**r - 1 - r) / r**2, |r| <= ln(2)/32", exp_tail, lambda r: r**2, -half, half, 2)
    show_fit("exp2_rest", "(2**r - 1) / r, |r| <= 1/32", exp2_tail, lambda r: r, -mpf(1) / 32, mpf(1) / 32, 3)
    show("log_inverse", "c, near 1 / (1 + (j + 1/2)/16)", inverses)
    show("log_of_inverse", "-log(c)", logs)
    show_fit(
        "log_rest",
        "(log(1+r) - r) / r**2, -1/32 <= r <= 1/16",
        log_rest,
        lambda r: r**2 / mp.log1p(r) if r != 0 else mpf(0),
        -mpf(1) / 32,
        mpf(1) / 16,
        4,
    )
    print("}  // namespace braze::codegen::tables")


if __name__ == "__main__":
    main()
