// capture/tape_function.h: functions whose gradient is code of their own, on a tape that is run again.
//
// The forward of such a function is among the tape's calls, without a history. Behind it stands the function: the
// outputs get a node whose backward runs what the function's own backward was seen to call, under autograd where
// gradients are differentiated. That is what PyTorch's node for such a function does, without the Python: what was
// read of it was read when the function was traced.
//
//   %2 = pow(%1, 3)                      the forward, gradients off
//   %2 = join Cube(%1) -> (%2)           tangent %3
//     %4 = mul(%1, 3); %5 = mul(%3, %4)  the backward; its gradients: %5
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

#include "capture/tape.h"

namespace braze::capture {

struct Tape::Function {
  std::string name;
  size_t before = 0;  ///< It is joined before this call of its part.
  std::vector<uint32_t> inputs, outputs;
  std::vector<uint32_t> joined;             ///< By output: the tensor with its history, perhaps of the same number.
  std::vector<bool> is_constant, is_dirty;  ///< By output: it has no gradient; by input: it was written.
  std::vector<bool> is_dropped;             ///< By input: it is read without the history that it may have.
  std::vector<uint32_t> tangents;           ///< Of the outputs that are no constants.
  std::vector<int64_t> gradients;           ///< By input; -1: there is none.
  std::vector<uint32_t> reads;              ///< What the backward reads of what was there before.
  Part backward;
  uint32_t tensor_count = 0;  ///< A number that is above all of them.
  bool is_bare = false;       ///< Nothing is known of the backward.
  bool is_once = false;       ///< torch.autograd.function.once_differentiable.

  template <typename Body>
  void for_each_tensor(Body&& body) const {
    for (const auto* list : {&inputs, &outputs, &joined, &reads})
      for (const uint32_t tensor : *list) body(tensor);
  }
};

/// Gives the outputs of the function their history, where an input has one.
void join_function(const std::shared_ptr<const Tape::Function>& function, Tape::Run& run, bool has_history);

}  // namespace braze::capture
