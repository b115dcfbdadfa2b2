// capture/placeholders.h: sizes where PyTorch's parser wants a tensor.
//
//   2.0 / x.numel() * x     Python code of PyTorch's that runs unwatched, where the size is a torch.SymInt
//
// The parser makes a tensor of some value, and leaves the size as an attribute of its Python object.
#pragma once

#include <ATen/core/ivalue.h>

#include <span>

namespace braze::capture {

/// What such a tensor stands for: a SymInt or SymFloat of the trace, or none. Called for those that look like one.
using PlaceholderHook = c10::IValue (*)(const at::Tensor& tensor);
void set_placeholder_hook(PlaceholderHook hook);

/// Puts numbers of the trace in the place of such tensors.
void put_placeholders(std::span<c10::IValue> arguments);

}  // namespace braze::capture
