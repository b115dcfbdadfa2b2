// codegen/nvptx/math.h: special functions where a GPU has instructions for them, or no library to call.
//
// f32: at most 2 ulp (sigmoid 3), as CUDA's own: e**x, erf, log and 1/sqrt(x) with the approximations that PTX has.
// What is not listed is codegen/math.h's for all targets.
#pragma once

#include "codegen/math_lanes.h"
#include "ir/graph.h"

namespace braze::codegen::nvptx {

using Unary = llvm::Value* (*)(const Lanes&, llvm::Value*);

/// How an op of one operand is written on a GPU; null: as everywhere.
Unary device_form(ir::Op op, bool is_double);

/// x * 1/y with the reciprocal that PTX approximates to an ulp; f32.
llvm::Value* approximate_quotient(const Lanes& l, llvm::Value* x, llvm::Value* y);

/// The exact remainder of x / y with the sign of x, as C's fmod. Ends the builder's block.
llvm::Value* emit_fmod(llvm::IRBuilderBase& b, llvm::Value* x, llvm::Value* y);

/// x as n * pi/2 + r + low for 1e5 < |x| in f32, however large: n in the lowest two bits of `quadrant`.
struct LargeAngle {
  llvm::Value *quadrant, *r, *low;
};
LargeAngle reduce_large(const Lanes& l, llvm::Value* x);

}  // namespace braze::codegen::nvptx
