// python/compile/default_device.cpp
#include "python/compile/default_device.h"

#include <ATen/PythonTorchFunctionTLS.h>
#include <pybind11/pybind11.h>
#include <torch/csrc/Device.h>
#include <torch/csrc/PyInterpreter.h>

#include <unordered_set>

#include "python/guards/function_modes.h"
#include "python/imported.h"

namespace braze::python {

namespace py = pybind11;

namespace {

/// Those to which the default device is given, held for good by torch's modules.
const std::unordered_set<PyObject*>& factories() {
  static const std::unordered_set<PyObject*> functions = [] {
    std::unordered_set<PyObject*> found;
    for (const py::handle one : imported("torch.utils._device").attr("_device_constructors")())
      found.insert(one.ptr());
    return found;
  }();
  return functions;
}

/// A mode that does what PyTorch's does. It is written in C: the watcher sees no Python code entered. Its handler
/// is a method, as PyTorch wants it.
struct DeviceMode {
  py::object device;

  py::object handle(const py::object& function, const py::object&, const py::tuple& arguments,
                    const py::object& keywords) const {
    const py::dict given = keywords.is_none() ? py::dict() : py::dict(keywords);
    if (!given.contains("device") || given["device"].is_none()) given["device"] = device;
    return function(*arguments, **given);
  }
};

}  // namespace

void add_default_device(py::module_& module) {
  py::class_<DeviceMode>(module, "DeviceMode", "See python/compile/default_device.h.")
      .def("__torch_function__", &DeviceMode::handle, py::arg("function"), py::arg("types"),
           py::arg("arguments") = py::tuple(), py::arg("keywords") = py::none());
}

void DefaultDevice::leave_modes() {
  const std::optional<c10::Device> device = guards::default_device();
  if (!device) return;
  while (at::impl::PythonTorchFunctionTLS::stack_len() > 0) at::impl::PythonTorchFunctionTLS::pop_stack();
  left_any_ = true;
  // "cpu:0" is the CPU, too: it shows on machines without another device what happens where there is one.
  if (*device != c10::Device(c10::kCPU)) device_ = device;
}

bool DefaultDevice::enter(PyObject* function) const {
  if (!device_ || !factories().contains(function)) return false;
  py::object mode = py::cast(DeviceMode{py::reinterpret_steal<py::object>(THPDevice_New(*device_))});
  at::impl::PythonTorchFunctionTLS::push_onto_stack(
      std::make_shared<c10::SafePyObject>(mode.release().ptr(), getPyInterpreter()));
  return true;
}

void DefaultDevice::leave() const {
  at::impl::PythonTorchFunctionTLS::pop_stack();
}

}  // namespace braze::python
