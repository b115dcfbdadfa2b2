// loops/schedule/cpu/rows.cpp: reductions along contiguous axes: a row a step of the top-level loop, its elements
// over lanes, once a pass. And sums of few columns: columns over lanes, rows in serial loops, accumulators in
// registers.
#include <algorithm>
#include <utility>

#include "loops/schedule/cpu/schedule.h"
#include "support/error.h"

namespace braze::loops {

using ir::Op;

void CpuNest::build_reductions() {
  if (in_strips()) return build_strips();
  Stmt top{};
  top.kind = StmtKind::loop;
  top.loop = std::make_unique<Loop>();
  Loop& loop = *top.loop;
  blocks_[0] = &loop.body;
  const int64_t below = hint(nest_.reduced_size()) * std::max(1, passes_);
  if (nest_.form == LoopNest::Form::columns && nest_.outer.empty() && chunks_ == 1) {
    loop.var = kernel_.add_value(DType::i64);
    loop.end = extents_.of(nest_.lane.size);
    loop.schedule.parallel = loop.schedule.vector = true;
    loop.schedule.grain = whole_lines(grain(below), target_);
    leaf_value_[nest_.lane.innermost()].affine.add(1, loop.var);
    build_passes(0);
  } else {
    loop.end = extents_.of(nest_.outer_size() * chunks_);
    loop.schedule.parallel = true;
    const int64_t inner = below / chunks_ * (nest_.has_lane ? hint(nest_.lane.size) : 1);
    loop.schedule.grain = grain(inner);
    open_outer(loop);
    if (nest_.form == LoopNest::Form::columns) {
      Stmt lane{};
      lane.kind = StmtKind::loop;
      lane.loop = std::make_unique<Loop>();
      lane.loop->var = kernel_.add_value(DType::i64);
      lane.loop->end = extents_.of(nest_.lane.size);
      lane.loop->schedule.vector = true;
      blocks_[1] = &lane.loop->body;
      Index& index = leaf_value_[nest_.lane.innermost()];
      index.affine.add(1, lane.loop->var);
      index.level = 1;
      build_passes(1);
      loop.body.push_back(std::move(lane));
    } else {
      build_passes(0);
    }
  }
  kernel_.body.push_back(std::move(top));
}

void CpuNest::build_passes(int first_level) {
  lane_level_ = first_level;
  // Of a row whose length is not known there is room for the longest that is kept (plan_kept).
  const Size row = nest_.reduced_size();
  const Extent room = row.is_constant() ? row.constant() : longest_kept();
  for (Kept& kept : kept_) {
    const DType type = ir::compute_dtype(kept.value->type->dtype);
    kept.buffer = at(first_level).alloc(concat("row", kept.value->id), type, room);
  }
  for (int pass = 0; pass < passes_; ++pass) run_pass(pass);
  if (partials_.empty()) store_all(passes_, true);
}

void CpuNest::run_pass(int number) {
  std::erase_if(memo_, [](const Memo& memo) { return memo.scalar.level == 2; });
  number_reduced();
  Pass pass = evaluate_pass(number);
  if (pass.body.empty() && pass.reductions.empty()) return;
  const int container = nest_.form == LoopNest::Form::columns ? lane_level_ : 0;
  Block& into = *blocks_[static_cast<size_t>(container)];
  emit_reduced_loops(std::move(pass.reductions), std::move(pass.body), into, nullptr);
  remember(pass, *into.back().loop, container);
}

/// Makes `loop` run in blocks: it is bounded to [%block, %block + length), and the loop over blocks is returned.
/// Sums of blocks are then added up, which keeps rounding errors small (cascade summation).
std::unique_ptr<Loop> CpuNest::block_loop(const Span& span, int64_t length, Span& block, Builder builder) {
  auto blocks = std::make_unique<Loop>();
  blocks->var = kernel_.add_value(DType::i64);
  blocks->end = extents_.of(span.size);
  blocks->begin_value = span.begin;
  blocks->end_value = span.end;
  blocks->step = length;
  Affine next;
  next.add(1, blocks->var);
  next.offset = Extent(length);
  Builder inside(kernel_, blocks->body);
  const ValueId limit = span.end != none ? span.end : extents_.value(builder, span.size);
  block = {blocks->var, inside.compute(Op::minimum, {inside.affine(next), limit}), span.size};
  return blocks;
}

/// Wraps `body` into the loops over reduced axes, innermost first, handing partial results outwards. `outermost`,
/// if given, bounds the first of them.
void CpuNest::emit_reduced_loops(std::vector<Reduction> reductions, Block body, Block& into,
                                 const Span* outermost) {
  // Longer sums are added up in blocks first, for accuracy (cascade summation).
  constexpr int64_t longest_sum = 1 << 14, block = 1 << 12;
  const size_t depth = nest_.reduced.size();
  for (size_t k = depth; k-- > 0;) {
    const LoopAxis& axis = nest_.reduced[k];
    Builder outside(kernel_, into);
    Span span = k == 0 && outermost ? *outermost : whole_span(k, outside);
    std::unique_ptr<Loop> blocks;
    const bool lanes = k + 1 == depth && nest_.form == LoopNest::Form::rows;
    if (lanes && !reductions.empty() && !facts_.decide.at_most(axis.size, longest_sum))
      blocks = block_loop(span, block, span, outside);
    auto loop = std::make_unique<Loop>();
    loop->var = leaf_value_[axis.innermost()].affine.terms[0].value;
    loop->end = extents_.of(axis.size);
    loop->begin_value = span.begin;
    loop->end_value = span.end;
    loop->schedule.vector = lanes;
    if (lanes) loop->schedule.unroll = unroll_for(body.size());
    Stmt stmt = wrap(std::move(loop), std::exchange(body, {}), reductions);
    if (blocks) {
      Block one;
      one.push_back(std::move(stmt));
      stmt = wrap(std::move(blocks), std::move(one), reductions);
    }
    (k == 0 ? into : body).push_back(std::move(stmt));
  }
}

}  // namespace braze::loops
