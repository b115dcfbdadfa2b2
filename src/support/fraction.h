// support/fraction.h: floating numbers that are exact fractions of small numbers.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>

namespace braze {

struct Fraction {
  int64_t numerator, denominator;
};

constexpr int64_t kLargestFactor = 1024;

/// A factor of up to kLargestFactor, above 0, as a fraction whose denominator is a power of two up to that: 0.75 is
/// 3/4. A size times it is then a whole number divided by another, without rounding. Nothing for all others.
inline std::optional<Fraction> exact_fraction(double factor) {
  if (!(factor > 0 && factor <= kLargestFactor)) return std::nullopt;
  for (int64_t denominator = 1; denominator <= kLargestFactor; denominator *= 2) {
    const double numerator = factor * static_cast<double>(denominator);
    if (numerator == std::floor(numerator)) return Fraction{static_cast<int64_t>(numerator), denominator};
  }
  return std::nullopt;
}

}  // namespace braze
