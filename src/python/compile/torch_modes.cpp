#include "python/compile/torch_modes.h"

#include <ATen/PythonTorchFunctionTLS.h>

#include "python/compile/torch_names.h"
#include "python/guards/torch_values.h"

namespace braze::python {

bool TorchModes::asks_for_torch_function(PyObject* function) const {
  return torch_names().ask_for_torch_function.contains(function);
}

TorchModes::Use TorchModes::use_of_stack(PyObject* function) const {
  const auto& functions = torch_names().of_mode_stack;
  const auto found = functions.find(function);
  return found == functions.end() ? Use::nothing : found->second;
}

void TorchModes::begin() {
  default_device_.leave_modes();
  while (PyObject* mode = guards::function_mode_at(static_cast<uint32_t>(older_.size())))
    older_.push_back(guards::Ref::borrow(mode));
}

/// Where the stack is, down there, what it was.
TorchModes::OlderMode TorchModes::older_at(size_t place) const {
  if (place >= older_.size()) return {};
  return {older_[place].get(), static_cast<uint32_t>(place)};
}

/// PyTorch takes a mode off the stack, and those above it, while its handler runs.
TorchModes::OlderMode TorchModes::handling() const {
  return older_at(static_cast<size_t>(at::impl::PythonTorchFunctionTLS::stack_len()));
}

/// The uppermost, or that of a number.
TorchModes::OlderMode TorchModes::given_by(PyObject* const* arguments, Py_ssize_t count) const {
  const int64_t above = at::impl::PythonTorchFunctionTLS::stack_len();
  const int64_t place = count == 0                        ? above - 1
                        : PyLong_CheckExact(arguments[0]) ? PyLong_AsLongLong(arguments[0])
                                                          : -1;
  PyErr_Clear();
  if (place < 0 || place >= above) return {};
  const OlderMode older = older_at(static_cast<size_t>(place));
  return older.mode == guards::function_mode_at(static_cast<uint32_t>(place)) ? older : OlderMode{};
}

bool TorchModes::are_calls_handled() const {
  return has_handler_ || at::impl::PythonTorchFunctionTLS::stack_len() > 0;
}

}  // namespace braze::python
