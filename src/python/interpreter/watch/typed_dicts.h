// python/interpreter/watch/typed_dicts.h: classes that make plain dicts.
#pragma once

#include "python/interpreter/watch/look_ups.h"

namespace braze::interpreter {

/// Whether calling a class is calling dict with the same arguments: of typed dicts the metaclass's `__call__` is
/// dict itself, which as a class binds nothing.
inline bool makes_plain_dict(PyObject* callable) {
  return PyType_Check(callable) &&
         find_in_type(Py_TYPE(callable), "__call__") == reinterpret_cast<PyObject*>(&PyDict_Type);
}

}  // namespace braze::interpreter
