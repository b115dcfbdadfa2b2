// capture/list_operators.h: operators that do the same to each tensor of a list.
//
// Optimizers and the clipping of gradients are written with them. A trace records what is done to each tensor, so
// that it is fused with what comes before and after; kernels of one form are compiled once.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace braze::capture {

/// Calls the operators that the list's operator consists of, and puts its results on the stack.
using Spread = void (*)(const c10::OperatorHandle& op, torch::jit::Stack* stack);
/// Null: it is no such operator.
Spread find_spread(const c10::OperatorHandle& op);

}  // namespace braze::capture
