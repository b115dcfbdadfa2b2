// python/interpreter/watch/partials.h: calls of objects that keep what they call with: functools.partial,
// and the getters and callers of module operator.
#pragma once

#include "python/interpreter/watch/domain.h"

namespace braze::interpreter {

/// Calls of objects that keep what they call with.
class Partials final : Domain {
 public:
  using Domain::Domain;

  /// The function, positional and keyword arguments that a partial holds; guarded if it existed before the call.
  bool open_partial(PyObject* partial, guards::Ref (&parts)[3]);
  bool call_partial(PyObject* partial, PyObject* const* arguments, Py_ssize_t count);
  /// operator.itemgetter, attrgetter or methodcaller: what they are made of never changes.
  static bool is_getter(PyObject* object);
  bool call_getter(PyObject* getter, PyObject* const* arguments, Py_ssize_t count);
  /// They follow the function that is called.
  bool are_on_stack(PyObject* const* arguments) const;
  /// In the place of the getters among the arguments that lie on the stack, Python code that does the same: C code
  /// calls that, and it is watched.
  bool put_getters(PyObject* const* arguments, Py_ssize_t count);

 private:
  bool call_method_of_tensor(PyObject* caller, PyObject* tensor);
  bool get_one(PyObject* getter, PyObject* subject);
  Ref getter_in_python(PyObject* getter);
};

}  // namespace braze::interpreter
