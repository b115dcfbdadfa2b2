// python/compile/transforms_scope.h: the transforms of torch.func that a thread is in the middle of.
//
// A capture that is given up ends all frames without their `finally` blocks: what they entered is left here.
#pragma once

#include <ATen/PythonTorchFunctionTLS.h>
#include <ATen/SavedTensorHooks.h>
#include <c10/core/AutogradState.h>

namespace braze::python {

/// vmap, grad or jvp is under way on this thread: tensors are wrapped, and operators go elsewhere first.
bool is_transforming();

/// Leaves, at its end, what was entered while it lived. Captures begin outside of all transforms.
class TransformsScope {
 public:
  TransformsScope();
  ~TransformsScope();
  TransformsScope(const TransformsScope&) = delete;
  TransformsScope& operator=(const TransformsScope&) = delete;

 private:
  long forward_level_before_;
  c10::AutogradState state_before_ = c10::AutogradState::get_tls_state();
  at::impl::TorchFunctionDisabledState functions_before_ = at::impl::PythonTorchFunctionTLS::get_disabled_state();
  at::impl::SavedTensorDefaultHooksTLS hooks_before_ = at::SavedTensorDefaultHooks::get_tls_state();
};

}  // namespace braze::python
