// capture/gradient_sums.h: how gradients of one tensor are added up.
#pragma once

#include <ATen/core/Tensor.h>

namespace braze::capture {

/// As the engine adds: into the gradient that was there, if nobody else holds it and nothing has a history. So the
/// sum lies as that did.
at::Tensor sum_of_gradients(const at::Tensor& first, const at::Tensor& second);

}  // namespace braze::capture
