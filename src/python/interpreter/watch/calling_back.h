// python/interpreter/watch/calling_back.h: what C code is given to call.
#pragma once

#include <Python.h>

namespace braze::interpreter {

/// A function in Python, perhaps bound: it is watched when C code calls it.
inline bool calls_back(PyObject* callable) {
  return PyFunction_Check(callable) || Py_IS_TYPE(callable, &PyMethod_Type);
}

}  // namespace braze::interpreter
