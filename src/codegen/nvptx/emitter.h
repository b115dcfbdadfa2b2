// codegen/nvptx/emitter.h: phases to kernel functions, and the loops over the threads of a block.
#pragma once

#include <string>
#include <vector>

#include "codegen/nvptx/emit_loop.h"

namespace braze::codegen::nvptx {

class Emitter final : public LoopEmitter {
 public:
  Emitter(const Kernel& kernel, const Target& target, llvm::Module& module, bool aligned)
      : LoopEmitter(kernel, target, module, aligned) {}
  GpuPhase emit_phase(const Loop& loop, const std::string& name);
  std::vector<uint32_t> alignments() const { return alignments_; }

 private:
  void emit_block(const Block& block) override;
  void emit_stmt(const Stmt& stmt);

  uint32_t threads_of(const Loop& phase) const;
  void emit_bound(const Loop& loop) override;
  State join_threads(const Reduction& reduction, State state, int64_t threads, bool of_block);
  State join_block(const Reduction& reduction, State state, int64_t threads);
  State join_cluster(const Reduction& reduction, State state);
  State join_lanes(const Reduction& reduction, State state, unsigned lanes);
  llvm::Value* shuffle(llvm::Value* value, unsigned distance);
};

}  // namespace braze::codegen::nvptx
