// python/guards/storage_access.h: reading the storage of builtin containers and instances without Python code.
//
// All results are borrowed, null when there is nothing or the object is of another kind; no Python error is set.
// What is read may be of a subclass: the base's storage counts, not what the subclass makes of it.
#pragma once

#include <Python.h>

#include <cstdint>

#include "python/guards/class_kind.h"

namespace braze::guards {

/// Keeps the cyclic garbage collector, and so finalizers, from running where something must be allocated.
class NoCollection {
 public:
  NoCollection() noexcept : was_enabled_(PyGC_Disable()) {}
  ~NoCollection() {
    if (was_enabled_) PyGC_Enable();
  }
  NoCollection(const NoCollection&) = delete;
  NoCollection& operator=(const NoCollection&) = delete;

 private:
  int was_enabled_;
};

/// The dict of an object; for a class the one of the class. Instances that still keep their values inline are given
/// their dict, which Python code cannot tell.
PyObject* instance_dict(PyObject* object) noexcept;

/// The dict of a class. 3.12 keeps those of builtin classes elsewhere: their tp_dict is null.
PyObject* class_dict(PyTypeObject* type) noexcept;

/// Entry of a dict. `key` is plain (source.h), or a tensor; any other is found by its identity (keys.h).
PyObject* dict_entry(PyObject* dict, PyObject* key, Py_hash_t hash) noexcept;

/// Key number `position` in the order of iteration.
PyObject* dict_key_at(PyObject* dict, Py_ssize_t position) noexcept;

/// Item of a tuple or list.
inline PyObject* item_at(PyObject* sequence, size_t index) noexcept {
  const bool is_list = PyList_Check(sequence);
  if (!is_list && !PyTuple_Check(sequence)) return nullptr;
  if (index >= static_cast<size_t>(Py_SIZE(sequence))) return nullptr;
  return is_list ? PyList_GET_ITEM(sequence, index) : PyTuple_GET_ITEM(sequence, index);
}

/// Where a dict keeps its version. 3.12 calls the field deprecated, and keeps it up to date.
inline const uint64_t* dict_version_place(PyObject* dict) noexcept {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  return &reinterpret_cast<PyDictObject*>(dict)->ma_version_tag;
#pragma GCC diagnostic pop
}

/// A word that differs whenever anything in the dict, or the dict, is another. OrderedDict.move_to_end does not
/// change it. 0 for what is no dict.
inline uint64_t dict_version(PyObject* dict) noexcept {
  return PyDict_Check(dict) ? *dict_version_place(dict) : 0;
}

/// A word that differs whenever anything that looking up a name in the type reads is another. 0 if there is none.
inline uint64_t type_version(PyObject* type) noexcept {
  if (!PyType_Check(type)) return 0;
  auto* t = reinterpret_cast<PyTypeObject*>(type);
  return t->tp_flags & Py_TPFLAGS_VALID_VERSION_TAG ? t->tp_version_tag : 0;
}

/// Whether `__class__` can be assigned to objects of this type: those that class statements make, and modules.
inline bool can_change_class(PyTypeObject* type) noexcept {
  return is_changeable(type) || PyType_IsSubtype(type, &PyModule_Type);
}

/// Number of items of a list, tuple, dict, set, frozenset, str or bytes; -1 for anything else.
Py_ssize_t length_of(PyObject* container) noexcept;

/// Calls `visit(key)` for each key in the order of iteration until it returns false. \returns false if `dict` is no
/// dict, or `visit` stopped.
template <typename Visit>
bool for_each_key(PyObject* dict, Visit visit) {
  if (!PyDict_Check(dict)) return false;
  if (!PyODict_Check(dict)) {
    Py_ssize_t at = 0;
    PyObject *key, *value;
    while (PyDict_Next(dict, &at, &key, &value))
      if (!visit(key)) return false;
    return true;
  }
  // An OrderedDict keeps its order apart; only its iterator reads it.
  const NoCollection no_collection;
  PyObject* iterator = PyODict_Type.tp_iter(dict);
  bool all = iterator != nullptr;
  while (all) {
    PyObject* key = Py_TYPE(iterator)->tp_iternext(iterator);
    if (!key) break;
    Py_DECREF(key);  // the dict holds it
    all = visit(key);
  }
  Py_XDECREF(iterator);
  if (PyErr_Occurred()) {
    PyErr_Clear();
    return false;
  }
  return all;
}

}  // namespace braze::guards
