// runtime/autograd/batched.h: tensors under torch.vmap, of either kind that PyTorch has.
//
// A backward may be given tangents with a dimension that it must not see: autograd.grad(is_grads_batched=True), or
// under torch.vmap. A program works on memory, so it runs once for each place along that dimension.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

namespace braze::runtime {

bool is_batched(const at::Tensor& tensor);

/// What `run` gives for each place along the innermost dimension of vmap among `tensors`, put together again. It
/// gives as many tensors each time, and undefined ones for the same.
std::vector<at::Tensor> run_along_batch(const std::vector<at::Tensor>& tensors,
                                        const std::function<std::vector<at::Tensor>(std::vector<at::Tensor>)>& run);

}  // namespace braze::runtime
