// codegen/x86/math_avx512.h: exp, exp2, log and erf of f32 with the instructions that only AVX-512 has.
//
// Sixteen constants fit into one register, and vpermps picks from it by four bits: a table of 2**(j/16) or of
// log(1 + j/16) leaves so small a rest that its polynomial is short; erf takes a polynomial for each of 16
// intervals. vgetexp, vgetmant and vscalef take numbers apart and put them together, denormals, zeros, infinities
// and NaN included, so that no special case is left.
#pragma once

#include "codegen/math_lanes.h"

namespace braze::codegen {

/// Whether a value of this type is float and the function being written may use AVX-512.
bool has_f32_tables(const Lanes& l);

// Of any number of lanes; fewer than 16 are computed as 16, so that all widths give the same. For these types only.
llvm::Value* emit_exp_by_table(const Lanes& l, llvm::Value* x);
llvm::Value* emit_exp2_by_table(const Lanes& l, llvm::Value* x);
llvm::Value* emit_log_by_table(const Lanes& l, llvm::Value* x);
llvm::Value* emit_erf_by_table(const Lanes& l, llvm::Value* x);

}  // namespace braze::codegen
