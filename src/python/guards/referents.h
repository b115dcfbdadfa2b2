// python/guards/referents.h: what objects of C types refer to, as the collector sees it.
#pragma once

#include <Python.h>

namespace braze::guards {

/// The first object that one of a builtin type tells the collector of, borrowed: the sequence of an iterator, the
/// mapping of a proxy. Null if there is none: iterators let go of theirs when they end.
inline PyObject* first_referent(PyObject* object) noexcept {
  PyObject* found = nullptr;
  const visitproc take = [](PyObject* referent, void* place) {
    *static_cast<PyObject**>(place) = referent;
    return 1;
  };
  Py_TYPE(object)->tp_traverse(object, take, &found);
  return found;
}

}  // namespace braze::guards
