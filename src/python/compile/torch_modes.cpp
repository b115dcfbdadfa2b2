#include "python/compile/torch_modes.h"

#include <ATen/PythonTorchFunctionTLS.h>

#include "python/compile/torch_names.h"

namespace braze::python {

bool TorchModes::asks_for_torch_function(PyObject* function) const {
  return torch_names().ask_for_torch_function.contains(function);
}

TorchModes::Use TorchModes::use_of_stack(PyObject* function) const {
  const auto& functions = torch_names().of_mode_stack;
  const auto found = functions.find(function);
  return found == functions.end() ? Use::nothing : found->second;
}

bool TorchModes::is_any_entered() const {
  return at::impl::PythonTorchFunctionTLS::stack_len() > 0;
}

}  // namespace braze::python
