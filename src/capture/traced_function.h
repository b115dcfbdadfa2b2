// capture/traced_function.h: functions whose gradient is Python code, in a trace.
//
// Their backward is recorded right behind their forward, on placeholders for the gradients of the results. When the
// backward of the trace comes to such a function, what was recorded is recorded again, of the gradients themselves;
// the first recording is dead code.
//
//   y = f(x)              %1 = ...forward of %x
//                         %2 = cast %1        the placeholder: of the type of a gradient of y, and of unknown value
//                         %3 = mul %2, %x     what the backward gives for x
//   (backward)            %9 = mul %tangent0, %x
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

#include "capture/late_reads.h"

namespace torch::autograd {
struct Node;
}

namespace braze::capture {

class Recorder;

struct FunctionCall {
  std::string name;
  std::vector<at::Tensor> inputs, gradients;  ///< One for each input; undefined: there is none.
  std::vector<at::Tensor> outputs;
  std::vector<at::Tensor> constants;  ///< Outputs that autograd is not to differentiate.
  std::vector<at::Tensor> dirty;      ///< Inputs that were written.
  std::vector<at::Tensor> saved;      ///< What the backward may read only as it was when the forward returned.
  std::vector<at::Tensor> tangents;   ///< The placeholders of the other outputs.
  bool is_once = false;               ///< The backward is not to be differentiated (once_differentiable).
  std::shared_ptr<const LateReads> reads = nullptr;  ///< By the backward; null: none.
};

/// One that join_function() has made.
bool is_traced_function(const torch::autograd::Node& node);
/// FunctionCall::reads; null for other nodes.
std::shared_ptr<const LateReads> late_reads_of(const torch::autograd::Node& node);

/// A placeholder for the gradient of each. Throws UserError for complex ones.
std::vector<at::Tensor> function_tangents(Recorder& recorder, const std::vector<at::Tensor>& outputs);

/// The outputs, with the function as their history. All between function_tangents() and this call is the backward.
std::vector<at::Tensor> join_function(Recorder& recorder, FunctionCall call);
/// Likewise within the backward of another function, which has no history: for the tape alone (capture/tape.h).
/// \param is_bare  the backward was not run.
void note_inner_function(FunctionCall call, bool is_bare);

}  // namespace braze::capture
