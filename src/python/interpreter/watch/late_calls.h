// python/interpreter/watch/late_calls.h: functions of PyTorch's that a replay calls when its program has run.
//
// They change what lies outside of the trace, such as settings of PyTorch's own Python code. The code that stands
// in for one has changed what the trace itself sees, and asks that the function be called.
#pragma once

#include "python/interpreter/watch/domain.h"

namespace braze::interpreter {

/// `call_later(function, *arguments)`, borrowed. It gives None, and does nothing itself.
PyObject* late_call_function();

class LateCalls final : Domain {
 public:
  using Domain::Domain;

  static bool is_asked(PyObject* function) { return function == late_call_function(); }
  /// The arguments are scalars, devices or dtypes.
  bool ask(PyObject* const* arguments, Py_ssize_t count);
};

}  // namespace braze::interpreter
