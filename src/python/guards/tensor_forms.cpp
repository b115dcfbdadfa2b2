// python/guards/tensor_forms.cpp
#include "python/guards/tensor_forms.h"

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>

namespace braze::guards {

bool is_plain_tensor(PyObject* value) noexcept {
  return THPVariable_CheckExact(value) && Py_IS_TYPE(value, reinterpret_cast<PyTypeObject*>(THPVariableClass));
}

bool are_like_numbers(std::span<PyObject* const> tensors) noexcept {
  if (tensors.empty() || !std::ranges::all_of(tensors, is_plain_tensor)) return false;
  const at::Tensor& first = THPVariable_Unpack(tensors[0]);
  return std::ranges::all_of(tensors, [&](PyObject* object) {
    const at::Tensor& one = THPVariable_Unpack(object);
    const c10::DispatchKeySet keys = one.key_set();
    return one.dim() == 0 && one.scalar_type() == first.scalar_type() && !one.is_complex() &&
           one.device() == first.device() && one.layout() == at::kStrided && !one.requires_grad() &&
           !one.is_inference() && !one.unsafeGetTensorImpl()->is_wrapped_number() && !one.is_neg() &&
           !keys.has(c10::DispatchKey::FuncTorchBatched) && !keys.has(c10::DispatchKey::FuncTorchGradWrapper);
  });
}

}  // namespace braze::guards
