// codegen/x86/emitter.h: phases to functions.
#pragma once

#include <string>

#include "codegen/x86/emit_loop.h"

namespace braze::codegen {

class Emitter final : public LoopEmitter {
 public:
  Emitter(const Kernel& kernel, const Target& target, llvm::Module& module) : LoopEmitter(kernel, target, module) {}
  void emit_phase(const Loop& loop, const std::string& name);

 private:
  void emit_block(const Block& block) override;
  void emit_stmt(const Stmt& stmt);
};

}  // namespace braze::codegen
