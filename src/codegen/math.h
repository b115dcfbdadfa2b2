// codegen/math.h: exp, log, tanh, erf and their like as LLVM instructions.
//
// Inline polynomials with FMA, on a scalar or on all lanes of a fixed vector at once, shared by all targets with
// FMA. f32: at most 2 ulp over all arguments, denormals included; infinities, NaN and signed zeros as in libm. f64:
// exp, exp2, expm1, log, log2, log10, log1p, tanh, sigmoid and rsqrt are inline as well (at most 2 ulp); the others
// call libm lane by lane (codegen/x86/imports.h), and so do nextafter and, with codegen/special_functions.h,
// erfinv, lgamma and digamma of both types. Coefficients come from tools/fit_math.py.
#pragma once

#include <llvm/ADT/ArrayRef.h>
#include <llvm/IR/IRBuilder.h>

#include "ir/graph.h"

namespace braze::codegen {

/// The ops of math.cpp's table (exp, log, sin, asin, erf, pow, ...) of float, double or fixed vectors of them;
/// `args` are of one type, which is the result's. The builder's fast-math flags are ignored: FMAs stand where they
/// are meant, and nothing else may be contracted. Throws InternalError for another op or type.
llvm::Value* emit_math(llvm::IRBuilderBase& b, ir::Op op, llvm::ArrayRef<llvm::Value*> args);

/// emit_math ends the builder's block and goes on in another one: sin, cos and tan of f32, whose arguments beyond
/// 1e5 take a cold path. Take the block for a phi from the builder *after* the call.
bool math_adds_blocks(ir::Op op, bool is_double);

}  // namespace braze::codegen
