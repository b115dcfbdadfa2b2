// capture/gradient_sums.cpp
#include "capture/gradient_sums.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

namespace braze::capture {

at::Tensor sum_of_gradients(const at::Tensor& first, const at::Tensor& second) {
  if (at::GradMode::is_enabled()) return first + second;
  // Of its storage: the tracer's and the Memory's.
  const bool is_held_once = first.use_count() == 1 && first.has_storage() && first.storage().use_count() == 2;
  const bool is_written = is_held_once && first.unsafeGetTensorImpl()->is_non_overlapping_and_dense_or_false();
  at::Tensor sum = first + second;
  if (!is_written) return sum;
  if (sum.sym_strides() != first.sym_strides()) {
    sum = at::empty_strided_symint(first.sym_sizes(), first.sym_strides(), first.options());
    at::add_out(sum, first, second);
  }
  sum.unsafeGetTensorImpl()->set_version_counter(c10::VariableVersion(first._version() + 1));
  return sum;
}

}  // namespace braze::capture
