// codegen/random.h: counter-based random numbers, for scalars and vectors alike.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include "ir/dtype.h"

namespace braze::codegen {

/// Of 32 bits each.
struct Words {
  llvm::Value *low, *high;
};

/// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011); key = seed, counter = the
/// 64-bit counter and zeros. Gives the first two of the four words.
Words philox(llvm::IRBuilderBase& b, llvm::Value* seed, llvm::Value* counter);

/// i32: the first word; i64: the second above the first; f32: 24 bits of the first; f64: 53 bits of both.
llvm::Value* random_number(llvm::IRBuilderBase& b, ir::DType type, Words words);

}  // namespace braze::codegen
