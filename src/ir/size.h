// ir/size.h: a size, stride or offset: a number, or an expression over symbols.
//
//   Size n = table.symbol("n"), m = table.symbol("m");
//   (n + 1) * m - m == n * m                  // one interned expression: equality is equality of two words
//   floor_div(4 * n + 6, 4) == n + floor_div(Size(2) , 4) + 1
//
// An expression is a sum of products with whole coefficients; its atoms are symbols, floor divisions, remainders
// and maxima of expressions. It is canonical by construction (ir/size_algebra.cpp says by which rules), so that
// equal expressions are mostly one object. What is not the same object may still be equal: ShapeEnv
// (ir/shape_env.h) decides.
//
// A constant is held inline and costs what an integer costs. Expressions belong to a SizeTable, which outlives
// them; those of two tables never meet. Arithmetic that leaves 64 bits throws UserError.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>

namespace braze::ir {

class SizeTable;
struct SizeExpr;

class Size {
 public:
  constexpr Size() = default;
  /// Throws UserError below -2^62: those bits name expressions.
  template <std::integral Number>
  Size(Number value) : bits_(static_cast<int64_t>(value)) {  // NOLINT: a number is a size
    if (bits_ < least_constant) [[unlikely]]
      fail_constant(bits_);
  }
  explicit Size(const SizeExpr* expr) : bits_(static_cast<int64_t>(reinterpret_cast<uint64_t>(expr) | tag)) {}

  bool is_constant() const { return bits_ >= least_constant; }
  int64_t constant() const;       ///< Throws InternalError if it is an expression.
  const SizeExpr* expr() const {  ///< Null for a constant.
    return is_constant() ? nullptr : reinterpret_cast<const SizeExpr*>(static_cast<uint64_t>(bits_) & ~tag);
  }
  /// Equal constants, or one expression. False does not mean that they differ for all values of the symbols.
  bool operator==(const Size&) const = default;
  uint64_t bits() const { return static_cast<uint64_t>(bits_); }  ///< For tables; differs from run to run.

 private:
  static constexpr int64_t least_constant = -(int64_t{1} << 62);
  static constexpr uint64_t tag = uint64_t{1} << 63;
  [[noreturn]] static void fail_constant(int64_t value);
  int64_t bits_ = 0;
};

Size operator+(Size a, Size b);
Size operator-(Size a, Size b);
Size operator-(Size a);
Size operator*(Size a, Size b);
/// Rounded down, as Python's //. The divisor is a constant other than 0, or an expression whose sign is known;
/// otherwise UserError.
Size floor_div(Size a, Size b);
/// a - b * floor_div(a, b), as Python's %: the sign of the divisor.
Size mod(Size a, Size b);
Size ceil_div(Size a, Size b);
Size max(Size a, Size b);
Size min(Size a, Size b);

/// "n*m + 4*(k // 2) - 3", "min(n, 8)", "n % 4": what parse_size() reads.
std::string to_text(Size size);
/// Names are those of the table's symbols. Throws UserError with line and column.
Size parse_size(std::string_view text, SizeTable& table);

}  // namespace braze::ir
