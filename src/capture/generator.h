// capture/generator.h: the CPU's random numbers while tracing.
//
// Random operators are recorded, not run. So that programs which handle the generator's state are understood, the
// generator is seeded with a *marker* at the beginning and after every random operator: a seed that no user takes.
// Another seed than the expected one was set by the program: if it is an earlier marker, the program goes back to
// the state of that place (fork_rng), which a call in the graph must save there; else it is the user's
// (manual_seed). Seeds are compared, not states: numbers that another thread draws meanwhile change the state
// alone.
#pragma once

#include <ATen/ATen.h>

#include <span>
#include <utility>
#include <vector>

#include "ir/graph.h"

namespace braze::capture {

class Recorder;

class GeneratorWatch {
 public:
  /// Remembers the state and sets the first marker. The generator is one for all threads: of traces that overlap in
  /// time the first remembers, the last puts back.
  void begin();
  /// Records what the program did to the state since the last call, if anything.
  void sync(Recorder& recorder);
  /// A random operator was recorded.
  void advance(ir::Node* random);
  /// Puts the state back. May be called more than once.
  void end() noexcept;
  bool active() const { return original_.defined() && !last_.defined(); }
  /// The state before the trace; what evaluation on the example inputs begins with.
  const at::Tensor& original() const { return original_; }

 private:
  struct Marker {
    uint64_t seed;
    ir::Node* after;             ///< The random operator before it; null: the beginning.
    ir::Value* saved = nullptr;  ///< The state there, once some later place needs it.
  };
  void mark(ir::Node* after);

  at::Tensor original_;
  at::Tensor last_;  ///< Defined after end(): the state that the program left.
  uint64_t last_seed_ = 0;
  uint64_t expected_seed_ = 0;
  std::vector<Marker> markers_;
};

/// States of generators, to be put back.
class GeneratorStates {
 public:
  GeneratorStates() = default;
  /// Throws where a generator's state may not be asked: while its device's stream is captured.
  explicit GeneratorStates(std::span<const at::Generator> generators);
  void put_back() const;
  explicit operator bool() const { return !states_.empty(); }

 private:
  std::vector<std::pair<at::Generator, at::Tensor>> states_;
};

/// Puts the default generators of the CPU and of CUDA devices back at its end.
class KeptGenerators {
 public:
  KeptGenerators();
  ~KeptGenerators();
  KeptGenerators(const KeptGenerators&) = delete;
  KeptGenerators& operator=(const KeptGenerators&) = delete;

 private:
  GeneratorStates states_;
};

/// The default generators that there are: the CPU's, and those of CUDA devices once one has been traced for.
std::vector<at::Generator> default_generators();
at::Generator default_generator(c10::Device device);

at::Tensor cpu_generator_state();
void set_cpu_generator_state(const at::Tensor& state);

}  // namespace braze::capture
