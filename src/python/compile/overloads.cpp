// python/compile/overloads.cpp
#include "python/compile/overloads.h"

#include <pybind11/pybind11.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/extension.h>

#include <exception>
#include <string>
#include <vector>

#include "capture/tracer_tensor.h"
#include "python/compile/torch_names.h"
#include "python/guards/storage_access.h"
#include "python/imported.h"
#include "python/interpreter/evaluate.h"

namespace braze::python {

namespace py = pybind11;

namespace {

/// What fits where it does: a tensor of numbers that anyone may read. Those without dimensions are taken for
/// numbers, too, by their type.
py::object placeholder_of(py::handle argument) {
  if (THPVariable_Check(argument.ptr())) {
    const at::Tensor& tensor = THPVariable_Unpack(argument.ptr());
    return py::cast(at::zeros(std::vector<int64_t>(tensor.dim(), 0), at::TensorOptions(tensor.scalar_type())));
  }
  if (PyTuple_CheckExact(argument.ptr()) || PyList_CheckExact(argument.ptr())) {
    py::list items;
    for (const py::handle item : argument) items.append(placeholder_of(item));
    return PyTuple_CheckExact(argument.ptr()) ? py::object(py::tuple(items)) : py::object(items);
  }
  return py::reinterpret_borrow<py::object>(argument);
}

bool has_overloads(PyObject* packet) {
  PyObject* dict = guards::instance_dict(packet);
  PyObject* names = dict ? PyDict_GetItemString(dict, "_overload_names") : nullptr;
  return names && PyList_CheckExact(names) && PyList_GET_SIZE(names) > 1;
}

/// The overload that a packet picks for placeholders of these arguments.
guards::Ref overload_for(PyObject* packet, PyObject* const* arguments, Py_ssize_t count, PyObject* names) {
  const capture::RunForReal outside_of_the_trace;
  const interpreter::Pause unwatched;
  try {
    const Py_ssize_t unnamed = count - (names ? PyTuple_GET_SIZE(names) : 0);
    py::list given;
    given.append(std::string(text_of_operator(packet)));
    py::dict named;
    for (Py_ssize_t i = 0; i < count; ++i) {
      const py::object placeholder = placeholder_of(arguments[i]);
      if (i < unnamed)
        given.append(placeholder);
      else
        named[PyTuple_GET_ITEM(names, i - unnamed)] = placeholder;
    }
    const py::object name = imported("torch._C").attr("_jit_resolve_packet")(*py::tuple(given), **named);
    const std::string text = py::cast<std::string>(name);
    return guards::Ref::steal(
        py::object(py::handle(packet).attr(text.empty() ? "default" : text.c_str())).release().ptr());
  } catch (const std::exception&) {
    return {};  // None fits, or there are no placeholders of such a type: the packet's own call says more.
  }
}

}  // namespace

guards::Ref called_instead(PyObject* object, PyObject* const* arguments, Py_ssize_t count, PyObject* names) {
  constexpr std::string_view aten = "aten::";
  const std::string name = operator_name(object);
  if (name.starts_with(aten) && torch_names().moves_view(name.substr(aten.size())))
    return guards::Ref::steal(
        py::object(py::handle(torch_names().tensor_type).attr(name.c_str() + aten.size())).release().ptr());
  const bool is_packet = reinterpret_cast<PyObject*>(Py_TYPE(object)) == torch_names().operator_type;
  return is_packet && has_overloads(object) ? overload_for(object, arguments, count, names) : guards::Ref();
}

}  // namespace braze::python
