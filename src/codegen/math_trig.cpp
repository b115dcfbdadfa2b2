// sin, cos, tan of f32.
//
// x = n * pi/2 + (r + low) with pi/2 in three parts (Cody and Waite 1980; FMA makes the first product exact). n
// must stay below 2^16 for that; lanes with |x| > 1e5 are rare, and a cold path calls libm for them, or reduces
// them with more care where there is none.
#include <llvm/IR/MDBuilder.h>

#include "codegen/device.h"
#include "codegen/math_coefficients.h"
#include "codegen/math_lanes.h"
#include "codegen/nvptx/math.h"

namespace braze::codegen {

namespace {

using V = llvm::Value*;

constexpr double kLargest = 1e5;
constexpr double kTwoOverPi = 0x1.45f306p-1;
constexpr double kHalfPi[3] = {0x1.921fb6p+0, -0x1.777a5cp-25, -0x1.ee59dap-50};

struct Reduced {
  V quadrant;  // bits; the lowest two count
  V r, low;
};

Reduced reduce_small(const Lanes& l, V x) {
  const V rounded = l.fma(x, l.number(kTwoOverPi), l.rounder());
  const V n = l.sub(rounded, l.rounder());
  const V first = l.fma(n, l.number(-kHalfPi[0]), x);
  // The second product and its rounding error, and Knuth's two-sum: near a multiple of pi/2 much of it cancels.
  const V product = l.mul(n, l.number(-kHalfPi[1]));
  const V r = l.add(first, product);
  const V virtual_product = l.sub(r, first);
  const V lost = l.add(l.sub(first, l.sub(r, virtual_product)), l.sub(product, virtual_product));
  const V product_error = l.fma(n, l.number(-kHalfPi[1]), l.neg(product));
  const V low = l.fma(n, l.number(-kHalfPi[2]), l.add(lost, product_error));
  return {l.to_bits(rounded), r, low};
}

/// The block that the builder goes on in, and one in front of it that runs where `condition` holds.
struct ColdPath {
  llvm::BasicBlock *here, *cold, *join;
};
ColdPath open_cold_path(llvm::IRBuilderBase& b, V condition) {
  ColdPath path{b.GetInsertBlock(), nullptr, nullptr};
  if (b.GetInsertPoint() == path.here->end()) {
    path.join = llvm::BasicBlock::Create(b.getContext(), "", path.here->getParent());
  } else {
    path.join = path.here->splitBasicBlock(b.GetInsertPoint());
    path.here->getTerminator()->eraseFromParent();
  }
  path.cold = llvm::BasicBlock::Create(b.getContext(), "large", path.here->getParent(), path.join);
  b.SetInsertPoint(path.here);
  b.CreateCondBr(condition, path.cold, path.join, llvm::MDBuilder(b.getContext()).createUnlikelyBranchWeights());
  b.SetInsertPoint(path.cold);
  return path;
}
V close_cold_path(llvm::IRBuilderBase& b, const ColdPath& path, V usual, V rare) {
  llvm::PHINode* phi = b.CreatePHI(usual->getType(), 2);
  phi->addIncoming(usual, path.here);
  phi->addIncoming(rare, path.cold);
  return phi;
}

V is_large(const Lanes& l, V x) {
  const V large = l.greater(l.abs(x), l.number(kLargest));
  if (l.count() == 1) return large;
  return l.b.CreateICmpNE(l.b.CreateBitCast(large, l.b.getIntNTy(l.count())), l.b.getIntN(l.count(), 0));
}

/// Of any x on a GPU, elsewhere of |x| <= kLargest.
Reduced reduce(const Lanes& l, V x) {
  const Reduced small = reduce_small(l, x);
  if (!is_for_gpu(l.b)) return small;
  const ColdPath path = open_cold_path(l.b, is_large(l, x));
  const nvptx::LargeAngle large = nvptx::reduce_large(l, x);
  l.b.CreateBr(path.join);
  l.b.SetInsertPoint(path.join, path.join->begin());
  return {close_cold_path(l.b, path, small.quadrant, large.quadrant), close_cold_path(l.b, path, small.r, large.r),
          close_cold_path(l.b, path, small.low, large.low)};
}

/// sin(r + low) = r + (low + r^3 * P).
V sin_of(const Lanes& l, const Reduced& x, V square) {
  const V p = l.polynomial(coefficients::sin_f32, square);
  return l.add(x.r, l.fma(l.mul(x.r, square), p, x.low));
}

/// cos(r + low) = 1 - r^2/2 + (r^4 * P - r*low), with what 1 - r^2/2 lost.
V cos_of(const Lanes& l, const Reduced& x, V square) {
  const V p = l.polynomial(coefficients::cos_f32, square);
  const V half = l.mul(square, l.number(0.5));
  const V head = l.sub(l.number(1), half);
  const V lost = l.sub(l.sub(l.number(1), head), half);
  const V tail = l.fma(l.mul(square, square), p, l.neg(l.mul(x.r, x.low)));
  return l.add(head, l.add(lost, tail));
}

V has_bit(const Lanes& l, V bits, uint64_t bit) {
  return l.b.CreateICmpNE(l.b.CreateAnd(bits, l.bits(bit)), l.bits(0));
}

/// The sine of quadrant `quadrant`.
V sine_in_quadrant(const Lanes& l, const Reduced& x, V quadrant) {
  const V square = l.mul(x.r, x.r);
  const V result = l.select(has_bit(l, quadrant, 1), cos_of(l, x, square), sin_of(l, x, square));
  const V sign = l.b.CreateShl(l.b.CreateAnd(quadrant, l.bits(2)), l.bits(30));
  return l.from_bits(l.b.CreateXor(l.to_bits(result), sign));
}

/// `result`, unless any lane of x is too large for reduce(), as only a CPU's can be: then `function` of libm in all
/// lanes.
V with_cold_path(const Lanes& l, std::string_view function, V x, V result) {
  if (is_for_gpu(l.b)) return result;
  const ColdPath path = open_cold_path(l.b, is_large(l, x));
  const V from_library = emit_library_call(l, function, x, nullptr);
  l.b.CreateBr(path.join);
  l.b.SetInsertPoint(path.join, path.join->begin());
  return close_cold_path(l.b, path, result, from_library);
}

/// Small x is its own sine and tangent: this keeps -0.0 and denormals.
V unless_tiny(const Lanes& l, V x, V result) {
  return l.select(l.less(l.abs(x), l.number(0x1p-13)), x, result);
}

}  // namespace

V emit_sin_f32(const Lanes& l, V x) {
  const Reduced reduced = reduce(l, x);
  return with_cold_path(l, "sin", x, unless_tiny(l, x, sine_in_quadrant(l, reduced, reduced.quadrant)));
}

V emit_cos_f32(const Lanes& l, V x) {
  const Reduced reduced = reduce(l, x);
  const V next_quadrant = l.b.CreateAdd(reduced.quadrant, l.bits(1));
  return with_cold_path(l, "cos", x, sine_in_quadrant(l, reduced, next_quadrant));
}

// tan(r + low) = r + (low * (1 + r^2) + r^3 * P); in odd quadrants -1 over it.
V emit_tan_f32(const Lanes& l, V x) {
  const Reduced reduced = reduce(l, x);
  const V square = l.mul(reduced.r, reduced.r);
  const V p = l.polynomial(coefficients::tan_f32, square);
  const V tail = l.fma(l.mul(reduced.r, square), p, l.fma(reduced.low, square, reduced.low));
  const V tangent = l.add(reduced.r, tail);
  const V result = l.select(has_bit(l, reduced.quadrant, 1), l.div(l.number(-1), tangent), tangent);
  return with_cold_path(l, "tan", x, unless_tiny(l, x, result));
}

}  // namespace braze::codegen
