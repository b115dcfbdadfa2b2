// python/interpreter/watch/copies.h: what copy.copy() and copy.deepcopy() ask of objects.
#pragma once

#include "python/interpreter/watch/domain.h"

namespace braze::interpreter {

/// What copy.copy() and copy.deepcopy() ask of objects.
class Copies final : Domain {
 public:
  using Domain::Domain;

  /// object.__reduce_ex__(4): its class, what __getnewargs__ gives, its dict, or that and a new one of its slots.
  bool reduce(PyObject* object, PyObject* const* arguments, Py_ssize_t count);
  /// What object.__reduce_ex__ gave: copyreg.__newobj__, (class, arguments...), and the dict of the object itself,
  /// or (that, the slots).
  void learn_reduced(PyObject* object, PyObject* parts);
  /// id() in module copy, whose memo is a dict by address: a replay finds there what this run has found, as long as
  /// the objects are told apart in the same way.
  bool address(PyObject* object);

 private:
  bool reduce_builtin(PyObject* object);
  bool learn_slots(PyObject* object, PyObject* names);
};

}  // namespace braze::interpreter
