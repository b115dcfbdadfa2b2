// python/interpreter/watch/pairs_of_sizes.h: what a dict is filled from, where numbers in it may vary.
#pragma once

#include "python/interpreter/watch/look_ups.h"
#include "python/interpreter/watch/values.h"

namespace braze::interpreter {

/// An iterator of the run's own or the items of a dict, while some numbers vary: C code that fills a dict from it
/// would have them as they are in this call.
inline bool gives_pairs_of_sizes(Values& values, PyObject* pairs) {
  if (!values.tensors().sizes().has_sizes()) return false;
  if (PyDictItems_Check(pairs)) return true;
  return Py_TYPE(pairs)->tp_iternext && is_exact_builtin(Py_TYPE(pairs)) && values.is_made(pairs);
}

}  // namespace braze::interpreter
