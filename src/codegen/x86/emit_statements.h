// codegen/x86/emit_statements.h: the statements that are neither memory nor loops: arithmetic, checks, branches.
#pragma once

#include "codegen/x86/emit_tile.h"

namespace braze::codegen {

class StatementEmitter : public TileEmitter {
 protected:
  StatementEmitter(const Kernel& kernel, const Target& target, llvm::Module& module);

  void emit_compute(const Stmt& stmt);
  bool emit_linear_division(const Stmt& stmt);
  bool emit_counted_division(const Stmt& stmt);
  bool emit_division_by_size(const Stmt& stmt);
  void emit_checked(const Stmt& stmt);
  void emit_value_check(const Stmt& stmt);
  void set_status(const Parts& bad, int64_t status);  ///< If any lane is bad.
  void emit_branch(const Stmt& stmt);
  void emit_scalar(const Stmt& stmt);

 private:
  /// Of a division in the body of a running segment that it can be kept for; null: it has to be divided.
  const Level::Odometer* odometer(const Slot& numerator, ValueId divisor);
  llvm::Value* above_zero(llvm::Value* size);
  void note_checked(const Block& block);
  llvm::DenseMap<const Stmt*, int64_t> ordinals_;  ///< Of checked statements, in order of the text.
};

}  // namespace braze::codegen
