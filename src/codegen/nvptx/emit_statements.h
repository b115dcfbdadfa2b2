// codegen/nvptx/emit_statements.h: the statements that are neither memory nor loops: arithmetic, checks, branches.
#pragma once

#include "codegen/nvptx/emit_memory.h"

namespace braze::codegen::nvptx {

class StatementEmitter : public MemoryEmitter {
 protected:
  StatementEmitter(const Kernel& kernel, const Target& target, llvm::Module& module, bool aligned);

  void emit_scalar(const Stmt& stmt);
  void emit_compute(const Stmt& stmt);
  bool emit_number(const Stmt& stmt);
  void emit_checked(const Stmt& stmt);
  void emit_value_check(const Stmt& stmt);
  void set_status(llvm::Value* bad, int64_t status);
  void emit_branch(const Stmt& stmt);
  void emit_alloc(const Stmt& stmt);

 private:
  void number_checks(const Block& block);
  llvm::DenseMap<const Stmt*, int64_t> checks_;  ///< Numbers of checked statements, in order of the text.
};

}  // namespace braze::codegen::nvptx
