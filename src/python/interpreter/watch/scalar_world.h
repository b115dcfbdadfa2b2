// python/interpreter/watch/scalar_world.h: what the watcher must know of plain numbers among the arguments of
// operators.
#pragma once

#include <string_view>
#include <vector>

#include "python/interpreter/watch/tensor_world.h"

namespace braze::interpreter {

/// What an operator of tensors takes at a place among its arguments.
enum class Parameter : uint8_t {
  other,
  number,  ///< Of any kind, and no tensor.
  real,    ///< A float.
  integer,
  dimension,  ///< Which of a tensor's dimensions: decides the form of what is computed.
};

/// Of tensors that are made of Python's numbers.
enum class ElementType : uint8_t {
  truth,
  whole,
  real,   ///< The default type.
  exact,  ///< f64, which is converted to the type that was asked for.
};

class ScalarWorld {
 public:
  virtual ~ScalarWorld() = default;
  /// torch.ops.aten.add, or one of its overloads: its arguments are read as its schema says, sizes among them.
  virtual bool is_operator_object(PyObject* callable) const = 0;
  /// "add", of such a one that takes tensors, and numbers as tensors; empty: of another one.
  virtual std::string_view operator_of_tensors(PyObject* operator_object) const = 0;
  /// What operators named so take at a place, or by a keyword if there is one.
  virtual Parameter parameter(std::string_view name, size_t place, std::string_view keyword) const = 0;
  /// A float that is computed as such an argument of the operator `name`. \param beside  a tensor among its
  /// arguments, or null. Null where the number itself must be there.
  virtual Ref to_scalar(const DerivedNumber& derived, PyObject* value, PyObject* beside, std::string_view name) = 0;
  /// The operator `name` is given sizes, and may want ints. \param in_lists  some may be items of lists: an int is
  /// then not known to stand for a whole list.
  virtual void expect_integers(std::string_view name, bool in_lists) = 0;
  /// A tensor without dimensions of a number, or of the size or float that stands for it; null: there is none.
  virtual Ref element(PyObject* number, const ir::Size* size, const DerivedNumber& derived, ElementType type) = 0;
  /// Tensors of one form, one behind the other in a first dimension; null where they are not of one.
  virtual Ref stack(const std::vector<Ref>& parts) = 0;
  /// An empty tensor of the same type on the same device, no tracer; null: the tensor's class may say more.
  virtual Ref other_of_its_type(PyObject* tensor) = 0;
  /// After a call that was given such: numbers whose values were seen are those of this call.
  virtual void settle_scalars() = 0;
};

}  // namespace braze::interpreter
