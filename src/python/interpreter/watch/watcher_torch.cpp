// python/interpreter/watch/watcher_torch.cpp: torch.autograd.Function, and attributes of tensors.
//
// `apply` makes a context object and calls the class's `forward` with it, which is watched in turn. Where nothing
// requires grad, the context is dropped when forward has returned: what is stored there goes nowhere.
#include <string_view>

#include "python/guards/storage_access.h"
#include "python/interpreter/watch/look_ups.h"
#include "python/interpreter/watch/watcher.h"

namespace braze::interpreter {

namespace {

/// torch._C._FunctionBase, if `type` derives from it.
PyTypeObject* function_base(PyTypeObject* type) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_mro); ++i) {
    auto* base = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(type->tp_mro, i));
    if (!(base->tp_flags & Py_TPFLAGS_HEAPTYPE) && std::string_view(base->tp_name) == "torch._C._FunctionBase")
      return base;
  }
  return nullptr;
}

/// Under which name a class itself has `value`; null if it has it not.
PyObject* name_in_class(PyTypeObject* type, PyObject* value) {
  Py_ssize_t at = 0;
  PyObject *name, *entry;
  while (PyDict_Next(guards::class_dict(type), &at, &name, &entry))
    if (entry == value) return name;
  return nullptr;
}

}  // namespace

/// A method of torch.Tensor written in Python, which C code enters. What decorators have wrapped has another name
/// than the class knows it by: `x ** 2` enters the function `pow`.
bool Watcher::learn_tensor_method(PyObject* function) {
  PyObject* tensor = values_.tensors().tensor_type();
  auto* type = reinterpret_cast<PyTypeObject*>(tensor);
  PyObject* name = reinterpret_cast<PyFunctionObject*>(function)->func_name;
  if (_PyType_Lookup(type, name) != function) name = name_in_class(type, function);
  guards::SourceTable& sources = values_.sources();
  return name && values_.learn(function, sources.type_attribute(sources.object(tensor, "torch.Tensor"), name));
}

/// Tensor.__hash__, entered from C code that looks a tensor up: it goes by the address, and shows it to nobody.
bool Watcher::hashes_tensor(PyObject* function) {
  return class_entry(values_.tensors().tensor_type(), "__hash__") == function;
}

/// The `apply` of torch._C._FunctionBase, bound to a class.
bool Watcher::is_function_apply(PyObject* function) {
  PyObject* self = PyCFunction_GET_SELF(function);
  if (!self || !PyType_Check(self)) return false;
  PyTypeObject* base = function_base(reinterpret_cast<PyTypeObject*>(self));
  PyObject* apply = base ? PyDict_GetItemString(guards::class_dict(base), "apply") : nullptr;
  return apply && Py_IS_TYPE(apply, &PyClassMethodDescr_Type) &&
         reinterpret_cast<PyMethodDescrObject*>(apply)->d_method ==
             reinterpret_cast<PyCFunctionObject*>(function)->m_ml;
}

bool Watcher::apply_function(PyObject* type) {
  if (!values_.is_known(type)) return abandon("an autograd.Function of unknown origin", type);
  for (const char* name : {"forward", "setup_context", "_backward_cls"}) {
    const Ref key = Ref::steal(PyUnicode_InternFromString(name));
    if (!key || !class_attribute(type, key.get()))
      return abandon("an autograd.Function without such a method", key.get());
  }
  const Ref context = Ref::steal(PyObject_GetAttrString(type, "_backward_cls"));
  if (!context || !PyType_Check(context.get())) return abandon("an autograd.Function of a kind of its own", type);
  activities_.back().constructs = reinterpret_cast<PyTypeObject*>(context.get());
  activities_.back().packs_arguments = true;
  return allow_made_result(Entry::known);
}

/// Attributes of a context in which `forward` leaves word for `backward`.
bool Watcher::is_word_for_backward(PyObject* object, PyObject* descriptor) {
  if (!values_.is_made(object) || !Py_IS_TYPE(descriptor, &PyGetSetDescr_Type)) return false;
  if (PyDescr_TYPE(descriptor) != function_base(Py_TYPE(object))) return false;
  for (const char* name : {"to_save", "non_differentiable", "materialize_grads"})
    if (PyUnicode_CompareWithASCIIString(PyDescr_NAME(descriptor), name) == 0) return true;
  return false;
}

/// What a context knows of the arguments, whose requires_grad is guarded.
bool Watcher::is_needs_input_grad(PyObject* object, PyObject* descriptor) {
  return values_.is_made(object) && Py_IS_TYPE(descriptor, &PyGetSetDescr_Type) &&
         PyDescr_TYPE(descriptor) == function_base(Py_TYPE(object)) &&
         PyUnicode_CompareWithASCIIString(PyDescr_NAME(descriptor), "needs_input_grad") == 0;
}

/// Methods and properties of torch's, written in C or in Python, must stay what they are: in the class, which
/// anyone may patch, and on the object, whose own attributes come before methods.
bool Watcher::tensor_attribute(PyObject* tensor, PyObject* name) {
  if (!values_.is_known(tensor)) return abandon("an attribute of a tensor of unknown origin");
  PyObject* found = _PyType_Lookup(Py_TYPE(tensor), name);
  if (!found || !PyUnicode_CheckExact(name)) return own_attribute(tensor, name);
  guards::SourceTable& sources = values_.sources();
  const guards::Source* type = type_source(tensor);
  const bool is_function = PyFunction_Check(found);
  if (is_function || Py_IS_TYPE(found, &PyMethodDescr_Type) || Py_IS_TYPE(found, &PyWrapperDescr_Type)) {
    PyObject* dict = guards::instance_dict(tensor);
    if (dict && PyDict_GetItemWithError(dict, name)) return own_attribute(tensor, name);
    if (const guards::Source* source = values_.source_of(tensor)) values_.guards().lacks(source, name);
    if (!is_function) values_.guards().class_entries(type, Py_TYPE(tensor), {&name, 1});
    return !is_function || values_.learn(found, sources.type_attribute(type, name))
               ? allow_made_result()
               : abandon("a method that cannot be guarded", name);
  }
  if (PyUnicode_CompareWithASCIIString(name, "grad") == 0 && Py_IS_TYPE(found, &PyGetSetDescr_Type)) {
    values_.guards().class_entries(type, Py_TYPE(tensor), {&name, 1});
    return gradient(tensor);
  }
  const bool may_read = values_.tensors().may_read(name);
  activities_.back().answer = values_.tensors().answer_attribute(tensor, name);
  if (!Py_IS_TYPE(found, &PyGetSetDescr_Type) ||
      (!may_read && !values_.tensors().may_read_without_grad(tensor, name)))
    return abandon("an attribute of a tensor that guards do not cover", name);
  values_.guards().class_entries(type, Py_TYPE(tensor), {&name, 1});
  return may_read ? allow_made_result(Entry::tensor) : allow_made_result();
}

/// `.grad` of a parameter: what is there on later calls, too, and another tensor on each.
bool Watcher::gradient(PyObject* tensor) {
  const guards::Source* source = values_.source_of(tensor);
  const Ref leaf = Ref::steal(PyUnicode_InternFromString("is_leaf"));
  const Ref is_leaf = leaf ? Ref::steal(PyObject_GenericGetAttr(tensor, leaf.get())) : Ref();
  if (!source || is_leaf.get() != Py_True) {
    PyErr_Clear();
    return abandon("the gradient of a tensor that the function has computed");
  }
  const guards::Source* place = values_.sources().member(source, guards::Member::tensor_grad);
  PyObject* found = values_.tensors().gradient_of(tensor);
  if (!found) {
    values_.guards().absent(place);
    return allow_made_result();
  }
  return values_.learn(found, place) || abandon("a gradient that cannot be traced");
}

/// What a tensor has in its instance dict, or that it has nothing of that name.
bool Watcher::own_attribute(PyObject* tensor, PyObject* name) {
  guards::SourceTable& sources = values_.sources();
  values_.guards().class_entries(type_source(tensor), Py_TYPE(tensor), {&name, 1});
  PyObject* dict = guards::instance_dict(tensor);
  PyObject* value = dict ? PyDict_GetItemWithError(dict, name) : nullptr;
  const guards::Source* source = values_.source_of(tensor);
  if (source && value)
    return values_.learn(value, sources.attribute(source, name)) ||
           abandon("an attribute that cannot be guarded", value);
  if (source) values_.guards().lacks(source, name);
  return !value || abandon("an attribute of a tensor that the function made", name);
}

}  // namespace braze::interpreter
