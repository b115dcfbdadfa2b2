#include "ir/shape_env.h"

#include <algorithm>
#include <numeric>

#include "ir/size_bounds.h"
#include "support/error.h"

namespace braze::ir {

namespace {

using Kind = SizeTest::Kind;

bool holds(Kind kind, int64_t value) {
  return kind == Kind::equal ? value == 0 : kind == Kind::differs ? value != 0 : value >= 0;
}

bool mentions(Size size, const SizeAtom* atom) {
  const SizeExpr* expr = size.expr();
  if (!expr) return false;
  for (const SizeTerm& term : expr->terms)
    for (const auto& power : term.product->powers) {
      if (power.atom == atom) return true;
      for (const Size& operand : power.atom->operands)
        if (mentions(operand, atom)) return true;
    }
  return false;
}

}  // namespace

SizeTest equal(Size a, Size b) {
  return {Kind::equal, a - b};
}
SizeTest differs(Size a, Size b) {
  return {Kind::differs, a - b};
}
SizeTest at_least(Size a, Size b) {
  return {Kind::at_least, a - b};
}
SizeTest at_most(Size a, Size b) {
  return at_least(b, a);
}
SizeTest less(Size a, Size b) {
  return at_least(b, a + 1);
}
SizeTest greater(Size a, Size b) {
  return less(b, a);
}

SizeTest negation(const SizeTest& test) {
  switch (test.kind) {
    case Kind::equal: return {Kind::differs, test.left};
    case Kind::differs: return {Kind::equal, test.left};
    case Kind::at_least: break;
  }
  return {Kind::at_least, -1 - test.left};
}

std::string to_text(const SizeTest& test) {
  Size left = 0, right = 0;
  if (const SizeExpr* expr = test.left.expr()) {
    for (const SizeTerm& term : expr->terms) {
      const Size one = expr->table->sum({term});
      (term.coefficient > 0 ? left : right) = term.coefficient > 0 ? left + one : right - one;
    }
  } else {
    left = test.left;
  }
  const char* words[] = {" == ", " != ", " >= "};
  // "n <= 4" rather than "4 >= n".
  if (test.kind == Kind::at_least && left.is_constant()) return to_text(right) + " <= " + to_text(left);
  return to_text(left) + words[static_cast<size_t>(test.kind)] + to_text(right);
}

Size ShapeEnv::create_symbol(std::string_view name, int64_t example, SymbolFacts facts) {
  BRAZE_CHECK(facts.range.has(example) && (example - facts.remainder) % facts.modulus == 0,
              "the example of a size is not one of its values");
  examples_.push_back(example);
  declared_.push_back(facts);
  return table_.symbol(name, facts);
}

namespace {

/// As SizeCode, but at once: lowering asks for the examples of many sizes, each of them once.
std::optional<int64_t> evaluate(Size size, std::span<const int64_t> symbols);

std::optional<int64_t> evaluate(const SizeAtom& atom, std::span<const int64_t> symbols) {
  if (atom.kind == SizeAtom::Kind::symbol) return symbols[atom.slot];
  std::optional<int64_t> result;
  for (const Size operand : atom.operands) {
    const auto value = evaluate(operand, symbols);
    if (!value) return std::nullopt;
    if (!result) {
      result = value;
    } else if (atom.kind == SizeAtom::Kind::max) {
      result = std::max(*result, *value);
    } else {
      if (*value <= 0) return std::nullopt;
      const int64_t quotient = floor_div(*result, *value);
      result = atom.kind == SizeAtom::Kind::mod ? *result - quotient * *value : quotient;
    }
  }
  return result;
}

std::optional<int64_t> evaluate(Size size, std::span<const int64_t> symbols) {
  if (size.is_constant()) return size.constant();
  int64_t sum = 0;
  for (const SizeTerm& term : size.expr()->terms) {
    int64_t product = term.coefficient;
    for (const auto& [atom, exponent] : term.product->powers) {
      const auto factor = evaluate(*atom, symbols);
      if (!factor) return std::nullopt;
      for (uint32_t k = 0; k < exponent; ++k)
        if (__builtin_mul_overflow(product, *factor, &product)) return std::nullopt;
    }
    if (__builtin_add_overflow(sum, product, &sum)) return std::nullopt;
  }
  return sum;
}

}  // namespace

int64_t ShapeEnv::example(Size size) const {
  if (const auto value = evaluate(size, examples_)) return *value;
  throw UserError(concat("the size ", to_text(size), " has no value for this call"));
}

/// Simplified, without a common divisor, equations with a positive leading term.
SizeTest ShapeEnv::canonical(const SizeTest& test) {
  SizeTest result = {test.kind, table_.simplify(test.left)};
  const SizeExpr* expr = result.left.expr();
  if (!expr) return result;
  std::vector<SizeTerm> terms = expr->terms;
  int64_t common = 0, number = 0;
  for (const SizeTerm& term : terms)
    term.product == table_.one() ? number = term.coefficient : common = std::gcd(common, term.coefficient);
  const bool is_equation = test.kind != Kind::at_least;
  if (is_equation && number % common != 0) return {test.kind, 1};  // never 0
  const int64_t sign = is_equation && terms[0].coefficient < 0 ? -1 : 1;
  for (SizeTerm& term : terms) term.coefficient = sign * floor_div(term.coefficient, common);
  result.left = table_.sum(std::move(terms));
  return result;
}

/// Without the factors above 0 that all terms have: n*m == 6*n says that m is 6.
static SizeTest without_shared_factors(SizeTable& table, const SizeTest& test) {
  const SizeExpr* expr = test.left.expr();
  if (!expr) return test;
  std::vector<SizeTerm> terms = expr->terms;
  const std::vector<SizeProduct::Power> powers = terms[0].product->powers;
  for (const auto& [atom, exponent] : powers) {
    if (table.range(*atom).low < 1) continue;
    const SizeProduct* factor = table.product({{atom, 1}});
    for (uint32_t k = 0; k < exponent; ++k) {
      std::vector<SizeTerm> rest = terms;
      for (SizeTerm& term : rest) term.product = table.divide(term.product, factor);
      if (std::ranges::any_of(rest, [](const SizeTerm& term) { return !term.product; })) break;
      terms = std::move(rest);
    }
  }
  return {test.kind, table.sum(std::move(terms))};
}

std::optional<bool> ShapeEnv::prove(const SizeTest& asked) {
  const SizeTest test = canonical(asked);
  const auto by_range = [&]() -> std::optional<bool> {
    if (test.left.is_constant()) return holds(test.kind, test.left.constant());
    const SizeRange range = table_.range(test.left);
    if (test.kind == Kind::at_least) {
      if (range.low >= 0) return true;
      if (range.high < 0) return false;
      return prove_by_operands(test.left);
    }
    const bool when_never_zero = test.kind == Kind::differs;
    if (range == SizeRange{0, 0}) return !when_never_zero;
    if (!range.has(0) || never_zero_.contains(test.left.expr()->id)) return when_never_zero;
    for (uint32_t slot = 0; slot < table_.symbol_count(); ++slot) {
      const int64_t modulus = table_.facts(slot).modulus;
      if (modulus == 1) continue;
      const Size left = mod(test.left, modulus);
      if (left.is_constant() && left.constant() != 0) return when_never_zero;
    }
    return std::nullopt;
  };
  const std::optional<bool> known = by_range();
  if (known || test.left.is_constant()) return known;
  const SizeTest rest = without_shared_factors(table_, test);
  return rest.left == test.left ? std::nullopt : prove(rest);
}

/// left >= 0 by what stands for an atom in it. rest + c*max(a, b) is max(rest + c*a, rest + c*b), or for a negative
/// c their minimum; x mod d and x floordiv d are at most x, if that is not negative.
std::optional<bool> ShapeEnv::prove_by_operands(Size left) {
  using Kind = SizeAtom::Kind;
  for (const SizeTerm& term : std::vector<SizeTerm>(left.expr()->terms)) {
    if (term.product->degree != 1) continue;
    const SizeAtom* atom = term.product->powers[0].atom;
    const int64_t factor = term.coefficient;
    const Size rest = left - factor * table_.of(atom);
    if (atom->kind == Kind::max) {
      const bool decisive = factor > 0;  // One operand that reaches 0 is enough; or one that does not.
      bool all_known = true;
      for (const Size operand : atom->operands) {
        const std::optional<bool> known = prove(at_least(rest + factor * operand, 0));
        if (known == decisive) return decisive;
        all_known = all_known && known.has_value();
      }
      return all_known ? std::optional(!decisive) : std::nullopt;
    }
    const bool is_part = atom->kind == Kind::mod || atom->kind == Kind::floor_div;
    if (!is_part || factor > 0) continue;
    const Size whole = atom->operands[0];
    if (table_.range(whole).low < 0 || table_.range(atom->operands[1]).low < 1) continue;
    if (prove(at_least(rest + factor * whole, 0)) == true) return true;
  }
  return std::nullopt;
}

bool ShapeEnv::decide(const SizeTest& test, std::string_view why) {
  if (const auto known = prove(test)) return *known;
  const bool answer = holds(test.kind, example(test.left));
  const SizeTest rest = without_shared_factors(table_, canonical(test));
  const SizeTest guard = canonical(answer ? rest : negation(rest));
  guards_.push_back({guard, std::string(why)});
  guard_code_.add(guard.left);
  learn(guard);
  // Who has asked goes on with the expression as it stands, whatever of it the guard leaves out.
  learn(canonical(answer ? test : negation(test)));
  return answer;
}

int64_t ShapeEnv::specialise(Size size, std::string_view why) {
  const int64_t value = example(size);
  decide(equal(size, value), why);
  return value;
}

void ShapeEnv::assume(const SizeTest& test) {
  if (!holds(test.kind, example(test.left)))
    throw UserError(
        concat(to_text(test), " does not hold: the left side is ", example(test.left), " above the right"),
        UserError::Kind::value);
  learn(canonical(test));
}

std::optional<size_t> ShapeEnv::broken(std::span<const int64_t> symbols) const {
  std::vector<int64_t> values(guard_code_.result_count());
  if (!guard_code_.run(symbols, values)) return 0;
  for (size_t k = 0; k < guards_.size(); ++k)
    if (!holds(guards_[k].test.kind, values[k])) return k;
  return std::nullopt;
}

// ---- what rules ask

bool SizeRules::equal(std::span<const Size> a, std::span<const Size> b) const {
  return std::ranges::equal(a, b, [this](Size x, Size y) { return equal(x, y); });
}

bool SizeRules::ask(const SizeTest& test) const {
  if (test.left.is_constant()) return holds(test.kind, test.left.constant());
  BRAZE_CHECK(env_, "the size ", to_text(test.left), " belongs to no graph");
  return why_ ? env_->decide(test, *why_) : env_->prove(test).value_or(false);
}

int64_t SizeRules::hint(Size size) const {
  if (size.is_constant()) return size.constant();
  BRAZE_CHECK(env_, "the size ", to_text(size), " belongs to no graph");
  return env_->example(size);
}

// ---- what a test teaches

/// `left` lies in `range`.
void ShapeEnv::learn_range(Size left, SizeRange range) {
  const SizeExpr* expr = left.expr();
  if (!expr) return;
  learn_bounds(table_, left, range);
  const int64_t number = expr->terms.back().product == table_.one() ? expr->terms.back().coefficient : 0;
  range = range + SizeRange{-number, -number};
  const Size variable = left - number;
  const std::vector<SizeTerm>& terms = variable.expr()->terms;
  if (terms.size() != 1 || terms[0].product->degree != 1) return;
  const SizeAtom* atom = terms[0].product->powers[0].atom;
  if (atom->kind != SizeAtom::Kind::symbol) return;
  const int64_t factor = terms[0].coefficient;  // 1 or -1: canonical() has divided.
  if (factor != 1 && factor != -1) return;
  const SymbolFacts& known = table_.facts(atom->slot);
  table_.narrow(atom->slot, {range * SizeRange{factor, factor}, known.modulus, known.remainder});
}

/// left == 0 for a symbol that occurs once: it is the rest from now on. Newer symbols are written by older ones.
bool ShapeEnv::solve(Size left) {
  const SizeAtom* best = nullptr;
  int64_t factor = 0;
  for (const SizeTerm& term : left.expr()->terms) {
    if (term.product->degree != 1 || (term.coefficient != 1 && term.coefficient != -1)) continue;
    const SizeAtom* atom = term.product->powers[0].atom;
    if (atom->kind != SizeAtom::Kind::symbol || (best && best->slot > atom->slot)) continue;
    const Size rest = left - term.coefficient * table_.of(atom);
    if (mentions(rest, atom)) continue;
    best = atom;
    factor = term.coefficient;
  }
  if (!best) return false;
  const Size symbol = table_.of(best);
  const Size value = -factor * (left - factor * symbol);
  const SymbolFacts facts = table_.facts(best->slot);
  table_.replace(best->slot, value);
  const Size now = table_.simplify(value);
  learn_range(now, facts.range);
  return true;
}

void ShapeEnv::learn(const SizeTest& test) {
  if (test.left.is_constant()) return;
  switch (test.kind) {
    case Kind::at_least: return learn_range(test.left, {0, SizeRange::infinity});
    case Kind::differs: {
      never_zero_.insert(test.left.expr()->id);
      const SizeRange range = table_.range(test.left);
      if (range.low == 0) learn_range(test.left, {1, range.high});
      if (range.high == 0) learn_range(test.left, {range.low, -1});
      return;
    }
    case Kind::equal: break;
  }
  const SizeExpr* expr = test.left.expr();
  const SizeAtom* first = expr->terms[0].product->degree == 1 ? expr->terms[0].product->powers[0].atom : nullptr;
  const int64_t number = expr->terms.back().product == table_.one() ? expr->terms.back().coefficient : 0;
  const bool alone = expr->terms.size() == (number ? 2u : 1u);
  if (alone && first && first->kind == SizeAtom::Kind::mod && first->operands[1].is_constant())
    if (const SizeExpr* of = first->operands[0].expr();
        of->terms.size() == 1 && of->terms[0].coefficient == 1 && of->terms[0].product->degree == 1 &&
        of->terms[0].product->powers[0].atom->kind == SizeAtom::Kind::symbol) {
      // n mod 4 == 1: `left` is (n mod 4) - 1.
      const uint32_t slot = of->terms[0].product->powers[0].atom->slot;
      table_.narrow(slot, {table_.facts(slot).range, first->operands[1].constant(), -number});
    }
  if (!solve(test.left)) return learn_range(test.left, {0, 0});
  // Guards tell of expressions as they were written before: those that the symbol was part of are others now.
  for (size_t k = 0; k < guards_.size(); ++k)
    if (const SizeTest now = canonical(guards_[k].test); now.left != guards_[k].test.left) learn(now);
}

}  // namespace braze::ir
