// scalar_math.h: what elementwise ops are on real numbers: one table for all oracles of the tests.
//
// Only what needs no rounding, wrapping or dtype to be said. Computed by libm in the type T of the arguments.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "ir/graph.h"

namespace braze::test {

/// `y` is looked at for ops of two operands only. Nothing if the op is not in the table.
template <typename T>
std::optional<T> real_math(ir::Op op, T x, T y) {
  using ir::Op;
  switch (op) {
    case Op::neg: return -x;
    case Op::abs: return std::fabs(x);
    case Op::sign: return (x > 0) - (x < 0);
    case Op::exp: return std::exp(x);
    case Op::exp2: return std::exp2(x);
    case Op::expm1: return std::expm1(x);
    case Op::log: return std::log(x);
    case Op::log2: return std::log2(x);
    case Op::log10: return std::log10(x);
    case Op::log1p: return std::log1p(x);
    case Op::sqrt: return std::sqrt(x);
    case Op::rsqrt: return 1 / std::sqrt(x);
    case Op::reciprocal: return 1 / x;
    case Op::sin: return std::sin(x);
    case Op::cos: return std::cos(x);
    case Op::tan: return std::tan(x);
    case Op::tanh: return std::tanh(x);
    case Op::erf: return std::erf(x);
    case Op::asin: return std::asin(x);
    case Op::acos: return std::acos(x);
    case Op::atan: return std::atan(x);
    case Op::sinh: return std::sinh(x);
    case Op::cosh: return std::cosh(x);
    case Op::asinh: return std::asinh(x);
    case Op::acosh: return std::acosh(x);
    case Op::atanh: return std::atanh(x);
    case Op::erfc: return std::erfc(x);
    case Op::lgamma: return std::lgamma(x);
    case Op::sigmoid:  // Eager's 1 / (1 + e**-x), and as exact for negative numbers.
      if (x >= 0 || std::isinf(std::exp(-x))) return 1 / (1 + std::exp(-x));
      return std::exp(x) / (1 + std::exp(x));
    case Op::relu: return x < 0 ? 0 : x;
    case Op::floor: return std::floor(x);
    case Op::ceil: return std::ceil(x);
    case Op::round: return std::nearbyint(x);
    case Op::trunc: return std::trunc(x);
    case Op::add: return x + y;
    case Op::sub: return x - y;
    case Op::mul: return x * y;
    case Op::div: return x / y;
    case Op::remainder: {
      const T rest = std::fmod(x, y);
      return rest != 0 && (y < 0) != (rest < 0) ? rest + y : rest;
    }
    case Op::fmod: return std::fmod(x, y);
    case Op::pow: return std::pow(x, y);
    case Op::copysign: return std::copysign(x, y);
    case Op::hypot: return std::hypot(x, y);
    case Op::atan2: return std::atan2(x, y);
    case Op::maximum: return std::isnan(x) || std::isnan(y) ? std::numeric_limits<T>::quiet_NaN() : std::max(x, y);
    case Op::minimum: return std::isnan(x) || std::isnan(y) ? std::numeric_limits<T>::quiet_NaN() : std::min(x, y);
    default: return std::nullopt;
  }
}

/// Nothing if the op does not compare.
template <typename T>
std::optional<bool> comparison(ir::Op op, T x, T y) {
  using ir::Op;
  switch (op) {
    case Op::eq: return x == y;
    case Op::ne: return x != y;
    case Op::lt: return x < y;
    case Op::le: return x <= y;
    case Op::gt: return x > y;
    case Op::ge: return x >= y;
    default: return std::nullopt;
  }
}

}  // namespace braze::test
