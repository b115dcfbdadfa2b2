// python/compile/default_device.h: the default device, while a run is captured.
//
// `torch.set_default_device` and `with torch.device` put a mode on PyTorch's stack, Python code through which every
// operator would go. All that it does is to name a device where a call of a factory names none
// (torch.utils._device). So a captured run goes without it, and its calls of factories get the device here.
#pragma once

#include <c10/core/Device.h>
#include <pybind11/pybind11.h>

#include <optional>

namespace braze::python {

class DefaultDevice {
 public:
  /// Takes such modes off the stack. Inside of a ModesScope, which puts them back.
  void leave_modes();

  /// There was one.
  bool left_any() const { return left_any_; }
  /// There was one, of another device than the CPU.
  bool is_set() const { return device_.has_value(); }

  /// \return  `function` is a factory, and takes this device until leave() where its call names none.
  bool enter(PyObject* function) const;
  void leave() const;

 private:
  bool left_any_ = false;
  std::optional<c10::Device> device_;
};

void add_default_device(pybind11::module_& module);

}  // namespace braze::python
