// runtime/autograd/training_family.h: the programs of a joint trace whose sizes are expressions (runtime/family.h,
// for results that have a history).
//
// One trace serves all sizes that its guards let through: no Python is captured again. Its graph is cut, and both
// parts are compiled, for each set of values of the symbols.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "runtime/autograd/training.h"
#include "runtime/by_sizes.h"

namespace braze::runtime {

class TrainingFamily {
 public:
  TrainingFamily(capture::Trace trace, ProgramOptions options, PhaseTimes times);
  TrainingFamily(const TrainingFamily&) = delete;
  TrainingFamily& operator=(const TrainingFamily&) = delete;

  /// As ProgramFamily::at().
  std::shared_ptr<const TrainingProgram> at(std::span<const int64_t> symbols,
                                            const std::vector<at::Tensor>& arguments) const;
  /// What was asked for last.
  std::shared_ptr<const TrainingProgram> latest() const;
  size_t compiled() const { return compiled_; }  ///< So often was code made.

 private:
  const capture::Trace trace_;
  const ProgramOptions options_;
  const PhaseTimes times_;    ///< Of the capture: part of the first program's.
  mutable std::mutex mutex_;  ///< Protects what follows.
  mutable BySizes<const TrainingProgram> programs_;
  mutable std::atomic<size_t> compiled_{0};
};

}  // namespace braze::runtime
