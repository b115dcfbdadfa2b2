#!/usr/bin/env python3
"""Finds the tables of codegen/x86/math_avx512 and the polynomials for what they leave.

    python tools/fit_tables.py > src/codegen/x86/math_tables.h

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
ERF_SCALE = to_f32(mpf("3.9385"))  # intervals of erf in a unit; the last one ends where erf is 1 in f32
ERF_POWERS = 5


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


def erf_tables():
    """For intervals around j / ERF_SCALE: c near their middles, erf(c), and polynomials for the rest of
    erf(c + t) = erf(c) + (t + t * rest(t)), a list a power; last their largest error. The first c is 0, which makes
    small results as precise as large ones."""
    half = 1 / ERF_SCALE / 2
    middles, polynomials, worst = [], [], mpf(0)
    for j in range(ENTRIES):
        c = with_exact_erf(j / ERF_SCALE) if j else mpf(0)
        value = mp.erf(c)
        slope = 2 / mp.sqrt(mp.pi) * mp.exp(-(c**2))

        def rest(t, c=c, value=value, slope=slope):
            return (slope if abs(t) < mpf(10) ** -12 else (mp.erf(c + t) - value) / t) - 1

        def effect(t, c=c, slope=slope):
            return 1 / slope if c + t == 0 else t / mp.erf(c + t)

        low = j / ERF_SCALE - half if j else mpf(0)
        coefficients, error = fit(rest, effect, low - c, j / ERF_SCALE + half - c, ERF_POWERS)
        middles.append(c)
        polynomials.append(coefficients)
        worst = max(worst, error)
    return middles, [to_f32(mp.erf(c)) for c in middles], list(zip(*polynomials, strict=True)), worst


def with_exact_erf(x):
    """The float near x whose erf is nearest to a float."""
    middle = np.float32(float(x)).view(np.int32)
    best = None
    for candidate in (middle + np.arange(-1000, 1001, dtype=np.int32)).view(np.float32):
        exact = mp.erf(mpf(float(candidate)))
        error = abs(to_f32(exact) - exact)
        if best is None or error < best[0]:
            best = error, mpf(float(candidate))
    return best[1]


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
    print("// codegen/x86/math_tables.h: tables of math_avx512.h; polynomials, lowest power first, for the rests.")
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
    middles, values, rests, worst = erf_tables()
    error = f"2**{float(mp.log(worst, 2)):.1f}"
    print(f"erf_rest: {error}", file=sys.stderr)
    print(f"// Intervals of erf in a unit.\ninline constexpr float erf_scale = {literal(ERF_SCALE, 'float')};\n")
    show("erf_middle", "c, near j / erf_scale", middles)
    show("erf_of_middle", "erf(c)", values)
    print(
        f"// (erf(c + t) - erf(c)) / t - 1, a line a power, |c + t - j / erf_scale| <= 1 / (2 * erf_scale): {error}"
    )
    lines = ",\n".join("{" + ", ".join(literal(v, "float") for v in line) + "}" for line in rests)
    print(f"inline constexpr float erf_rest[][{ENTRIES}] = {{{lines}}};\n")
    print("}  // namespace braze::codegen::tables")


if __name__ == "__main__":
    main()
