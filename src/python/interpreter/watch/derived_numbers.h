// python/interpreter/watch/derived_numbers.h: numbers that Python computes of sizes, and that are no expressions.
//
//   scale = 1 / math.sqrt(n)      a float that the call computes anew (guards/derived.h): operators of tensors are
//   x * scale                     given it as a number of the graph, and results hand it on
//   x[: round(n / 3)]             an int: a symbol, whose value the call computes
//   if n / 2 > 7.5:               decided for this call; a guard says that it is so
//
// As sizes are (sizes.h), such a float is known by identity. Whoever looks at it otherwise specialises it.
#pragma once

#include <optional>

#include "python/interpreter/watch/domain.h"

namespace braze::interpreter {

enum class UnaryOperation : uint8_t;

/// Numbers that are computed of sizes.
class DerivedNumbers final : Domain {
 public:
  using Domain::Domain;

  /// Before an instruction that computes with numbers, one of which is such a number or a size: what it will leave
  /// on top, or what was decided. False: it is none of that, or raises.
  bool binary(PyObject* left, PyObject* right, int operation);
  bool compare(PyObject* left, PyObject* right, int comparison);
  bool unary(PyObject* operand, UnaryOperation unary);
  bool truth(PyObject* operand);
  bool call(PyObject* function, PyObject* const* arguments, Py_ssize_t count);
  /// A float in the place of an operand, as arithmetic with the tensor `beside` takes it.
  bool give(PyObject*& operand, PyObject* beside);
  /// After the instruction. True: what is on top is such a number now.
  bool take(PyObject*& top);

 private:
  std::optional<guards::Derived::Operand> operand(PyObject* value) const;
  bool keep(guards::Derived::Operation operation, int number, PyObject* function,
            std::initializer_list<PyObject*> values);
  bool keep(guards::Derived::Operation operation, int number, PyObject* function, PyObject* const* values,
            Py_ssize_t count);
  bool rounds(PyObject* function, PyObject* value);
};

}  // namespace braze::interpreter
