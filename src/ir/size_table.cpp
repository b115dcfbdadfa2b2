#include "ir/size_table.h"

#include <algorithm>
#include <numeric>

#include "ir/size_bounds.h"
#include "support/error.h"

namespace braze::ir {

namespace {

constexpr int64_t infinity = SizeRange::infinity;

[[noreturn]] void fail_overflow() {
  throw UserError("a size, stride or offset does not fit into 64 bits");
}

bool is_infinite(int64_t end) {
  return end == infinity || end == -infinity;
}

/// Ends of ranges: what does not fit is infinite.
int64_t saturated_add(int64_t a, int64_t b) {
  if (is_infinite(a)) return a;
  if (is_infinite(b)) return b;
  int64_t sum;
  if (__builtin_add_overflow(a, b, &sum)) return a > 0 ? infinity : -infinity;
  return std::clamp(sum, -infinity, infinity);
}

int64_t saturated_mul(int64_t a, int64_t b) {
  if (a == 0 || b == 0) return 0;
  int64_t product;
  if (is_infinite(a) || is_infinite(b) || __builtin_mul_overflow(a, b, &product))
    return (a > 0) == (b > 0) ? infinity : -infinity;
  return std::clamp(product, -infinity, infinity);
}

/// floor(a / b) for ends of ranges; b > 0.
int64_t saturated_div(int64_t a, int64_t b) {
  if (b == infinity) return a >= 0 ? 0 : -1;
  return is_infinite(a) ? a : floor_div(a, b);
}

}  // namespace

int64_t checked_add(int64_t a, int64_t b) {
  int64_t sum;
  if (__builtin_add_overflow(a, b, &sum)) fail_overflow();
  return sum;
}

int64_t checked_mul(int64_t a, int64_t b) {
  int64_t product;
  if (__builtin_mul_overflow(a, b, &product)) fail_overflow();
  return product;
}

int64_t floor_div(int64_t a, int64_t b) {
  BRAZE_CHECK(b != 0, "a size divided by 0");
  if (b == -1) return checked_mul(a, -1);
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

SizeRange operator+(SizeRange a, SizeRange b) {
  return {saturated_add(a.low, b.low), saturated_add(a.high, b.high)};
}

SizeRange operator*(SizeRange a, SizeRange b) {
  const auto [low, high] = std::minmax({saturated_mul(a.low, b.low), saturated_mul(a.low, b.high),
                                        saturated_mul(a.high, b.low), saturated_mul(a.high, b.high)});
  return {low, high};
}

SizeRange intersection(SizeRange a, SizeRange b) {
  return {std::max(a.low, b.low), std::min(a.high, b.high)};
}

bool comes_before(const SizeProduct& a, const SizeProduct& b) {
  if (a.degree != b.degree) return a.degree > b.degree;
  for (size_t k = 0; k < a.powers.size() && k < b.powers.size(); ++k) {
    const auto &x = a.powers[k], &y = b.powers[k];
    if (x.atom->id != y.atom->id) return x.atom->id < y.atom->id;
    if (x.exponent != y.exponent) return x.exponent > y.exponent;
  }
  return false;  // Of equal degree, so neither is longer.
}

SizeTable::SizeTable() {
  one_ = product({});
}
SizeTable::~SizeTable() = default;

// ---- interning

Size SizeTable::symbol(std::string_view name, SymbolFacts facts) {
  BRAZE_CHECK(!by_name_.contains(name), "two symbols called ", name);
  const auto slot = static_cast<uint32_t>(symbols_.size());
  atoms_.push_back(
      {SizeAtom::Kind::symbol, static_cast<uint32_t>(atoms_.size()), slot, names_.emplace_back(name), {}});
  symbols_.push_back({&atoms_.back(), facts, std::nullopt});
  by_name_.emplace(names_.back(), slot);
  return of(&atoms_.back());
}

std::optional<Size> SizeTable::find(std::string_view name) const {
  const auto it = by_name_.find(name);
  if (it == by_name_.end()) return std::nullopt;
  return const_cast<SizeTable*>(this)->of(symbols_[it->second].atom);
}

const SizeAtom* SizeTable::atom(SizeAtom::Kind kind, std::vector<Size> operands) {
  std::vector<uint64_t> key;
  for (const Size& operand : operands) key.push_back(operand.bits());
  const auto [it, fresh] = atom_of_.try_emplace({static_cast<int>(kind), std::move(key)}, nullptr);
  if (fresh) {
    atoms_.push_back({kind, static_cast<uint32_t>(atoms_.size()), 0, {}, std::move(operands)});
    it->second = &atoms_.back();
  }
  return it->second;
}

const SizeProduct* SizeTable::product(std::vector<SizeProduct::Power> powers) {
  std::vector<uint32_t> key;
  SizeProduct made;
  for (const auto& power : powers) {
    key.push_back(power.atom->id);
    key.push_back(power.exponent);
    made.degree += power.exponent;
  }
  const auto [it, fresh] = product_of_.try_emplace(std::move(key), nullptr);
  if (fresh) {
    made.powers = std::move(powers);
    products_.push_back(std::move(made));
    it->second = &products_.back();
  }
  return it->second;
}

const SizeProduct* SizeTable::multiply(const SizeProduct* a, const SizeProduct* b) {
  if (a == one_) return b;
  if (b == one_) return a;
  std::vector<SizeProduct::Power> powers;
  auto x = a->powers.begin(), y = b->powers.begin();
  while (x != a->powers.end() || y != b->powers.end()) {
    if (y == b->powers.end() || (x != a->powers.end() && x->atom->id < y->atom->id))
      powers.push_back(*x++);
    else if (x == a->powers.end() || y->atom->id < x->atom->id)
      powers.push_back(*y++);
    else
      powers.push_back({x->atom, x++->exponent + y++->exponent});
  }
  return product(std::move(powers));
}

const SizeProduct* SizeTable::divide(const SizeProduct* a, const SizeProduct* b) {
  std::vector<SizeProduct::Power> powers;
  auto y = b->powers.begin();
  for (const auto& power : a->powers) {
    uint32_t left = power.exponent;
    if (y != b->powers.end() && y->atom == power.atom) {
      if (y->exponent > left) return nullptr;
      left -= y++->exponent;
    }
    if (left) powers.push_back({power.atom, left});
  }
  return y == b->powers.end() ? product(std::move(powers)) : nullptr;
}

Size SizeTable::of(const SizeAtom* atom) {
  return intern({{product({{atom, 1}}), 1}});
}

std::vector<SizeTerm> SizeTable::terms(Size size) const {
  if (const SizeExpr* expr = size.expr()) return expr->terms;
  if (size.constant() == 0) return {};
  return {{one_, size.constant()}};
}

Size SizeTable::intern(std::vector<SizeTerm> terms) {
  if (terms.empty()) return 0;
  if (terms.size() == 1 && terms[0].product == one_) return terms[0].coefficient;
  std::vector<std::pair<const SizeProduct*, int64_t>> key;
  for (const SizeTerm& term : terms) key.emplace_back(term.product, term.coefficient);
  const auto [it, fresh] = expr_of_.try_emplace(std::move(key), nullptr);
  if (fresh) {
    exprs_.push_back({this, static_cast<uint32_t>(exprs_.size()), std::move(terms)});
    it->second = &exprs_.back();
  }
  return Size(it->second);
}

// ---- facts

void SizeTable::narrow(uint32_t slot, const SymbolFacts& facts) {
  SymbolFacts& known = symbols_[slot].facts;
  SymbolFacts both = known;
  both.range = intersection(known.range, facts.range);
  if (facts.modulus % known.modulus == 0 && facts.remainder % known.modulus == known.remainder) {
    both.modulus = facts.modulus;
    both.remainder = facts.remainder;
  } else if (known.modulus % facts.modulus != 0 || known.remainder % facts.modulus != facts.remainder) {
    // Chinese remainders of moduli with a common divisor are not worked out: the older fact stays.
    const int64_t common = std::gcd(known.modulus, facts.modulus);
    if (known.remainder % common != facts.remainder % common) both.range = {1, 0};
  }
  if (both.range.low > both.range.high)
    throw UserError(concat("no value of ", name(slot), " satisfies all that is said of it"),
                    UserError::Kind::value);
  known = both;
  ranges_.clear();
}

void SizeTable::replace(uint32_t slot, Size value) {
  symbols_[slot].value = value;
}

void SizeTable::bound(const SizeExpr* expr, SizeRange range) {
  const auto [it, fresh] = bounds_.try_emplace(expr, range);
  if (!fresh) it->second = intersection(it->second, range);
  ranges_.clear();
}

Size SizeTable::simplify(Size size) {
  const SizeExpr* expr = size.expr();
  if (!expr) return size;
  Size sum = 0;
  for (const SizeTerm& term : expr->terms) {
    Size product = term.coefficient;
    for (const auto& [atom, exponent] : term.product->powers) {
      Size factor;
      const auto operand = [&](size_t k) { return simplify(atom->operands[k]); };
      switch (atom->kind) {
        case SizeAtom::Kind::symbol: {
          const Symbol& symbol = symbols_[atom->slot];
          factor = symbol.value                                        ? simplify(*symbol.value)
                   : symbol.facts.range.low == symbol.facts.range.high ? Size(symbol.facts.range.low)
                                                                       : of(atom);
          break;
        }
        // The divisor is what it was, in other words.
        case SizeAtom::Kind::floor_div: factor = floor_div(operand(0), known_positive(*this, operand(1))); break;
        case SizeAtom::Kind::mod: factor = mod(operand(0), known_positive(*this, operand(1))); break;
        case SizeAtom::Kind::max:
          factor = operand(0);
          for (size_t k = 1; k < atom->operands.size(); ++k) factor = max(factor, operand(k));
      }
      for (uint32_t k = 0; k < exponent; ++k) product = product * factor;
    }
    sum = sum + product;
  }
  return sum;
}

// ---- ranges

SizeRange SizeTable::range(const SizeAtom& atom) const {
  switch (atom.kind) {
    case SizeAtom::Kind::symbol: return symbols_[atom.slot].facts.range;
    case SizeAtom::Kind::floor_div: {
      const SizeRange a = range(atom.operands[0]), b = range(atom.operands[1]);  // b.low >= 1
      return {saturated_div(a.low, a.low >= 0 ? b.high : b.low),
              saturated_div(a.high, a.high >= 0 ? b.low : b.high)};
    }
    case SizeAtom::Kind::mod: {
      const SizeRange a = range(atom.operands[0]), b = range(atom.operands[1]);
      const int64_t most = saturated_add(b.high, -1);
      return {0, a.low >= 0 ? std::min(most, a.high) : most};
    }
    case SizeAtom::Kind::max: break;
  }
  SizeRange all = {-infinity, -infinity};
  for (const Size& operand : atom.operands) {
    const SizeRange one = range(operand);
    all = {std::max(all.low, one.low), std::max(all.high, one.high)};
  }
  return all;
}

SizeRange SizeTable::range(const SizeProduct& product) const {
  SizeRange all = {1, 1};
  for (const auto& [atom, exponent] : product.powers) {
    const SizeRange one = range(*atom);
    SizeRange power = {1, 1};
    for (uint32_t k = 0; k < exponent; ++k) power = power * one;
    if (exponent % 2 == 0) power = intersection(power, {0, infinity});
    all = all * power;
  }
  return all;
}

/// With x = low + t, t >= 0 for every atom x: n*m - n becomes t*u + ... where the terms below 0 are fewer.
SizeRange SizeTable::shifted_range(const std::vector<SizeTerm>& terms) const {
  constexpr size_t most_products = 64;                  // Longer ones are not worth the time.
  std::map<std::vector<const SizeAtom*>, int64_t> all;  // Ordered by address: only summed up.
  for (const SizeTerm& term : terms) {
    std::vector<std::pair<std::vector<const SizeAtom*>, int64_t>> products = {{{}, term.coefficient}};
    for (const auto& [atom, exponent] : term.product->powers) {
      const int64_t low = range(*atom).low;
      if (is_infinite(low)) return {};
      for (uint32_t k = 0; k < exponent; ++k) {
        const size_t count = products.size();
        if (count > most_products) return {};
        for (size_t p = 0; p < count; ++p) {
          auto with = products[p];
          with.first.insert(std::ranges::upper_bound(with.first, atom, std::less<>()), atom);
          if (__builtin_mul_overflow(products[p].second, low, &products[p].second)) return {};
          products.push_back(std::move(with));
        }
      }
    }
    for (auto& [atoms, coefficient] : products) {
      int64_t& total = all[std::move(atoms)];
      if (__builtin_add_overflow(total, coefficient, &total)) return {};
    }
  }
  SizeRange sum = {0, 0};
  for (const auto& [atoms, coefficient] : all) {
    SizeRange product = {1, 1};
    for (const SizeAtom* atom : atoms) {
      const SizeRange one = range(*atom);
      product = product * SizeRange{0, saturated_add(one.high, -one.low)};
    }
    sum = sum + product * SizeRange{coefficient, coefficient};
  }
  return sum;
}

/// A sum whose terms share factors, as their product with what is left: of b*h - b*(h mod 4) it is told so that it
/// is not negative.
static SizeRange factored_range(const SizeTable& table, std::vector<SizeTerm> terms) {
  const int64_t number = terms.back().product == table.one() ? terms.back().coefficient : 0;
  if (number) terms.pop_back();
  using Powers = std::vector<SizeProduct::Power>;
  const auto exponent_in = [](const Powers& powers, const SizeAtom* atom) {
    const auto found = std::ranges::find(powers, atom, &SizeProduct::Power::atom);
    return found == powers.end() ? 0u : found->exponent;
  };
  const auto range_of = [&](const Powers& powers, const Powers& without) {
    SizeRange all = {1, 1};
    for (const auto& [atom, exponent] : powers)
      for (uint32_t k = exponent_in(without, atom); k < exponent; ++k) all = all * table.range(*atom);
    return all;
  };
  Powers shared = terms[0].product->powers;
  for (const SizeTerm& term : terms)
    for (auto& [atom, exponent] : shared) exponent = std::min(exponent, exponent_in(term.product->powers, atom));
  std::erase_if(shared, [](const SizeProduct::Power& power) { return power.exponent == 0; });
  if (shared.empty()) return {};
  SizeRange left = {0, 0};
  for (const SizeTerm& term : terms)
    left = left + range_of(term.product->powers, shared) * SizeRange{term.coefficient, term.coefficient};
  return range_of(shared, {}) * left + SizeRange{number, number};
}

SizeRange SizeTable::range(Size size) const {
  const SizeExpr* expr = size.expr();
  if (!expr) return {size.constant(), size.constant()};
  if (const auto known = ranges_.find(expr); known != ranges_.end()) return known->second;
  const SizeRange computed = computed_range(*expr);
  ranges_.emplace(expr, computed);
  return computed;
}

SizeRange SizeTable::computed_range(const SizeExpr& expr) const {
  SizeRange plain = {0, 0};
  for (const SizeTerm& term : expr.terms)
    plain = plain + range(*term.product) * SizeRange{term.coefficient, term.coefficient};
  SizeRange best = plain;
  if (expr.terms.size() > 1) {
    best = intersection(best, shifted_range(expr.terms));
    best = intersection(best, factored_range(*this, expr.terms));
  }
  if (bounds_.empty()) return best;
  const int64_t number = expr.terms.back().product == one_ ? expr.terms.back().coefficient : 0;
  int64_t content = 0;  // What is known is known of expressions without a common divisor.
  for (const SizeTerm& term : expr.terms)
    if (term.product != one_) content = std::gcd(content, term.coefficient);
  for (const int64_t divisor : {int64_t{1}, content}) {
    std::vector<std::pair<const SizeProduct*, int64_t>> key;
    for (const SizeTerm& term : expr.terms)
      if (term.product != one_) key.emplace_back(term.product, term.coefficient / divisor);
    const auto variable = expr_of_.find(key);
    const auto bound = variable == expr_of_.end() ? bounds_.end() : bounds_.find(variable->second);
    if (bound != bounds_.end())
      best = intersection(best, bound->second * SizeRange{divisor, divisor} + SizeRange{number, number});
    if (content == 1) break;
  }
  return best;
}

}  // namespace braze::ir
