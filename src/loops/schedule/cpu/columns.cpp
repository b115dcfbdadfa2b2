// loops/schedule/cpu/columns.cpp: reductions along axes that are not contiguous: sums of columns, softmax along the
// first dimension.
//
// Rows are read in the order in which they lie in memory; the lanes of a strip accumulate in a local buffer:
//
//   for %strip parallel {
//     alloc %acc[512]
//     for %lane vector { store %acc[%lane], 0 }
//     for %r { for %lane vector { store %acc[%lane], %acc[%lane] + %x[%r, %lane] } }
//     for %lane vector { store %y[%lane], %acc[%lane] }
//   }
//
// Values of the lanes alone that a pass over the rows needs are computed before it, once a strip.
#include <algorithm>
#include <limits>
#include <utility>

#include "loops/schedule/cpu/schedule.h"
#include "support/error.h"

namespace braze::loops {

using ir::Node;
using ir::Op;
using ir::OpKind;
using ir::Value;

namespace {

constexpr int64_t block_rows = 128;  ///< Added up by themselves first, for accuracy (cascade summation).

Op joining(Combine combine) {
  switch (combine) {
    case Combine::sum: return Op::add;
    case Combine::prod: return Op::mul;
    case Combine::max: return Op::maximum;
    case Combine::min: return Op::minimum;
    case Combine::any: return Op::bitwise_or;
    case Combine::all: return Op::bitwise_and;
    default: break;
  }
  BRAZE_CHECK(false, "this reduction does not join elements by one op");
  return Op::add;
}

int64_t lowest(DType type) {
  switch (type) {
    case DType::i32: return std::numeric_limits<int32_t>::min();
    case DType::i16: return std::numeric_limits<int16_t>::min();
    case DType::i8: return std::numeric_limits<int8_t>::min();
    case DType::u8:
    case DType::b8: return 0;
    default: return std::numeric_limits<int64_t>::min();
  }
}

int64_t highest(DType type) {
  if (type == DType::u8) return std::numeric_limits<uint8_t>::max();
  if (type == DType::b8) return 1;
  return -(lowest(type) + 1);
}

}  // namespace

ValueId CpuNest::identity(Combine combine, DType type, bool index) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  Builder builder = at(1);
  if (index) return builder.constant(DType::i64, Number::of_int(highest(DType::i64)));
  const bool floating = ir::is_floating(type);
  switch (combine) {
    case Combine::max:
    case Combine::argmax:
      return builder.constant(type, floating ? Number::of(-infinity) : Number::of_int(lowest(type)));
    case Combine::min:
    case Combine::argmin:
      return builder.constant(type, floating ? Number::of(infinity) : Number::of_int(highest(type)));
    case Combine::prod:
    case Combine::all: return builder.constant(type, floating ? Number::of(1) : Number::of_int(1));
    default: return builder.constant(type, floating ? Number::of(0) : Number::of_int(0));
  }
}

Affine CpuNest::place_in_strip() {
  Affine index;
  index.add(1, leaf_value_[nest_.lane.innermost()].affine.terms[0].value);
  if (strip_->end != none) index.add(-1, strip_->begin);
  return index;
}

/// A lane loop over the strip; values are now evaluated in `body`, which the caller moves into the loop when it is
/// full.
std::unique_ptr<Loop> CpuNest::open_strip(Block& body, int level) {
  auto loop = std::make_unique<Loop>();
  loop->var = kernel_.add_value(DType::i64);
  if (strip_->end == none) {
    loop->end = extents_.of(strip_->begin == none ? nest_.lane.size : strip_->length);
  } else {
    loop->end = extents_.of(nest_.lane.size);
    loop->begin_value = strip_->begin;
    loop->end_value = strip_->end;
  }
  loop->schedule.vector = true;
  blocks_[static_cast<size_t>(level)] = &body;
  strip_->level = level;
  Index& lane = leaf_value_[nest_.lane.innermost()];
  lane = {};
  lane.affine.add(1, loop->var);
  if (strip_->end == none && strip_->begin != none) lane.affine.add(1, strip_->begin);
  lane.level = level;
  std::erase_if(memo_, [level](const Memo& memo) { return memo.scalar.level == level; });
  return loop;
}

namespace {

void close_strip(std::unique_ptr<Loop> loop, Block body, Block& into) {
  if (body.empty()) return;
  loop->body = std::move(body);
  Stmt stmt{};
  stmt.kind = StmtKind::loop;
  stmt.loop = std::move(loop);
  into.push_back(std::move(stmt));
}

}  // namespace

/// The strip's buffers of a value of the lanes alone: one, or for a reduction one for each part of its state.
std::vector<BufferId>& CpuNest::strip_buffers(const Value* value, bool& fresh) {
  fresh = false;
  for (Strip::Kept& kept : strip_->kept)
    if (kept.value == value) return kept.buffers;
  fresh = true;
  strip_->kept.push_back({value, {}});
  std::vector<BufferId>& buffers = strip_->kept.back().buffers;
  const Node* node = value->def;
  const bool reduction = ir::info(node->op).kind == OpKind::Reduction;
  const DType type = ir::compute_dtype((reduction ? node->operands[0] : value)->type->dtype);
  const std::string name = concat("lanes", value->id);
  buffers.push_back(at(0).alloc(name, type, Extent(strip_->room)));
  if (reduction && with_index(combine_of(node->op)))
    buffers.push_back(at(0).alloc(name + "i", DType::i64, Extent(strip_->room)));
  return buffers;
}

NestBuilder::Scalar CpuNest::member(const Value* value) {
  return strip_ && !runs_over_reduced(*group_.find(value)) ? strip_member(value) : NestBuilder::member(value);
}

/// A value of the lanes alone. In a pass it comes from the strip's buffers, filled before the pass if need be.
NestBuilder::Scalar CpuNest::strip_member(const Value* value) {
  const int level = strip_->level;
  for (const Memo& memo : memo_)
    if (memo.value == value && memo.place.empty() && (memo.scalar.level == level || memo.scalar.level == 0))
      return memo.scalar;
  const bool reduction = ir::info(value->def->op).kind == OpKind::Reduction;
  Scalar result;
  if (level == 1 && !reduction) {
    result = compute_member(value->def);
  } else {
    bool fresh = false;
    const BufferId buffer = strip_buffers(value, fresh).back();
    if (fresh) {
      BRAZE_CHECK(!reduction && strip_->prologue, "a reduction is read before its pass has run");
      const Index lane = leaf_value_[nest_.lane.innermost()];
      leaf_value_[nest_.lane.innermost()] = strip_->prologue_lane;
      strip_->level = 1;
      const Scalar computed = strip_member(value);
      at(1).store(buffer, place_in_strip(), computed.id);
      strip_->level = level;
      leaf_value_[nest_.lane.innermost()] = lane;
    }
    result = {at(level).load(buffer, place_in_strip()), level};
  }
  memo_.push_back({value, {}, result});
  return result;
}

/// Rounding errors grow with the number of rows added one after the other.
bool CpuNest::adds_in_blocks(const Node* node) const {
  const bool floating = ir::is_floating(node->operands[0]->type->dtype);
  return node->op == Op::sum && floating && !rules().at_most(nest_.reduced_size(), block_rows);
}

/// Joins one element of a reduction's operand into its accumulators.
void CpuNest::accumulate(const Node* node, bool in_blocks) {
  const Combine combine = combine_of(node->op);
  const Label& label = *group_.find_reduced(node);
  const ValueId value = read(node->operands[0], label).id;
  bool fresh = false;
  const std::vector<BufferId> buffers = strip_buffers(&node->results[0], fresh);
  Builder builder = at(2);
  const Affine place = place_in_strip();
  BufferId into = buffers[0];
  if (in_blocks && adds_in_blocks(node)) {
    for (const auto& [whole, block] : strip_->blocks)
      if (whole == buffers[0]) into = block;
  }
  const ValueId best = builder.load(into, place);
  if (!with_index(combine)) {
    builder.store(into, place, builder.compute(joining(combine), {best, value}));
    return;
  }
  const ValueId index = builder.affine(place_in_reduced(node).affine), best_index = builder.load(buffers[1], place);
  // NaN counts as extreme; among equals the first wins, whatever the order of the loops.
  ValueId better = builder.compute(combine == Combine::argmax ? Op::gt : Op::lt, {value, best});
  ValueId equal = builder.compute(Op::eq, {value, best});
  if (ir::is_floating(kernel_.types[value])) {
    const ValueId nan = builder.compute(Op::isnan, {value}), best_nan = builder.compute(Op::isnan, {best});
    const ValueId first_nan = builder.compute(Op::bitwise_and, {nan, builder.compute(Op::logical_not, {best_nan})});
    better = builder.compute(Op::bitwise_or, {better, first_nan});
    equal = builder.compute(Op::bitwise_or, {equal, builder.compute(Op::bitwise_and, {nan, best_nan})});
  }
  const ValueId earlier = builder.compute(Op::lt, {index, best_index});
  const ValueId taken =
      builder.compute(Op::bitwise_or, {better, builder.compute(Op::bitwise_and, {equal, earlier})});
  builder.store(buffers[0], place, builder.compute(Op::where, {taken, value, best}));
  builder.store(buffers[1], place, builder.compute(Op::where, {taken, index, best_index}));
}

void CpuNest::run_strip_pass(int pass) {
  std::vector<const Node*> nodes;
  for (const Node* node : group_.nodes)
    if (ir::info(node->op).kind == OpKind::Reduction && depth_of(&node->results[0]) - 1 == pass)
      nodes.push_back(node);
  Block& top = *blocks_[0];

  // Before the rows: accumulators begin at their identity; values of the lanes are added as the rows ask for them.
  Block before;
  auto before_loop = open_strip(before, 1);
  strip_->prologue = &before;
  strip_->prologue_lane = leaf_value_[nest_.lane.innermost()];
  for (const Node* node : nodes) {
    bool fresh = false;
    const std::vector<BufferId> buffers = strip_buffers(&node->results[0], fresh);
    for (size_t k = 0; k < buffers.size(); ++k) {
      const DType type = kernel_.buffers[buffers[k]].dtype;
      at(1).store(buffers[k], place_in_strip(), identity(combine_of(node->op), type, k == 1));
    }
  }

  const bool in_blocks =
      std::any_of(nodes.begin(), nodes.end(), [&](const Node* node) { return adds_in_blocks(node); });
  strip_->blocks.clear();
  for (const Node* node : nodes) {
    if (!adds_in_blocks(node)) continue;
    bool fresh = false;
    const BufferId whole = strip_buffers(&node->results[0], fresh)[0];
    const DType type = kernel_.buffers[whole].dtype;
    const BufferId block = at(0).alloc(concat("block", node->results[0].id), type, Extent(strip_->room));
    strip_->blocks.push_back({whole, block});
  }

  Block body;
  auto lane_loop = open_strip(body, 2);
  number_reduced();
  for (const Node* node : nodes) accumulate(node, in_blocks);
  store_all(pass, false);
  strip_->prologue = nullptr;
  lane_loop->schedule.unroll = unroll_for(body.size());
  Block rows;
  close_strip(std::move(lane_loop), std::move(body), rows);
  close_strip(std::move(before_loop), std::move(before), top);
  blocks_[1] = blocks_[2] = nullptr;
  if (rows.empty()) return;
  if (!in_blocks) return emit_reduced_loops({}, std::move(rows), top, nullptr);
  Builder outside(kernel_, top);
  int64_t below = 1;
  for (size_t k = 1; k < nest_.reduced.size(); ++k) below *= hint(nest_.reduced[k].size);
  Span block;
  auto blocks = block_loop(whole_span(0, outside), std::max<int64_t>(1, block_rows / std::max<int64_t>(1, below)),
                           block, outside);
  const auto for_lanes = [&](auto&& fill) {
    Block lanes;
    auto loop = open_strip(lanes, 1);
    for (const auto& [whole, part] : strip_->blocks) fill(whole, part);
    close_strip(std::move(loop), std::move(lanes), blocks->body);
    blocks_[1] = nullptr;
  };
  for_lanes([&](BufferId, BufferId part) {
    at(1).store(part, place_in_strip(), identity(Combine::sum, kernel_.buffers[part].dtype, false));
  });
  emit_reduced_loops({}, std::move(rows), blocks->body, &block);
  for_lanes([&](BufferId whole, BufferId part) {
    Builder builder = at(1);
    const Affine place = place_in_strip();
    const ValueId sum = builder.compute(Op::add, {builder.load(whole, place), builder.load(part, place)});
    builder.store(whole, place, sum);
  });
  Block inside = std::exchange(blocks->body, {});
  close_strip(std::move(blocks), std::move(inside), top);
}

/// About `wanted` lanes a strip. Where strips of whole lines can all be of one length, the loops over them have
/// one, too, and no rest.
static int64_t even_strip(int64_t all, int64_t wanted, int64_t line) {
  if (all <= wanted) return all;
  for (int64_t length = wanted; length <= 2 * wanted; length += line)
    if (all % length == 0) return length;
  for (int64_t length = wanted - line; 2 * length > wanted; length -= line)
    if (all % length == 0) return length;
  return wanted;
}

void CpuNest::build_strips() {
  Strip strip;
  strip_ = &strip;
  const Size all = nest_.lane.size;
  const int64_t outer = std::max<int64_t>(1, hint(nest_.outer_size())) * chunks_, line = target_.line_elements();
  const Size share = floor_div(all, std::max<int64_t>(1, limits_.wanted_strips / outer));
  strip.length = min(max(ceil_div(share, line) * line, limits_.shortest_strip), limits_.longest_strip);
  if (all.is_constant()) strip.length = even_strip(all.constant(), strip.length.constant(), line);
  strip.room = strip.length.is_constant() ? strip.length.constant() : limits_.longest_strip;
  strip.count = ceil_div(all, strip.length);

  Stmt top{};
  top.kind = StmtKind::loop;
  top.loop = std::make_unique<Loop>();
  Loop& loop = *top.loop;
  blocks_[0] = &loop.body;
  loop.end = extents_.of(nest_.outer_size() * strip.count * chunks_);
  loop.schedule.parallel = true;
  loop.schedule.grain = grain(hint(nest_.reduced_size()) / chunks_ * passes_ * hint(strip.length));
  open_outer(loop);
  if (strip.count != 1) {
    Affine begin = extents_.scaled(strip.length, strip.number.affine);
    Builder builder(kernel_, loop.body);
    strip.begin = builder.affine(begin);
    begin.offset = extents_.of(strip.length);
    const bool is_even = all.is_constant() && all.constant() % strip.length.constant() == 0;
    if (!is_even) strip.end = builder.compute(Op::minimum, {builder.affine(begin), extents_.value(builder, all)});
  }
  for (int pass = 0; pass < passes_; ++pass) run_strip_pass(pass);

  Block after;
  auto after_loop = open_strip(after, 1);
  lane_level_ = 1;
  for (const Partial& partial : partials_) {
    std::vector<ValueId> results;
    bool fresh = false;
    for (BufferId buffer : strip_buffers(&partial.node->results[0], fresh))
      results.push_back(at(1).load(buffer, place_in_strip()));
    store_partials(1, partial, results);
  }
  if (partials_.empty()) store_all(passes_, true);
  close_strip(std::move(after_loop), std::move(after), loop.body);
  blocks_[1] = nullptr;
  strip_ = nullptr;
  kernel_.body.push_back(std::move(top));
}

}  // namespace braze::loops
