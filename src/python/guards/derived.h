// python/guards/derived.h: numbers that Python computes of sizes and of floats that vary: `n / 2`, `math.sqrt(n)`,
// `-lr`, `round(n * 0.3)`.
//
// What is no whole expression (ir/size.h) is computed anew at every call, by the very functions of CPython that the
// program would call, on the numbers of the call: so it has the bits that it has natively. Exact ints, floats and
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

/// The numbers of a call: the values of a trace's symbols, and floats that were read.
struct CallNumbers {
  std::span<const int64_t> symbols;
  std::span<const double> floats;
};

class Derived {
 public:
  /// One of the three.
  struct Operand {
    std::shared_ptr<const Derived> derived = nullptr;
    std::optional<ir::Size> size = {};
    Ref constant = {};
  };
  /// `number` is the operation's: NB_ADD and so on; Py_LT and so on.
  enum class Operation : uint8_t { binary, compare, negate, positive, invert, call, read };

  Derived(Operation operation, int number, Ref function, std::vector<Operand> operands);
  /// The float of this number among those of a call. \param text  another one for each.
  Derived(int number, std::string text);

  /// For these numbers; null, without an error, where it raises or is no int, float or bool of these exact types.
  Ref evaluate(const CallNumbers& numbers) const noexcept;
  /// It is computed of such a float.
  bool reads_floats() const { return reads_floats_; }
  /// Operations that it takes, with those that were put together twice.
  size_t weight() const { return weight_; }
  /// "math.sqrt(x_0) / 2": equal for what is computed alike.
  const std::string& text() const { return text_; }

  /// numerator / denominator, rounded once to a float: what is rounded to an int of it is an expression again.
  struct Quotient {
    ir::Size numerator;
    int64_t denominator;
  };
  const std::optional<Quotient>& quotient() const { return quotient_; }

 private:
  Ref compute(const CallNumbers& numbers) const;
  std::string spell() const;
  std::optional<Quotient> find_quotient() const;

  const Operation operation_;
  const int number_;
  const Ref function_;  ///< call
  const std::vector<Operand> operands_;
  ir::SizeCode sizes_;  ///< Of those that are, in order.
  std::string text_;
  std::optional<Quotient> quotient_;
  bool reads_floats_ = false;
  size_t weight_ = 1;
};

/// A guard: it is this number, in exact type and bits.
struct DerivedTest {
  std::shared_ptr<const Derived> derived;
  Ref expected;
  std::string why;  ///< Who asked, for people.
  bool holds(const CallNumbers& numbers) const noexcept;
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
