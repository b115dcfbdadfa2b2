// codegen/math_lanes.h: arithmetic on a float or double, scalar or vector alike, for writing inline math.
#pragma once

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Intrinsics.h>

#include <string_view>

#include "codegen/device.h"

namespace braze::codegen {

/// Writes instructions on values of one type: float, double or a fixed vector of either. `bits` are integers of the
/// same width. Fast-math flags of the builder are off for as long as a Lanes lives.
class Lanes {
 public:
  using V = llvm::Value*;

  Lanes(llvm::IRBuilderBase& builder, llvm::Type* type)
      : b(builder),
        guard_(builder),
        type_(type),
        is_double_(type->getScalarType()->isDoubleTy()),
        has_minimum_(!is_double_ && is_for_gpu(builder)) {
    b.clearFastMathFlags();
    llvm::Type* integer = is_double_ ? b.getInt64Ty() : b.getInt32Ty();
    bits_type_ = type->getWithNewType(integer);
  }

  bool is_double() const { return is_double_; }
  llvm::Type* type() const { return type_; }
  unsigned count() const {
    const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(type_);
    return vector ? vector->getNumElements() : 1;
  }
  /// The same number of lanes of double.
  llvm::Type* doubles() const { return type_->getWithNewType(b.getDoubleTy()); }

  V number(double value) const { return llvm::ConstantFP::get(type_, value); }
  V bits(uint64_t value) const { return llvm::ConstantInt::get(bits_type_, value); }
  /// The first for float, the second for double.
  V pick(double for_float, double for_double) const { return number(is_double_ ? for_double : for_float); }
  V infinity() const { return llvm::ConstantFP::getInfinity(type_); }
  V nan() const { return llvm::ConstantFP::getNaN(type_); }

  V add(V x, V y) const { return b.CreateFAdd(x, y); }
  V sub(V x, V y) const { return b.CreateFSub(x, y); }
  V mul(V x, V y) const { return b.CreateFMul(x, y); }
  V div(V x, V y) const { return b.CreateFDiv(x, y); }
  V near_quotient(V x, V y) const;  ///< x / y to 2 ulp, for 1 <= y <= 2.
  V neg(V x) const { return b.CreateFNeg(x); }
  V fma(V x, V y, V z) const { return b.CreateIntrinsic(llvm::Intrinsic::fma, {type_}, {x, y, z}); }
  V abs(V x) const { return b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x); }
  V sqrt(V x) const { return b.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, x); }
  V copysign(V magnitude, V sign) const {
    if (has_minimum_) {  // one instruction, where the intrinsic becomes five
      const uint64_t top = uint64_t{1} << 31;
      return from_bits(
          b.CreateOr(b.CreateAnd(to_bits(magnitude), bits(top - 1)), b.CreateAnd(to_bits(sign), bits(top))));
    }
    return b.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, magnitude, sign);
  }

  V to_bits(V x) const { return b.CreateBitCast(x, bits_type_); }
  V from_bits(V x) const { return b.CreateBitCast(x, type_); }

  V less(V x, V y) const { return b.CreateFCmpOLT(x, y); }
  V greater(V x, V y) const { return b.CreateFCmpOGT(x, y); }
  V equal(V x, V y) const { return b.CreateFCmpOEQ(x, y); }
  V unordered(V x, V y) const { return b.CreateFCmpUNO(x, y); }
  V select(V condition, V yes, V no) const { return b.CreateSelect(condition, yes, no); }
  /// NaN stays NaN: minps and maxps return their second operand then.
  V at_most(V x, V limit) const {
    if (has_minimum_) return b.CreateBinaryIntrinsic(llvm::Intrinsic::minimum, x, limit);
    return select(less(limit, x), limit, x);
  }
  V at_least(V x, V limit) const {
    if (has_minimum_) return b.CreateBinaryIntrinsic(llvm::Intrinsic::maximum, x, limit);
    return select(greater(limit, x), limit, x);
  }

  /// c[first] + c[first + step]*x + ..., by Horner's rule.
  template <typename T, size_t count>
  V horner(const T (&c)[count], V x, size_t first = 0, size_t step = 1) const {
    size_t i = first + (count - 1 - first) / step * step;
    V sum = number(c[i]);
    while (i != first) sum = fma(sum, x, number(c[i -= step]));
    return sum;
  }

  /// c[0] + c[1]*x + c[2]*x^2 + ... From six coefficients on, the even and the odd powers are two chains of
  /// Horner's rule in x^2: one more multiplication, but half the latency, which is what limits long kernels.
  template <typename T, size_t count>
  V polynomial(const T (&c)[count], V x) const {
    if constexpr (count < 6) return horner(c, x);
    const V square = mul(x, x);
    return fma(horner(c, square, 1, 2), x, horner(c, square, 0, 2));
  }

  /// 1.5 * 2^23 (2^52): added to a smaller x, it leaves round(x) in the low bits, ties to even.
  V rounder() const { return pick(0x1.8p23, 0x1.8p52); }
  unsigned mantissa_bits() const { return is_double_ ? 52 : 23; }
  uint64_t exponent_bias() const { return is_double_ ? 1023 : 127; }

  llvm::IRBuilderBase& b;

 private:
  llvm::IRBuilderBase::FastMathFlagGuard guard_;
  llvm::Type* type_;
  llvm::Type* bits_type_;
  bool is_double_;
  bool has_minimum_;  ///< An instruction that lets NaN win: a GPU's, for f32.
};

// One function an op (or a family), in math_exp.cpp, math_log.cpp, math_trig.cpp, math_inverse.cpp and
// math_pow.cpp.
llvm::Value* emit_exp(const Lanes& l, llvm::Value* x);
llvm::Value* emit_exp2(const Lanes& l, llvm::Value* x);
llvm::Value* emit_expm1(const Lanes& l, llvm::Value* x);
llvm::Value* emit_tanh(const Lanes& l, llvm::Value* x);
llvm::Value* emit_sigmoid(const Lanes& l, llvm::Value* x);
llvm::Value* emit_erf_f32(const Lanes& l, llvm::Value* x);
llvm::Value* emit_log(const Lanes& l, llvm::Value* x);
llvm::Value* emit_log2(const Lanes& l, llvm::Value* x);
llvm::Value* emit_log10(const Lanes& l, llvm::Value* x);
llvm::Value* emit_log1p(const Lanes& l, llvm::Value* x);
llvm::Value* emit_sin_f32(const Lanes& l, llvm::Value* x);
llvm::Value* emit_cos_f32(const Lanes& l, llvm::Value* x);
llvm::Value* emit_tan_f32(const Lanes& l, llvm::Value* x);
llvm::Value* emit_pow_f32(const Lanes& l, llvm::Value* x, llvm::Value* y);
llvm::Value* emit_atan2_f32(const Lanes& l, llvm::Value* y, llvm::Value* x);
llvm::Value* emit_asin_f32(const Lanes& l, llvm::Value* x);
llvm::Value* emit_acos_f32(const Lanes& l, llvm::Value* x);
llvm::Value* emit_atan_f32(const Lanes& l, llvm::Value* x);
llvm::Value* emit_sinh_f32(const Lanes& l, llvm::Value* x);
llvm::Value* emit_cosh_f32(const Lanes& l, llvm::Value* x);
llvm::Value* emit_asinh_f32(const Lanes& l, llvm::Value* x);
llvm::Value* emit_acosh_f32(const Lanes& l, llvm::Value* x);
llvm::Value* emit_atanh_f32(const Lanes& l, llvm::Value* x);
llvm::Value* emit_erfc_f32(const Lanes& l, llvm::Value* x);
llvm::Value* emit_hypot_f32(const Lanes& l, llvm::Value* x, llvm::Value* y);
/// libm on each lane, out of line (codegen/x86/imports.h). `second` is null for functions of one argument.
llvm::Value* emit_library_call(const Lanes& l, std::string_view function, llvm::Value* x, llvm::Value* second);

}  // namespace braze::codegen
