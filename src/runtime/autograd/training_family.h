// runtime/autograd/training_family.h: the programs of a joint trace whose sizes are expressions (runtime/family.h,
// for results that have a history).
//
// One trace serves all sizes that its guards let through: no Python is captured again. Its graph is cut once, at
// the sizes of the example, and each part is a family of its own: code is made once, with kernels that take sizes
// as arguments, and bound to memory for each set of values.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "runtime/autograd/training.h"
#include "runtime/by_sizes.h"
#include "runtime/family.h"

namespace braze::runtime {

class TrainingFamily {
 public:
  /// Compiles for the sizes of the example. Throws UserError where the trace cannot be cut.
  TrainingFamily(capture::Trace trace, ProgramOptions options, PhaseTimes times);
  TrainingFamily(const TrainingFamily&) = delete;
  TrainingFamily& operator=(const TrainingFamily&) = delete;

  /// As ProgramFamily::at().
  std::shared_ptr<const TrainingProgram> at(std::span<const int64_t> symbols,
                                            const std::vector<at::Tensor>& arguments) const;
  /// What was asked for last.
  std::shared_ptr<const TrainingProgram> latest() const { return programs_.latest(); }
  size_t compiled() const;  ///< So often was code made.

 private:
  const std::shared_ptr<const ir::Graph> joint_;  ///< The forward's outputs tell their sizes by its expressions.
  std::shared_ptr<const TrainingSeam> seam_;
  std::unique_ptr<const ProgramFamily> forward_;
  std::shared_ptr<const PartialPrograms> backwards_;
  mutable BySizes<const TrainingProgram> programs_;
};

}  // namespace braze::runtime
