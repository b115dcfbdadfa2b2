// python/compile/rebuild_wrappers.cpp: tensors whose class carries out their operators, as results.
#include <c10/core/InferenceMode.h>
#include <torch/csrc/Device.h>
#include <torch/csrc/DynamicTypes.h>
#include <torch/csrc/autograd/python_variable.h>

#include <array>

#include "python/compile/rebuild.h"
#include "python/compile/rebuild_parts.h"
#include "python/compile/tensor_classes.h"
#include "python/interpreter/watch/wrapper_world.h"

namespace braze::python {

namespace py = pybind11;

Rebuilder::Node Rebuilder::Wrapper::make(Rebuilder& rebuilder, PyObject* tensor) {
  PyTypeObject* type = Py_TYPE(tensor);
  const at::Tensor& made = THPVariable_Unpack(tensor);
  // What operators have made of it afterwards is no part of what the class's code gave.
  const bool is_plain = rebuilder.values_.is_made(tensor) &&
                        rebuilder.values_.tensors().wrappers()->keep_class(type) && !made.is_view() &&
                        made.is_leaf() && !made.is_inference() && !c10::InferenceMode::is_enabled() &&
                        made._version() == 0;
  if (!is_plain) refuse("a tensor of a subclass", tensor);
  const py::tuple sizes = py::cast(made.sizes().vec()), strides = py::cast(made.strides().vec());
  const std::array<py::object, 7> arguments = {
      py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject*>(type)),
      sizes,
      strides,
      py::int_(made.storage_offset()),
      py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject*>(torch::getTHPDtype(made.scalar_type()))),
      py::reinterpret_steal<py::object>(THPDevice_New(made.device())),
      py::bool_(made.requires_grad())};
  const py::tuple names = py::make_tuple("strides", "storage_offset", "dtype", "device", "requires_grad");
  std::vector<Node> operands;
  for (const py::object& argument : arguments) operands.push_back(rebuilder.constant(argument.ptr()));
  const Node node = rebuilder.builder_.call(wrapper_maker(), operands, names.ptr());
  rebuilder.unfilled_.emplace_back(tensor, node);
  return node;
}

}  // namespace braze::python
