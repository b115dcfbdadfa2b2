// python/interpreter/watch/dispatch_handlers.h: code of classes of tensors that carries out operators.
#pragma once

#include "python/interpreter/cpython.h"
#include "python/interpreter/watch/domain.h"

namespace braze::interpreter {

class DispatchHandlers final : Domain {
 public:
  using Domain::Domain;

  /// The frame is the `__torch_dispatch__` of a class of wrappers (wrapper_world.h).
  bool is_one(Frame* frame) const;
  /// Before it runs. False: it is not understood.
  bool learn(Frame* frame);
  /// `_make_wrapper_subclass(cls, size, ...)`. False, perhaps without abandonment: it is not understood.
  bool make_wrapper(PyObject* const* arguments, Py_ssize_t count);

 private:
  bool learn_given(PyObject*& given);
  bool holds_size(PyObject* value);
  bool keep_without_rule(PyObject* overload, PyObject* cls);
};

}  // namespace braze::interpreter
