// python/interpreter/watch/autograd_functions.h: torch.autograd.Function.
//
// `apply` makes a context object and calls the class's `forward` with it, which is watched in turn. Where nothing
// requires grad, the context is dropped when forward has returned: what is stored there goes nowhere.
#pragma once

#include "python/interpreter/watch/domain.h"

namespace braze::interpreter {

/// torch.autograd.Function.
class AutogradFunctions final : Domain {
 public:
  using Domain::Domain;

  /// The `apply` of torch._C._FunctionBase, bound to a class.
  bool is_function_apply(PyObject* function);
  bool apply_function(PyObject* type);
  /// Attributes of a context in which `forward` leaves word for `backward`.
  bool is_word_for_backward(PyObject* object, PyObject* descriptor);
  /// What a context knows of the arguments, whose requires_grad is guarded.
  bool is_needs_input_grad(PyObject* object, PyObject* descriptor);
};

}  // namespace braze::interpreter
