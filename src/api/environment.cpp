// api/environment.cpp
#include "api/environment.h"

#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <c10/core/AutogradState.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/forward_grad.h>

namespace braze::api {

namespace {

enum Mode : uint32_t {
  grad = 1 << 0,
  inference = 1 << 1,
  forward_grad = 1 << 2,
  deterministic = 1 << 3,
  onednn = 1 << 4,
  flash_attention = 1 << 5,
  efficient_attention = 1 << 6,
  math_attention = 1 << 7,
  forward_level = 1 << 8,
};

}  // namespace

Environment Environment::now() {
  Environment e;
  const c10::impl::LocalDispatchKeySet keys = c10::impl::tls_local_dispatch_key_set();
  e.included = keys.included_.raw_repr();
  e.excluded = keys.excluded_.raw_repr();
  const c10::AutogradState& autograd = c10::AutogradState::get_tls_state();
  const at::Context& context = at::globalContext();
  const auto bit = [&](bool on, Mode mode) { e.modes |= on ? static_cast<uint32_t>(mode) : 0U; };
  bit(autograd.get_grad_mode(), grad);
  bit(autograd.get_inference_mode(), inference);
  bit(autograd.get_fw_grad_mode(), forward_grad);
  bit(context.deterministicAlgorithms(), deterministic);
  bit(context.userEnabledMkldnn(), onednn);
  bit(context.userEnabledFlashSDP(), flash_attention);
  bit(context.userEnabledMemEfficientSDP(), efficient_attention);
  bit(context.userEnabledMathSDP(), math_attention);
  bit(torch::autograd::ForwardADLevel::try_get_by_idx(0) != nullptr, forward_level);
  e.default_dtype = static_cast<int8_t>(c10::get_default_dtype_as_scalartype());
  e.autocast_dtype = static_cast<int8_t>(at::autocast::get_autocast_dtype(at::kCPU));
  return e;
}

bool Environment::is_plain() const {
  static const c10::DispatchKeySet ordinary =
      c10::DispatchKeySet({c10::DispatchKey::BackendSelect, c10::DispatchKey::ADInplaceOrView}) |
      c10::autocast_dispatch_keyset;
  return (included & ~ordinary.raw_repr()) == 0 && !(modes & forward_level);
}

bool Environment::records_gradients() const {
  return modes & grad;
}

}  // namespace braze::api
