// python/compile/rebuild_parts.h: what the files of the Rebuilder share.
#pragma once

#include <string>

#include "python/compile/rebuild.h"
#include "python/guards/scalar.h"

namespace braze::python {

[[noreturn]] inline void refuse(const std::string& why, PyObject* value) {
  PyErr_Clear();
  throw NotRebuilt{why + ": " + guards::describe(value)};
}

/// Unwraps what a C function gave.
inline guards::Ref taken(PyObject* owned, PyObject* about) {
  if (!owned) refuse("an object that does not tell what it is made of", about);
  return guards::Ref::steal(owned);
}

/// Classes that the run has made by namedtuple(), and their instances: each replay makes the class anew.
struct Rebuilder::OwnClass {
  static Node make(Rebuilder& rebuilder, PyObject* type);
  static Node instance(Rebuilder& rebuilder, PyObject* object);
};

/// A tensor that the run made by _make_wrapper_subclass(), of what that was given.
struct Rebuilder::Wrapper {
  static Node make(Rebuilder& rebuilder, PyObject* tensor);
};

/// A builtin iterator that can be made again as far as it has come.
bool is_iterator_in_flight(PyTypeObject* type);

}  // namespace braze::python
