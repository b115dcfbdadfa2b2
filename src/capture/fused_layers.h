// capture/fused_layers.h: PyTorch's fused layers of transformers (the "fast path" of nn.TransformerEncoderLayer and
// nn.MultiheadAttention), opened: recorded as the operators that they consist of, these are fused with what stands
// around them. On the CPU only: a GPU's gelu is another. Sources: ATen/native/transformers/attention.cpp and
// transformer.cpp.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace braze::capture {

bool is_fused_layer(const c10::OperatorName& name);

/// Calls the operators that the layer consists of, and puts its results into the place of its arguments. False,
/// with the stack as it was: eager's kernel refuses such arguments, or takes another way.
/// \pre is_fused_layer()
bool open_fused_layer(const c10::OperatorHandle& op, torch::jit::Stack* stack);

}  // namespace braze::capture
