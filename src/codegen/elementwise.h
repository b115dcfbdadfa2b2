// codegen/elementwise.h: one elementwise op on scalars or fixed vectors.
//
// The transcendental functions are codegen/math.h's; everything else is here. Semantics are eager PyTorch's:
// integers wrap, maximum and minimum give NaN if either operand is NaN, remainder has the sign of the divisor. An
// integer divisor of zero gives 0 (the op `divisor` reports it).
#pragma once

#include <llvm/ADT/ArrayRef.h>
#include <llvm/IR/IRBuilder.h>

#include "ir/graph.h"

namespace braze::codegen {

/// \param type  of the operands (for `where`: of the second). Not for `cast`, which is convert() of types.h.
/// Adds no basic block, so it may be called with the builder in the middle of one, unless adds_blocks says
/// otherwise.
llvm::Value* emit_elementwise(llvm::IRBuilderBase& b, ir::Op op, ir::DType type, llvm::ArrayRef<llvm::Value*> args);

/// Where a value does not pass the check that is `op` (loops::status_of): a bool for each lane.
llvm::Value* fails_check(llvm::IRBuilderBase& b, ir::Op op, llvm::Value* x);

/// Ops that end the builder's block and go on in another.
bool adds_blocks(ir::Op op, ir::DType type);

/// The larger (smaller); NaN if either is. If `sticky` is NaN the result is `sticky` itself: pass the accumulator
/// there, because `fresh` is then off the critical path but for one instruction.
llvm::Value* emit_maximum(llvm::IRBuilderBase& b, ir::DType type, llvm::Value* fresh, llvm::Value* sticky);
llvm::Value* emit_minimum(llvm::IRBuilderBase& b, ir::DType type, llvm::Value* fresh, llvm::Value* sticky);

}  // namespace braze::codegen
