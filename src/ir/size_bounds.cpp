#include "ir/size_bounds.h"

namespace braze::ir {

void learn_bounds(SizeTable& table, Size size, SizeRange range) {
  const SizeExpr* expr = size.expr();
  if (!expr) return;
  const int64_t number = expr->terms.back().product == table.one() ? expr->terms.back().coefficient : 0;
  const Size variable = size - number;
  range = range + SizeRange{-number, -number};
  table.bound(variable.expr(), range);
  const Size opposite = -variable;
  table.bound(opposite.expr(), range * SizeRange{-1, -1});
}

Size known_positive(SizeTable& table, Size size) {
  const SizeRange range = table.range(size);
  if (range.low < 1 && range.high >= 1) learn_bounds(table, size, {1, SizeRange::infinity});
  return size;
}

}  // namespace braze::ir
