// loops/schedule/gpu/columns.cpp: reductions along axes that are not contiguous: neighbouring threads have
// neighbouring columns. Few rows are a thread's; of many, the warps of a block take every eighth:
//
//   for %b in 0..8 parallel bind=block {
//     alloc %warps: f32[1024] shared
//     for %w in 0..8 bind=warp { for %l in 0..32 bind=thread { for %v in 0..4 vector {
//       %s = for %r in %w..4096 step 8 reduce sum { %x = load %in[1024*%r + 128*%b + 4*%l + %v] ... }
//       store %warps[128*%w + 4*%l + %v], %s
//     } } }
//     barrier
//     for %l in 0..32 bind=thread { for %v in 0..4 vector {
//       %sum = for %w in 0..8 reduce sum { %s = load %warps[128*%w + 4*%l + %v] ... }
//       store %out[128*%b + 4*%l + %v], %sum
//
// A pass that needs what an earlier one found joins the warps' parts for itself: eight loads from shared memory.
#include <algorithm>
#include <utility>

#include "loops/schedule/gpu/schedule.h"
#include "support/error.h"

namespace braze::loops {

using ir::Node;
using ir::Op;
using ir::OpKind;
using ir::Value;

void GpuNest::build_columns() {
  hint(nest_.reduced_size()) / chunks_ <= limits_.thread_rows ? build_thread_columns() : build_block_columns();
}

void GpuNest::build_thread_columns() {
  std::vector<std::pair<Size, Index*>> parts;  // innermost first
  parts.push_back({nest_.lane.size, &leaf_value_[nest_.lane.innermost()]});
  if (chunks_ > 1) parts.push_back({chunks_, &chunk_});
  for (size_t k = nest_.outer.size(); k-- > 0;)
    parts.push_back({nest_.outer[k].size, &leaf_value_[nest_.outer[k].innermost()]});
  const auto units = open(results() * chunks_, false, std::move(parts));
  lane_level_ = 0;
  for (int number = 0; number < passes_; ++number) {
    std::erase_if(memo_, [](const Memo& memo) { return memo.scalar.level == 2; });
    number_reduced();
    Pass pass = evaluate_pass(number);
    if (pass.body.empty() && pass.reductions.empty()) continue;
    Block inner = std::move(pass.body);
    for (size_t k = nest_.reduced.size(); k-- > 0;) {
      const Span span = whole_span(k, at(0));
      auto loop = std::make_unique<Loop>();
      loop->var = leaf_value_[nest_.reduced[k].innermost()].affine.terms[0].value;
      loop->end = extents_.of(nest_.reduced[k].size);
      loop->begin_value = span.begin;
      loop->end_value = span.end;
      Stmt stmt = wrap(std::move(loop), std::exchange(inner, {}), pass.reductions);
      inner.push_back(std::move(stmt));
    }
    blocks_[0]->push_back(std::move(inner[0]));
    remember(pass, *blocks_[0]->back().loop, 0);
  }
  if (partials_.empty()) store_all(passes_, true);
  close(*units);
}

std::unique_ptr<GpuNest::Lanes> GpuNest::open_lanes() {
  std::erase_if(memo_, [](const Memo& memo) { return memo.scalar.level > 0; });
  auto lanes = std::make_unique<Lanes>();
  lanes->loop = std::make_unique<Loop>();
  lanes->loop->var = kernel_.add_value(DType::i64);
  lanes->loop->end = Extent(limits_.warp);
  lanes->loop->schedule.bind = Schedule::Bind::thread;
  column_place_ = {};
  column_place_.add(column_vector_, lanes->loop->var);
  Index& lane = leaf_value_[nest_.lane.innermost()];
  lane = {first_column_, 1};
  lane.affine.add(column_vector_, lanes->loop->var);
  // There are as many columns as whole vectors of them.
  if (!divides(limits_.warp * column_vector_, nest_.lane.size)) {
    Builder outside(kernel_, lanes->loop->body);
    const ValueId column = outside.affine(lane.affine);
    lane.affine = {};
    lane.affine.add(1, column);
    lanes->guard = outside.compute(Op::lt, {column, extents_.value(outside, nest_.lane.size)});
  }
  if (column_vector_ > 1) {
    lanes->vector = std::make_unique<Loop>();
    lanes->vector->var = kernel_.add_value(DType::i64);
    lanes->vector->end = Extent(column_vector_);
    lanes->vector->schedule.vector = true;
    lane.affine.add(1, lanes->vector->var);
    column_place_.add(1, lanes->vector->var);
  }
  blocks_[1] = &lanes->body;
  return lanes;
}

Stmt GpuNest::close_lanes(Lanes& lanes) {
  if (lanes.vector) {
    lanes.vector->body = std::move(lanes.body);
    lanes.body = Block();
    lanes.body.push_back(as_statement(std::move(lanes.vector)));
  }
  close_guarded(lanes.loop->body, lanes.guard, std::move(lanes.body));
  blocks_[1] = nullptr;
  return as_statement(std::move(lanes.loop));
}

void GpuNest::build_block_columns() {
  warps_ = limits_.block_threads / limits_.warp;
  const int64_t a_tile = limits_.warp * column_vector_;
  const Size tiles = ceil_div(nest_.lane.size, a_tile);
  Loop block;
  block.var = kernel_.add_value(DType::i64);
  block.end = extents_.of(nest_.outer_size() * chunks_ * tiles);
  block.schedule.parallel = true;
  block.schedule.bind = Schedule::Bind::block;
  blocks_[0] = &block.body;
  Index tile;
  std::vector<std::pair<Size, Index*>> parts = {{tiles, &tile}};
  if (chunks_ > 1) parts.push_back({chunks_, &chunk_});
  for (size_t k = nest_.outer.size(); k-- > 0;)
    parts.push_back({nest_.outer[k].size, &leaf_value_[nest_.outer[k].innermost()]});
  Affine number;
  number.add(1, block.var);
  split_index(number, parts);
  first_column_ = extents_.scaled(a_tile, tile.affine);
  for (int pass = 0; pass < passes_; ++pass) run_column_pass(pass);

  const auto lanes = open_lanes();
  lane_level_ = 1;
  for (const Partial& partial : partials_) {
    std::vector<ValueId> results;
    join_warps(partial.node, &results);
    store_partials(1, partial, results);
  }
  if (partials_.empty()) store_all(passes_, true);
  const bool stores = !lanes->body.empty();
  Stmt last = close_lanes(*lanes);
  if (stores) block.body.push_back(std::move(last));
  blocks_[0] = nullptr;
  warp_results_.clear();
  kernel_.body.push_back(as_statement(std::make_unique<Loop>(std::move(block))));
}

void GpuNest::run_column_pass(int number) {
  const auto lanes = open_lanes();
  auto warps = std::make_unique<Loop>();
  warps->var = kernel_.add_value(DType::i64);
  warps->end = Extent(warps_);
  warps->schedule.bind = Schedule::Bind::warp;
  number_reduced();
  Pass pass = evaluate_pass(number);
  if (pass.body.empty() && pass.reductions.empty()) {
    blocks_[1] = nullptr;
    return;
  }
  // The longest axis is the one that the warps share.
  size_t shared_out = 0;
  for (size_t k = 1; k < nest_.reduced.size(); ++k)
    if (hint(nest_.reduced[k].size) > hint(nest_.reduced[shared_out].size)) shared_out = k;
  Block inner = std::move(pass.body);
  for (size_t k = nest_.reduced.size(); k-- > 0;) {
    Span span = whole_span(k, at(0));
    auto loop = std::make_unique<Loop>();
    loop->var = leaf_value_[nest_.reduced[k].innermost()].affine.terms[0].value;
    loop->end = extents_.of(nest_.reduced[k].size);
    loop->end_value = span.end;
    if (k == shared_out) {
      Affine begin;
      begin.add(1, warps->var);
      if (span.begin != none) begin.add(1, span.begin);
      span.begin = Builder(kernel_, lanes->loop->body).affine(begin);  // the same for all columns of a lane
      loop->step = warps_;
      loop->schedule.unroll = limits_.loads_in_flight;
    }
    loop->begin_value = span.begin;
    Stmt stmt = wrap(std::move(loop), std::exchange(inner, {}), pass.reductions);
    inner.push_back(std::move(stmt));
  }
  lanes->body.push_back(std::move(inner[0]));
  const Loop& done = *lanes->body.back().loop;
  for (size_t k = 0; k < pass.nodes.size(); ++k) {
    WarpResults found{pass.nodes[k], {}};
    Affine place = column_place_;
    place.add(limits_.warp * column_vector_, warps->var);
    for (size_t part = 0; part < done.reductions[k].results.size(); ++part) {
      const ValueId result = done.reductions[k].results[part];
      const std::string name = concat("warps", pass.nodes[k]->results[0].id, part == 0 ? "" : "i");
      found.buffers.push_back(
          at(0).alloc(name, kernel_.types[result], Extent(warps_ * limits_.warp * column_vector_), Space::shared));
      at(1).store(found.buffers.back(), place, result);
    }
    warp_results_.push_back(std::move(found));
  }
  warps->body.push_back(close_lanes(*lanes));
  blocks_[0]->push_back(as_statement(std::move(warps)));
  if (pass.nodes.empty()) return;
  blocks_[0]->push_back(barrier());
}

/// The result of a reduction for the column of this lane, from what the warps found. `parts`: its whole state.
NestBuilder::Scalar GpuNest::join_warps(const Node* node, std::vector<ValueId>* parts) {
  const auto found =
      std::ranges::find_if(warp_results_, [&](const WarpResults& results) { return results.node == node; });
  BRAZE_CHECK(found != warp_results_.end(), "a reduction is read before its pass has run");
  auto loop = std::make_unique<Loop>();
  loop->var = kernel_.add_value(DType::i64);
  loop->end = Extent(warps_);
  Affine place = column_place_;
  place.add(limits_.warp * column_vector_, loop->var);
  Block body;
  Builder builder(kernel_, body);
  std::vector<Reduction> reductions(1);
  reductions[0].combine = combine_of(node->op);
  for (BufferId buffer : found->buffers) reductions[0].yielded.push_back(builder.load(buffer, place));
  blocks_[1]->push_back(wrap(std::move(loop), std::move(body), reductions));
  const std::vector<ValueId>& results = blocks_[1]->back().loop->reductions[0].results;
  if (parts) *parts = results;
  return {results.back(), 1};
}

NestBuilder::Scalar GpuNest::member(const Value* value) {
  const Node* node = value->def;
  if (warp_results_.empty() || ir::info(node->op).kind != OpKind::Reduction) return NestBuilder::member(value);
  for (const Memo& memo : memo_)
    if (memo.value == value && memo.place.empty()) return memo.scalar;
  const Scalar result = join_warps(node, nullptr);
  memo_.push_back({value, {}, result});
  return result;
}

}  // namespace braze::loops
