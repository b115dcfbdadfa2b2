// exp, exp2, expm1 and what is made of them: tanh, sigmoid, erf.
//
// e**x = 2**n * e**r with n = round(x / ln 2), |r| <= ln(2)/2 (Cody and Waite 1980). n is found by adding a number
// so large that only the integer part is left in its mantissa; its low bits are then moved into an exponent. NaN
// goes through every multiplication, whatever its bits do to an exponent.
#include <llvm/IR/IntrinsicsX86.h>

#include "codegen/math_coefficients.h"
#include "codegen/math_lanes.h"
#include "codegen/x86/math_avx512.h"

namespace braze::codegen {

namespace {

using V = llvm::Value*;

/// x = n * ln 2 + r. `rounded` is n + Lanes::rounder().
struct Reduced {
  V rounded, n, r;
};

constexpr double kLog2E = 0x1.71547652b82fep+0;
constexpr double kLogLargestFloat = 0x1.62e42ep+6, kLogLargest = 0x1.62e42fefa39efp+9;  // e**x overflows above.
// ln 2 in two parts. f32: the second makes up for the rounding of the first.
constexpr double kLn2Float = 0x1.62e43p-1, kLn2FloatLow = -0x1.05c61p-29;
constexpr double kLn2Double = 0x1.62e42fefa39efp-1, kLn2DoubleLow = 0x1.abc9e3b39803fp-56;

/// With a bias of b, r lies in [-ln(2) * (1/2 + b), ln(2) * (1/2 - b)].
Reduced reduce(const Lanes& l, V x, double bias = 0) {
  Reduced result;
  result.rounded = bias == 0 ? l.fma(x, l.number(kLog2E), l.rounder())
                             : l.add(l.fma(x, l.number(kLog2E), l.number(bias)), l.rounder());
  result.n = l.sub(result.rounded, l.rounder());
  result.r = l.fma(result.n, l.pick(-kLn2Float, -kLn2Double), x);
  result.r = l.fma(result.n, l.pick(-kLn2FloatLow, -kLn2DoubleLow), result.r);
  return result;
}

/// e**r - 1 for a reduced r.
V expm1_of_reduced(const Lanes& l, V r) {
  const V tail = l.is_double() ? l.polynomial(coefficients::exp_f64, r) : l.polynomial(coefficients::exp_f32, r);
  return l.fma(l.mul(r, r), tail, r);
}

/// 2**(n + offset), where that is a normal number.
V power_of_two(const Lanes& l, V rounded, int64_t offset = 0) {
  const V exponent = l.b.CreateShl(l.to_bits(rounded), l.bits(l.mantissa_bits()));
  const uint64_t biased = l.exponent_bias() + static_cast<uint64_t>(offset);
  return l.from_bits(l.b.CreateAdd(exponent, l.bits(biased << l.mantissa_bits())));
}

/// The AVX-512 instruction that multiplies by a power of two, if the function may use it for this type.
llvm::Intrinsic::ID scalef(const Lanes& l) {
  const llvm::Attribute cpu = l.b.GetInsertBlock()->getParent()->getFnAttribute("target-cpu");
  if (!cpu.isStringAttribute() || cpu.getValueAsString() != "x86-64-v4") return llvm::Intrinsic::not_intrinsic;
  switch (l.count() * (l.is_double() ? 8 : 4)) {
    case 64:
      return l.is_double() ? llvm::Intrinsic::x86_avx512_mask_scalef_pd_512
                           : llvm::Intrinsic::x86_avx512_mask_scalef_ps_512;
    case 32:
      return l.is_double() ? llvm::Intrinsic::x86_avx512_mask_scalef_pd_256
                           : llvm::Intrinsic::x86_avx512_mask_scalef_ps_256;
    default: return llvm::Intrinsic::not_intrinsic;
  }
}

/// value * 2**n with one rounding, for |n| up to twice the exponent's range.
V scale(const Lanes& l, V value, const Reduced& x) {
  if (const llvm::Intrinsic::ID id = scalef(l)) {
    const unsigned mask_bits = std::max(l.count(), 8u);
    llvm::SmallVector<V, 5> args{value, x.n, l.number(0),
                                 llvm::ConstantInt::getAllOnesValue(l.b.getIntNTy(mask_bits))};
    const bool is_zmm = l.type()->getPrimitiveSizeInBits() == 512;
    if (is_zmm) args.push_back(l.b.getInt32(4));  // the rounding of the control register
    return l.b.CreateIntrinsic(id, {}, args);
  }
  // In two halves, each of which is a normal number.
  const V n = l.b.CreateSub(l.to_bits(x.rounded), l.to_bits(l.rounder()));
  const V half = l.b.CreateAShr(n, l.bits(1));
  const auto power = [&](V exponent) {
    return l.from_bits(
        l.b.CreateShl(l.b.CreateAdd(exponent, l.bits(l.exponent_bias())), l.bits(l.mantissa_bits())));
  };
  return l.mul(l.mul(value, power(half)), power(l.b.CreateSub(n, half)));
}

/// (numerator + low) / (sum + lost) for 1 <= sum <= 2, rounded once: the remainder of the first quotient and what
/// is lost count 1/sum times, for which a straight line does. A null `low` is 0.
V divide(const Lanes& l, V numerator, V sum, V lost, V low = nullptr) {
  const V quotient = l.near_quotient(numerator, sum);
  const V minus_quotient = l.neg(quotient);
  V remainder = l.fma(minus_quotient, sum, numerator);
  if (low) remainder = l.add(remainder, low);
  remainder = l.fma(minus_quotient, lost, remainder);
  return l.fma(remainder, l.fma(sum, l.number(-0.5), l.number(1.5)), quotient);
}

}  // namespace

V emit_exp(const Lanes& l, V x) {
  if (has_f32_tables(l)) return emit_exp_by_table(l, x);
  x = l.at_least(l.at_most(x, l.pick(89, 710)), l.pick(-104, -746));
  const Reduced reduced = reduce(l, x);
  return scale(l, l.add(expm1_of_reduced(l, reduced.r), l.number(1)), reduced);
}

V emit_exp2(const Lanes& l, V x) {
  if (has_f32_tables(l)) return emit_exp2_by_table(l, x);
  x = l.at_least(l.at_most(x, l.pick(129, 1025)), l.pick(-151, -1076));
  Reduced reduced;
  reduced.rounded = l.add(x, l.rounder());
  reduced.n = l.sub(reduced.rounded, l.rounder());
  reduced.r = l.sub(x, reduced.n);
  const V slope = l.is_double() ? l.polynomial(coefficients::exp2_f64, reduced.r)
                                : l.polynomial(coefficients::exp2_f32, reduced.r);
  return scale(l, l.fma(slope, reduced.r, l.number(1)), reduced);
}

// With q = e**r - 1: 2**n * q + (2**n - 1), doubled at the end so that n may be one past the largest exponent.
V emit_expm1(const Lanes& l, V x) {
  const V clamped = l.at_least(l.at_most(x, l.pick(89, 710)), l.pick(-18, -38));
  const Reduced reduced = reduce(l, clamped);
  const V half = power_of_two(l, reduced.rounded, -1);
  const V sum = l.fma(half, expm1_of_reduced(l, reduced.r), l.sub(half, l.number(0.5)));
  // Tiny x is its own result: this keeps -0.0 and the last bit of denormals.
  return l.select(l.less(l.abs(x), l.pick(0x1p-25, 0x1p-54)), x, l.add(sum, sum));
}

// tanh(a) = -m / (m + 2) with m = e**-2a - 1, accurate near 0 because m is. n is biased, so that it is 0, where m
// has no other error than e**r - 1 itself, for all a below 0.27: just above, 2**n * (e**r - 1) + (2**n - 1) would
// cancel.
V emit_tanh(const Lanes& l, V x) {
  const V a = l.at_most(l.abs(x), l.pick(9.1, 19.2));  // 1 from there on
  const Reduced reduced = reduce(l, l.mul(a, l.number(-2)), 0.3);
  const V r = reduced.r;
  // Not polynomial(): its rounding errors would bring the result past 2 ulp.
  const V tail = l.is_double() ? l.horner(coefficients::tanh_f64, r) : l.horner(coefficients::tanh_f32, r);
  const V power = power_of_two(l, reduced.rounded);
  const V q = l.fma(l.mul(r, r), tail, r), power_minus_1 = l.sub(power, l.number(1));
  const V m = l.fma(power, q, power_minus_1);
  const V lost_from_m = l.fma(power, q, l.sub(power_minus_1, m));
  const V sum = l.add(m, l.number(2));
  const V lost = l.add(l.sub(m, l.sub(sum, l.number(2))), lost_from_m);
  return l.copysign(divide(l, m, sum, lost, lost_from_m), x);
}

// e**-|x| never overflows; for x < 0 the result is e**x / (1 + e**x). Eager computes 1 / (1 + e**-x), whose e**-x
// overflows before the quotient is 0: it is 0 from there on here, too, so that its logarithm is eager's -inf. What
// the sum 1 + e loses is put back at the end, times 1/sum, for which a straight line does.
V emit_sigmoid(const Lanes& l, V x) {
  const V magnitude = l.abs(x);
  const Reduced reduced = reduce(l, l.neg(magnitude));
  const V power = scale(l, l.add(expm1_of_reduced(l, reduced.r), l.number(1)), reduced);
  const V e = l.select(l.less(l.pick(kLogLargestFloat, kLogLargest), magnitude), l.number(0), power);
  const V sum = l.add(e, l.number(1));
  const V lost = l.sub(e, l.sub(sum, l.number(1)));
  return divide(l, l.select(l.less(x, l.number(0)), e, l.number(1)), sum, lost);
}

// erf(a) = 1 - e**-Q(a) with Q = -log(erfc(a)), a polynomial without constant term: one range for all a, accurate
// near 0 because e**r - 1 is.
V emit_erf_f32(const Lanes& l, V x) {
  if (has_f32_tables(l)) return emit_erf_by_table(l, x);
  constexpr double kSlope = 0x1.20dd76p+0;          // f32(2 / sqrt(pi)); its rounding error is in erf_f32[0]
  const V a = l.at_most(l.abs(x), l.number(3.95));  // 1 from there on
  const V minus_a = l.neg(a);
  const V tail = l.polynomial(coefficients::erf_f32, a);
  const V minus_q = l.fma(minus_a, l.number(kSlope), l.mul(minus_a, tail));
  const V rounded = l.fma(minus_q, l.number(kLog2E), l.rounder());
  const V n = l.sub(rounded, l.rounder());
  const V r = l.fma(n, l.number(-kLn2Float), minus_q);  // |n| <= 25: the low part of ln 2 does not show
  const V power = power_of_two(l, rounded);
  const V result = l.fma(l.neg(power), expm1_of_reduced(l, r), l.sub(l.number(1), power));
  return l.copysign(result, x);
}

}  // namespace braze::codegen
