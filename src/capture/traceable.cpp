#include "capture/traceable.h"

#include <c10/core/DispatchKeySet.h>
#include <torch/csrc/autograd/variable.h>

#include "capture/wrappers.h"
#include "support/error.h"

namespace braze::capture {

bool is_transformed(const at::Tensor& tensor) {
  return tensor.defined() && tensor.key_set().has_any(c10::DispatchKeySet({c10::DispatchKey::FuncTorchBatched,
                                                                           c10::DispatchKey::FuncTorchGradWrapper,
                                                                           c10::DispatchKey::Batched}));
}

bool is_strided(const at::Tensor& tensor) {
  // The meta tensor of a quantized result has no key that says so.
  return tensor.layout() == c10::kStrided && !c10::isQIntType(tensor.scalar_type()) && !tensor.is_nested();
}

void refuse_unstrided(const at::Tensor& tensor, std::string_view what) {
  const std::string kind = c10::isQIntType(tensor.scalar_type()) ? "quantized"
                           : tensor.is_nested()                  ? "nested"
                                                                 : c10::str(tensor.layout());
  throw UserError(concat("braze: ", what, " is a ", kind,
                         " tensor; only strided ones can be traced. Convert it with to_dense(), dequantize() or "
                         "to_padded_tensor()."));
}

/// Of forward differentiation, at any level.
static bool has_tangent(const at::Tensor& tensor) {
  const auto* meta = torch::autograd::impl::get_autograd_meta(tensor);
  return meta && meta->fw_grad_ && !meta->fw_grad_->empty();
}

void check_traceable(const at::Tensor& real, std::string_view what) {
  if (!is_strided(real) || !real.has_storage()) refuse_unstrided(real, what);
  if (is_dispatched(real))
    throw UserError(concat("braze: the class of ", what, " carries out operators itself, by __torch_dispatch__."));
  if (!real.is_cpu() && !real.is_cuda())
    throw UserError(concat("braze: ", what, " is on device ", c10::str(real.device()),
                           "; tensors on the CPU or a CUDA device can be traced."));
  if (real.is_conj() || real.is_neg())
    throw UserError(concat("braze: ", what,
                           " is a lazy conjugate or negative view; call resolve_conj() or "
                           "resolve_neg() before."));
  if (has_tangent(real))
    throw UserError(
        concat("braze: ", what, " has a tangent of forward differentiation, which a graph does not take."));
}

}  // namespace braze::capture
