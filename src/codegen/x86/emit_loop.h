// codegen/x86/emit_loop.h: loops as segments, over lanes or one by one, and their reductions.
#pragma once

#include "codegen/x86/emit_statements.h"

namespace braze::codegen {

/// States of a loop's reductions: [reduction][copy and part].
using Accumulators = llvm::SmallVector<llvm::SmallVector<State, 4>, 2>;

class LoopEmitter : public StatementEmitter {
 protected:
  using StatementEmitter::StatementEmitter;

  void emit_loop(const Loop& loop);
  static int64_t divisor_of_length(const Loop& loop);
  void run_loop(const Loop& loop, llvm::Value* begin, llvm::Value* end, int64_t divisor = 1);
  void run_scalar(const Loop& loop, llvm::Value* begin, llvm::Value* end, Accumulators& states);
  void run_vector(const Loop& loop, llvm::Value* begin, llvm::Value* end, Accumulators& states, int64_t divisor);
  void run_ragged(const Loop& loop, Accumulators& states);
  /// Opens a level for a loop; if `guard` it is skipped (and `states` kept) unless the guard holds.
  struct OpenLoop {
    llvm::BasicBlock* before = nullptr;
    llvm::BasicBlock* done = nullptr;
    Accumulators initial;
  };
  OpenLoop open_loop(const Loop& loop, llvm::Value* guard, const Accumulators& initial);
  void close_loop(const OpenLoop& open, Accumulators& states);
  enum class Trips : uint8_t { any, at_least_one, at_most_one };  ///< How often a segment runs, if that is known.
  void run_segment(llvm::Value* from, llvm::Value* to, int64_t stride, Accumulators& states,
                   llvm::function_ref<void(llvm::Value*, Accumulators&)> body, Trips trips = Trips::any);
  /// At the end of a step of one.
  void step_odometers(Level& level, llvm::BasicBlock* latch);
  /// One copy of the body; `states` from `first` on (as many as there are parts) take its contributions.
  void run_body(const Loop& loop, Accumulators& states, unsigned first, bool masked);
  void set_variable(const Loop& loop, llvm::Value* variable, int64_t shift, bool vector);
  void vector_tail(const Loop& loop, llvm::Value* from, llvm::Value* to, Accumulators& states, unsigned width,
                   Trips trips, bool aligned = false);
  void finish_vector(const Loop& loop, Accumulators& vectors, Accumulators& states);
  Reducer reducer(const Reduction& reduction);
  State first_state(const Reduction& reduction, unsigned part);
  Accumulators first_states(const Loop& loop);
  Accumulators identities(const Loop& loop, unsigned copies, unsigned width);
  void fold(const Loop& loop, Accumulators& states, unsigned keep);
  bool can_vectorise(const Loop& loop) const;
  unsigned width_of(const Loop& loop) const;
  int weight_of(const Block& block) const;
  bool wants_alignment(const Loop& loop);
  bool tail_is_scalar(const Loop& loop) const;
  bool may_run_twice(const Loop& loop) const;
  bool is_small_window(const Loop& loop, int64_t count) const;
};

}  // namespace braze::codegen
