// capture/generator.h: the CPU's random numbers while tracing.
//
// Random operators are recorded, not run, so that the generator stands still. A program that seeds it itself
// (torch.manual_seed) is noticed by the state being another one than expected; the new state is then set by a call in the
// graph, before the next random operator.
#pragma once

#include <ATen/ATen.h>

namespace braze::capture {

class Recorder;

class GeneratorWatch {
 public:
  /// Remembers the state. The generator gets a state that no user sets, so that seeding twice with one seed is seen.
  void begin();
  /// Records a change of the state since the last call, if there was one.
  void sync(Recorder& recorder);
  /// Puts the state back. May be called more than once.
  void end() noexcept;
  /// The state before the trace; what evaluation on the example inputs begins with.
  const at::Tensor& original() const { return original_; }
  const at::Tensor& expected() const { return expected_; }

 private:
  at::Tensor original_, marker_, expected_;
  at::Tensor last_;  ///< Defined after end(): the state that the program left.
};

at::Tensor cpu_generator_state();
void set_cpu_generator_state(const at::Tensor& state);

}  // namespace braze::capture
