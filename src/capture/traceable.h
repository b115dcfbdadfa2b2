// capture/traceable.h: which tensors a graph can hold.
#pragma once

#include <ATen/core/Tensor.h>

#include <string_view>

namespace braze::capture {

/// An array of numbers laid out by strides: not sparse, quantized, nested.
bool is_strided(const at::Tensor& tensor);

/// A tensor that a transform of torch.func, or the vmap of torch.autograd, wraps around another one: its data are
/// that one's.
bool is_transformed(const at::Tensor& tensor);

/// Throws the UserError about a tensor that is not.
/// \param what  whose value it is: "`x`", "the result of aten::to_sparse".
[[noreturn]] void refuse_unstrided(const at::Tensor& tensor, std::string_view what);

/// Throws UserError if a tensor from outside is none that a graph can hold: not strided, on another kind of device,
/// or a lazy conjugate or negative view, or where it has a tangent (torch.autograd.forward_ad).
void check_traceable(const at::Tensor& real, std::string_view what);

}  // namespace braze::capture
