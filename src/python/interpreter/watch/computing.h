// python/interpreter/watch/computing.h: what C code that computes with its arguments may enter.
#pragma once

#include "python/interpreter/watch/activity.h"
#include "python/interpreter/watch/look_ups.h"

namespace braze::interpreter {

/// Of data alone nothing: what `int("2.5")` raises is the function's own, and no error of an operator.
inline Entry entry_of_computing(PyObject* const* arguments, Py_ssize_t count) {
  return all_data(arguments, count) ? Entry::none : Entry::tensor;
}

}  // namespace braze::interpreter
