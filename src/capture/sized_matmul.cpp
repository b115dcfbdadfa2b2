// torch.matmul of batches whose sizes are expressions: the composite form of PyTorch before 2.13 asks for numbers.
// The operators that it is made of know both.
#include <ATen/ATen.h>
#include <ATen/ExpandUtils.h>
#include <ATen/ops/matmul_native.h>
#include <torch/library.h>
#include <torch/version.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "capture/tracer_tensor.h"

#if TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR < 13
namespace braze::capture {
namespace {

using Expressions = c10::SymDimVector;

bool has_expression(const at::Tensor& tensor) {
  return as_tracer(tensor) && std::ranges::any_of(tensor.sym_sizes(), &c10::SymInt::is_symbolic);
}

c10::SymInt product(c10::SymIntArrayRef sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), c10::SymInt(1), std::multiplies<>());
}

/// One matrix for all: the rows of a batch below one another.
at::Tensor by_rows(const at::Tensor& batch, const at::Tensor& matrix) {
  const c10::SymIntArrayRef sizes = batch.sym_sizes();
  Expressions result(sizes.begin(), sizes.end());
  const c10::SymInt rows = product(sizes.slice(0, sizes.size() - 1));
  result.back() = matrix.sym_size(1);
  return at::_unsafe_view_symint(at::mm(batch.reshape_symint({rows, sizes.back()}), matrix), result);
}

at::Tensor by_batches(const at::Tensor& a, const at::Tensor& b) {
  const auto batch_of = [](const at::Tensor& tensor) { return tensor.sym_sizes().slice(0, tensor.dim() - 2); };
  Expressions result = at::infer_size_symdimvector(batch_of(a), batch_of(b));
  const c10::SymInt count = product(result);
  const auto spread = [&](const at::Tensor& tensor) {
    const c10::SymInt rows = tensor.sym_size(-2), columns = tensor.sym_size(-1);
    Expressions sizes = result;
    sizes.append({rows, columns});
    return tensor.expand_symint(sizes).reshape_symint({count, rows, columns});
  };
  const at::Tensor products = at::bmm(spread(a), spread(b));
  result.append({a.sym_size(-2), b.sym_size(-1)});
  return at::_unsafe_view_symint(products, result);
}

at::Tensor matmul(const at::Tensor& a, const at::Tensor& b) {
  const bool has_batch = std::max(a.dim(), b.dim()) > 2 && std::min(a.dim(), b.dim()) > 0;
  if (!has_batch || !(has_expression(a) || has_expression(b))) return at::native::matmul(a, b);
  // A vector is a matrix of one row or column.
  if (a.dim() == 1) return at::matmul(a.unsqueeze(0), b).squeeze(-2);
  if (b.dim() == 1) return at::matmul(a, b.unsqueeze(1)).squeeze(-1);
  return b.dim() == 2 ? by_rows(a, b) : by_batches(a, b);
}

static_assert(kKey == c10::DispatchKey::CustomRNGKeyId);  // For kernels that call it, below autograd.
TORCH_LIBRARY_IMPL(aten, CustomRNGKeyId, library) {
  library.impl("matmul", matmul);
}
TORCH_LIBRARY_IMPL(aten, AutogradCPU, library) {
  library.impl("matmul", matmul);
}
TORCH_LIBRARY_IMPL(aten, AutogradCUDA, library) {
  library.impl("matmul", matmul);
}

}  // namespace
}  // namespace braze::capture
#endif
