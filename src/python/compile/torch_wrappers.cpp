#include "python/compile/torch_wrappers.h"

#include <torch/csrc/autograd/python_variable.h>

#include <string_view>
#include <unordered_set>

#include "capture/wrappers.h"
#include "python/compile/tensor_classes.h"
#include "python/compile/torch_names.h"
#include "python/guards/storage_access.h"
#include "python/guards/torch_values.h"
#include "python/imported.h"
#include "python/interpreter/watch/look_ups.h"

namespace braze::python {

bool TorchWrappers::keep_class(PyTypeObject* type) {
  if (!is_wrapper_class(type)) return false;
  modes_.note_handler();  // What stands for PyTorch's functions would call other operators than these.
  auto* object = reinterpret_cast<PyObject*>(type);
  guards_.class_entries(guards_.sources().object(object, type->tp_name), type, names_of_tensor_classes());
  return true;
}

bool TorchWrappers::is_wrapper(PyObject* object) const {
  return guards::is_tensor(object) && capture::is_wrapper(THPVariable_Unpack(object)) &&
         is_wrapper_class(Py_TYPE(object));
}

bool TorchWrappers::may_read(PyObject* name) const {
  static const std::unordered_set<std::string_view> names = {
      "shape",     "dtype",     "device",       "layout",  "ndim",   "requires_grad", "is_leaf",       "is_cpu",
      "is_cuda",   "is_sparse", "is_quantized", "is_meta", "nbytes", "is_nested",     "is_sparse_csr", "itemsize",
      "is_mkldnn", "T",         "mT",           "H",       "mH"};
  return names.contains(interpreter::text_of(name));
}

bool TorchWrappers::makes_wrapper(PyObject* function) const {
  return function == wrapper_maker();
}

bool TorchWrappers::is_overload(PyObject* object) const {
  return reinterpret_cast<PyObject*>(Py_TYPE(object)) == torch_names().overload_type;
}

void TorchWrappers::enter_handler() {
  capture::open_gate();
}

PyObject* TorchWrappers::behind(PyObject* tracer) const {
  const at::Tensor* real = capture::stood_for(THPVariable_Unpack(tracer));
  PyObject* object = real ? THPVariable_Wrap(*real) : nullptr;
  Py_XDECREF(object);  // The tensor keeps it: it existed before.
  return object;
}

bool TorchWrappers::learn(PyObject* tensor, const guards::Source* source) {
  static PyObject* const name = PyUnicode_InternFromString("__torch_dispatch__");  // For good.
  PyObject* dict = guards::instance_dict(tensor);
  const bool is_own = dict && PyDict_GetItemWithError(dict, name);
  if (is_own || !keep_class(Py_TYPE(tensor)) || !guards_.tensor(source, tensor, 1, guards::GuardSet::Which::any))
    return false;
  guards_.lacks(source, name);
  learnt_.push_back({tensor, source});
  return true;
}

}  // namespace braze::python
