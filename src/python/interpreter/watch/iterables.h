// python/interpreter/watch/iterables.h: objects that C code goes through by Python code: iterables and mappings.
#pragma once

#include <string_view>

#include "python/interpreter/watch/domain.h"

namespace braze::interpreter {

/// Iterables and mappings whose classes are written in Python.
class Iterables final : Domain {
 public:
  using Domain::Domain;

  /// `iter()` calls an `__iter__` in Python, or makes an iterator that calls a `__getitem__` in Python.
  bool goes_by_python(PyObject* value) const;
  /// Of an object without `__iter__`: its `__getitem__` in Python is learnt. False, and no abandonment, if it is
  /// not like that.
  bool goes_by_index(PyObject* value);
  /// What an `__iter__` has given, of which C code asks nothing but a `__next__` in Python.
  bool advances_by_python(PyObject* iterator);
  /// In the place of such arguments of a C function that goes through them at once, on the stack, generators that
  /// give the same items: what these run is watched.
  /// \param name  with the module for what is neither of builtins nor a method.
  bool put_items(std::string_view name, PyObject* const* arguments, Py_ssize_t count);
  /// Likewise of what is no argument.
  bool put_items(PyObject*& slot, bool asks_length = false) { return put(slot, asks_length); }
  /// `list += object` goes through such an object: the list is of the run's own.
  bool is_extended_by(PyObject* list, PyObject* object) const;
  /// `item in` such an object, or an iterator of the run's own, goes through it.
  bool is_searched(PyObject* object, PyObject* item) const;
  /// Lays open all that `{**mapping}` and `f(**mapping)` read.
  bool merge(PyObject* mapping);
  /// What the `keys` of a mapping has returned, which C code goes through next.
  bool gives_keys(PyObject* keys) const;
  /// C code that is given the object as a mapping asks it for `keys` and each item. OrderedDict asks every dict of
  /// a derived class, dict only what has an `__iter__` of its own.
  static bool is_asked_for_keys(PyObject* value, bool by_ordered = false);
  /// A dict, perhaps of a derived class, whose storage C code reads whatever the class says of items.
  bool is_read_as_dict(PyObject* value);
  /// dict.update(mapping), as Python code.
  bool update(PyObject* dict, PyObject* const* arguments, Py_ssize_t count);

 private:
  bool put(PyObject*& slot, bool asks_length);
};

}  // namespace braze::interpreter
