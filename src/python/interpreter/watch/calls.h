// python/interpreter/watch/calls.h: which calls are understood.
//
//   Python functions     watched themselves
//   classes              __new__ and __init__ written in Python are watched; builtin classes by table
//   builtin functions    a row each (watch/builtins.h); most read nothing but their arguments, guarded deeply
//   methods              of what the run made, or those that only read
//   torch's C functions  as TensorWorld says
#pragma once

#include "python/interpreter/watch/domain.h"

namespace braze::interpreter {

/// Which calls are understood.
class Calls final : Domain {
 public:
  using Domain::Domain;

  bool call(PyObject* callable, PyObject* const* arguments, Py_ssize_t count);
  /// The function and the object of a bound method that existed before the call. True for anything else.
  bool learn_method(PyObject* callable);
  bool enter_with(PyObject* manager);
  bool enter_device(PyObject* device);
  /// `x.add_(y, alpha=rate)`: eager asks a tensor there for its number, which is one of the trace.
  /// \param top  of the stack: the arguments lie below it.
  void give_factors(PyObject* callable, PyObject** top, PyObject* keywords);

 private:
  bool call_promised(Promise promise, PyObject* callable, PyObject* const* arguments, Py_ssize_t count);
};

}  // namespace braze::interpreter
