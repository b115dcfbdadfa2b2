// Composite operators of PyTorch that read the data of a tensor by its pointer, above the dispatch key of the
// tracer. On tracers other ways are taken, which PyTorch has for tensor subclasses and for lists; any other tensor
// gets PyTorch's own function.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/ctc_loss_native.h>
#include <ATen/ops/max_pool1d_native.h>
#include <ATen/ops/one_hot_native.h>
#include <ATen/ops/tensor_split_native.h>
#include <torch/library.h>

#include "capture/trace.h"
#include "capture/tracer_tensor.h"

namespace braze::capture {
namespace {

/// The elements, from the example, with a warning that they are frozen.
std::vector<int64_t> frozen(const at::Tensor& tensor, std::string_view what) {
  const at::Tensor known = as_tracer(tensor) ? Tracer::current()->materialize(tensor, what) : tensor;
  const RunForReal guard;
  const at::Tensor flat = known.reshape({-1}).to(at::kLong);
  std::vector<int64_t> numbers;
  for (int64_t k = 0; k < flat.numel(); ++k) numbers.push_back(flat[k].item<int64_t>());
  return numbers;
}

at::Tensor max_pool1d(const at::Tensor& self, at::IntArrayRef kernel, at::IntArrayRef stride,
                      at::IntArrayRef padding, at::IntArrayRef dilation, bool ceil_mode) {
  if (!as_tracer(self)) return at::native::max_pool1d(self, kernel, stride, padding, dilation, ceil_mode);
  // The CPU's kernel without indices is one of floats.
  TORCH_CHECK_NOT_IMPLEMENTED(!self.is_cpu() || !c10::isIntegralType(self.scalar_type(), true),
                              "\"max_pool1d_impl\" not implemented for '", self.scalar_type(), "'");
  const at::Tensor pooled =
      std::get<0>(at::max_pool1d_with_indices(self, kernel, stride, padding, dilation, ceil_mode));
  if (self.requires_grad() && at::GradMode::is_enabled()) return pooled;
  // Row-major where PyTorch needs no indices, and of a batch that squeeze_() has taken away.
  const at::Tensor row_major = pooled.clone(at::MemoryFormat::Contiguous);
  if (self.dim() == 2 && self.is_cpu()) row_major.unsafeGetTensorImpl()->bump_version();
  return row_major;
}

std::vector<at::Tensor> tensor_split(const at::Tensor& self, const at::Tensor& where, int64_t dim) {
  if (!as_tracer(where) || where.dim() != 1) return at::native::tensor_split(self, where, dim);
  return at::tensor_split(self, frozen(where, "tensor_split()"), dim);
}

/// With the classes counted: ones written into zeros, a kernel that refuses what is no class as eager's reads of
/// the smallest and largest value do.
at::Tensor one_hot(const at::Tensor& self, c10::SymInt class_count) {
  if (!as_tracer(self) || self.scalar_type() != at::kLong || self.sym_numel() == 0 || class_count == 0)
    return at::native::one_hot(self, class_count.guard_int(__FILE__, __LINE__));
  if (class_count < 0) {
    const at::Tensor real = Tracer::current()->materialize(self, "one_hot()");
    const RunForReal guard;
    class_count = real.max().item<int64_t>() + 1;
  }
  std::vector<c10::SymInt> sizes = self.sym_sizes().vec();
  sizes.push_back(std::move(class_count));
  return at::empty_symint(sizes, self.options()).zero_().scatter_(-1, self.unsqueeze(-1), 1);
}

/// The schema says that the classes are an int: only what takes boxes may be given a size.
void one_hot_in_boxes(const c10::OperatorHandle&, c10::DispatchKeySet, torch::jit::Stack* stack) {
  const c10::SymInt class_count = torch::jit::pop(*stack).toSymInt();
  const at::Tensor self = torch::jit::pop(*stack).toTensor();
  stack->emplace_back(one_hot(self, class_count));
}

/// The mean over the batch of each loss over its length, or their sum; the losses themselves as they are.
at::Tensor reduced(const at::Tensor& losses, const at::Tensor& target_lengths, int64_t reduction) {
  if (reduction == at::Reduction::Mean)
    return (losses / target_lengths.to(losses.scalar_type()).clamp_min(1)).mean();
  return reduction == at::Reduction::Sum ? losses.sum() : losses;
}

at::Tensor ctc_loss_of_lists(const at::Tensor& log_probs, const at::Tensor& targets, at::IntArrayRef input_lengths,
                             at::IntArrayRef target_lengths, int64_t blank, int64_t reduction, bool zero_infinity) {
  const bool traced = as_tracer(log_probs) || as_tracer(targets);
  if (!traced || reduction == at::Reduction::None)
    return at::native::ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, reduction, zero_infinity);
  const at::Tensor losses = at::native::ctc_loss(log_probs, targets, input_lengths, target_lengths, blank,
                                                 at::Reduction::None, zero_infinity);
  // A real tensor, which the trace binds: PyTorch would fill one of the trace by its pointer.
  const at::Tensor lengths = [&] {
    const RunForReal real;
    return at::tensor(target_lengths, at::kLong);
  }();
  return reduced(losses, losses.dim() == 0 ? lengths.reshape({}) : lengths, reduction);
}

at::Tensor ctc_loss(const at::Tensor& log_probs, const at::Tensor& targets, const at::Tensor& input_lengths,
                    const at::Tensor& target_lengths, int64_t blank, int64_t reduction, bool zero_infinity) {
  const auto traced = [](const at::Tensor& tensor) { return as_tracer(tensor) != nullptr; };
  if (!traced(log_probs) && !traced(targets) && !traced(input_lengths) && !traced(target_lengths))
    return at::native::ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, reduction, zero_infinity);
  // The form with lists makes a tensor of the lengths by its pointer, but only to take the mean.
  const at::Tensor losses =
      at::native::ctc_loss(log_probs, targets, frozen(input_lengths, "ctc_loss()"),
                           frozen(target_lengths, "ctc_loss()"), blank, at::Reduction::None, zero_infinity);
  return reduced(losses, target_lengths, reduction);
}

void take_over(torch::Library& library) {
  library.impl("max_pool1d", max_pool1d);
  library.impl("tensor_split.tensor_indices_or_sections", tensor_split);
  library.impl("one_hot", torch::CppFunction::makeFromBoxedFunction<&one_hot_in_boxes>());
  library.impl("ctc_loss.Tensor", ctc_loss);
  library.impl("ctc_loss.IntList", ctc_loss_of_lists);
}

TORCH_LIBRARY_IMPL(aten, AutogradCPU, library) {
  take_over(library);
}
TORCH_LIBRARY_IMPL(aten, AutogradCUDA, library) {
  take_over(library);
}

}  // namespace
}  // namespace braze::capture
