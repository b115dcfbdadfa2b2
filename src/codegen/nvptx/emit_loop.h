// codegen/nvptx/emit_loop.h: loops that one thread runs, and the arithmetic of their reductions.
#pragma once

#include "codegen/nvptx/emit_statements.h"

namespace braze::codegen::nvptx {

class LoopEmitter : public StatementEmitter {
 protected:
  using StatementEmitter::StatementEmitter;

  /// A loop over the warps or threads of a block.
  virtual void emit_bound(const Loop& loop) = 0;

  /// Runs an iteration for a value of the loop's variable; takes and gives the states of its reductions.
  using Body = llvm::function_ref<void(const Linear& variable, States& states)>;
  void emit_loop(const Loop& loop);
  void emit_serial(const Loop& loop, States& states);
  static bool accumulates_apart(const Loop& loop, const States& states, int64_t copies);
  void emit_written_out(const Loop& loop, const Linear& begin, const Linear& end, int64_t least, int64_t most,
                        States& states);
  void emit_lanes(const Loop& loop, States& states);
  /// while (variable < limit) body, variable += stride. Returns the variable's last value.
  /// \param facts  What is known of the variable.
  llvm::Value* run_while(llvm::Value* from, llvm::Value* limit, int64_t stride, const Base& facts,
                         bool at_least_once, States& states, Body body);
  void run_body(const Loop& loop, const Linear& variable, States& states);
  void guarded_states(llvm::Value* condition, States& states, llvm::function_ref<void(States&)> then);
  Linear bound(ValueId value, const Extent& extent);
  bool touches_registers(const Block& block) const;
  bool runs_in_lanes(const Loop& loop) const;
  bool is_straight(const Block& block) const;
  Reducer reducer(const Reduction& reduction);
  States first_states(const Loop& loop);
  State step(const Reduction& reduction, const State& state, const State& contribution);
  void define_results(const Loop& loop, const States& states);
  Values components(const States& states, size_t reduction, size_t component) const;
};

}  // namespace braze::codegen::nvptx
