// python/interpreter/watch/look_ups.h: small questions about objects that the watcher's files share.
#pragma once

#include <Python.h>

#include <optional>
#include <string_view>
#include <unordered_set>

#include "python/guards/class_kind.h"
#include "python/guards/ref.h"
#include "python/guards/scalar.h"
#include "python/guards/storage_access.h"
#include "python/interpreter/watch/values.h"

namespace braze::interpreter {

using Names = std::unordered_set<std::string_view>;

inline std::string_view text_of(PyObject* string) {
  const char* text = string && PyUnicode_Check(string) ? PyUnicode_AsUTF8(string) : nullptr;
  return text ? text : "";
}

bool names_builtin_codec(PyObject* const* names, Py_ssize_t count);

inline PyTypeObject* as_type(PyObject* object) {
  return reinterpret_cast<PyTypeObject*>(object);
}

/// That name as an interned text, which is kept for good; null if there is no memory.
PyObject* interned(const char* name);

/// What a class or one of its bases has under that name, unbound; null if nothing.
inline PyObject* find_in_type(PyTypeObject* type, const char* name) {
  PyObject* key = interned(name);
  return key ? _PyType_Lookup(type, key) : nullptr;
}

inline PyObject* find_in_type(PyTypeObject* type, PyObject* name) {
  return _PyType_Lookup(type, name);
}

inline PyObject* class_entry(PyObject* type, const char* name) {
  return find_in_type(as_type(type), name);
}

/// What a builtin class itself has under that name: the descriptor of a field.
inline PyObject* member_descriptor(PyTypeObject* type, const char* name) {
  return PyDict_GetItemString(guards::class_dict(type), name);
}

inline bool is_data_descriptor(PyObject* found) {
  return Py_TYPE(found)->tp_descr_set != nullptr;
}

/// A property, or an object of a class made of it that leaves reading and writing to it.
inline bool acts_as_property(PyObject* found) {
  return PyObject_TypeCheck(found, &PyProperty_Type) &&
         Py_TYPE(found)->tp_descr_get == PyProperty_Type.tp_descr_get &&
         Py_TYPE(found)->tp_descr_set == PyProperty_Type.tp_descr_set;
}

/// Of module _collections in Python 3.11, and of collections later.
inline bool is_named_tuple_field(PyObject* found) {
  return std::string_view(Py_TYPE(found)->tp_name).ends_with("collections._tuplegetter");
}

using guards::is_changeable;
using guards::is_exact_builtin;

/// The name of the module that a function written in C says it is from.
inline std::string_view module_of(PyObject* function) {
  return text_of(reinterpret_cast<PyCFunctionObject*>(function)->m_module);
}

/// A function of a module that is written in C.
struct ModuleFunction {
  std::string_view module, name;
};
/// Nothing for callables of other kinds.
inline std::optional<ModuleFunction> function_of_module(PyObject* callable) {
  if (!PyCFunction_Check(callable)) return std::nullopt;
  PyObject* self = PyCFunction_GET_SELF(callable);
  if (!self || !PyModule_Check(self)) return std::nullopt;
  const char* module = PyModule_GetName(self);
  if (!module) PyErr_Clear();
  return ModuleFunction{module ? module : "", reinterpret_cast<PyCFunctionObject*>(callable)->m_ml->ml_name};
}

/// The running instruction is one of module copy.
bool runs_module_copy();

/// An instance of exactly that builtin class.
inline bool is_a(PyObject* object, std::string_view type_name) {
  return is_exact_builtin(Py_TYPE(object)) && Py_TYPE(object)->tp_name == type_name;
}

/// `__name__`, `__doc__` and their like, which a function keeps beside its dict.
bool is_function_field(PyObject* name);

/// Its text depends on sys.set_int_max_str_digits().
inline bool has_many_digits(PyObject* value) {
  constexpr size_t most_bits = 2100;  // Of 640 digits, below which there is no limit.
  return PyLong_CheckExact(value) && _PyLong_NumBits(value) > most_bits;
}

/// Scalars and builtin containers of them: what has the same text and hash in every run.
inline bool is_data(PyObject* value, int depth = 0) {
  if (guards::is_scalar(value)) return !has_many_digits(value);
  if (is_a(value, "torch.dtype") || is_a(value, "torch.layout") || is_a(value, "torch.memory_format")) return true;
  if (PyDictKeys_Check(value))
    return is_data(reinterpret_cast<PyObject*>(reinterpret_cast<_PyDictViewObject*>(value)->dv_dict), depth + 1);
  if (depth > 8 || (!is_builtin_container(value) && !is_a(value, "torch.Size"))) return false;
  const guards::Ref items = guards::Ref::steal(PyDict_Check(value) ? PyDict_Items(value) : PySequence_List(value));
  for (Py_ssize_t i = 0; items && i < PyList_GET_SIZE(items.get()); ++i)
    if (!is_data(PyList_GET_ITEM(items.get(), i), depth + 1)) return false;
  return static_cast<bool>(items);
}

inline bool has_scalar_keys(PyObject* dict) {
  Py_ssize_t at = 0;
  PyObject *key, *value;
  while (PyDict_Next(dict, &at, &key, &value))
    if (!guards::is_scalar(key)) return false;
  return true;
}

inline bool all_data(PyObject* const* arguments, Py_ssize_t count) {
  for (Py_ssize_t i = 0; i < count; ++i)
    if (!is_data(arguments[i])) return false;
  return true;
}

}  // namespace braze::interpreter
