// python/compile/gradient_marks.h: what tells whether the history of a tensor is the one that it was.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

namespace braze::python {

/// Of a tensor of the run that is under way, or one that it has met: the history to which a hook on its gradient
/// would belong, as a number that is another one once the tensor is written or gets another history. Nothing where
/// a hook cannot wait for the end of the run.
std::optional<int64_t> gradient_mark(const at::Tensor& tensor);

}  // namespace braze::python
