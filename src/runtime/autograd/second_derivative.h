// runtime/autograd/second_derivative.h: the backward of a backward.
//
// A compiled backward knows nothing of its own derivatives. Where one is asked for (create_graph), its gradients
// get a node as their history that runs the forward once more under autograd, of the same inputs, takes its
// gradients with a graph, and differentiates those: slow, and right for derivatives of any order. Gradients
// themselves are the compiled backward's: who never goes through them pays for one such run, the first for tangents
// of a kind, which tells which of them have a history.
#pragma once

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/saved_variable.h>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "capture/generator.h"
#include "runtime/autograd/training.h"

namespace braze::runtime {

/// What a run of the forward has read, for whoever runs it again. What autograd does not save is held by nobody, so
/// that memory is eager's: small tensors are, and all of them once a backward of the program has been
/// differentiated.
class ForwardInputs {
 public:
  ForwardInputs() = default;
  /// \param generators  those that the run draws from, as they were before it.
  ForwardInputs(size_t count, capture::GeneratorStates generators)
      : versions_(count), generators_(std::move(generators)) {}
  void note_version(uint32_t place, const at::Tensor& tensor);
  /// One that nobody else knows.
  void add(uint32_t place, const at::Tensor& tensor, bool holds);

  /// By place, of those that were added. Throws where one is gone.
  std::vector<at::Tensor> tensors() const;
  /// Throws if it has been written to since.
  void check_version(uint32_t place, const at::Tensor& tensor) const;
  const capture::GeneratorStates& generators() const { return generators_; }
  void release();

 private:
  struct Other {
    uint32_t place;
    at::Tensor held;
    c10::weak_intrusive_ptr<c10::TensorImpl> seen;
  };
  std::vector<uint32_t> versions_;
  std::vector<Other> others_;
  capture::GeneratorStates generators_;
};

/// Which gradients (by TrainingSeam::gradients.inputs, then .inner) depend on something that requires grad, so that
/// eager's have a history. Then, by .inner, whether those histories lead there. Runs the forward again.
/// \param is_parted  the backward is one in parts: what comes to inner results is given, or taken.
std::vector<bool> find_histories(const TrainingProgram& program, const std::vector<at::Tensor>& inputs,
                                 const std::vector<at::Tensor>& tangents,
                                 const capture::GeneratorStates& generators, bool is_parted);

/// Gradients of a compiled backward's results in, gradients of its tangents and of the forward's inputs out.
class SecondDerivative final : public torch::autograd::Node {
 public:
  /// \param inputs    of the tape, all that are no constants.
  /// \param tangents  what the backward was given.
  /// \param wanted    which gradients, counted as find_histories() does, get this node as their history, in order.
  /// \param inner     of a backward in parts: results (by Gradients::inner) to whose nodes an edge leads, behind
  /// those
  ///                  to inputs. Hooks there see what comes by here, too.
  SecondDerivative(std::shared_ptr<const TrainingProgram> program, std::vector<at::Tensor> inputs,
                   capture::GeneratorStates generators, const std::vector<at::Tensor>& tangents,
                   std::vector<uint32_t> wanted, std::optional<std::vector<uint32_t>> inner);

  std::string name() const override { return "BrazeBackwardBackward"; }
  void release_variables() override;

 protected:
  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override;

 private:
  const std::shared_ptr<const TrainingProgram> program_;
  const std::vector<uint32_t> wanted_;
  const std::optional<std::vector<uint32_t>> inner_;
  const capture::GeneratorStates generators_;
  std::vector<torch::autograd::SavedVariable> inputs_, tangents_;
};

}  // namespace braze::runtime
