// codegen/x86/interleave.h: puts what was written for several vectors one after another step by step beside each
// other.
//
//   a1 a2 a3 b1 b2 b3   becomes   a1 b1 a2 b2 a3 b3
//
// The CPU looks only so many instructions ahead. Where each instruction waits for the one before it, as in a
// polynomial, more of them run at once if their neighbours belong to other vectors: a tenth of the time of exp and
// log on Zen 5.
#pragma once

#include <llvm/ADT/SmallVector.h>
#include <llvm/IR/IRBuilder.h>

namespace braze::codegen {

class Interleave {
 public:
  explicit Interleave(llvm::IRBuilderBase& builder) : b_(builder), block_(builder.GetInsertBlock()) {
    begin_part();
  }
  void begin_part() { before_.push_back(last()); }  ///< What is written from here on is of the next vector.
  /// Reorders what was written since construction, if it is the same number of instructions a part, in one block.
  void finish();

 private:
  llvm::Instruction* last() const;  ///< In front of the insertion point; null at the block's beginning.

  llvm::IRBuilderBase& b_;
  llvm::BasicBlock* block_;
  llvm::SmallVector<llvm::Instruction*, 8> before_;
};

}  // namespace braze::codegen
