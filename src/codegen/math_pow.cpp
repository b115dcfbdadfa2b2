// pow and atan2 of f32, in double inside: that costs twice the registers and saves all care about rounding.
#include "codegen/math_coefficients.h"
#include "codegen/math_lanes.h"

namespace braze::codegen {

namespace {

using V = llvm::Value*;

/// log2 of a positive normal double, to 2^-45. s = (m-1)/(m+1), log2(m) = s * P(s^2).
V log2_of(const Lanes& d, V x) {
  llvm::IRBuilderBase& b = d.b;
  constexpr uint64_t kSqrtHalf = 0x3fe6a09e667f3bcd, kOne = 0x3ff0000000000000;
  const V shifted = b.CreateAdd(d.to_bits(x), d.bits(kOne - kSqrtHalf));
  const V biased = b.CreateLShr(shifted, d.bits(52));
  const V e = d.sub(d.from_bits(b.CreateAdd(biased, d.to_bits(d.rounder()))), d.number(0x1.8p52 + 1023));
  const V m = d.from_bits(b.CreateAdd(b.CreateAnd(shifted, d.bits((1ull << 52) - 1)), d.bits(kSqrtHalf)));
  const V s = d.div(d.sub(m, d.number(1)), d.add(m, d.number(1)));
  return d.fma(s, d.polynomial(coefficients::pow_log2_f64, d.mul(s, s)), e);
}

/// 2**z to 2^-34. Beyond +-1000 the result is no float anyway.
V exp2_of(const Lanes& d, V z) {
  z = d.at_least(d.at_most(z, d.number(1000)), d.number(-1000));
  const V rounded = d.add(z, d.rounder());
  const V r = d.sub(z, d.sub(rounded, d.rounder()));
  const V power =
      d.from_bits(d.b.CreateAdd(d.b.CreateShl(d.to_bits(rounded), d.bits(52)), d.bits(0x3ff0000000000000)));
  return d.mul(d.fma(r, d.polynomial(coefficients::pow_exp2_f64, r), d.number(1)), power);
}

V is_integer(const Lanes& l, V x) {
  return l.equal(l.b.CreateUnaryIntrinsic(llvm::Intrinsic::trunc, x), x);
}

V sign_bit(const Lanes& l, V x) {
  return l.b.CreateICmpSLT(l.to_bits(x), l.bits(0));
}

}  // namespace

// |x|**y = 2**(y * log2|x|), then the sign and the special cases of C's Annex F, the strongest last.
V emit_pow_f32(const Lanes& l, V x, V y) {
  llvm::IRBuilderBase& b = l.b;
  const Lanes d(b, l.doubles());
  const V magnitude = l.abs(x);
  V log2 = log2_of(d, b.CreateFPExt(magnitude, d.type()));
  log2 = b.CreateSelect(l.equal(magnitude, l.number(0)), d.neg(d.infinity()), log2);
  log2 = b.CreateSelect(l.equal(magnitude, l.infinity()), d.infinity(), log2);
  V result = b.CreateFPTrunc(exp2_of(d, d.mul(b.CreateFPExt(y, d.type()), log2)), l.type());
  result = l.select(l.equal(magnitude, l.number(1)), l.number(1), result);  // also with y = +-inf

  // Every float of 2^24 and more, and inf, is an even integer.
  const V y_is_integer = is_integer(l, y);
  const V y_is_odd = b.CreateAnd(y_is_integer, b.CreateNot(is_integer(l, l.mul(y, l.number(0.5)))));
  result = l.select(b.CreateAnd(sign_bit(l, x), y_is_odd), l.neg(result), result);
  const V below_zero = b.CreateAnd(l.less(x, l.number(0)), l.less(magnitude, l.infinity()));
  result = l.select(b.CreateAnd(below_zero, b.CreateNot(y_is_integer)), l.nan(), result);
  result = l.select(l.unordered(x, y), l.nan(), result);
  const V always_one = b.CreateOr(l.equal(y, l.number(0)), l.equal(x, l.number(1)));
  return l.select(always_one, l.number(1), result);
}

// atan(min/max) of the magnitudes, then the octant.
V emit_atan2_f32(const Lanes& l, V y, V x) {
  llvm::IRBuilderBase& b = l.b;
  const Lanes d(b, l.doubles());
  const V x_size = l.abs(x), y_size = l.abs(y);
  const V steep = l.greater(y_size, x_size);
  const V smaller = l.select(steep, x_size, y_size), larger = l.select(steep, y_size, x_size);
  V q = d.div(b.CreateFPExt(smaller, d.type()), b.CreateFPExt(larger, d.type()));
  q = b.CreateSelect(l.equal(larger, l.number(0)), d.number(0), q);
  q = b.CreateSelect(l.equal(smaller, l.infinity()), d.number(1), q);
  V angle = d.mul(q, d.polynomial(coefficients::atan_f64, d.mul(q, q)));
  constexpr double kPi = 0x1.921fb54442d18p+1;
  angle = b.CreateSelect(steep, d.sub(d.number(kPi / 2), angle), angle);
  angle = b.CreateSelect(sign_bit(l, x), d.sub(d.number(kPi), angle), angle);
  const V result = l.copysign(b.CreateFPTrunc(angle, l.type()), y);
  return l.select(l.unordered(x, y), l.nan(), result);
}

}  // namespace braze::codegen
