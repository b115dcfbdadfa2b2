// runtime/autograd/training_family.h: the programs of a joint trace whose sizes are expressions (runtime/family.h,
// for results that have a history).
//
// One trace serves all sizes that its guards let through: no Python is captured again. Its graph is cut, and both
// parts are compiled, for each set of values of the symbols.
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <vector>

#include "runtime/autograd/training.h"
#include "runtime/by_sizes.h"
#include "runtime/family_source.h"

namespace braze::runtime {

class TrainingFamily {
 public:
  TrainingFamily(capture::Trace trace, ProgramOptions options, PhaseTimes times)
      : source_(std::move(trace), std::move(options), std::move(times)) {}
  TrainingFamily(const TrainingFamily&) = delete;
  TrainingFamily& operator=(const TrainingFamily&) = delete;

  /// As ProgramFamily::at().
  std::shared_ptr<const TrainingProgram> at(std::span<const int64_t> symbols,
                                            const std::vector<at::Tensor>& arguments) const;
  /// What was asked for last.
  std::shared_ptr<const TrainingProgram> latest() const { return programs_.latest(); }
  size_t compiled() const { return compiled_; }  ///< So often was code made.

 private:
  const FamilySource source_;
  mutable BySizes<const TrainingProgram> programs_;
  mutable std::atomic<size_t> compiled_{0};
};

}  // namespace braze::runtime
