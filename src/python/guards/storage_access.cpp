// python/guards/storage_access.cpp
#include "python/guards/storage_access.h"

#include "python/guards/deque.h"
#include "python/guards/keys.h"
#include "python/guards/scalar.h"
#include "python/guards/source.h"
#include "python/guards/thread_locals.h"
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
  if (is_thread_local(object)) return thread_local_dict(object);
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
  if (!is_plain_key(key) && !is_tensor_key(key)) return entry_of_object(dict, key);
  // Only keys of equal hash are compared. Strings hash with a secret, so that the keys of users' types are not met
  // by chance; small ints hash to themselves.
  if (!can_look_up(dict, key)) return is_plain_key(key) ? entry_beside_others(dict, key, hash) : nullptr;
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

}  // namespace braze::guards
