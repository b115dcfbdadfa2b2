// runtime/autograd/staged.h: a backward in several programs, each of which gives some of the gradients.
//
// One program gives them all at its end, as its kernels are made of whatever goes together. Where somebody waits
// for each gradient, DistributedDataParallel to send it or an optimizer to step and free it, the same graph is cut
// into stages (passes/backward_stages.h), which are compiled when they are first run.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "capture/trace.h"
#include "passes/partial_backward.h"
#include "runtime/family.h"
#include "runtime/program.h"

namespace braze::runtime {

class StagedPrograms {
 public:
  struct Stage {
    /// Of the whole backward graph; those behind its inputs are values that earlier stages hand on.
    std::vector<uint32_t> inputs;
    size_t gradients;                 ///< So many of its results are, and the others
    std::vector<uint32_t> handed_on;  ///< are these, as in `inputs`.
    capture::Trace trace;             ///< Until its program is made.
    std::shared_ptr<Program> program;
    std::shared_ptr<const ProgramFamily> family;  ///< Where sizes are expressions.
  };
  /// Where a gradient comes from.
  struct Gradient {
    passes::PartialBackward::Gradient::Kind kind;
    uint32_t index;  ///< Among the tangents of the whole graph, or the results of its stage.
    uint32_t stage;
  };
  /// \param gradients  by capture::Gradients::inputs.
  StagedPrograms(std::vector<Stage> stages, std::vector<Gradient> gradients, ProgramOptions options);

  size_t size() const { return stages_.size(); }
  const std::vector<Gradient>& gradients() const { return gradients_; }
  /// The last one that takes an input, counted as in Stage::inputs; 0: none does, or the first.
  uint32_t last_reader(size_t input) const { return input < last_reader_.size() ? last_reader_[input] : 0; }
  /// The program and trace in it are not looked at.
  const Stage& operator[](size_t number) const { return stages_[number]; }
  /// From several threads at once.
  std::shared_ptr<Program> at(size_t number, std::span<const int64_t> symbols) const;

 private:
  const std::vector<Gradient> gradients_;
  const ProgramOptions options_;
  std::vector<uint32_t> last_reader_;
  mutable std::mutex mutex_;  ///< Of traces, programs and families.
  mutable std::vector<Stage> stages_;
};

}  // namespace braze::runtime
