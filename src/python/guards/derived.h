// python/guards/derived.h: numbers that Python computes of sizes: `n / 2`, `math.sqrt(n)`, `round(n * 0.3)`.
//
// What is no whole expression (ir/size.h) is computed anew at every call, by the very functions of CPython that the
// program would call, on the sizes of the call: so it has the bits that it has natively. Exact ints, floats and
// bools go in and come out, and no Python code of the user's runs.
#pragma once

#include <Python.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ir/size.h"
#include "ir/size_code.h"
#include "python/guards/ref.h"

namespace braze::guards {

class Derived {
 public:
  /// One of the three.
  struct Operand {
    std::shared_ptr<const Derived> derived = nullptr;
    std::optional<ir::Size> size = {};
    Ref constant = {};
  };
  /// `number` is the operation's: NB_ADD and so on; Py_LT and so on.
  enum class Operation : uint8_t { binary, compare, negate, positive, invert, call };

  Derived(Operation operation, int number, Ref function, std::vector<Operand> operands);

  /// For these sizes; null, without an error, where it raises or is no int, float or bool of these exact types.
  Ref evaluate(std::span<const int64_t> symbols) const noexcept;
  /// "math.sqrt(x_0) / 2": equal for what is computed alike.
  const std::string& text() const { return text_; }

  /// numerator / denominator, rounded once to a float: what is rounded to an int of it is an expression again.
  struct Quotient {
    ir::Size numerator;
    int64_t denominator;
  };
  const std::optional<Quotient>& quotient() const { return quotient_; }

 private:
  Ref compute(std::span<const int64_t> symbols) const;
  std::string spell() const;
  std::optional<Quotient> find_quotient() const;

  const Operation operation_;
  const int number_;
  const Ref function_;  ///< call
  const std::vector<Operand> operands_;
  ir::SizeCode sizes_;  ///< Of those that are, in order.
  std::string text_;
  std::optional<Quotient> quotient_;
};

/// A guard: it is this number, in exact type and bits.
struct DerivedTest {
  std::shared_ptr<const Derived> derived;
  Ref expected;
  std::string why;  ///< Who asked, for people.
  bool holds(std::span<const int64_t> symbols) const noexcept;
};

/// What a symbol says of such a number: kernels know whole numbers only, so a float is two of them.
enum class DerivedPart : uint8_t {
  whole,        ///< It is an int: itself.
  significand,  ///< A float is significand / divisor / divisor, without rounding.
  divisor,
};
/// Nothing where the number has no such part.
std::optional<int64_t> part_of(PyObject* number, DerivedPart part) noexcept;

}  // namespace braze::guards
