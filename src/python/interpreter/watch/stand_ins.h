// python/interpreter/watch/stand_ins.h: functions of braze's that are called in the place of PyTorch's.
#pragma once

#include "python/interpreter/watch/domain.h"

namespace braze::interpreter {

/// Functions of braze's in the place of others.
class StandIns final : Domain {
 public:
  using Domain::Domain;

  /// Has the instruction call another function: one of braze's that means the same, in code that can be watched.
  /// That function calls the original itself if it wants to.
  bool call_stand_in(PyObject* function, PyObject* stand_in);
  /// Likewise of a callable that becomes the first argument of the other function.
  bool call_with_callable(PyObject* subject, PyObject* stand_in, PyObject* const* arguments, Py_ssize_t count);
  /// A function that is known, bound to the object that is about to be called.
  bool call_bound(PyObject* function, PyObject* subject, PyObject* const* arguments, Py_ssize_t count);
  /// A class in the place of another one, or a Python function in that of one written in C, which is about to be
  /// called.
  bool put_stand_in(PyObject* callable, PyObject* stand_in);
  /// Python code that calls it: for what is unpacked into a call of C code, and known only then.
  bool put_caller(PyObject*& callable);
  /// Python code that makes a set or frozenset of what code in Python gives, item by item.
  bool put_collector(PyObject*& type);
  /// Python code by that name, of which the callable is the first argument.
  bool put_form(PyObject*& callable, const char* name);
  /// In the place of a partial of the function, a partial of the stand-in with the same arguments.
  bool put_stand_in_partial(guards::Ref (&parts)[3], PyObject* stand_in);

 private:
  bool bind(PyObject*& callable, PyObject* stand_in);
};

}  // namespace braze::interpreter
