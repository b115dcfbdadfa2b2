// python/interpreter/watch/scalar_world.h: what the watcher must know of plain numbers among the arguments of
// operators.
#pragma once

#include <string_view>

#include "python/interpreter/watch/tensor_world.h"

namespace braze::interpreter {

/// What an operator of tensors takes at a place among its arguments.
enum class Parameter : uint8_t {
  other,
  number,  ///< Of any kind, and no tensor.
  real,    ///< A float.
};

class ScalarWorld {
 public:
  virtual ~ScalarWorld() = default;
  /// What operators named so take at a place, or by a keyword if there is one.
  virtual Parameter parameter(std::string_view name, size_t place, std::string_view keyword) const = 0;
  /// A float that is computed as such an argument of the operator `name`. \param beside  a tensor among its
  /// arguments, or null. Null where the number itself must be there.
  virtual Ref to_scalar(const DerivedNumber& derived, PyObject* value, PyObject* beside, std::string_view name) = 0;
  /// After a call that was given such: numbers whose values were seen are those of this call.
  virtual void settle_scalars() = 0;
};

}  // namespace braze::interpreter
