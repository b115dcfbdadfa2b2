// runtime/autograd/node.h: the history of what one run of a training program has computed.
#pragma once

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/saved_variable.h>

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/autograd/training.h"

namespace braze::runtime {

/// Gradients of results in, gradients of inputs out. May run several times, from any thread.
class BackwardNode final : public torch::autograd::Node {
 public:
  explicit BackwardNode(std::shared_ptr<const TrainingProgram> program);

  /// What the backward program takes first, in order.
  void save(std::vector<at::Tensor> tensors);

  std::string name() const override { return "BrazeBackward"; }
  void will_release_variables() override;
  void release_variables() override;

 protected:
  torch::autograd::variable_list apply(torch::autograd::variable_list&& tangents) override;

 private:
  /// Of each saved value, whether a part reads it that has this flag.
  std::vector<bool> read_by(const std::vector<bool>& parts) const;
  /// What the parts that run read, and something in place of the rest, which no gradient depends on.
  std::vector<at::Tensor> unpack();

  const std::shared_ptr<const TrainingProgram> program_;
  std::mutex mutex_;
  std::vector<torch::autograd::SavedVariable> saved_;
  std::vector<bool> released_, running_;  ///< By part of the backward (TrainingSeam::parts).
  bool is_last_ = false;                  ///< What is saved will be let go of after this run.
};

}  // namespace braze::runtime
