// capture/sized_composites.h: operators that PyTorch's own code would take apart with numbers for sizes.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace braze::capture {

/// Calls the operators that it consists of, above autograd, where sizes of its tensors are expressions, and puts
/// its results on the stack. False: nothing was done; PyTorch's code is for all calls that it knows better, those
/// that it refuses among them.
bool open_sized_composite(const c10::OperatorHandle& op, torch::jit::Stack* stack);

}  // namespace braze::capture
