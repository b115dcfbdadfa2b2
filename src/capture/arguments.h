// capture/arguments.h: looking through the arguments of an operator.
#pragma once

#include <ATen/ATen.h>
#include <ATen/core/ivalue.h>

#include <span>

namespace braze::capture {

/// The tensors among the arguments, with their places.
template <typename Body>
void for_each_tensor(std::span<const c10::IValue> arguments, Body&& body) {
  for (uint32_t i = 0; i < arguments.size(); ++i) {
    const c10::IValue& value = arguments[i];
    if (value.isTensor()) {
      if (value.toTensor().defined()) body(value.toTensor(), i, -1);
    } else if (value.isTensorList()) {
      const auto list = value.toTensorVector();
      for (size_t k = 0; k < list.size(); ++k)
        if (list[k].defined()) body(list[k], i, static_cast<int32_t>(k));
    } else if (value.isOptionalTensorList()) {
      const auto list = value.toOptionalTensorVector();
      for (size_t k = 0; k < list.size(); ++k)
        if (list[k] && list[k]->defined()) body(*list[k], i, static_cast<int32_t>(k));
    }
  }
}

/// The argument with every tensor replaced by `change(tensor)`.
template <typename Change>
c10::IValue map_tensors(const c10::IValue& value, Change&& change) {
  if (value.isTensor()) return value.toTensor().defined() ? c10::IValue(change(value.toTensor())) : value;
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& tensor : value.toTensorVector())
      list.push_back(tensor.defined() ? change(tensor) : tensor);
    return list;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorVector())
      list.push_back(tensor && tensor->defined() ? std::optional(change(*tensor)) : tensor);
    return list;
  }
  return value;
}

}  // namespace braze::capture
