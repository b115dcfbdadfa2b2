// codegen/nvptx/words.h: neighbouring elements as the vectors that wide loads and stores move: of 32 bits, or of
// the elements themselves where these are larger.
#pragma once

#include <llvm/ADT/ArrayRef.h>
#include <llvm/IR/IRBuilder.h>

#include "ir/dtype.h"

namespace braze::codegen::nvptx {

/// The type of an access of 2 to 16 bytes to more than one element.
llvm::Type* run_type(llvm::IRBuilderBase& b, ir::DType stored, int64_t bytes);
/// Element k of what was loaded so, in a register.
llvm::Value* take_out(llvm::IRBuilderBase& b, llvm::Value* run, ir::DType stored, int64_t k);
/// Elements in registers of the type's compute type, as run_type.
llvm::Value* put_together(llvm::IRBuilderBase& b, llvm::ArrayRef<llvm::Value*> elements, ir::DType stored);

}  // namespace braze::codegen::nvptx
