// log, log2, log10, log1p.
//
// x = 2**e * (1 + f) with sqrt(1/2) <= 1 + f < sqrt(2), and log(1 + f) = f + tail(f), the two kept apart until the
// last additions. The reduction on the bits is that of FreeBSD's msun; f64's tail is fdlibm's, with atanh.
#include "codegen/math_coefficients.h"
#include "codegen/math_lanes.h"
#include "codegen/x86/math_avx512.h"

namespace braze::codegen {

namespace {

using V = llvm::Value*;

struct Parts {
  V e, f;      // as numbers
  V exponent;  // e as bits
};

/// For x > 0 and normal.
Parts split(const Lanes& l, V x) {
  llvm::IRBuilderBase& b = l.b;
  const uint64_t sqrt_half = l.is_double() ? 0x3fe6a09e667f3bcdull : 0x3f3504f3ull;
  const uint64_t one = l.exponent_bias() << l.mantissa_bits();
  const uint64_t mantissa = (uint64_t(1) << l.mantissa_bits()) - 1;
  const V shifted = b.CreateAdd(l.to_bits(x), l.bits(one - sqrt_half));
  const V biased = b.CreateLShr(shifted, l.bits(l.mantissa_bits()));
  const V fraction = b.CreateAdd(b.CreateAnd(shifted, l.bits(mantissa)), l.bits(sqrt_half));
  // An integer below 2^11, to a number: put it below the rounder's bits and take the rounder away.
  const V number = l.from_bits(b.CreateAdd(biased, l.to_bits(l.rounder())));
  const V e = l.sub(number, l.add(l.rounder(), l.number(static_cast<double>(l.exponent_bias()))));
  return {e, l.sub(l.from_bits(fraction), l.number(1)), b.CreateSub(biased, l.bits(l.exponent_bias()))};
}

/// log(1 + f) - f.
V log_tail(const Lanes& l, V f) {
  const V square = l.mul(f, f);
  if (!l.is_double()) {
    const V p = l.polynomial(coefficients::log_f32, f);
    return l.mul(square, l.fma(f, p, l.number(-0.5)));
  }
  const V s = l.div(f, l.add(f, l.number(2)));
  const V z = l.mul(s, s);
  const V half_square = l.mul(square, l.number(0.5));
  const V twice_z = l.add(z, z);
  const V r = l.fma(twice_z, l.polynomial(coefficients::log_f64, z), half_square);
  return l.fma(s, r, l.neg(half_square));
}

/// Splits x > 0, denormals included.
Parts split_any(const Lanes& l, V x) {
  const V tiny = l.less(x, l.pick(0x1p-126, 0x1p-1022));
  Parts parts = split(l, l.select(tiny, l.mul(x, l.pick(0x1p23, 0x1p52)), x));
  parts.e = l.add(parts.e, l.select(tiny, l.pick(-23, -52), l.number(0)));
  return parts;
}

/// Results that the reduction cannot give: log of inf and NaN is itself, of 0 is -inf, below 0 is NaN.
V with_special_cases(const Lanes& l, V argument, V x, V result) {
  result = l.select(l.less(argument, l.infinity()), result, x);
  result = l.select(l.equal(argument, l.number(0)), l.neg(l.infinity()), result);
  return l.select(l.less(argument, l.number(0)), l.nan(), result);
}

// ln 2 and log10 2 in two parts, the first with so few bits that e times it is exact.
constexpr double kLn2[2][2] = {{0x1.62ep-1, 0x1.0bfbe8p-15}, {0x1.62e42fefa2000p-1, 0x1.9ef35793c7673p-41}};
constexpr double kLog10Of2[2][2] = {{0x1.344p-2, 0x1.3509f8p-18}, {0x1.34413509f6000p-2, 0x1.9fef311f12b36p-42}};
// 1/ln 2 and 1/ln 10: rounded, and what the rounding left.
constexpr double kLog2E[2][2] = {{0x1.715476p+0, 0x1.4ae0cp-26}, {0x1.71547652b82fep+0, 0x1.777d0ffda0d24p-56}};
constexpr double kLog10E[2][2] = {{0x1.bcb7b2p-2, -0x1.5b235ep-27}, {0x1.bcb7b1526e50ep-2, 0x1.95355baaafad3p-57}};

/// e * ln 2 + f + tail.
V join(const Lanes& l, const Parts& parts, V tail) {
  const auto& ln2 = kLn2[l.is_double()];
  return l.fma(parts.e, l.number(ln2[0]), l.add(parts.f, l.fma(parts.e, l.number(ln2[1]), tail)));
}

}  // namespace

V emit_log(const Lanes& l, V x) {
  if (has_f32_tables(l)) return emit_log_by_table(l, x);
  const Parts parts = split_any(l, x);
  return with_special_cases(l, x, x, join(l, parts, log_tail(l, parts.f)));
}

V emit_log2(const Lanes& l, V x) {
  const Parts parts = split_any(l, x);
  const auto& factor = kLog2E[l.is_double()];
  const V high = l.number(factor[0]);
  const V low = l.fma(log_tail(l, parts.f), high, l.mul(parts.f, l.number(factor[1])));
  return with_special_cases(l, x, x, l.add(parts.e, l.fma(parts.f, high, low)));
}

V emit_log10(const Lanes& l, V x) {
  const Parts parts = split_any(l, x);
  const auto& factor = kLog10E[l.is_double()];
  const auto& two = kLog10Of2[l.is_double()];
  const V high = l.number(factor[0]);
  V low = l.fma(parts.f, l.number(factor[1]), l.mul(parts.e, l.number(two[1])));
  low = l.fma(log_tail(l, parts.f), high, low);
  return with_special_cases(l, x, x, l.fma(parts.e, l.number(two[0]), l.fma(parts.f, high, low)));
}

// 1 + x rounds to u, and what the rounding lost (Knuth's two-sum) is put back into f.
V emit_log1p(const Lanes& l, V x) {
  const V one = l.number(1);
  const V u = l.add(x, one);
  const V virtual_x = l.sub(u, one);
  const V lost = l.add(l.sub(one, l.sub(u, virtual_x)), l.sub(x, virtual_x));
  Parts parts = split(l, u);
  // At 2^64 and beyond nothing is lost, and 2^-e need not exist.
  const V bounded = l.b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, parts.exponent, l.bits(64));
  const V inverse =
      l.from_bits(l.b.CreateShl(l.b.CreateSub(l.bits(l.exponent_bias()), bounded), l.bits(l.mantissa_bits())));
  parts.f = l.fma(lost, inverse, parts.f);
  const V result = with_special_cases(l, u, x, join(l, parts, log_tail(l, parts.f)));
  return l.select(l.less(l.abs(x), l.pick(0x1p-25, 0x1p-54)), x, result);  // keeps -0.0 and denormals
}

}  // namespace braze::codegen
