// runtime/autograd/training.h: a program whose results have a history: that of a joint trace.
//
// Forward and backward are two programs. What the backward needs is saved as autograd's own nodes save it, so that
// hooks on saved tensors, errors about tensors that were written to since, and freeing are eager's.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "capture/trace.h"
#include "passes/partition.h"
#include "runtime/geometry.h"
#include "runtime/program.h"

namespace braze::runtime {

class TrainingProgram : public std::enable_shared_from_this<TrainingProgram> {
 public:
  /// Cuts the trace's graph in two, and compiles both. `trace.gradients` is there.
  static std::shared_ptr<const TrainingProgram> compile(capture::Trace trace, const ProgramOptions& options,
                                                        PhaseTimes times);

  /// As Program::run(). Results that require grad in eager have a node of this program's as their history.
  void run(const at::Tensor* const* arguments, at::Tensor* results) const;
  size_t result_count() const noexcept { return result_count_; }

  const std::shared_ptr<Program>& forward() const { return forward_; }
  /// Null if no result has a history of its own: all are views of inputs.
  const std::shared_ptr<Program>& backward() const { return backward_; }
  int64_t saved_bytes() const { return saved_bytes_; }

 private:
  friend class BackwardNode;
  TrainingProgram() = default;
  const at::Tensor& input(uint32_t number, const at::Tensor* const* arguments) const;
  at::Tensor saved_tensor(const passes::Saved& saved, const at::Tensor* const* arguments,
                          const std::vector<at::Tensor>& results) const;

  std::shared_ptr<Program> forward_, backward_;
  capture::Gradients gradients_;
  std::vector<passes::Saved> saved_;  ///< Outputs by their place among the forward program's results.
  std::vector<Geometry> tangents_;    ///< As the backward program takes them.
  std::vector<int32_t> argument_of_;  ///< By graph input: which argument it is, -1 if it is bound.
  size_t result_count_ = 0;           ///< That the caller sees.
  int64_t saved_bytes_ = 0;
};

}  // namespace braze::runtime
