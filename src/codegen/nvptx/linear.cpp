#include "codegen/nvptx/linear.h"

#include <algorithm>

namespace braze::codegen::nvptx {

using llvm::Value;

MaybeRange add(const MaybeRange& a, const MaybeRange& b) {
  Range sum{};
  if (!a || !b || __builtin_add_overflow(a->low, b->low, &sum.low) ||
      __builtin_add_overflow(a->high, b->high, &sum.high))
    return std::nullopt;
  return sum;
}

MaybeRange scale(const MaybeRange& a, int64_t by) {
  Range product{};
  if (!a || __builtin_mul_overflow(a->low, by, &product.low) || __builtin_mul_overflow(a->high, by, &product.high))
    return std::nullopt;
  if (by < 0) std::swap(product.low, product.high);
  return product;
}

MaybeRange join(const MaybeRange& a, const MaybeRange& b) {
  if (!a || !b) return std::nullopt;
  return Range{std::min(a->low, b->low), std::max(a->high, b->high)};
}

void Linear::add(const Linear& other, int64_t factor) {
  constant += other.constant * factor;
  if (factor == 0) return;
  for (const Term& term : other.terms) {
    auto* mine = std::ranges::find_if(terms, [&](const Term& own) { return own.base == term.base; });
    if (mine == terms.end())
      terms.push_back({term.base, term.factor * factor});
    else if ((mine->factor += term.factor * factor) == 0)
      terms.erase(mine);
  }
}

MaybeRange Linear::range() const {
  MaybeRange sum = Range::of(constant);
  for (const Term& term : terms) sum = nvptx::add(sum, scale(term.base.range, term.factor));
  return sum;
}

int64_t Linear::multiple() const {
  const auto lowest_bit = [](int64_t number) { return number & -number; };
  int64_t common = 16;
  if (constant != 0) common = std::min(common, lowest_bit(constant));
  for (const Term& term : terms) common = std::min(common, lowest_bit(term.factor) * term.base.multiple);
  return common;
}

bool Linear::same_terms(const Linear& other) const {
  return terms.size() == other.terms.size() && std::ranges::all_of(terms, [&](const Term& term) {
           return std::ranges::any_of(
               other.terms, [&](const Term& its) { return its.base == term.base && its.factor == term.factor; });
         });
}

Value* materialise(llvm::IRBuilderBase& b, const Linear& linear, bool narrow) {
  bool small = Range::of(linear.constant).fits_32();
  MaybeRange sum = Range::of(0);
  for (const Linear::Term& term : linear.terms) {
    const MaybeRange product = scale(term.base.range, term.factor);
    sum = add(sum, product);
    const bool bounded = product && sum && product->fits_32() && sum->fits_32();
    small = small && (bounded || (narrow && !term.base.range)) && term.base.value->getType()->isIntegerTy(32);
  }
  const MaybeRange whole = add(sum, Range::of(linear.constant));
  small = small && (whole ? whole->fits_32() : narrow);
  llvm::Type* type = small ? b.getInt32Ty() : b.getInt64Ty();
  if (linear.terms.empty()) return llvm::ConstantInt::getSigned(type, linear.constant);
  Value* result = nullptr;
  for (const Linear::Term& term : linear.terms) {
    Value* value = b.CreateSExt(term.base.value, type);
    if (term.factor != 1)
      value = b.CreateMul(value, llvm::ConstantInt::getSigned(type, term.factor), "", false, true);
    result = result ? b.CreateAdd(result, value, "", false, true) : value;
  }
  if (linear.constant != 0)
    result = b.CreateAdd(result, llvm::ConstantInt::getSigned(type, linear.constant), "", false, true);
  return result;
}

Value* materialise_wide(llvm::IRBuilderBase& b, const Linear& linear, bool narrow) {
  return b.CreateSExt(materialise(b, linear, narrow), b.getInt64Ty());
}

}  // namespace braze::codegen::nvptx
