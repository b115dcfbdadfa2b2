// python/interpreter/watch/numbers.h: floats that may be other ones at later calls.
//
// A float of an argument or an entry of a dict (an optimizer's learning rate) that was another one at an earlier
// capture is an input of the graph. As sizes are (sizes.h), it is known by identity: another object stands for it,
// and for what is computed of it, each with a tensor without dimensions. Operators of tensors are given that. Who
// looks at such a float otherwise specialises those that it was computed of.
#pragma once

#include <string_view>

#include "python/interpreter/watch/domain.h"
#include "python/interpreter/watch/values.h"

namespace braze::interpreter {

/// Floats that may be other ones at later calls.
class Numbers final : Domain {
 public:
  using Domain::Domain;

  /// Operators that compute with a tensor of the trace as they do with a float.
  static bool are_given_to(std::string_view operator_name);
  /// As operators are given it.
  Ref tensor_of(const Number& number);
  void negate(PyObject* operand);
  /// Arithmetic with such floats, among themselves or with tensors. False: there is none among the operands, or
  /// they are specialised.
  bool compute(PyObject*& left, PyObject*& right, int operation);
  /// What an instruction has left on top. True: it is such a float.
  bool take(PyObject*& top);

 private:
  bool give(PyObject*& operand, PyObject* beside);
};

}  // namespace braze::interpreter
