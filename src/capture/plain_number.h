// capture/plain_number.h: numbers that a trace knows, as operands of its operators.
#pragma once

#include <ATen/ScalarOps.h>
#include <ATen/core/Tensor.h>

namespace braze::capture {

/// What PyTorch makes of a Python float beside a tensor: f64, without dimensions, and no say in the result's type.
inline at::Tensor plain_number(double value) {
  at::Tensor number = c10::scalar_to_tensor(value);
  number.unsafeGetTensorImpl()->set_wrapped_number(true);
  return number;
}

}  // namespace braze::capture
