// capture/rerun_gradients.h: gradients of calls whose own formulas ask for numbers: recurrent nets over any length.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include "capture/recorder.h"

namespace torch::autograd {
struct Node;
}

namespace braze::capture {

/// Where sizes are expressions and gradients are wanted: the call is one of sized_calls.h, and its backward another
/// one, which runs it once more under autograd. That costs a forward more than eager; the steps that PyTorch would
/// record are a program for each length. Puts the results on the stack. False: nothing was done.
bool record_rerun_call(Recorder& recorder, const c10::OperatorHandle& op, torch::jit::Stack* stack);

/// The history of such a call: its operator is one of PyTorch's, so that second derivatives are had as of others.
bool is_rerun(const torch::autograd::Node& node);

}  // namespace braze::capture
