// ir/size_algebra.cpp: arithmetic on sizes, and the rules that make expressions canonical.
//
//   sums         terms of one product are one; d * (x // d) is written x - x % d
//   x // d, x % d    whole multiples of d are taken out, so that coefficients in x lie in [0, d); common divisors
//                are cancelled; (x // a) // b is x // (a*b); remainders whose modulus d divides are opened; what a
//                symbol is known to leave (SymbolFacts) counts; a range within one multiple of d decides
//   x // y, x % y    by polynomial division; what is left over is cancelled by its common positive factors
//   max          common terms and factors are taken out, operands that another one reaches dropped; min(a, b) is
//                -max(-a, -b)
//
// Every rule holds for all values of the symbols within their ranges; y > 0 is known where y divides.
#include <algorithm>
#include <map>
#include <numeric>

#include "ir/size_bounds.h"
#include "ir/size_table.h"
#include "support/error.h"

namespace braze::ir {

namespace {

using Kind = SizeAtom::Kind;
using Terms = std::vector<SizeTerm>;

SizeTable* table_of(Size a, Size b) {
  const SizeExpr* one = a.expr() ? a.expr() : b.expr();
  BRAZE_CHECK(!a.expr() || !b.expr() || a.expr()->table == b.expr()->table, "sizes of two tables meet");
  return one->table;
}

struct Later {
  bool operator()(const SizeProduct* a, const SizeProduct* b) const { return comes_before(*a, *b); }
};
/// A sum under construction, in canonical order.
using Sum = std::map<const SizeProduct*, int64_t, Later>;

void add(Sum& sum, const SizeProduct* product, int64_t coefficient) {
  const auto [it, fresh] = sum.try_emplace(product, coefficient);
  if (!fresh) it->second = checked_add(it->second, coefficient);
  if (it->second == 0) sum.erase(it);
}

void add(Sum& sum, const Terms& terms, int64_t times = 1) {
  for (const SizeTerm& term : terms) add(sum, term.product, checked_mul(term.coefficient, times));
}

Terms to_terms(const Sum& sum) {
  Terms terms;
  for (const auto& [product, coefficient] : sum) terms.push_back({product, coefficient});
  return terms;
}

/// x // d or x % d for a number d, where coefficients are numbers: no other divisor is opened.
const SizeAtom* atom_by_number(const SizeProduct& product, Kind kind, int64_t& divisor) {
  for (const auto& power : product.powers) {
    if (power.atom->kind != kind || !power.atom->operands[1].is_constant()) continue;
    divisor = power.atom->operands[1].constant();
    return power.atom;
  }
  return nullptr;
}

/// The product without one power of the atom.
const SizeProduct* without(SizeTable& table, const SizeProduct* product, const SizeAtom* atom) {
  return table.divide(product, table.product({{atom, 1}}));
}

int64_t content(const Terms& terms, const SizeProduct* except = nullptr) {
  int64_t divisor = 0;
  for (const SizeTerm& term : terms)
    if (term.product != except) divisor = std::gcd(divisor, term.coefficient);
  return divisor;
}

struct Division {
  Size whole, rest;  ///< a == whole * b + rest
};

/// The division, and that of the rest if its sum came out otherwise: sum() may have written a multiple of some x //
/// k anew, as x - x % k.
Division settled(SizeTable& table, const Sum& whole, const Sum& rest, Size b);

/// For a number d > 1. Coefficients of the rest lie in [0, d).
Division divide(SizeTable& table, Size a, int64_t d) {
  // c * (x % k) == c*x - c*k * (x // k), and d divides c*k: the second is a whole multiple.
  Sum opened, whole;
  bool again = true;
  for (Terms terms = table.terms(a); again; terms = to_terms(opened)) {
    again = false;
    opened.clear();
    for (const SizeTerm& term : terms) {
      int64_t k = 0;
      const SizeAtom* atom = atom_by_number(*term.product, Kind::mod, k);
      if (!atom || checked_mul(term.coefficient, k) % d != 0) {
        add(opened, term.product, term.coefficient);
        continue;
      }
      again = true;
      const Size others = table.sum({{without(table, term.product, atom), 1}});
      add(opened, table.terms(others * atom->operands[0]), term.coefficient);
      add(whole, table.terms(others * floor_div(atom->operands[0], Size(k))), -(term.coefficient * k / d));
    }
  }
  Sum rest;
  for (const auto& [product, coefficient] : opened) {
    const int64_t times = floor_div(coefficient, d);
    if (times) add(whole, product, times);
    if (coefficient - times * d) add(rest, product, coefficient - times * d);
  }
  return settled(table, whole, rest, Size(d));
}

/// Polynomial division by the leading term, with numbers rounded down.
Division divide(SizeTable& table, Size a, Size b) {
  const Terms divisor = table.terms(b);
  const SizeTerm leading = divisor.front();
  Sum left, whole, rest;
  add(left, table.terms(a));
  while (!left.empty()) {
    const auto [product, coefficient] = *left.begin();
    const SizeProduct* quotient = table.divide(product, leading.product);
    const int64_t times = quotient ? floor_div(coefficient, leading.coefficient) : 0;
    if (times) {
      add(whole, quotient, times);
      for (const SizeTerm& term : divisor)
        add(left, table.multiply(term.product, quotient), checked_mul(term.coefficient, -times));
    }
    const auto it = left.find(product);
    if (it == left.end()) continue;
    add(rest, product, it->second);
    left.erase(it);
  }
  return settled(table, whole, rest, b);
}

Division settled(SizeTable& table, const Sum& whole, const Sum& rest, Size b) {
  const Division division = {table.sum(to_terms(whole)), table.sum(to_terms(rest))};
  if (table.terms(division.rest) == to_terms(rest)) return division;
  const Division further =
      b.is_constant() ? divide(table, division.rest, b.constant()) : divide(table, division.rest, b);
  return {division.whole + further.whole, further.rest};
}

/// What divides all terms of both and is known to be positive.
SizeTerm common_factor(SizeTable& table, Size a, Size b) {
  Terms all = table.terms(a);
  for (const SizeTerm& term : table.terms(b)) all.push_back(term);
  std::vector<SizeProduct::Power> powers = all.front().product->powers;
  for (const SizeTerm& term : all)
    for (auto& power : powers) {
      const auto it = std::ranges::find(term.product->powers, power.atom, &SizeProduct::Power::atom);
      power.exponent = it == term.product->powers.end() ? 0 : std::min(power.exponent, it->exponent);
    }
  std::erase_if(powers, [&](const auto& power) { return power.exponent == 0 || table.range(*power.atom).low < 1; });
  return {table.product(std::move(powers)), content(all)};
}

Size divided(SizeTable& table, Size a, SizeTerm by) {
  Terms terms = table.terms(a);
  for (SizeTerm& term : terms) term = {table.divide(term.product, by.product), term.coefficient / by.coefficient};
  return table.sum(std::move(terms));
}

int64_t number_of(SizeTable& table, const Terms& terms) {
  return !terms.empty() && terms.back().product == table.one() ? terms.back().coefficient : 0;
}

/// The multiple of b within which all of a's values lie, if it is one: a // b == that.
std::optional<int64_t> quotient(SizeTable& table, Size a, Size b) {
  const SizeRange range = table.range(a);
  if (b.is_constant()) {
    const int64_t d = b.constant(), low = floor_div(range.low, d);
    if (range.low == -SizeRange::infinity || range.high == SizeRange::infinity || low != floor_div(range.high, d))
      return std::nullopt;
    return low;
  }
  if (range.low >= 0 && table.range(b - a).low >= 1) return 0;
  if (range.high <= -1 && table.range(b + a).low >= 0) return -1;
  return std::nullopt;
}

/// The atom `kind` of a and b, a sum of which nothing can be taken out, and b positive.
Size floor_div_of_rest(SizeTable& table, Size a, Size b) {
  if (const auto known = quotient(table, a, b)) return *known;
  if (!b.is_constant()) {
    const SizeTerm common = common_factor(table, a, b);
    if (common.coefficient == 1 && common.product == table.one())
      return table.of(table.atom(Kind::floor_div, {a, b}));
    return floor_div(divided(table, a, common), known_positive(table, divided(table, b, common)));
  }
  int64_t d = b.constant();
  Terms terms = table.terms(a);
  if (const int64_t common = std::gcd(content(terms, table.one()), d); common > 1) {
    // (common*x + c) // (common*d) == (x + c // common) // d
    for (SizeTerm& term : terms) term.coefficient = floor_div(term.coefficient, common);
    return floor_div(table.sum(std::move(terms)), Size(d / common));
  }
  const SizeTerm first = terms.front();
  int64_t inner = 0;
  const bool alone = terms.size() == (number_of(table, terms) ? 2u : 1u);
  if (alone && first.coefficient == 1 && first.product->degree == 1)
    if (const SizeAtom* atom = atom_by_number(*first.product, Kind::floor_div, inner))
      return floor_div(atom->operands[0] + number_of(table, terms) * inner, Size(checked_mul(inner, d)));
  return table.of(table.atom(Kind::floor_div, {a, b}));
}

/// Terms that are congruent modulo d: remainders opened, symbols replaced by what they are known to leave.
Size congruent(SizeTable& table, Size a, int64_t d) {
  Sum sum;
  bool changed = false;
  for (const SizeTerm& term : table.terms(a)) {
    int64_t k = 0;
    const SizeAtom* remainder = atom_by_number(*term.product, Kind::mod, k);
    if (remainder && checked_mul(term.coefficient, k) % d == 0) {
      const Size others = table.sum({{without(table, term.product, remainder), 1}});
      add(sum, table.terms(others * remainder->operands[0]), term.coefficient);
      changed = true;
      continue;
    }
    const SizeAtom* known = nullptr;
    for (const auto& power : term.product->powers)
      if (power.atom->kind == Kind::symbol) {
        const int64_t modulus = table.facts(power.atom->slot).modulus;
        if (modulus > 1 && checked_mul(term.coefficient, modulus) % d == 0) known = power.atom;
      }
    if (!known) {
      add(sum, term.product, term.coefficient);
      continue;
    }
    changed = true;
    const int64_t left = table.facts(known->slot).remainder;
    if (left) add(sum, without(table, term.product, known), checked_mul(term.coefficient, left));
  }
  const Size result = divide(table, table.sum(to_terms(sum)), d).rest;
  return changed ? congruent(table, result, d) : result;
}

Size mod_of_rest(SizeTable& table, Size a, Size b) {
  if (const auto known = quotient(table, a, b)) return a - *known * b;
  if (!b.is_constant()) {
    const SizeTerm common = common_factor(table, a, b);
    if (common.coefficient == 1 && common.product == table.one()) return table.of(table.atom(Kind::mod, {a, b}));
    return table.sum({common}) * mod(divided(table, a, common), known_positive(table, divided(table, b, common)));
  }
  const int64_t d = b.constant();
  Terms terms = table.terms(a);
  const int64_t common = std::gcd(content(terms, table.one()), d);
  if (common <= 1) return table.of(table.atom(Kind::mod, {a, b}));
  const int64_t number = number_of(table, terms), left = number - floor_div(number, common) * common;
  for (SizeTerm& term : terms) term.coefficient = floor_div(term.coefficient, common);
  return common * mod(table.sum(std::move(terms)), Size(d / common)) + left;
}

/// The divisor's sign, which must be known.
bool is_negative(SizeTable& table, Size b) {
  const SizeRange range = table.range(b);
  if (range.low >= 1) return false;
  if (range.high <= -1) return true;
  throw UserError(concat("a size is divided by ", to_text(b), ", which may be 0: its sign must be known"));
}

/// Operands of a maximum: those of a maximum among them, plus what stands beside it.
void add_operands(SizeTable& table, Size operand, std::vector<Size>& operands) {
  const Terms terms = table.terms(operand);
  for (const SizeTerm& term : terms) {
    if (term.product->degree != 1 || term.coefficient < 1) continue;
    const SizeAtom* atom = term.product->powers[0].atom;
    if (atom->kind != Kind::max) continue;
    const Size beside = operand - table.sum({term});
    for (const Size& inner : atom->operands) add_operands(table, term.coefficient * inner + beside, operands);
    return;
  }
  operands.push_back(operand);
}

}  // namespace

Size SizeTable::sum(std::vector<SizeTerm> terms) {
  Sum sum;
  for (const SizeTerm& term : terms)
    if (term.coefficient) add(sum, term.product, term.coefficient);
  // c*d * P * (x // d) == c * P * (x - x % d). Each step takes one floor_div away.
  for (auto it = sum.begin(); it != sum.end(); ++it) {
    const auto [product, coefficient] = *it;
    for (const auto& power : product->powers) {
      if (power.atom->kind != Kind::floor_div) continue;
      const Size x = power.atom->operands[0], d = power.atom->operands[1];
      const Terms divisor = this->terms(d);
      const SizeProduct* others = without(*this, product, power.atom);
      const SizeProduct* left = divisor.size() == 1 ? divide(others, divisor[0].product) : nullptr;
      if (!left || coefficient % divisor[0].coefficient != 0) continue;
      const Size opened = intern({{left, coefficient / divisor[0].coefficient}}) * (x - mod(x, d));
      sum.erase(it);
      for (const SizeTerm& term : this->terms(opened)) add(sum, term.product, term.coefficient);
      return this->sum(to_terms(sum));
    }
  }
  return intern(to_terms(sum));
}

int64_t Size::constant() const {
  BRAZE_CHECK(is_constant(), "the size ", to_text(*this), " is no number");
  return bits_;
}

void Size::fail_constant(int64_t value) {
  throw UserError(concat("a size of ", value, " is not possible"));
}

Size operator+(Size a, Size b) {
  if (a.is_constant() && b.is_constant()) return checked_add(a.constant(), b.constant());
  if (a == 0) return b;
  if (b == 0) return a;
  SizeTable& table = *table_of(a, b);
  Terms terms = table.terms(a);
  for (const SizeTerm& term : table.terms(b)) terms.push_back(term);
  return table.sum(std::move(terms));
}

Size operator*(Size a, Size b) {
  if (a.is_constant() && b.is_constant()) return checked_mul(a.constant(), b.constant());
  if (a == 0 || b == 1) return a;
  if (b == 0 || a == 1) return b;
  SizeTable& table = *table_of(a, b);
  Terms terms;
  const Terms right = table.terms(b);
  for (const SizeTerm& x : table.terms(a))
    for (const SizeTerm& y : right)
      terms.push_back({table.multiply(x.product, y.product), checked_mul(x.coefficient, y.coefficient)});
  return table.sum(std::move(terms));
}

Size operator-(Size a) {
  return a * -1;
}
Size operator-(Size a, Size b) {
  return a + -b;
}

Size floor_div(Size a, Size b) {
  if (a.is_constant() && b.is_constant()) {
    if (b.constant() == 0) throw UserError("a size is divided by 0");
    return floor_div(a.constant(), b.constant());
  }
  SizeTable& table = *table_of(a, b);
  if (is_negative(table, b)) return floor_div(-a, -b);
  if (b == 1) return a;
  const Division division = b.is_constant() ? divide(table, a, b.constant()) : divide(table, a, b);
  if (division.rest == 0) return division.whole;
  return division.whole + floor_div_of_rest(table, division.rest, b);
}

Size mod(Size a, Size b) {
  if (a.is_constant() && b.is_constant()) return a - floor_div(a, b) * b;
  SizeTable& table = *table_of(a, b);
  if (is_negative(table, b)) return -mod(-a, -b);
  if (b == 1) return 0;
  const Size rest = b.is_constant() ? congruent(table, a, b.constant()) : divide(table, a, b).rest;
  return rest == 0 ? rest : mod_of_rest(table, rest, b);
}

Size ceil_div(Size a, Size b) {
  return -floor_div(-a, b);
}

Size max(Size a, Size b) {
  if (a.is_constant() && b.is_constant()) return std::max(a.constant(), b.constant());
  SizeTable& table = *table_of(a, b);
  std::vector<Size> operands;
  add_operands(table, a, operands);
  add_operands(table, b, operands);
  for (size_t k = 0; k < operands.size();) {
    const bool reached = std::ranges::any_of(operands, [&](const Size& other) {
      return &other != &operands[k] && (other != operands[k] || &other < &operands[k]) &&
             table.range(other - operands[k]).low >= 0;
    });
    if (reached)
      operands.erase(operands.begin() + static_cast<int64_t>(k));
    else
      ++k;
  }
  if (operands.size() == 1) return operands[0];
  // Terms that all have alike, then numbers that divide all.
  Terms common;
  for (const SizeTerm& term : table.terms(operands[0]))
    if (std::ranges::all_of(operands, [&](Size operand) {
          const Terms terms = table.terms(operand);
          return std::ranges::find(terms, term) != terms.end();
        }))
      common.push_back(term);
  const Size beside = table.sum(common);
  int64_t factor = 0;
  for (Size& operand : operands) {
    operand = operand - beside;
    factor = std::gcd(factor, content(table.terms(operand)));
  }
  for (Size& operand : operands) operand = divided(table, operand, {table.one(), factor});
  std::ranges::sort(operands, [&](Size x, Size y) {
    return std::ranges::lexicographical_compare(table.terms(x), table.terms(y),
                                                [](const SizeTerm& one, const SizeTerm& other) {
                                                  if (one.product != other.product)
                                                    return comes_before(*one.product, *other.product);
                                                  return one.coefficient > other.coefficient;
                                                });
  });
  return factor * table.of(table.atom(Kind::max, std::move(operands))) + beside;
}

Size min(Size a, Size b) {
  return -max(-a, -b);
}

}  // namespace braze::ir
