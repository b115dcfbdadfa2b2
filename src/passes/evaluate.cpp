#include "passes/evaluate.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace braze::passes {

using namespace ir;

namespace {

using Result = std::optional<Number>;
using Numbers = std::span<const Number>;

Number of_bool(bool value) {
  return Number::of_int(value);
}

template <typename T>
Result compare(Op op, T a, T b) {
  switch (op) {
    case Op::eq: return of_bool(a == b);
    case Op::ne: return of_bool(a != b);
    case Op::lt: return of_bool(a < b);
    case Op::le: return of_bool(a <= b);
    case Op::gt: return of_bool(a > b);
    case Op::ge: return of_bool(a >= b);
    default: return std::nullopt;
  }
}

/// In Float's own arithmetic: f32 is rounded after every op.
template <typename Float>
Result of_floats(Op op, Numbers numbers) {
  const auto a = static_cast<Float>(numbers[0].as_double());
  const auto b = static_cast<Float>(numbers.back().as_double());
  const auto number = [](Float value) { return Number::of(value); };
  switch (op) {
    case Op::neg: return number(-a);
    case Op::abs: return number(std::fabs(a));
    case Op::sqrt: return number(std::sqrt(a));
    case Op::reciprocal: return number(Float(1) / a);
    case Op::floor: return number(std::floor(a));
    case Op::ceil: return number(std::ceil(a));
    case Op::round: return number(std::nearbyint(a));
    case Op::trunc: return number(std::trunc(a));
    case Op::isnan: return of_bool(std::isnan(a));
    case Op::isinf: return of_bool(std::isinf(a));
    case Op::logical_not: return of_bool(a == 0);
    case Op::add: return number(a + b);
    case Op::sub: return number(a - b);
    case Op::mul: return number(a * b);
    case Op::div: return number(a / b);
    // Which zero wins is left to the kernel.
    case Op::maximum: return a == 0 && b == 0 ? Result() : number(std::isnan(a) || a > b ? a : b);
    case Op::minimum: return a == 0 && b == 0 ? Result() : number(std::isnan(a) || a < b ? a : b);
    default: return compare(op, a, b);
  }
}

/// Division of integers is an error by zero, and overflows for the smallest by -1.
bool divides(int64_t a, int64_t b) {
  return b != 0 && !(b == -1 && a == std::numeric_limits<int64_t>::min());
}

int64_t floor_div(int64_t a, int64_t b) {
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

/// In i64, wrapping; the caller rounds to the dtype, which wraps to its width.
Result of_integers(Op op, DType dtype, Numbers numbers) {
  const int64_t a = numbers[0].as_int(), b = numbers.back().as_int();
  const auto x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);
  const auto wrapped = [](uint64_t value) { return Number::of_int(static_cast<int64_t>(value)); };
  const int64_t bits = 8 * byte_size(dtype);
  switch (op) {
    case Op::neg: return wrapped(0 - x);
    case Op::abs: return wrapped(a < 0 ? 0 - x : x);
    case Op::sign: return Number::of_int((a > 0) - (a < 0));
    case Op::relu: return Number::of_int(std::max<int64_t>(a, 0));
    case Op::logical_not: return of_bool(a == 0);
    case Op::bitwise_not: return wrapped(~x);
    case Op::add: return wrapped(x + y);
    case Op::sub: return wrapped(x - y);
    case Op::mul: return wrapped(x * y);
    case Op::floor_div: return divides(a, b) ? Result(Number::of_int(floor_div(a, b))) : std::nullopt;
    case Op::trunc_div: return divides(a, b) ? Result(Number::of_int(a / b)) : std::nullopt;
    case Op::remainder: return divides(a, b) ? Result(Number::of_int(a - b * floor_div(a, b))) : std::nullopt;
    case Op::fmod: return divides(a, b) ? Result(Number::of_int(a % b)) : std::nullopt;
    case Op::maximum: return Number::of_int(std::max(a, b));
    case Op::minimum: return Number::of_int(std::min(a, b));
    case Op::bitwise_and: return wrapped(x & y);
    case Op::bitwise_or: return wrapped(x | y);
    case Op::bitwise_xor: return wrapped(x ^ y);
    case Op::shift_left: return b >= 0 && b < bits ? Result(wrapped(x << y)) : std::nullopt;
    case Op::shift_right: return b >= 0 && b < bits ? Result(Number::of_int(a >> b)) : std::nullopt;
    default: return compare(op, a, b);
  }
}

Result of_bools(Op op, Numbers numbers) {
  const bool a = numbers[0].as_int() != 0, b = numbers.back().as_int() != 0;
  switch (op) {
    case Op::logical_not:
    case Op::bitwise_not: return of_bool(!a);
    case Op::add:
    case Op::bitwise_or:
    case Op::maximum: return of_bool(a || b);
    case Op::mul:
    case Op::bitwise_and:
    case Op::minimum: return of_bool(a && b);
    case Op::bitwise_xor: return of_bool(a != b);
    default: return compare(op, a, b);
  }
}

Result converted(Number number, DType to) {
  if (to == DType::b8 || is_floating(to) || !number.floating) return round_to(number, to);
  // What C leaves undefined must not be decided here: the machine's answer may differ.
  const double whole = std::trunc(number.f);
  if (!(whole >= -0x1p63 && whole < 0x1p63)) return std::nullopt;
  const Number exact = Number::of_int(static_cast<int64_t>(whole));
  const Number rounded = round_to(exact, to);
  return rounded.same_bits(exact) ? Result(rounded) : std::nullopt;
}

bool is_half(DType dtype) {
  return compute_dtype(dtype) != dtype;
}

}  // namespace

Result evaluate(Op op, DType from, DType to, Numbers numbers) {
  if (is_half(from) || is_half(to) || !is_kernel_dtype(from) || !is_kernel_dtype(to)) return std::nullopt;
  if (op == Op::cast) return converted(numbers[0], to);
  if (op == Op::where) return numbers[0].as_int() != 0 ? numbers[1] : numbers[2];
  Result result;
  if (from == DType::f64)
    result = of_floats<double>(op, numbers);
  else if (from == DType::f32)
    result = of_floats<float>(op, numbers);
  else if (from == DType::b8)
    result = of_bools(op, numbers);
  else
    result = of_integers(op, from, numbers);
  return result ? Result(round_to(*result, to)) : std::nullopt;
}

}  // namespace braze::passes
