// python/guards/storage_access.cpp
#include "python/guards/storage_access.h"

#include "python/guards/deque.h"
#include "python/guards/keys.h"
#include "python/guards/scalar.h"
#include "python/guards/source.h"
#include "python/guards/torch_values.h"

namespace braze::guards {

#if PY_VERSION_HEX >= 0x030C0000
PyObject* class_dict(PyTypeObject* type) noexcept {
  PyObject* dict = PyType_GetDict(type);
  Py_XDECREF(dict);  // the class or the interpreter holds it
  return dict;
}
#else
PyObject* class_dict(PyTypeObject* type) noexcept {
  return type->tp_dict;
}
#endif

PyObject* instance_dict(PyObject* object) noexcept {
  if (PyType_Check(object)) return class_dict(reinterpret_cast<PyTypeObject*>(object));
  PyObject** place = _PyObject_GetDictPtr(object);
  if (!place) {
    if (PyErr_Occurred()) PyErr_Clear();
    return nullptr;
  }
  if (*place) return *place;
  const NoCollection no_collection;
  PyObject* dict = PyObject_GenericGetDict(object, nullptr);
  if (!dict) {
    PyErr_Clear();
    return nullptr;
  }
  Py_DECREF(dict);  // the object holds it
  return dict;
}

PyObject* dict_entry(PyObject* dict, PyObject* key, Py_hash_t hash) noexcept {
  if (!PyDict_Check(dict)) return nullptr;
  // Only keys of equal hash are compared. Strings hash with a secret, so that the keys of users' types are not met
  // by chance; small ints hash to themselves.
  if (!can_look_up(dict, key)) return nullptr;
  PyObject* value = _PyDict_GetItem_KnownHash(dict, key, hash);
  if (!value && PyErr_Occurred()) PyErr_Clear();
  return value;
}

PyObject* dict_key_at(PyObject* dict, Py_ssize_t position) noexcept {
  PyObject* found = nullptr;
  for_each_key(dict, [&](PyObject* key) {
    if (position-- == 0) found = key;
    return !found;
  });
  return found;
}

Py_ssize_t length_of(PyObject* container) noexcept {
  if (PyList_Check(container) || PyTuple_Check(container) || PyBytes_Check(container)) return Py_SIZE(container);
  if (is_deque(container)) return Py_SIZE(container);
  if (PyDict_Check(container)) return PyDict_GET_SIZE(container);
  if (PyAnySet_Check(container)) return PySet_GET_SIZE(container);
  if (PyUnicode_Check(container)) return PyUnicode_GET_LENGTH(container);
  return -1;
}

bool is_plain_key(PyObject* key) noexcept {
  if (is_scalar(key)) return !is_nan(key);
  // torch.Size and the like, which leave both to the builtin class.
  const bool is_builtin = !(Py_TYPE(key)->tp_flags & Py_TPFLAGS_HEAPTYPE);
  const bool is_tuple = PyTuple_Check(key) && is_builtin && Py_TYPE(key)->tp_hash == PyTuple_Type.tp_hash &&
                        Py_TYPE(key)->tp_richcompare == PyTuple_Type.tp_richcompare;
  if (is_tuple) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(key); ++i)
      if (!is_plain_key(PyTuple_GET_ITEM(key, i))) return false;
    return true;
  }
  const PyTypeObject* type = Py_TYPE(key);
  return type->tp_hash == PyBaseObject_Type.tp_hash && type->tp_richcompare == PyBaseObject_Type.tp_richcompare;
}

Py_hash_t hash_of_key(PyObject* key) noexcept {
  return is_tensor_key(key) ? static_cast<Py_hash_t>(reinterpret_cast<uintptr_t>(key)) : PyObject_Hash(key);
}

bool can_look_up(PyObject* dict, PyObject* key) noexcept {
  if (PyUnicode_CheckExact(key)) return true;
  if (!is_tensor_key(key)) return is_plain_key(key) && has_plain_keys(dict);
  bool all = true;
  for_each_key(dict,
               [&](PyObject* other) { return all = Py_IS_TYPE(other, Py_TYPE(key)) || is_tensor_key(other); });
  return all;
}

bool has_plain_keys(PyObject* dict) noexcept {
  Py_ssize_t at = 0;
  PyObject *key, *value;
  while (PyDict_Next(dict, &at, &key, &value))
    if (!is_plain_key(key)) return false;
  return true;
}

}  // namespace braze::guards
