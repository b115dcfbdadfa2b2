// codegen/device.h: whether code that is being written will run on a GPU: arithmetic shared by all targets asks.
#pragma once

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

namespace braze::codegen {

inline bool is_for_gpu(const llvm::IRBuilderBase& b) {
  return llvm::StringRef(b.GetInsertBlock()->getModule()->getTargetTriple()).starts_with("nvptx");
}

}  // namespace braze::codegen
