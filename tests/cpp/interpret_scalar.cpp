// Scalars of the interpreter: storage, conversion, elementwise ops.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "interpret.h"
#include "scalar_math.h"
#include "support/error.h"

namespace braze::loops::oracle {

namespace {

using ir::Op;

float from_bf16(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}
uint16_t to_bf16(float value) {
  if (std::isnan(value)) return 0x7fc0;
  const auto bits = std::bit_cast<uint32_t>(value);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

float from_f16(uint16_t bits) {
  const int exponent = (bits >> 10) & 31;
  const double fraction = bits & 1023;
  double size = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
  if (exponent == 31) size = fraction == 0 ? std::numeric_limits<double>::infinity() : std::nan("");
  return static_cast<float>(bits & 0x8000 ? -size : size);
}
uint16_t to_f16(float value) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  if (std::isnan(value)) return sign | 0x7e00;
  const double size = std::fabs(static_cast<double>(value));
  if (size >= 65520) return sign | 0x7c00;  // Half a step above the largest.
  int exponent = 0;
  std::frexp(size, &exponent);  // size = f * 2**exponent, f in [0.5, 1)
  // Subnormals, and 0, for which frexp says 0.
  exponent = size == 0 ? -13 : std::max(exponent, -13);
  // In units of the last place; a carry out of the fraction raises the exponent by itself.
  const auto units = static_cast<int>(std::nearbyint(std::ldexp(size, 11 - exponent)));
  return static_cast<uint16_t>(sign | ((exponent + 13) * 1024 + units));
}

template <typename T>
T element(const void* memory, int64_t index) {
  T value;
  std::memcpy(&value, static_cast<const char*>(memory) + index * static_cast<int64_t>(sizeof(T)), sizeof value);
  return value;
}
template <typename T>
void set_element(void* memory, int64_t index, T value) {
  std::memcpy(static_cast<char*>(memory) + index * static_cast<int64_t>(sizeof(T)), &value, sizeof value);
}

int64_t wrap(int64_t value, DType type) {
  switch (type) {
    case DType::i32: return static_cast<int32_t>(value);
    case DType::i16: return static_cast<int16_t>(value);
    case DType::i8: return static_cast<int8_t>(value);
    case DType::u8: return static_cast<uint8_t>(value);
    case DType::b8: return value != 0;
    default: return value;
  }
}
double round_to(double value, DType type) {
  return type == DType::f32 ? static_cast<float>(value) : value;
}

/// x86 truncates through 64-bit or 32-bit registers; what does not fit gives the smallest integer.
int64_t truncated(double value, DType type) {
  const double limit = type == DType::i64 ? 0x1p63 : 0x1p31;
  const bool fits = value >= -limit && value < limit;
  if (type == DType::i64) return fits ? static_cast<int64_t>(value) : std::numeric_limits<int64_t>::min();
  return wrap(fits ? static_cast<int64_t>(value) : std::numeric_limits<int32_t>::min(), type);
}

// As ATen's div_floor: the quotient of what fmod leaves is a whole number but for rounding.
template <typename T>
double floor_divide(double x, double y) {
  const T a = static_cast<T>(x), b = static_cast<T>(y);
  if (b == 0) return a / b;
  const T rest = std::fmod(a, b);
  T quotient = (a - rest) / b;
  if (rest != 0 && (b < 0) != (rest < 0)) quotient -= 1;
  if (quotient == 0) return std::copysign(T(0), a / b);
  const T whole = std::floor(quotient);
  return quotient - whole > T(0.5) ? whole + 1 : whole;
}

double evaluate_floating(Op op, DType type, double x, double y) {
  switch (op) {
    case Op::floor_div: return type == DType::f32 ? floor_divide<float>(x, y) : floor_divide<double>(x, y);
    case Op::trunc_div: return std::trunc(round_to(x / y, type));
    case Op::nextafter:
      return type == DType::f32 ? std::nextafter(static_cast<float>(x), static_cast<float>(y))
                                : std::nextafter(x, y);
    default: break;
  }
  const std::optional<double> result = test::real_math(op, x, y);
  BRAZE_CHECK(result, ir::info(op).name, " is not for floating types");
  return *result;
}

/// Wraps at 2**64; negative exponents as ATen: 0 but for bases 1 and -1.
int64_t integer_power(int64_t base, int64_t exponent) {
  if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent % 2 ? -1 : 1) : 0;
  uint64_t result = 1, square = static_cast<uint64_t>(base);
  for (; exponent; exponent >>= 1, square *= square)
    if (exponent & 1) result *= square;
  return static_cast<int64_t>(result);
}

/// Division by zero gives 0, quotient and remainder: compiled code must not trap in lanes that do not count.
int64_t evaluate_integral(Op op, DType type, int64_t x, int64_t y) {
  const auto u = static_cast<uint64_t>(x), v = static_cast<uint64_t>(y);
  const int64_t bits = 8 * ir::byte_size(type);
  const bool divides = op == Op::floor_div || op == Op::trunc_div || op == Op::remainder || op == Op::fmod;
  if (divides) {
    if (y == 0) return 0;
    if (y == -1) return op == Op::floor_div || op == Op::trunc_div ? static_cast<int64_t>(-u) : 0;
  }
  const bool rounds_down = divides && x % y != 0 && (x % y < 0) != (y < 0);
  switch (op) {
    case Op::neg: return static_cast<int64_t>(-u);
    case Op::abs: return static_cast<int64_t>(x < 0 ? -u : u);
    case Op::sign: return (x > 0) - (x < 0);
    case Op::relu: return std::max<int64_t>(x, 0);
    case Op::floor:
    case Op::ceil:
    case Op::round:
    case Op::trunc: return x;
    case Op::bitwise_not: return type == DType::b8 ? !x : ~x;
    case Op::add: return static_cast<int64_t>(u + v);
    case Op::sub: return static_cast<int64_t>(u - v);
    case Op::mul: return static_cast<int64_t>(u * v);
    case Op::floor_div: return x / y - rounds_down;
    case Op::trunc_div: return x / y;
    case Op::remainder: return x % y + (rounds_down ? y : 0);
    case Op::fmod: return x % y;
    case Op::pow: return integer_power(x, y);
    case Op::maximum: return std::max(x, y);
    case Op::minimum: return std::min(x, y);
    case Op::bitwise_and: return x & y;
    case Op::bitwise_or: return x | y;
    case Op::bitwise_xor: return x ^ y;
    // Shifts by the width or more, or by negative amounts, as ATen: nothing, or the sign, is left.
    case Op::shift_left: return y < 0 || y >= bits ? 0 : static_cast<int64_t>(u << y);
    case Op::shift_right: return x >> (y < 0 || y >= bits ? (type == DType::u8 ? bits : bits - 1) : y);
    default: BRAZE_CHECK(false, ir::info(op).name, " is not for integers");
  }
}

}  // namespace

Number read_element(const void* memory, DType dtype, int64_t index) {
  switch (dtype) {
    case DType::f64: return Number::of(element<double>(memory, index));
    case DType::f32: return Number::of(element<float>(memory, index));
    case DType::bf16: return Number::of(from_bf16(element<uint16_t>(memory, index)));
    case DType::f16: return Number::of(from_f16(element<uint16_t>(memory, index)));
    case DType::i64: return Number::of_int(element<int64_t>(memory, index));
    case DType::i32: return Number::of_int(element<int32_t>(memory, index));
    case DType::i16: return Number::of_int(element<int16_t>(memory, index));
    case DType::i8: return Number::of_int(element<int8_t>(memory, index));
    case DType::u8: return Number::of_int(element<uint8_t>(memory, index));
    case DType::b8: return Number::of_int(element<uint8_t>(memory, index) != 0);
    default: BRAZE_CHECK(false, "no kernel reads ", ir::name(dtype));
  }
}

void write_element(void* memory, DType dtype, int64_t index, Number value) {
  switch (dtype) {
    case DType::f64: return set_element(memory, index, value.as_double());
    case DType::f32: return set_element(memory, index, static_cast<float>(value.as_double()));
    case DType::bf16: return set_element(memory, index, to_bf16(static_cast<float>(value.as_double())));
    case DType::f16: return set_element(memory, index, to_f16(static_cast<float>(value.as_double())));
    case DType::i64: return set_element(memory, index, value.as_int());
    case DType::i32: return set_element(memory, index, static_cast<int32_t>(value.as_int()));
    case DType::i16: return set_element(memory, index, static_cast<int16_t>(value.as_int()));
    case DType::i8: return set_element(memory, index, static_cast<int8_t>(value.as_int()));
    case DType::u8: return set_element(memory, index, static_cast<uint8_t>(value.as_int()));
    case DType::b8: return set_element(memory, index, static_cast<uint8_t>(value.as_int() != 0));
    default: BRAZE_CHECK(false, "no kernel writes ", ir::name(dtype));
  }
}

Number convert(Number value, DType to) {
  if (to == DType::b8) return Number::of_int(value.floating ? value.f != 0 : value.i != 0);
  if (!ir::is_floating(to)) return Number::of_int(value.floating ? truncated(value.f, to) : wrap(value.i, to));
  if (to == DType::bf16) return Number::of(from_bf16(to_bf16(convert(value, DType::f32).f)));
  if (to == DType::f16) return Number::of(from_f16(to_f16(convert(value, DType::f32).f)));
  // Straight from i64 to f32: by way of f64 it would round twice.
  if (!value.floating && to == DType::f32) return Number::of(static_cast<float>(value.i));
  return Number::of(round_to(value.as_double(), to));
}

Number evaluate(Op op, DType type, const std::array<Number, 3>& operands) {
  const auto& [x, y, z] = operands;
  const bool floating = ir::is_floating(type);
  switch (ir::info(op).kind) {
    case ir::OpKind::UnaryTest:
      if (op == Op::logical_not) return Number::of_int(x.as_double() == 0);
      if (op == Op::signbit) return Number::of_int(floating ? std::signbit(x.f) : x.i < 0);
      if (!floating) return Number::of_int(0);
      return Number::of_int(op == Op::isnan ? std::isnan(x.f) : std::isinf(x.f));
    case ir::OpKind::Compare:
      return Number::of_int(*(floating ? test::comparison(op, x.f, y.f) : test::comparison(op, x.i, y.i)));
    case ir::OpKind::Ternary: return x.i ? y : z;
    default: break;
  }
  if (floating) return Number::of(round_to(evaluate_floating(op, type, x.f, y.f), type));
  return Number::of_int(wrap(evaluate_integral(op, type, x.i, y.i), type));
}

}  // namespace braze::loops::oracle
