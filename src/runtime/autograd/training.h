// runtime/autograd/training.h: a program whose results have a history: that of a joint trace.
//
// Forward and backward are two programs. What the backward needs is saved as autograd's own nodes save it, so that
// hooks on saved tensors, errors about tensors that were written to since, and freeing are eager's.
#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "capture/trace.h"
#include "passes/partition.h"
#include "runtime/autograd/partial.h"
#include "runtime/geometry.h"
#include "runtime/program.h"

namespace braze::capture {
class GeneratorStates;
struct VersionChecks;
}  // namespace braze::capture

namespace braze::runtime {

/// What the two programs of a joint trace have to do with each other, at all sizes.
struct TrainingSeam {
  capture::Gradients gradients;
  std::vector<passes::Saved> saved;  ///< Outputs by their place among the forward program's results.
  /// From which the engine comes to all inputs, and to nothing else.
  bool has_one_node() const { return gradients.tangents == 1 && gradients.inner.empty(); }
  // Gradients that may be asked for: of inputs, then what comes to inner results.
  size_t asked_for() const { return gradients.inputs.size() + gradients.inner.size(); }
  capture::Gradients::Input::Kind kind_of(size_t gradient) const;
  uint32_t index_of(size_t gradient) const;
  /// By place in `saved`, of an input that is held: where it is saved as itself, which also checks its version.
  std::vector<std::optional<uint32_t>> also_as;
  bool is_held(size_t place) const { return saved[place].kind == passes::Saved::Kind::held; }
  std::vector<int32_t> argument_of;  ///< By graph input: which argument it is, -1 if it is bound.
  size_t result_count = 0;           ///< That the caller sees.
  std::vector<bool> is_written;      ///< By graph input.
  /// Where an input of the tape is found again, by whoever runs the forward a second time.
  struct TapeInput {
    enum class Kind : uint8_t {
      constant,  ///< On the tape.
      saved,     ///< Among what the node saves: place `number`.
      gradient,  ///< It has gradient `number`: a leaf is held by the node that takes it.
      other
    } kind;
    uint32_t number;
    uint32_t input;  ///< Of the graph.
  };
  std::vector<TapeInput> tape_inputs;
  /// Null: the forward cannot be run again.
  const capture::Tape* tape() const;
  /// Some backward has been differentiated: calls hold what they read (runtime/autograd/second_derivative.h).
  mutable std::atomic<bool> is_differentiated_twice = false;
  /// Which gradients have a history when they are taken with a graph, as find_histories() tells, by what is known
  /// of the tangents: which are there, and which require grad.
  struct Histories {
    std::mutex mutex;
    std::map<std::vector<bool>, std::vector<bool>> known;
  };
  mutable Histories histories;
};

/// A joint trace, cut in two: of numbers or of expressions, as it was. Sizes of the forward's outputs are those of
/// the joint graph, which has to live as long.
struct TrainingTraces {
  capture::Trace forward;
  std::shared_ptr<const ir::Graph>
      backward;  ///< Null if no result has a history of its own: all are views of inputs.
  std::shared_ptr<const TrainingSeam> seam;
};
/// `joint.gradients` is there. Throws UserError where the cut is not possible (passes/partition.h).
TrainingTraces cut(const capture::Trace& joint);
/// Compiles the likely backward, and counts what it took among `times`, which become the forward's.
void compile_likely(const PartialPrograms& backwards, std::span<const int64_t> symbols, PhaseTimes& times);
/// How the two halves of what is asked for so are compiled.
ProgramOptions forward_options(ProgramOptions options);
ProgramOptions backward_options(const ProgramOptions& options);

class ForwardInputs;

class TrainingProgram : public std::enable_shared_from_this<TrainingProgram> {
 public:
  /// Cuts the trace's graph in two, and compiles both. `trace.gradients` is there.
  static std::shared_ptr<const TrainingProgram> compile(capture::Trace trace, const ProgramOptions& options,
                                                        PhaseTimes times);
  /// \param symbols  the values for which the forward is, and the backwards are to be.
  TrainingProgram(std::shared_ptr<const TrainingSeam> seam, std::shared_ptr<Program> forward,
                  std::shared_ptr<const PartialPrograms> backwards, std::span<const int64_t> symbols);

  /// As Program::run(). Results that require grad in eager have a node of this program's as their history.
  void run(const at::Tensor* const* arguments, at::Tensor* results) const;
  size_t result_count() const noexcept { return seam_->result_count; }

  const std::shared_ptr<Program>& forward() const { return forward_; }
  /// The likely backward. Null if no result has a history of its own: all are views of inputs.
  const std::shared_ptr<Program>& backward() const { return likely_.program; }
  int64_t saved_bytes() const { return saved_bytes_; }

  // For those who differentiate the backward.
  const capture::Gradients& gradients() const { return seam_->gradients; }
  std::span<const int64_t> symbols() const { return symbols_; }
  bool is_written(uint32_t input) const { return seam_->is_written[input]; }
  /// A tangent as the programs take it.
  at::Tensor laid_out(const std::vector<at::Tensor>& tangents, size_t number) const;
  /// Gradients count their writes as eager's do.
  void count_writes(const std::vector<at::Tensor>& gradients) const;
  const capture::Tape* tape() const { return seam_->tape(); }
  const capture::VersionChecks* checks() const;  ///< Null: nothing is to be checked.

 private:
  friend class BackwardNode;
  /// A backward for such tangents and gradients.
  PartialPrograms::Part part(const PartialPrograms::Pattern& pattern) const;
  size_t gradient_count() const { return backwards_->whole()->outputs().size(); }
  const at::Tensor& input(uint32_t number, const at::Tensor* const* arguments) const;
  ForwardInputs forward_inputs(const at::Tensor* const* arguments, capture::GeneratorStates generators) const;
  at::Tensor saved_tensor(const passes::Saved& saved, const at::Tensor* const* arguments,
                          const std::vector<at::Tensor>& results) const;

  const std::shared_ptr<const TrainingSeam> seam_;
  const std::shared_ptr<Program> forward_;
  const std::shared_ptr<const PartialPrograms> backwards_;
  const std::vector<int64_t> symbols_;  ///< Their values, where sizes of the joint trace are expressions.
  PartialPrograms::Part likely_;
  std::vector<Geometry> saved_;     ///< What backward programs take first.
  std::vector<Geometry> tangents_;  ///< As backward programs take them.
  int64_t saved_bytes_ = 0;
};

}  // namespace braze::runtime
