// capture/generator.h: the CPU's random numbers while tracing.
//
// Random operators are recorded, not run. So that programs which handle the generator's state are understood, the
// generator is given a *marker* state at the beginning and after every random operator: a state that no user sets.
// A state that is not the one expected was set by the program: if it is an earlier marker, the program goes back to
// the state of that place (fork_rng), which a call in the graph must save there; else it is a seed (manual_seed).
#pragma once

#include <ATen/ATen.h>

#include <vector>

#include "ir/graph.h"

namespace braze::capture {

class Recorder;

class GeneratorWatch {
 public:
  /// Remembers the state and sets the first marker.
  void begin();
  /// Records what the program did to the state since the last call, if anything.
  void sync(Recorder& recorder);
  /// A random operator was recorded.
  void advance(ir::Node* random);
  /// Puts the state back. May be called more than once.
  void end() noexcept;
  bool active() const { return expected_.defined() && !last_.defined(); }
  /// The state before the trace; what evaluation on the example inputs begins with.
  const at::Tensor& original() const { return original_; }
  /// The state that stands for where the trace is now.
  const at::Tensor& expected() const { return expected_; }

 private:
  struct Marker {
    at::Tensor state;
    ir::Node* after;             ///< The random operator before it; null: the beginning.
    ir::Value* saved = nullptr;  ///< The state there, once some later place needs it.
  };
  void mark(ir::Node* after);

  at::Tensor original_, expected_;
  at::Tensor last_;  ///< Defined after end(): the state that the program left.
  std::vector<Marker> markers_;
};

at::Tensor cpu_generator_state();
void set_cpu_generator_state(const at::Tensor& state);

}  // namespace braze::capture
