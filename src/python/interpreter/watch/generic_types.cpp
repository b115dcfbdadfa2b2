// python/interpreter/watch/generic_types.cpp
#include "python/interpreter/watch/generic_types.h"

#include "python/guards/scalar.h"
#include "python/interpreter/watch/look_ups.h"
#include "python/interpreter/watch/watch.h"

namespace braze::interpreter {

namespace {

/// The dict of a module that is loaded.
PyObject* dict_of_module(const char* name) {
  PyObject* module = PyDict_GetItemString(PyImport_GetModuleDict(), name);
  return module && PyModule_Check(module) ? PyModule_GetDict(module) : nullptr;
}

/// An instance of a class of module typing, or of a builtin one for such types.
bool is_of_typing(PyObject* object) {
  if (is_a(object, "types.GenericAlias") || is_a(object, "types.UnionType") || is_a(object, "typing.TypeVar"))
    return true;
  PyObject* typing = dict_of_module("typing");
  return typing &&
         PyDict_GetItemString(typing, Py_TYPE(object)->tp_name) == reinterpret_cast<PyObject*>(Py_TYPE(object));
}

/// The function or class behind `__class_getitem__` is types.GenericAlias, or one of the library's.
bool has_librarys_parameters(PyObject* type) {
  PyObject* found = class_entry(type, "__class_getitem__");
  if (found && Py_IS_TYPE(found, &PyClassMethodDescr_Type)) {  // Of Generic itself, from Python 3.12 on.
    const PyTypeObject* owner = PyDescr_TYPE(found);
    return is_exact_builtin(owner) || std::string_view(owner->tp_name) == "typing.Generic";
  }
  if (!found || !Py_IS_TYPE(found, &PyClassMethod_Type)) return false;
  const Ref function = Ref::steal(PyObject_GetAttrString(found, "__func__"));
  if (!function) PyErr_Clear();
  if (!function || function.get() == reinterpret_cast<PyObject*>(&Py_GenericAliasType)) return bool(function);
  if (PyFunction_Check(function.get())) return PyFunction_GET_GLOBALS(function.get()) == dict_of_module("typing");
  PyObject* abc = dict_of_module("_collections_abc");
  return abc && PyDict_GetItemString(abc, "_CallableGenericAlias") == function.get();
}

}  // namespace

bool GenericTypes::is_generic(PyObject* object) {
  if (!PyType_Check(object)) return is_of_typing(object);
  return !class_entry(reinterpret_cast<PyObject*>(Py_TYPE(object)), "__getitem__") &&
         has_librarys_parameters(object) &&
         watch_.classes.keep_in_class(object, watch_.classes.class_source(object), {"__class_getitem__"});
}

bool GenericTypes::subscript_type(PyObject* container, PyObject* key) {
  if (!values_.pin(container) || !is_part_of_type(key)) return abandon("a type with a part that is no type", key);
  activity().is_quiet = true;
  activity().makes_constant = true;
  return allow_made_result(Entry::trusted);
}

PyObject* GenericTypes::builtin_origin(PyObject* alias) {
  if (!is_a(alias, "types.GenericAlias")) return nullptr;
  const Ref origin = Ref::steal(PyObject_GetAttrString(alias, "__origin__"));
  if (!origin || !PyType_Check(origin.get()) || !is_exact_builtin(as_type(origin.get())) || !values_.pin(alias)) {
    PyErr_Clear();
    abandon("a call that is not understood", alias);
    return nullptr;
  }
  values_.learn(origin.get(), values_.sources().object(origin.get(), as_type(origin.get())->tp_name));
  return origin.get();  // The alias holds it.
}

bool GenericTypes::unites_types(PyObject* left, PyObject* right) {
  const auto is_alias = [](PyObject* type) {
    return is_a(type, "types.GenericAlias") || is_a(type, "types.UnionType");
  };
  if (!is_alias(left) && !is_alias(right)) return false;
  for (PyObject* type : {left, right})
    if ((!is_alias(type) && !PyType_Check(type) && type != Py_None) || !is_part_of_type(type)) return false;
  activity().makes_constant = true;
  return allow_made_result(Entry::none);
}

bool GenericTypes::is_part_of_type(PyObject* part) {
  if (guards::is_scalar(part)) return true;
  if (PyTuple_CheckExact(part) || PyList_CheckExact(part)) {
    if (!values_.open(part)) return false;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(part); ++i)
      if (!is_part_of_type(PySequence_Fast_GET_ITEM(part, i))) return false;
    return true;
  }
  const bool is_type = PyType_Check(part) && Py_TYPE(part)->tp_hash == PyType_Type.tp_hash &&
                       Py_TYPE(part)->tp_richcompare == PyType_Type.tp_richcompare;
  return (is_type || is_of_typing(part)) && values_.pin(part);
}

}  // namespace braze::interpreter
