// python/interpreter/watch/instances.h: calls of classes.
#pragma once

#include "python/interpreter/watch/domain.h"

namespace braze::interpreter {

/// Calls of classes.
class Instances final : Domain {
 public:
  using Domain::Domain;

  bool call_class(PyObject* type, PyObject* const* arguments, Py_ssize_t count);
  /// What type.__call__ does, whatever the metaclass has of its own.
  bool instantiate(PyObject* type, PyObject* const* arguments, Py_ssize_t count);
  /// The dict whose keys one gets who iterates over a value. Null: it is none, nor a view or proxy of one.
  PyObject* keys_of(PyObject* value) const;
  /// The items of a list or tuple become keys of what is made.
  bool collect(PyObject* items);

 private:
  bool fill_from_pairs(PyObject* pairs);
  const char* form_of_sizes(PyTypeObject* cls, PyObject* const* arguments, Py_ssize_t count, Py_ssize_t by_name);
};

}  // namespace braze::interpreter
