// capture/moved_indices.h: subscripts by tensors on the CPU of a tensor on a GPU.
#pragma once

#include <ATen/core/stack.h>

#include <string_view>

namespace braze::capture {

/// index(self, indices) and index_put(self, indices, ...) in their forms.
bool takes_indices(std::string_view operator_name);
/// Has the indices of such a call copied to the tensor's device first, as PyTorch's kernels do within: a graph's
/// operators have their operands on one device. `count`: how many arguments lie on the stack.
void move_indices(torch::jit::Stack& stack, size_t count);

}  // namespace braze::capture
