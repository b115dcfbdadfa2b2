// loops/schedule/cpu/points.cpp: kernels without reductions: a loop over rows, in it one over lanes.
//
//   cut      Lanes that a pad answers in one way run in a loop of their own: borders need no loads, the inside no
//            masks.
//   staged   Rows that are no whole vectors, one behind another in a large output, are put together in the nearest
//            cache and go on from there in aligned vectors past the cache.
//   blocked  Short runs that the output has in another order than the input are moved in blocks of rows, so that
//            both sides go on for a while where they are.
#include <algorithm>
#include <numeric>

#include "loops/schedule/cpu/schedule.h"
#include "support/error.h"

namespace braze::loops {

using ir::Node;
using ir::Op;
using ir::OpKind;
using ir::Value;

namespace {

void push(Block& block, std::unique_ptr<Loop> loop) {
  Stmt stmt{};
  stmt.kind = StmtKind::loop;
  stmt.loop = std::move(loop);
  block.push_back(std::move(stmt));
}

}  // namespace

void CpuNest::build_points() {
  if (const size_t along = crosswise_axis(target_.line_elements()); along < nest_.outer.size())
    return build_tiled(along);
  if (!nest_.outer.empty()) {
    if (const int64_t rows = staged_rows(); rows > 0) return build_staged(rows);
    if (const size_t across = blocked_axis(); across < nest_.outer.size()) return build_blocked(across);
    return build_rows();
  }
  auto loop = std::make_unique<Loop>();
  blocks_[0] = &loop->body;
  loop->var = kernel_.add_value(DType::i64);
  loop->end = nest_.has_lane ? extents_.of(nest_.lane.size) : Extent(1);
  if (nest_.has_lane) {
    leaf_value_[nest_.lane.innermost()].affine.add(1, loop->var);
    loop->schedule.parallel = loop->schedule.vector = true;
    loop->schedule.grain =
        (grain(1) + limits_.points_multiple - 1) / limits_.points_multiple * limits_.points_multiple;
  }
  store_all(0, false);
  if (nest_.has_lane) loop->schedule.unroll = unroll_for(loop->body.size());
  push(kernel_.body, std::move(loop));
}

void CpuNest::build_rows() {
  auto top = std::make_unique<Loop>();
  blocks_[0] = &top->body;
  top->end = extents_.of(nest_.outer_size());
  top->schedule.parallel = true;
  top->schedule.grain = grain(hint(nest_.lane.size));
  open_outer(*top);
  emit_lanes(top->body);
  push(kernel_.body, std::move(top));
}

/// Where along the lanes the answers of a pad change.
std::vector<Size> CpuNest::lane_cuts() const {
  constexpr size_t most = 4;                            // each cut is one more copy of the loop
  const int64_t least_lanes = target_.line_elements();  // fewer are one vector under a mask
  std::vector<Size> cuts;
  if (hint(nest_.lane.size) < least_lanes || nest_.lane.leaves.size() != 1) return cuts;
  const AxisId lane = leaves_.axes[nest_.lane.innermost()];
  for (const Node* node : group_.nodes) {
    if (node->op != Op::pad) continue;
    const Label& label = *group_.find(&node->results[0]);
    for (size_t k = 0; k < label.size(); ++k) {
      const AxisList axes = group_.space.leaves(label[k]);
      if (axes.size() != 1 || axes[0] != lane) continue;
      const Size low = node->sizes_attr("low")[k];
      for (const Size cut : {low, low + node->operands[0]->type->sizes.symbolic()[k]})
        if (rules().less(0, cut) && rules().less(cut, nest_.lane.size)) cuts.push_back(cut);
    }
  }
  std::ranges::sort(cuts, {}, [&](Size cut) { return hint(cut); });
  cuts.erase(std::ranges::unique(cuts).begin(), cuts.end());
  const auto falls = [&](Size a, Size b) { return !rules().at_most(a, b); };
  if (cuts.size() > most || std::ranges::adjacent_find(cuts, falls) != cuts.end()) cuts.clear();
  return cuts;
}

int CpuNest::known_answer(const Index& index, Op op, Size bound) const {
  const Affine& at = index.affine;
  if (!lanes_ || at.terms.size() != 1 || at.terms[0].value != lanes_->variable) return -1;
  if (!(at.terms[0].factor == Extent(1))) return -1;
  const Size offset = extents_.size(at.offset);
  const Size first = lanes_->begin + offset, last = lanes_->end - 1 + offset;
  const bool above = rules().at_least(first, bound), below = rules().less(last, bound);
  if (!above && !below) return -1;
  return above == (op == Op::ge) ? 1 : 0;
}

/// The loops over lanes of a row whose other indices are known.
void CpuNest::emit_lanes(Block& into) {
  lane_level_ = 1;
  std::vector<Size> ends = lane_cuts();
  ends.push_back(nest_.lane.size);
  const size_t known = memo_.size();
  Size begin = 0;
  for (const Size end : ends) {
    // What is known for some lanes holds for no others, not even where it is a number.
    memo_.erase(memo_.begin() + static_cast<int64_t>(known), memo_.end());
    auto loop = std::make_unique<Loop>();
    loop->var = kernel_.add_value(DType::i64);
    loop->begin = extents_.of(begin);
    loop->end = extents_.of(end);
    loop->schedule.vector = true;
    blocks_[1] = &loop->body;
    Index& lane = leaf_value_[nest_.lane.innermost()];
    lane = {};
    lane.affine.add(1, loop->var);
    lane.level = 1;
    const Lanes lanes{begin, end, loop->var};
    lanes_ = &lanes;
    store_all(0, false);
    lanes_ = nullptr;
    loop->schedule.unroll = unroll_for(loop->body.size());
    push(into, std::move(loop));
    begin = end;
  }
}

// ---- staged

void CpuNest::store(const Value* result, Scalar value, bool full) {
  if (!stage_) return NestBuilder::store(result, value, full);
  Affine place = stage_->row;
  for (const Affine::Term& term : leaf_value_[nest_.lane.innermost()].affine.terms)
    place.add(term.factor, term.value);
  at(lane_level_).store(stage_->buffer, place, value.id);
}

/// So many rows are put together before they are stored; 0: rows can be stored as they are.
int64_t CpuNest::staged_rows() const {
  // In the nearest cache, beside what is read.
  const int64_t stage_bytes = target_.near_cache / 12, most_bytes = target_.near_cache / 3;
  const int64_t line = target_.cache_line;
  const AccessPattern* store = nullptr;
  for (const AccessPattern& access : accesses_) {
    if (!access.is_store) continue;
    if (store) return 0;
    store = &access;
  }
  if (!store || !nest_.has_lane || !nest_.lane.size.is_constant() || facts_.windows.alignment(store->base) < line)
    return 0;
  const int64_t element = ir::byte_size(store->base->type->dtype), row = nest_.lane.size.constant() * element;
  if (facts_.elements(store->base) * element < target_.last_cache || row % line == 0) return 0;
  Size stride = 1;
  const auto follows = [&](const LoopAxis& axis) {
    const bool is_next = rules().equal(store->strides[axis.innermost()], stride);
    stride = stride * axis.size;
    return is_next;
  };
  if (!follows(nest_.lane)) return 0;
  for (size_t k = nest_.outer.size(); k-- > 0;)
    if (!follows(nest_.outer[k])) return 0;
  const int64_t whole = line / std::gcd(line, row);  // rows that end with a line
  if (whole * row > most_bytes) return 0;
  return whole * std::max<int64_t>(1, stage_bytes / (whole * row));
}

void CpuNest::build_staged(int64_t rows) {
  const Size all = nest_.outer_size();
  const int64_t lanes = nest_.lane.size.constant();
  const auto store = std::ranges::find_if(accesses_, [](const AccessPattern& access) { return access.is_store; });
  auto top = std::make_unique<Loop>();
  top->var = kernel_.add_value(DType::i64);
  top->end = extents_.of(ceil_div(all, rows));
  top->schedule.parallel = true;
  top->schedule.grain = grain(rows * lanes);
  Builder outside(kernel_, top->body);
  Affine first_row, next_row;
  first_row.add(rows, top->var);
  next_row = first_row;
  next_row.offset = Extent(rows);
  const ValueId begin = outside.affine(first_row);
  ValueId end = outside.affine(next_row);
  if (mod(all, rows) != 0) end = outside.compute(Op::minimum, {end, extents_.value(outside, all)});
  Stage stage{outside.alloc("stage", store->base->type->dtype, Extent(rows * lanes)), {}};

  auto row = std::make_unique<Loop>();
  row->begin_value = begin;
  row->end_value = end;
  blocks_[0] = &row->body;
  open_outer(*row);
  stage.row.add(lanes, row->var);
  stage.row.add(-lanes, begin);
  stage_ = &stage;
  emit_lanes(row->body);
  stage_ = nullptr;
  push(top->body, std::move(row));

  Builder behind(kernel_, top->body);
  auto flush = std::make_unique<Loop>();
  flush->var = kernel_.add_value(DType::i64);
  flush->end = Extent(rows * lanes);
  if (mod(all, rows) != 0) {
    Affine length;
    length.add(lanes, end);
    length.add(-lanes, begin);
    flush->end_value = behind.affine(length);
  }
  flush->schedule.vector = true;
  flush->schedule.unroll = 4;
  Builder body(kernel_, flush->body);
  Affine from, to;
  from.add(1, flush->var);
  to.add(rows * lanes, top->var);
  to.add(1, flush->var);
  body.store(buffer_of(store->base, Access::out), to, body.load(stage.buffer, from), none, true);
  push(top->body, std::move(flush));
  push(kernel_.body, std::move(top));
}

// ---- blocked

/// The outer axis that the input has next to the lanes, where the output has another one there; outer.size() if
/// none.
size_t CpuNest::blocked_axis() const {
  const size_t no_axis = nest_.outer.size();
  if (no_axis < 2 || !nest_.has_lane || !nest_.lane.size.is_constant() ||
      hint(nest_.outer.back().size) < 2 * limits_.least_block_rows || !lane_cuts().empty())
    return no_axis;
  const AccessPattern *load = nullptr, *store = nullptr;
  for (const AccessPattern& access : accesses_) {
    const AccessPattern*& heaviest = access.is_store ? store : load;
    if (access.base && (!heaviest || access.weight > heaviest->weight)) heaviest = &access;
  }
  if (!load || !store || load->weight < target_.second_cache) return no_axis;
  const int64_t lanes = nest_.lane.size.constant();
  const auto runs = [&](const AccessPattern& access, const LoopAxis& next) {
    return access.strides[nest_.lane.innermost()] == 1 && access.strides[next.innermost()] == lanes;
  };
  if (lanes * ir::byte_size(load->base->type->dtype) > limits_.run_bytes || !runs(*store, nest_.outer.back()))
    return no_axis;
  for (size_t k = 0; k + 1 < no_axis; ++k)
    if (hint(nest_.outer[k].size) >= limits_.least_block_rows && runs(*load, nest_.outer[k])) return k;
  return no_axis;
}

/// for blocks of the innermost axis: for the axis `across`: for one block: lanes
void CpuNest::build_blocked(size_t across_index) {
  const int64_t length = limits_.block_rows;
  const LoopAxis across = nest_.outer[across_index], along = nest_.outer.back();
  nest_.outer.pop_back();
  nest_.outer.erase(nest_.outer.begin() + static_cast<int64_t>(across_index));
  nest_.outer.push_back({along.leaves, ceil_div(along.size, length)});
  auto top = std::make_unique<Loop>();
  blocks_[0] = &top->body;
  top->end = extents_.of(nest_.outer_size());
  top->schedule.parallel = true;
  top->schedule.grain = grain(length * hint(across.size * nest_.lane.size));
  open_outer(*top);
  Builder outside(kernel_, top->body);
  const Affine begin = extents_.scaled(length, leaf_value_[along.innermost()].affine);
  Affine next = begin;
  next.offset = Extent(length);
  auto inner = std::make_unique<Loop>();
  inner->var = kernel_.add_value(DType::i64);
  inner->begin_value = outside.affine(begin);
  inner->end_value = outside.affine(next);
  if (mod(along.size, length) != 0)
    inner->end_value = outside.compute(Op::minimum, {inner->end_value, extents_.value(outside, along.size)});
  auto middle = std::make_unique<Loop>();
  middle->var = kernel_.add_value(DType::i64);
  middle->end = extents_.of(across.size);
  for (const auto& [axis, var] : {std::pair(&across, middle->var), std::pair(&along, inner->var)}) {
    Index& index = leaf_value_[axis->innermost()];
    index = {};
    index.affine.add(1, var);
  }
  blocks_[0] = &inner->body;
  emit_lanes(inner->body);
  push(middle->body, std::move(inner));
  push(top->body, std::move(middle));
  push(kernel_.body, std::move(top));
}

}  // namespace braze::loops
