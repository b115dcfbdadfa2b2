// python/guards/class_kind.h: classes that Python code can change, and those that it cannot.
#pragma once

#include <Python.h>

namespace braze::guards {

/// Attributes of the class may be changed, and another class be assigned to its instances. C code makes classes on
/// the heap, too, that nobody can change: from Python 3.12 on collections.deque and all of itertools are such.
inline bool is_changeable(const PyTypeObject* type) noexcept {
  return type->tp_flags & Py_TPFLAGS_HEAPTYPE && !(type->tp_flags & Py_TPFLAGS_IMMUTABLETYPE);
}

/// No class statement made it, and none can change it.
inline bool is_exact_builtin(const PyTypeObject* type) noexcept {
  return !is_changeable(type);
}

}  // namespace braze::guards
