// python/guards/deque.h: reading the storage of a collections.deque.
#pragma once

#include <Python.h>

#include <string_view>

#include "python/guards/class_kind.h"

namespace braze::guards {

/// Of exactly that class.
inline bool is_deque(PyObject* object) noexcept {
  const PyTypeObject* type = Py_TYPE(object);
  return is_exact_builtin(type) && std::string_view(type->tp_name) == "collections.deque";
}

/// Borrowed from the deque; null if it has not so many items.
inline PyObject* deque_item(PyObject* deque, Py_ssize_t index) noexcept {
  if (index >= Py_SIZE(deque)) return nullptr;
  PyObject* item = Py_TYPE(deque)->tp_as_sequence->sq_item(deque, index);
  Py_XDECREF(item);
  return item;
}

}  // namespace braze::guards
