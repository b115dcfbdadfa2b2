// runtime/autograd/second_derivative.h: the backward of a backward.
//
// A compiled backward knows nothing of its own derivatives. Where one is asked for (create_graph), its gradients
// get a node as their history that runs the forward once more under autograd, of the same inputs, takes its
// gradients with a graph, and differentiates those: slow, and right for derivatives of any order. Gradients
// themselves are the compiled backward's: who never goes through them pays nothing.
#pragma once

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/saved_variable.h>

#include <memory>
#include <optional>
#include <vector>

#include "runtime/autograd/training.h"

namespace braze::runtime {

/// What a run of the forward has read, for whoever runs it again. What autograd does not save is held by nobody, so
/// that memory is eager's: small tensors are, and all of them once a backward of the program has been
/// differentiated.
class ForwardInputs {
 public:
  /// \param tensors    one for each input of the tape; undefined for what the node saves anyway, and for constants.
  /// \param holds_all  also large ones.
  /// \param generator  its state before the run; undefined if nothing is drawn.
  ForwardInputs(std::vector<at::Tensor> tensors, bool holds_all, at::Tensor generator);
  ForwardInputs() = default;

  /// Those that were given. Throws where one is gone, or has been written to in between.
  std::vector<at::Tensor> tensors() const;
  const at::Tensor& generator() const { return generator_; }
  void release();

 private:
  struct Input {
    at::Tensor held;
    std::optional<c10::weak_intrusive_ptr<c10::TensorImpl>> seen;
    uint32_t version;
  };
  std::vector<Input> inputs_;
  at::Tensor generator_;
};

/// Gradients of a compiled backward's results in, gradients of its tangents and of the forward's inputs out.
class SecondDerivative final : public torch::autograd::Node {
 public:
  /// \param inputs    of the tape, all that are no constants.
  /// \param tangents  what the backward was given.
  /// \param wanted    which gradients (by TrainingSeam::gradients.inputs) get this node as their history, in order.
  SecondDerivative(std::shared_ptr<const TrainingProgram> program, std::vector<at::Tensor> inputs,
                   at::Tensor generator, const std::vector<at::Tensor>& tangents, std::vector<uint32_t> wanted);

  std::string name() const override { return "BrazeBackwardBackward"; }
  void release_variables() override;

 protected:
  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override;

 private:
  std::vector<at::Tensor> run_forward(const std::vector<at::Tensor>& inputs) const;

  const std::shared_ptr<const TrainingProgram> program_;
  const std::vector<uint32_t> wanted_;
  at::Tensor generator_;
  std::vector<torch::autograd::SavedVariable> inputs_, tangents_;
};

}  // namespace braze::runtime
