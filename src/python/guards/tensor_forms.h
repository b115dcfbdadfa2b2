// python/guards/tensor_forms.h: what a few tensors have in common.
#pragma once

#include <Python.h>

#include <span>

namespace braze::guards {

/// Real numbers without dimensions, of one type and on one device, of class torch.Tensor itself, which no gradient,
/// mode of inference or transform is about: one may stand for another in whatever computes with it.
bool are_like_numbers(std::span<PyObject* const> tensors) noexcept;

/// Of class torch.Tensor itself.
bool is_plain_tensor(PyObject* value) noexcept;

}  // namespace braze::guards
