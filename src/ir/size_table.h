// ir/size_table.h: where expressions over symbols are interned, and what is known of the symbols.
#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ir/size.h"

namespace braze::ir {

/// Whole numbers from `low` to `high`, both inclusive. The ends of int64_t stand for infinity.
struct SizeRange {
  static constexpr int64_t infinity = std::numeric_limits<int64_t>::max();
  int64_t low = -infinity, high = infinity;
  bool has(int64_t value) const { return low <= value && value <= high; }
  bool operator==(const SizeRange&) const = default;
};
SizeRange operator+(SizeRange a, SizeRange b);
SizeRange operator*(SizeRange a, SizeRange b);
SizeRange intersection(SizeRange a, SizeRange b);

/// What an expression is made of. `operands`: floor_div and mod two, max two or more.
struct SizeAtom {
  enum class Kind : uint8_t { symbol, floor_div, mod, max } kind;
  uint32_t id;    ///< Dense in the table, in order of creation: the order in which sums and products are written.
  uint32_t slot;  ///< symbol: its number.
  std::string_view name;  ///< symbol.
  std::vector<Size> operands;
};

/// A product of atoms; the empty one is 1.
struct SizeProduct {
  struct Power {
    const SizeAtom* atom;
    uint32_t exponent;
    bool operator==(const Power&) const = default;
  };
  uint32_t degree = 0;        ///< The sum of all exponents.
  std::vector<Power> powers;  ///< Ascending by the atom's id.
};
/// By degree, then by atoms: a well-order, which multiplication keeps.
bool comes_before(const SizeProduct& a, const SizeProduct& b);

struct SizeTerm {
  const SizeProduct* product;
  int64_t coefficient;  ///< Not 0.
  bool operator==(const SizeTerm&) const = default;
};

/// A sum of two terms or more, or of one that is not a number.
struct SizeExpr {
  SizeTable* table;
  uint32_t id;                  ///< Dense in the table, in order of creation.
  std::vector<SizeTerm> terms;  ///< By comes_before(); a number is the last one.
};

/// What may be known of a symbol's value.
struct SymbolFacts {
  SizeRange range = {0, SizeRange::infinity};
  int64_t modulus = 1, remainder = 0;  ///< value % modulus == remainder.
};

/// Owns symbols and expressions. Facts only ever grow: what was built before they were known keeps its form, and
/// simplify() builds it anew. Not for several threads at once.
class SizeTable {
 public:
  SizeTable();
  SizeTable(const SizeTable&) = delete;
  SizeTable& operator=(const SizeTable&) = delete;
  ~SizeTable();

  /// A new symbol. Names must differ.
  Size symbol(std::string_view name, SymbolFacts facts = {});
  std::optional<Size> find(std::string_view name) const;
  size_t symbol_count() const { return symbols_.size(); }
  std::string_view name(uint32_t slot) const { return symbols_[slot].atom->name; }
  const SymbolFacts& facts(uint32_t slot) const { return symbols_[slot].facts; }

  /// Keeps the intersection with what was known. Throws UserError if nothing is left.
  void narrow(uint32_t slot, const SymbolFacts& facts);
  /// The symbol has this value from now on; it does not occur in it.
  void replace(uint32_t slot, Size value);
  /// All that is known: `expr` without its number lies in `range`.
  void bound(const SizeExpr* expr, SizeRange range);
  /// The expression built anew with what is known by now.
  Size simplify(Size size);

  SizeRange range(Size size) const;
  SizeRange range(const SizeAtom& atom) const;

  // ---- building blocks of the algebra
  const SizeProduct* one() const { return one_; }
  const SizeProduct* product(std::vector<SizeProduct::Power> powers);
  const SizeProduct* multiply(const SizeProduct* a, const SizeProduct* b);
  /// a / b; null if b does not divide a.
  const SizeProduct* divide(const SizeProduct* a, const SizeProduct* b);
  const SizeAtom* atom(SizeAtom::Kind kind, std::vector<Size> operands);
  /// Any order, products may repeat, coefficients may be 0.
  Size sum(std::vector<SizeTerm> terms);
  Size of(const SizeAtom* atom);
  /// The terms of any size; of 0 none.
  std::vector<SizeTerm> terms(Size size) const;

 private:
  struct Symbol {
    const SizeAtom* atom;
    SymbolFacts facts;
    std::optional<Size> value;
  };
  SizeRange range(const SizeProduct& product) const;
  SizeRange computed_range(const SizeExpr& expr) const;
  SizeRange shifted_range(const std::vector<SizeTerm>& terms) const;
  Size intern(std::vector<SizeTerm> terms);

  std::deque<SizeAtom> atoms_;
  std::deque<SizeProduct> products_;
  std::deque<SizeExpr> exprs_;
  std::deque<std::string> names_;
  std::vector<Symbol> symbols_;
  std::unordered_map<std::string_view, uint32_t> by_name_;
  std::map<std::pair<int, std::vector<uint64_t>>, const SizeAtom*> atom_of_;
  std::map<std::vector<uint32_t>, const SizeProduct*> product_of_;
  std::map<std::vector<std::pair<const SizeProduct*, int64_t>>, const SizeExpr*> expr_of_;
  std::unordered_map<const SizeExpr*, SizeRange> bounds_;
  /// By what is known now. A range asks for those of the divisions within several times, and these for theirs.
  mutable std::unordered_map<const SizeExpr*, SizeRange> ranges_;
  const SizeProduct* one_;
};

/// Arithmetic that throws UserError where int64_t overflows.
int64_t checked_add(int64_t a, int64_t b);
int64_t checked_mul(int64_t a, int64_t b);
/// Rounded down; b != 0.
int64_t floor_div(int64_t a, int64_t b);

}  // namespace braze::ir
