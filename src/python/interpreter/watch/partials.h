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
  /// operator.itemgetter and attrgetter: what they are made of never changes.
  bool call_getter(PyObject* getter, PyObject* const* arguments, Py_ssize_t count);
  /// operator.methodcaller, likewise, of a method of tensors.
  bool call_method_caller(PyObject* caller, PyObject* const* arguments, Py_ssize_t count);
};

}  // namespace braze::interpreter
