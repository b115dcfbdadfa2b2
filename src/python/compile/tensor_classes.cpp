// python/compile/tensor_classes.cpp
#include "python/compile/tensor_classes.h"

#include <torch/csrc/autograd/python_variable.h>

#include <array>

#include "python/compile/torch_names.h"
#include "python/guards/ref.h"
#include "python/interpreter/evaluate.h"

namespace braze::python {

namespace {

PyTypeObject* as_type(PyObject* object) {
  return reinterpret_cast<PyTypeObject*>(object);
}

}  // namespace

std::span<PyObject* const> names_of_tensor_classes() {
  static const std::array<PyObject*, 6> names = {
      // Interned, for good.
      PyUnicode_InternFromString("__torch_function__"), PyUnicode_InternFromString("__torch_dispatch__"),
      PyUnicode_InternFromString("__class__"),          PyUnicode_InternFromString("__del__"),
      PyUnicode_InternFromString("__getattribute__"),   PyUnicode_InternFromString("__getattr__")};
  return names;
}

namespace {

PyObject* handler_of(PyTypeObject* type) {
  return _PyType_Lookup(type, names_of_tensor_classes().front());
}

/// A class method in Python, as PyTorch wants it.
bool is_handler_in_python(PyObject* handler) {
  if (!handler || !Py_IS_TYPE(handler, &PyClassMethod_Type)) return false;
  const guards::Ref function = guards::Ref::steal(PyObject_GetAttrString(handler, "__func__"));
  PyErr_Clear();
  return function && PyFunction_Check(function.get());
}

}  // namespace

bool has_own_handler(PyTypeObject* type) {
  PyObject* handler = handler_of(type);
  return handler != handler_of(as_type(torch_names().tensor_type)) &&
         handler != handler_of(as_type(torch_names().parameter_type));
}

bool is_plain_tensor_class(PyTypeObject* type) {
  PyTypeObject *tensor = as_type(torch_names().tensor_type), *parameter = as_type(torch_names().parameter_type);
  if (type == tensor || type == parameter) return true;
  if (!PyType_IsSubtype(type, tensor) || type->tp_basicsize != tensor->tp_basicsize) return false;
  PyTypeObject* base = PyType_IsSubtype(type, parameter) ? parameter : tensor;
  if (Py_TYPE(type) != Py_TYPE(base)) return false;  // A metaclass may have its say about instances.
  if (has_own_handler(type) && !is_handler_in_python(handler_of(type))) return false;
  for (PyObject* name : names_of_tensor_classes().subspan(1))
    if (_PyType_Lookup(type, name) != _PyType_Lookup(base, name)) return false;
  return true;
}

bool is_wrapper_class(PyTypeObject* type) {
  PyTypeObject *tensor = as_type(torch_names().tensor_type), *parameter = as_type(torch_names().parameter_type);
  if (!PyType_IsSubtype(type, tensor) || type->tp_basicsize != tensor->tp_basicsize) return false;
  PyTypeObject* base = PyType_IsSubtype(type, parameter) ? parameter : tensor;
  if (Py_TYPE(type) != Py_TYPE(base)) return false;
  const std::span names = names_of_tensor_classes();
  const bool is_silent = handler_of(type) == handler_of(parameter);
  if (!is_silent && (handler_of(type) == handler_of(tensor) || !is_handler_in_python(handler_of(type))))
    return false;
  PyObject* dispatch = _PyType_Lookup(type, names[1]);
  if (dispatch == _PyType_Lookup(base, names[1]) || !is_handler_in_python(dispatch)) return false;
  for (PyObject* name : names.subspan(2))
    if (_PyType_Lookup(type, name) != _PyType_Lookup(base, name)) return false;
  return true;
}

PyObject* wrapper_maker() {
  static PyObject* const function = PyObject_GetAttrString(torch_names().tensor_type, "_make_wrapper_subclass");
  return function;  // For good.
}

bool can_become(PyTypeObject* type) {
  const interpreter::Pause unwatched;
  const guards::Ref probe = guards::Ref::steal(THPVariable_Wrap(at::Tensor(c10::make_intrusive<c10::TensorImpl>(
      c10::DispatchKeySet(c10::DispatchKey::Meta), caffe2::TypeMeta::Make<float>(), c10::Device(c10::kMeta)))));
  const bool can =
      probe && PyObject_SetAttrString(probe.get(), "__class__", reinterpret_cast<PyObject*>(type)) == 0;
  PyErr_Clear();
  return can;
}

}  // namespace braze::python
