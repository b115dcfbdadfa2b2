#include "loops/schedule/statements.h"

#include <utility>

namespace braze::loops {

Stmt as_statement(std::unique_ptr<Loop> loop) {
  Stmt stmt{};
  stmt.kind = StmtKind::loop;
  stmt.loop = std::move(loop);
  return stmt;
}

Stmt barrier() {
  Stmt stmt{};
  stmt.kind = StmtKind::barrier;
  return stmt;
}

void close_guarded(Block& into, ValueId guard, Block body) {
  if (guard == none) {
    for (Stmt& stmt : body) into.push_back(std::move(stmt));
    return;
  }
  Stmt stmt{};
  stmt.kind = StmtKind::branch;
  stmt.predicate = guard;
  stmt.body = std::move(body);
  into.push_back(std::move(stmt));
}

std::vector<Affine> take_apart(Extents& extents, Builder builder, Affine whole, std::span<const Size> sizes) {
  std::vector<Affine> parts(sizes.size());
  for (size_t k = 0; k < sizes.size(); ++k) {
    if (k + 1 == sizes.size()) {
      parts[k] = std::move(whole);
      break;
    }
    const ValueId value = builder.affine(whole);
    if (!sizes[k].is_constant()) {
      // No machine divides by what it does not know without taking its time: once, and the rest by multiplying.
      const ValueId quotient = builder.compute(ir::Op::floor_div, {value, extents.divisor(builder, sizes[k])});
      parts[k].add(1, value);
      extents.add(parts[k], -sizes[k], quotient);
      whole = {};
      whole.add(1, quotient);
      continue;
    }
    const ValueId size = extents.divisor(builder, sizes[k]);
    parts[k].add(1, builder.compute(ir::Op::remainder, {value, size}));
    whole = {};
    whole.add(1, builder.compute(ir::Op::floor_div, {value, size}));
  }
  return parts;
}

}  // namespace braze::loops
