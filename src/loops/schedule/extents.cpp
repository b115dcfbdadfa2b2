#include "loops/schedule/extents.h"

#include <algorithm>
#include <numeric>

#include "ir/size_table.h"
#include "support/error.h"

namespace braze::loops {

namespace {

/// Calls visit(extent) for every extent of a block.
template <typename Visit>
void for_each_extent(Block& block, Visit&& visit) {
  const auto visit_affine = [&](Affine& affine) {
    visit(affine.offset);
    for (Affine::Term& term : affine.terms) visit(term.factor);
  };
  for (Stmt& stmt : block) {
    visit_affine(stmt.index);
    visit(stmt.extent);
    for (Extent& size : stmt.sizes) visit(size);
    if (stmt.loop) {
      visit(stmt.loop->begin);
      visit(stmt.loop->end);
      for_each_extent(stmt.loop->body, visit);
    }
    for_each_extent(stmt.body, visit);
  }
}

template <typename Visit>
void for_each_symbol_statement(Block& block, Visit&& visit) {
  for (Stmt& stmt : block) {
    if (stmt.kind == StmtKind::symbol) visit(stmt);
    if (stmt.loop) for_each_symbol_statement(stmt.loop->body, visit);
    for_each_symbol_statement(stmt.body, visit);
  }
}

bool is_zero(const Extent& extent) {
  return extent.is_constant() && extent.constant == 0;
}

}  // namespace

Extent Extents::of_expression(Size size) {
  ir::SizeTable& table = *size.expr()->table;
  std::vector<ir::SizeTerm> terms = table.terms(size);
  Extent extent;
  if (terms.back().product == table.one()) {
    extent.constant = terms.back().coefficient;
    terms.pop_back();
  }
  extent.factor = 0;
  for (const ir::SizeTerm& term : terms) extent.factor = std::gcd(extent.factor, term.coefficient);
  if (terms.front().coefficient < 0) extent.factor = -extent.factor;
  for (ir::SizeTerm& term : terms) term.coefficient /= extent.factor;
  const Size symbol = table.sum(std::move(terms));
  const auto known = std::ranges::find(symbols_, symbol);
  extent.symbol = static_cast<uint32_t>(known - symbols_.begin());
  if (known == symbols_.end()) {
    symbols_.push_back(symbol);
    kernel_.symbols.push_back(concat("n", extent.symbol));
  }
  return extent;
}

Extent Extents::multiple(int64_t factor, Size size) {
  Extent extent = of(size);
  extent.constant *= factor;
  extent.factor *= factor;
  return extent;
}

Size Extents::size_of_expression(const Extent& extent) const {
  return symbols_.at(extent.symbol) * extent.factor + extent.constant;
}

void Extents::add(Affine& to, Size factor, ValueId value) {
  if (symbols_.empty() && factor.is_constant()) return to.add(factor.constant(), value);
  const auto same = std::ranges::find(to.terms, value, &Affine::Term::value);
  if (same == to.terms.end() || (same->factor.is_constant() && factor.is_constant()))
    return to.add(of(factor), value);
  same->factor = of(size(same->factor) + factor);
  if (is_zero(same->factor)) to.terms.erase(same);
}

void Extents::add_offset(Affine& to, Size offset) {
  if (to.offset.is_constant() && offset.is_constant())
    to.offset.constant += offset.constant();
  else
    to.offset = of(size(to.offset) + offset);
}

void Extents::add(Affine& to, Size factor, const Affine& what) {
  for (const Affine::Term& term : what.terms) add(to, factor * size(term.factor), term.value);
  if (!is_zero(what.offset)) add_offset(to, factor * size(what.offset));
}

Affine Extents::scaled(Size factor, const Affine& what) {
  Affine result;
  add(result, factor, what);
  return result;
}

ValueId Extents::value(Builder builder, Size size) {
  if (size.is_constant()) return builder.constant(DType::i64, Number::of_int(size.constant()));
  const Extent extent = of(size);
  if (extent.constant == 0 && extent.factor == 1) return builder.symbol(extent.symbol);
  Affine affine;
  affine.offset = extent;
  return builder.affine(affine);
}

ValueId Extents::divisor(Builder builder, Size size) {
  return value(builder, size.is_constant() || rules_.at_least(size, 1) ? size : max(size, Size(1)));
}

void drop_unused_symbols(Kernel& kernel, std::vector<Size>& symbols) {
  if (symbols.empty()) return;
  std::vector<uint32_t> to(symbols.size(), none);
  uint32_t count = 0;
  const auto use = [&](uint32_t slot) {
    if (to[slot] == none) to[slot] = count++;
  };
  for_each_extent(kernel.body, [&](const Extent& extent) {
    if (!extent.is_constant()) use(extent.symbol);
  });
  for_each_symbol_statement(kernel.body, [&](const Stmt& stmt) { use(stmt.slot); });
  // In order of first use, so that kernels which differ in what they have dropped are the same.
  std::vector<Size> kept(count);
  for (size_t k = 0; k < symbols.size(); ++k)
    if (to[k] != none) kept[to[k]] = symbols[k];
  symbols = std::move(kept);
  kernel.symbols.clear();
  for (uint32_t k = 0; k < count; ++k) kernel.symbols.push_back(concat("n", k));
  for_each_extent(kernel.body, [&](Extent& extent) {
    if (!extent.is_constant()) extent.symbol = to[extent.symbol];
  });
  for_each_symbol_statement(kernel.body, [&](Stmt& stmt) { stmt.slot = to[stmt.slot]; });
}

}  // namespace braze::loops
