// python/interpreter/watch/autograd_functions.cpp
#include "python/interpreter/watch/autograd_functions.h"

#include <string_view>

#include "python/guards/storage_access.h"
#include "python/interpreter/watch/watch.h"

namespace braze::interpreter {

namespace {

/// torch._C._FunctionBase, if `type` derives from it.
PyTypeObject* function_base(PyTypeObject* type) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_mro); ++i) {
    auto* base = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(type->tp_mro, i));
    if (guards::is_exact_builtin(base) && std::string_view(base->tp_name) == "torch._C._FunctionBase") return base;
  }
  return nullptr;
}

}  // namespace

bool AutogradFunctions::is_function_apply(PyObject* function) {
  PyObject* self = PyCFunction_GET_SELF(function);
  if (!self || !PyType_Check(self)) return false;
  PyTypeObject* base = function_base(reinterpret_cast<PyTypeObject*>(self));
  PyObject* apply = base ? PyDict_GetItemString(guards::class_dict(base), "apply") : nullptr;
  return apply && Py_IS_TYPE(apply, &PyClassMethodDescr_Type) &&
         reinterpret_cast<PyMethodDescrObject*>(apply)->d_method ==
             reinterpret_cast<PyCFunctionObject*>(function)->m_ml;
}

bool AutogradFunctions::apply_function(PyObject* type) {
  if (!values_.is_known(type)) return abandon("an autograd.Function of a kind of its own", type);
  for (const char* name : {"forward", "setup_context", "_backward_cls"}) {
    const Ref key = Ref::steal(PyUnicode_InternFromString(name));
    if (!key) return abandon(Break::no_memory);
    if (!watch_.attributes.class_attribute(type, key.get())) return false;
  }
  const Ref context = Ref::steal(PyObject_GetAttrString(type, "_backward_cls"));
  if (!context || !PyType_Check(context.get())) return abandon("an autograd.Function of a kind of its own", type);
  activity().constructs = reinterpret_cast<PyTypeObject*>(context.get());
  activity().packs_arguments = true;
  return allow_made_result(Entry::known);
}

bool AutogradFunctions::is_word_for_backward(PyObject* object, PyObject* descriptor) {
  if (!values_.is_made(object) || !Py_IS_TYPE(descriptor, &PyGetSetDescr_Type)) return false;
  if (PyDescr_TYPE(descriptor) != function_base(Py_TYPE(object))) return false;
  for (const char* name : {"to_save", "non_differentiable", "materialize_grads"})
    if (PyUnicode_CompareWithASCIIString(PyDescr_NAME(descriptor), name) == 0) return true;
  return false;
}

bool AutogradFunctions::is_needs_input_grad(PyObject* object, PyObject* descriptor) {
  return values_.is_made(object) && Py_IS_TYPE(descriptor, &PyGetSetDescr_Type) &&
         PyDescr_TYPE(descriptor) == function_base(Py_TYPE(object)) &&
         PyUnicode_CompareWithASCIIString(PyDescr_NAME(descriptor), "needs_input_grad") == 0;
}

}  // namespace braze::interpreter
