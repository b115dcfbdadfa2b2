// python/interpreter/watch/tensor_attributes.cpp
#include "python/interpreter/watch/tensor_attributes.h"

#include "python/guards/storage_access.h"
#include "python/interpreter/watch/look_ups.h"
#include "python/interpreter/watch/watch.h"
#include "python/interpreter/watch/wrapper_world.h"

namespace braze::interpreter {

namespace {

/// Under which name a class itself has `value`; null if it has it not.
PyObject* name_in_class(PyTypeObject* type, PyObject* value) {
  Py_ssize_t at = 0;
  PyObject *name, *entry;
  while (PyDict_Next(guards::class_dict(type), &at, &name, &entry))
    if (entry == value) return name;
  return nullptr;
}

}  // namespace

bool TensorAttributes::learn_tensor_method(PyObject* function) {
  PyObject* tensor = values_.tensors().tensor_type();
  auto* type = reinterpret_cast<PyTypeObject*>(tensor);
  PyObject* name = reinterpret_cast<PyFunctionObject*>(function)->func_name;
  if (_PyType_Lookup(type, name) != function) name = name_in_class(type, function);
  guards::SourceTable& sources = values_.sources();
  return name && values_.learn(function, sources.type_attribute(sources.object(tensor, "torch.Tensor"), name));
}

bool TensorAttributes::hashes_tensor(PyObject* function) {
  return class_entry(values_.tensors().tensor_type(), "__hash__") == function;
}

bool TensorAttributes::is_operator_in_c(PyObject* function) const {
  const TensorWorld& tensors = values_.tensors();
  if (PyCFunction_Check(function)) return tensors.may_call(function);
  const auto is_of_tensors = [&](PyObject* descriptor) {
    return PyType_IsSubtype(as_type(tensors.tensor_type()), PyDescr_TYPE(descriptor));
  };
  if (Py_IS_TYPE(function, &PyMethodDescr_Type) || Py_IS_TYPE(function, &PyWrapperDescr_Type)) {
    const std::string_view name = text_of(PyDescr_NAME(function));
    return is_of_tensors(function) &&
           (tensors.may_call_method(PyDescr_NAME(function)) || name == "as_subclass" || name == "__setitem__");
  }
  if (!Py_IS_TYPE(function, &_PyMethodWrapper_Type)) return false;
  const Ref self = Ref::steal(PyObject_GetAttrString(function, "__self__"));
  const Ref name = Ref::steal(PyObject_GetAttrString(function, "__name__"));
  PyErr_Clear();
  return self && name && Py_IS_TYPE(self.get(), &PyGetSetDescr_Type) && text_of(name.get()) == "__get__" &&
         is_of_tensors(self.get()) && tensors.may_read(PyDescr_NAME(self.get()));
}

/// What operators make of its instances is given the class, or goes through its own handler.
bool TensorAttributes::has_results_of_its_class(PyTypeObject* type) const {
  PyObject* tensor = values_.tensors().tensor_type();
  constexpr const char* name = "__torch_function__";
  PyObject* handler = find_in_type(type, name);
  return type != as_type(tensor) &&
         (handler == class_entry(tensor, name) || (handler && Py_IS_TYPE(handler, &PyClassMethod_Type)));
}

bool TensorAttributes::reads_by_descriptor(PyObject* descriptor, PyObject* const* arguments, Py_ssize_t count) {
  if (!Py_IS_TYPE(descriptor, &PyGetSetDescr_Type) || count < 1 || !values_.tensors().is_tensor(arguments[0]))
    return false;
  PyObject* name = PyDescr_NAME(descriptor);
  return _PyType_Lookup(Py_TYPE(arguments[0]), name) == descriptor && tensor_attribute(arguments[0], name);
}

bool TensorAttributes::gives_class(Frame* frame) {
  PyObject* tensor = values_.tensors().tensor_type();
  const Ref name = Ref::steal(PyUnicode_InternFromString("__torch_function__"));
  PyObject* found = name ? _PyType_Lookup(as_type(tensor), name.get()) : nullptr;
  if (!found || !Py_IS_TYPE(found, &PyClassMethod_Type) || frame->f_code->co_argcount != 5) return false;
  const Ref own = Ref::steal(PyObject_GetAttrString(found, "__func__"));
  PyObject* const* given = frame->localsplus;  // The class, what is called, classes, arguments, keywords.
  if (own.get() != reinterpret_cast<PyObject*>(function_of(frame)) || !PyType_Check(given[0])) return false;
  if (!is_operator_in_c(given[1]) || !PyTuple_CheckExact(given[2])) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(given[2]); ++i) {
    PyObject* cls = PyTuple_GET_ITEM(given[2], i);
    if (!PyType_Check(cls) || !values_.tensors().keep_tensor_class(as_type(cls))) return false;
  }
  return watch_.classes.learn_class_entry(
      found, values_.sources().type_attribute(watch_.classes.class_source(tensor), name.get()));
}

bool TensorAttributes::tensor_attribute(PyObject* tensor, PyObject* name) {
  if (!values_.is_known(tensor)) return abandon("an attribute of a tensor of unknown origin");
  PyObject* found = _PyType_Lookup(Py_TYPE(tensor), name);
  if (!found || !PyUnicode_CheckExact(name)) return own_attribute(tensor, name);
  if (text_of(name) == "__dict__") {
    values_.guards().class_entries(type_source(values_, tensor), Py_TYPE(tensor), {&name, 1});
    return own_dict(tensor) || abandon("an object without a dict", tensor);
  }
  guards::SourceTable& sources = values_.sources();
  const guards::Source* type = type_source(values_, tensor);
  const bool is_function = PyFunction_Check(found) || PyCFunction_Check(found);
  const bool is_class_method = Py_IS_TYPE(found, &PyClassMethod_Type);
  if (is_function || is_class_method || Py_IS_TYPE(found, &PyMethodDescr_Type) ||
      Py_IS_TYPE(found, &PyWrapperDescr_Type)) {
    PyObject* dict = guards::instance_dict(tensor);
    if (dict && PyDict_GetItemWithError(dict, name)) return own_attribute(tensor, name);
    if (const guards::Source* source = values_.source_of(tensor)) values_.guards().lacks(source, name);
    if (is_class_method)
      return watch_.classes.learn_class_entry(found, sources.type_attribute(type, name)) && allow_made_result();
    if (!is_function) values_.guards().class_entries(type, Py_TYPE(tensor), {&name, 1});
    return !is_function || values_.learn(found, sources.type_attribute(type, name))
               ? allow_made_result()
               : abandon("a method that cannot be guarded", name);
  }
  if (Py_IS_TYPE(found, &PyProperty_Type) &&
      found != _PyType_Lookup(as_type(values_.tensors().tensor_type()), name)) {
    values_.guards().class_entries(type, Py_TYPE(tensor), {&name, 1});
    return watch_.attributes.property_getter(found, sources.type_attribute(type, name), name);
  }
  if (!Py_TYPE(found)->tp_descr_get) {  // What a derived class has.
    PyObject* dict = own_dict(tensor);
    if (dict && PyDict_GetItemWithError(dict, name)) return own_attribute(tensor, name);
    if (const guards::Source* source = values_.source_of(tensor)) values_.guards().lacks(source, name);
    return watch_.classes.learn_class_entry(found, sources.type_attribute(type, name));
  }
  const WrapperWorld* const wrappers = values_.tensors().wrappers();
  if (wrappers && wrappers->is_wrapper(tensor) && !wrappers->may_read(name))
    return abandon("an attribute of a tensor that guards do not cover", name);
  // What the run would be told in its place is no instance of a derived class.
  if (text_of(name) == "data" && values_.source_of(tensor) && has_results_of_its_class(Py_TYPE(tensor)))
    return abandon("an attribute of a tensor that guards do not cover", name);
  if (PyUnicode_CompareWithASCIIString(name, "grad") == 0 && Py_IS_TYPE(found, &PyGetSetDescr_Type)) {
    values_.guards().class_entries(type, Py_TYPE(tensor), {&name, 1});
    return gradient(tensor);
  }
  const bool may_read = values_.tensors().may_read(name);
  activity().answer = values_.tensors().answer_attribute(tensor, name);
  if (activity().answer && values_.tensors().modes().are_calls_handled())  // What they make of it would be lost.
    return abandon("an attribute of a tensor that guards do not cover", name);
  if (!Py_IS_TYPE(found, &PyGetSetDescr_Type) ||
      (!may_read && !values_.tensors().may_read_without_grad(tensor, name)))
    return abandon("an attribute of a tensor that guards do not cover", name);
  values_.guards().class_entries(type, Py_TYPE(tensor), {&name, 1});
  return may_read ? allow_made_result(Entry::tensor) : allow_made_result();
}

/// `.grad` of a parameter: what is there on later calls, too, and another tensor on each.
bool TensorAttributes::gradient(PyObject* tensor) {
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

/// What stands for the tensor in the run gets the other memory; a replay sets the tensor's own.
bool TensorAttributes::store_data(PyObject*& tensor, PyObject* name, PyObject*& value) {
  if (!values_.is_known(tensor)) return abandon("an attribute of an object of unknown origin is changed", tensor);
  if (!values_.tensors().is_tensor(value) || !values_.is_known(value))
    return abandon("an attribute of a tensor is changed", name);
  if (!watch_.classes.keep_special(tensor, {"__setattr__"})) return false;
  PyObject* found = _PyType_Lookup(Py_TYPE(tensor), name);
  if (!found || !Py_IS_TYPE(found, &PyGetSetDescr_Type))
    return abandon("an attribute of a tensor is changed", name);
  values_.guards().class_entries(type_source(values_, tensor), Py_TYPE(tensor), {&name, 1});
  TensorWorld::StoredData stored = values_.tensors().store_data(tensor, value);
  if (!stored.tensor) return abandon("the `data` of a tensor is replaced");
  if (stored.is_effect) {
    values_.make(stored.value.get());
    values_.effects().store_data(tensor, name, stored.value.get());
  }
  Py_SETREF(tensor, stored.tensor.release());
  Py_SETREF(value, stored.value.release());
  return allow(Entry::tensor);
}

bool TensorAttributes::store_own(PyObject* tensor, PyObject* name, PyObject* value) {
  if (!values_.is_known(tensor)) return abandon("an attribute of an object of unknown origin is changed", tensor);
  PyTypeObject* type = Py_TYPE(tensor);
  PyObject* found = PyUnicode_CheckExact(name) ? _PyType_Lookup(type, name) : nullptr;
  // Before methods the instance dict comes; what stands for a tensor has methods alone.
  const SizeWorld& sizes = values_.tensors().sizes();
  const bool is_hidden = found && (is_data_descriptor(found) || text_of(name).starts_with("__") ||
                                   sizes.tracer_of(tensor) || sizes.behind_tracer(tensor));
  if (is_hidden || !PyUnicode_CheckExact(name) || type->tp_setattro != PyObject_GenericSetAttr)
    return value ? abandon("an attribute of a tensor is changed", name)
                 : abandon("an attribute of a tensor is deleted", name);
  values_.guards().class_entries(type_source(values_, tensor), type, {&name, 1});
  return watch_.classes.keep_special(tensor, {value ? "__setattr__" : "__delattr__"}) && own_dict(tensor) &&
         watch_.attributes.store_in_dict(tensor, name, value);
}

/// Its instance dict, of one that existed before as it was then: another object than all dicts that the run is
/// given.
PyObject* TensorAttributes::own_dict(PyObject* tensor) {
  PyObject* dict = guards::instance_dict(tensor);
  if (!dict || !PyDict_CheckExact(dict)) return nullptr;
  if (const guards::Source* source = values_.source_of(tensor))
    values_.learn_as(dict, values_.sources().dict_of(source));
  else
    values_.make(dict);
  return dict;
}

/// What a tensor has in its instance dict, or that it has nothing of that name.
bool TensorAttributes::own_attribute(PyObject* tensor, PyObject* name) {
  guards::SourceTable& sources = values_.sources();
  values_.guards().class_entries(type_source(values_, tensor), Py_TYPE(tensor), {&name, 1});
  PyObject* dict = own_dict(tensor);
  PyObject* value = dict ? PyDict_GetItemWithError(dict, name) : nullptr;
  const guards::Source* source = values_.source_of(tensor);
  if (!source || (dict && values_.effects().wrote(dict, name))) return true;  // What the run put there, or nothing.
  if (value)
    return values_.learn(value, sources.attribute(source, name)) ||
           abandon("an attribute that cannot be guarded", value);
  values_.guards().lacks(source, name);
  return true;
}

}  // namespace braze::interpreter
