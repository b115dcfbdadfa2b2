// codegen/x86/emit_loop_traits.cpp: what a loop is like: whether and how wide it is vectorised, how heavy its body
// is.
#include <algorithm>

#include "codegen/x86/emit_loop.h"
#include "loops/cost.h"

namespace braze::codegen {

using loops::none;

namespace {

/// Calls visit(stmt) for every statement in a block, inner ones too.
template <typename Visit>
void for_each_stmt(const Block& block, Visit&& visit) {
  for (const Stmt& stmt : block) {
    visit(stmt);
    if (stmt.loop) for_each_stmt(stmt.loop->body, visit);
    for_each_stmt(stmt.body, visit);
  }
}

/// Of machine code for one vector.
int instruction_count(ir::Op op, bool has_tables) {
  using ir::Op;
  if (has_tables && (op == Op::exp || op == Op::exp2 || op == Op::log)) return 11;  // math_avx512.h
  if (has_tables && op == Op::erf) return 19;
  return loops::vector_instructions(op);
}

}  // namespace

/// Lanes must not need one another nor memory of their own.
bool LoopEmitter::can_vectorise(const Loop& loop) const {
  if (loop.step != 1) return false;
  for (const Reduction& reduction : loop.reductions)
    if (reduction.combine == loops::Combine::serial) return false;
  bool possible = true;
  for_each_stmt(loop.body, [&](const Stmt& stmt) {
    if (stmt.kind == StmtKind::alloc || stmt.kind == StmtKind::transpose) possible = false;
  });
  return possible;
}

/// As many lanes as a register holds 4-byte elements; fewer or more if all elements are wider or narrower.
unsigned LoopEmitter::width_of(const Loop& loop) const {
  int64_t widest = 1, narrowest = 8;
  auto note = [&](DType type) {
    if (type == DType::b8) return;
    widest = std::max(widest, ir::byte_size(type));
    narrowest = std::min(narrowest, ir::byte_size(type));
  };
  for_each_stmt(loop.body, [&](const Stmt& stmt) {
    if (stmt.kind == StmtKind::load || stmt.kind == StmtKind::store || stmt.kind == StmtKind::atomic) {
      note(ir::compute_dtype(kernel_.buffers[stmt.buffer].dtype));
    } else if (stmt.kind == StmtKind::compute && stmt.result != none) {
      for (ValueId arg : stmt.args)
        if (kernel_.types[arg] != DType::i64) note(kernel_.types[arg]);
      note(stmt.type);
    }
  });
  int64_t element = widest <= 4 ? widest : std::max<int64_t>(4, narrowest);
  return target_.vector_bytes / element;
}

/// About how many instructions a copy of a block takes. Copies of a long body hide no more latency than the CPU's
/// own look-ahead does, and each costs its share of the compilation.
int LoopEmitter::weight_of(const Block& block) const {
  const auto count = [&](const Stmt& stmt) {
    return instruction_count(stmt.op, target_.isa == Isa::avx512 && stmt.type == DType::f32);
  };
  int total = 0;
  for_each_stmt(block, [&](const Stmt& stmt) { total += stmt.kind == StmtKind::compute ? count(stmt) : 1; });
  return total;
}

/// Whether a loop inside a vector loop is better written out: so few steps that their addresses are constants and
/// the loop itself would cost as much. The windows of a pooling are such.
bool LoopEmitter::is_small_window(const Loop& loop, int64_t count) const {
  constexpr int64_t budget = 64;  // instructions
  const auto size = [&](auto& self, const Block& block) -> int64_t {
    int64_t total = 0;
    for (const Stmt& stmt : block) {
      if (stmt.kind == StmtKind::compute) total += loops::vector_instructions(stmt.op);
      if (stmt.kind == StmtKind::load || stmt.kind == StmtKind::store) ++total;
      if (stmt.kind == StmtKind::branch) return budget;
      if (!stmt.loop) continue;
      const Loop& inner = *stmt.loop;
      const bool known = inner.begin.is_constant() && inner.end.is_constant() && inner.begin_value == none &&
                         inner.end_value == none;
      const int64_t trips = known ? inner.end.constant - inner.begin.constant : budget;
      total += std::min(budget, trips) * self(self, inner.body);
    }
    return total;
  };
  return lanes().width > 1 && count * lanes().parts <= budget &&
         count * lanes().parts * size(size, loop.body) <= budget;
}

/// Whether an iteration may be done again: nothing is read that was written. The tail of a row is then its last
/// whole vector rather than one under a mask.
bool LoopEmitter::may_run_twice(const Loop& loop) const {
  bool may = loop.reductions.empty();
  llvm::SmallVector<BufferId, 4> reads, writes;
  for (const Stmt& stmt : loop.body) {
    switch (stmt.kind) {
      case StmtKind::load: reads.push_back(stmt.buffer); break;
      case StmtKind::store: writes.push_back(stmt.buffer); break;
      case StmtKind::constant:
      case StmtKind::scalar:
      case StmtKind::symbol:
      case StmtKind::compute:
      case StmtKind::affine: break;
      default: may = false;
    }
  }
  const auto shared = [&](BufferId id) {
    return kernel_.buffers[id].is_parameter && kernel_.buffers[id].may_alias;
  };
  for (const BufferId to : writes)
    for (const BufferId from : reads) may &= to != from && !(shared(to) && shared(from));
  return may;
}

/// Whether the tail should go element by element: AVX2 masks only 4- and 8-byte elements.
bool LoopEmitter::tail_is_scalar(const Loop& loop) const {
  if (target_.isa == Isa::avx512) return false;
  bool narrow = false;
  for_each_stmt(loop.body, [&](const Stmt& stmt) {
    if (stmt.buffer != none) narrow |= ir::byte_size(kernel_.buffers[stmt.buffer].dtype) < 4;
  });
  return narrow;
}

/// Whether the loop has non-temporal stores that aligning its variable would align.
bool LoopEmitter::wants_alignment(const Loop& loop) {
  bool wants = false;
  for_each_stmt(loop.body, [&](const Stmt& stmt) { wants |= stmt.kind == StmtKind::store && stmt.stream; });
  return wants;
}

}  // namespace braze::codegen
