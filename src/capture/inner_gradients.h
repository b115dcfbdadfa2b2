// capture/inner_gradients.h: torch.autograd.grad() within what is traced: energies whose forces are gradients,
// gradient penalties, differential equations, steps of gradient descent within a loss.
//
// Autograd has its graph over tracers already (capture/differentiate.cpp), so the backward is recorded as the
// forward was. With create_graph its operators have a history in turn, and the backward of the trace goes through
// it.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

namespace braze::capture {

class Recorder;

struct GradientCall {
  std::vector<at::Tensor> outputs;
  std::vector<at::Tensor> inputs;
  std::vector<at::Tensor> tangents;  ///< One for each output, of its form.
  bool keeps_graph = false;          ///< Else nodes run once, as in eager.
  bool creates_graph = false;
};

/// One for each input, undefined where no output depends on it. Nothing where that cannot be recorded, or the
/// gradient may come by ways outside of the trace: the trace is of no use then.
std::optional<std::vector<at::Tensor>> inner_gradients(Recorder& recorder, const GradientCall& call);

/// Before a tensor of the trace is made a leaf, by requires_grad_(). False: the trace does not take that.
/// \param wants_gradients  what the function gives is to have a history.
bool begin_leaf(Recorder& recorder, const at::Tensor& computed, bool wants_gradients);

}  // namespace braze::capture
