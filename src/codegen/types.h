// codegen/types.h: element types as LLVM sees them, in registers and in memory, and conversions between them.
//
// In registers bf16 and f16 are float and bool is i1; in memory bf16 and f16 are 16 bits and bool is a byte of 0
// or 1. Every function takes scalars and fixed vectors alike: the number of lanes is that of its argument.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include "ir/dtype.h"

namespace braze::codegen {

using ir::DType;

/// `type`, or a vector of it if lanes > 1.
llvm::Type* with_lanes(llvm::Type* type, unsigned lanes);
/// Lanes of a value: 1 for a scalar.
unsigned lanes_of(const llvm::Value* value);

llvm::Type* register_type(llvm::LLVMContext& context, DType dtype, unsigned lanes = 1);
llvm::Type* memory_type(llvm::LLVMContext& context, DType dtype, unsigned lanes = 1);
/// Integers whose comparisons, shifts and extensions keep the sign; false for u8 and bool.
bool is_signed(DType dtype);

/// A number of `dtype` in every lane.
llvm::Constant* number(llvm::LLVMContext& context, DType dtype, double value, unsigned lanes = 1);
llvm::Constant* integer(llvm::LLVMContext& context, DType dtype, int64_t value, unsigned lanes = 1);

/// Converts as C does; to bool: x != 0. To bf16 and f16 rounds to nearest even and stays in a float register.
/// Floats that no integer holds give what the CPU gives (the smallest integer, cut to the width).
llvm::Value* convert(llvm::IRBuilderBase& b, llvm::Value* value, DType from, DType to);
/// What was loaded, as memory_type(stored), in registers (register_type(stored)).
llvm::Value* from_memory(llvm::IRBuilderBase& b, llvm::Value* value, DType stored);
/// The reverse; `value` is a register of type `from`.
llvm::Value* to_memory(llvm::IRBuilderBase& b, llvm::Value* value, DType from, DType stored);

}  // namespace braze::codegen
