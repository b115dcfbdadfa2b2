// loops/nest.cpp: the loops of a kernel, and which values each pass over the reduced axes computes.
#include "loops/nest.h"

#include <algorithm>
#include <utility>

#include "loops/cost.h"
#include "loops/nest_builder.h"
#include "support/error.h"

namespace braze::loops {

using ir::Node;
using ir::Op;
using ir::OpKind;
using ir::Value;

namespace {

/// Renumbers the buffers that a block names.
void rename_buffers(Block& block, const std::vector<BufferId>& to) {
  for (Stmt& stmt : block) {
    if (stmt.buffer != none) stmt.buffer = to[stmt.buffer];
    for (BufferId& source : stmt.sources) source = to[source];
    if (stmt.loop) rename_buffers(stmt.loop->body, to);
    rename_buffers(stmt.body, to);
  }
}

/// Row buffers were made when first needed; a kernel lists its parameters before them.
void parameters_first(Kernel& kernel) {
  std::vector<BufferId> to(kernel.buffers.size());
  std::vector<Buffer> sorted;
  for (const bool parameter : {true, false})
    for (size_t k = 0; k < kernel.buffers.size(); ++k) {
      if (kernel.buffers[k].is_parameter != parameter) continue;
      to[k] = static_cast<BufferId>(sorted.size());
      sorted.push_back(std::move(kernel.buffers[k]));
    }
  kernel.buffers = std::move(sorted);
  rename_buffers(kernel.body, to);
}

}  // namespace

NestBuilder::NestBuilder(const Group& group, const Facts& facts)
    : group_(group),
      facts_(facts),
      target_(facts.target),
      limits_(facts.target.cpu),
      draft_{std::make_unique<Kernel>(), {}, {}, 0, 0},
      kernel_(*draft_.kernel) {}

// ---- planning

bool NestBuilder::is_stored(const Value* value) const {
  if (facts_.escapes(value)) return true;
  const auto& consumers = facts_.consumers(value);
  return std::any_of(consumers.begin(), consumers.end(), [&](const Node* node) { return !group_.contains(node); });
}

std::vector<int64_t> NestBuilder::strides_of(const Value* stored) const {
  return store_strides_.empty() ? facts_.windows.storage(stored) : store_strides_;
}

void NestBuilder::number_leaves() {
  reduced_ = group_.reduced_axes();
  auto add = [&](const Label& label) {
    for (const AxisList& list : label)
      for (AxisId axis : group_.space.leaves(list)) {
        if (std::find(leaves_.axes.begin(), leaves_.axes.end(), axis) != leaves_.axes.end()) continue;
        leaves_.axes.push_back(axis);
        leaves_.sizes.push_back(group_.space.size(axis));
        leaves_.reduced.push_back(std::binary_search(reduced_.begin(), reduced_.end(), axis));
        leaves_.individual.push_back(false);
      }
  };
  for (const Node* node : group_.nodes) {
    if (const Label* label = group_.find_reduced(node)) add(*label);
    add(*group_.find(&node->results[0]));
  }
  leaf_value_.resize(leaves_.axes.size());
}

bool NestBuilder::runs_over_reduced(const Label& label) const {
  for (AxisId axis : group_.space.axes_of(label))
    if (std::binary_search(reduced_.begin(), reduced_.end(), axis)) return true;
  return false;
}

/// In which pass a value can first be computed: after all reductions that it needs.
int NestBuilder::depth_of(const Value* value) {
  const Value* base = facts_.windows.base(value);
  const Node* node = base->def;
  if (facts_.is_free(value) || !group_.contains(node)) return 0;
  for (const auto& [known, depth] : depths_)
    if (known == base) return depth;
  int depth = 0;
  for (const Value* operand : node->operands) depth = std::max(depth, depth_of(operand));
  if (ir::info(node->op).kind == OpKind::Reduction) ++depth;
  depths_.push_back({base, depth});
  return depth;
}

void NestBuilder::plan_passes() {
  passes_ = 0;
  for (const Node* node : group_.nodes) {
    const Value* result = &node->results[0];
    const int depth = depth_of(result);
    if (ir::info(node->op).kind == OpKind::Reduction)
      passes_ = std::max(passes_, depth);
    else if (is_stored(result) && runs_over_reduced(*group_.find(result)))
      passes_ = std::max(passes_, depth + 1);
    work_ += ir::info(node->op).kind == OpKind::Gather ? limits_.gather : vector_instructions(node->op);
  }
}

/// What it costs to compute a value of the reduced axes again, in quarters of a load.
int NestBuilder::recompute_cost(const Value* value) const {
  constexpr int load = 4, cheap = 1, costly = 16;
  const Value* base = facts_.windows.base(value);
  const Node* node = base->def;
  if (facts_.is_free(value)) return cheap;
  if (!group_.contains(node)) return load;
  if (ir::info(node->op).kind == OpKind::Reduction || !runs_over_reduced(*group_.find(base))) return 0;
  if (std::any_of(scratch_.begin(), scratch_.end(), [&](const Scratch& s) { return s.value == base; })) return load;
  if (ir::info(node->op).kind == OpKind::Gather) return load;
  int cost = ir::info(node->op).kind == OpKind::View ? 0 : is_cheap(node->op) ? cheap : costly;
  for (const Value* operand : node->operands) cost += recompute_cost(operand);
  return cost;
}

/// Marks what one pass evaluates. A costly value that an earlier pass had is kept in a row buffer from there.
void NestBuilder::mark_evaluated(const Value* value, int pass) {
  constexpr int worth_keeping = 8;  // a store and a load
  const Value* base = facts_.windows.base(value);
  const Node* node = base->def;
  if (facts_.is_free(value) || !group_.contains(node) || ir::info(node->op).kind == OpKind::Reduction) return;
  if (!runs_over_reduced(*group_.find(base))) return;
  const auto seen =
      std::find_if(first_pass_.begin(), first_pass_.end(), [&](const auto& entry) { return entry.first == base; });
  if (seen == first_pass_.end()) {
    first_pass_.push_back({base, pass});
  } else if (seen->second == pass) {
    return;
  } else if (std::any_of(scratch_.begin(), scratch_.end(), [&](const Scratch& s) { return s.value == base; })) {
    return;
  } else if (recompute_cost(base) > worth_keeping) {
    scratch_.push_back({base});
    return;
  }
  for (const Value* operand : node->operands) mark_evaluated(operand, pass);
}

void NestBuilder::plan_scratch() {
  const int64_t longest_kept = target_.second_cache / 16 / 4;  // f32; several rows of several threads lie there
  if (nest_.form != LoopNest::Form::rows || nest_.reduced_size() > longest_kept) return;
  for (int pass = 0; pass < passes_; ++pass)
    for (const Node* node : group_.nodes) {
      const Value* result = &node->results[0];
      if (ir::info(node->op).kind == OpKind::Reduction) {
        if (depth_of(result) - 1 == pass) mark_evaluated(node->operands[0], pass);
      } else if (is_stored(result) && runs_over_reduced(*group_.find(result)) && depth_of(result) == pass) {
        mark_evaluated(result, pass);
      }
    }
}

// ---- loops

int64_t NestBuilder::grain(int64_t elements) const {
  const int64_t instructions = elements * std::max(limits_.hidden, work_);
  return std::max<int64_t>(1, limits_.thread_work * limits_.hidden / std::max<int64_t>(1, instructions));
}

int32_t NestBuilder::unroll_for(size_t statements) const {
  return statements <= limits_.unroll_four ? 4 : statements <= limits_.unroll_two ? 2 : 1;
}

/// Defines the indices of the outer axes (and of the lane, if `with_lane`) from the variable of the top-level loop.
void NestBuilder::open_outer(Loop& loop) {
  loop.var = kernel_.add_value(DType::i64);
  Builder builder(kernel_, *blocks_[0]);
  Affine whole;
  whole.add(1, loop.var);
  std::vector<std::pair<int64_t, Index*>> parts;  // innermost first
  if (chunks_ > 1) parts.push_back({chunks_, &chunk_});
  if (strip_) parts.push_back({strip_->count, &strip_->number});
  for (size_t k = nest_.outer.size(); k-- > 0;)
    if (nest_.outer[k].size > 0) parts.push_back({nest_.outer[k].size, &leaf_value_[nest_.outer[k].innermost()]});
  Affine rest = whole;
  for (size_t k = 0; k < parts.size(); ++k) {
    parts[k].second->level = 0;
    if (k + 1 == parts.size()) {
      parts[k].second->affine = rest;
      break;
    }
    const ValueId value = builder.affine(rest);
    const ValueId size = builder.constant(DType::i64, Number::of_int(parts[k].first));
    parts[k].second->affine = {};
    parts[k].second->affine.add(1, builder.compute(Op::remainder, {value, size}));
    rest = {};
    rest.add(1, builder.compute(Op::floor_div, {value, size}));
  }
}

void NestBuilder::store_all(int pass, bool rows) {
  for (const Node* node : group_.nodes) {
    const Value* result = &node->results[0];
    if (!is_stored(result)) continue;
    const Label& label = *group_.find(result);
    const bool full = !reduces() || runs_over_reduced(label);
    if (full == rows || (full && reduces() && depth_of(result) != pass)) continue;
    const Scalar value = member(result);
    const std::vector<int64_t> strides = strides_of(result);
    if (stage_) {
      Affine place = stage_->row;
      for (const Affine::Term& term : leaf_value_[nest_.lane.innermost()].affine.terms)
        place.add(term.factor, term.value);
      at(lane_level_).store(stage_->buffer, place, value.id);
      continue;
    }
    const Window window{result, {result->type->sizes.begin(), result->type->sizes.end()}, strides, 0};
    int level = 0;
    const Affine index = offset_of(window, place_of(label, result->type->sizes), level);
    level = full && reduces() ? 2 : lane_level_;
    const int64_t bytes = result->type->numel() * ir::byte_size(result->type->dtype);
    const bool in_lanes = full || nest_.form == LoopNest::Form::columns;
    at(level).store(buffer_of(result, Access::out), index, value.id, none, in_lanes && bytes >= target_.last_cache);
  }
}

void NestBuilder::build_passes(int first_level) {
  lane_level_ = first_level;
  for (Scratch& scratch : scratch_) {
    const DType type = ir::compute_dtype(scratch.value->type->dtype);
    scratch.buffer = at(first_level).alloc(concat("row", scratch.value->id), type, Extent(nest_.reduced_size()));
  }
  for (int pass = 0; pass < passes_; ++pass) run_pass(pass);
  if (partials_.empty()) store_all(passes_, true);
}

void NestBuilder::run_pass(int pass) {
  std::erase_if(memo_, [](const Memo& memo) { return memo.scalar.level == 2; });
  Block body;
  blocks_[2] = &body;
  for (const LoopAxis& axis : nest_.reduced) {
    Index& index = leaf_value_[axis.innermost()];
    index = {};
    index.level = 2;
    index.affine.add(1, kernel_.add_value(DType::i64));
  }
  std::vector<Reduction> reductions;
  std::vector<const Node*> nodes;
  for (const Node* node : group_.nodes) {
    if (ir::info(node->op).kind != OpKind::Reduction || depth_of(&node->results[0]) - 1 != pass) continue;
    Reduction reduction;
    reduction.combine = combine_of(node->op);
    const Label& label = *group_.find_reduced(node);
    reduction.yielded.push_back(read(node->operands[0], label).id);
    if (with_index(reduction.combine)) {
      AxisList order;
      for (int64_t dim : node->ints_attr("dims")) {
        const AxisList& list = label[static_cast<size_t>(dim)];
        order.insert(order.end(), list.begin(), list.end());
      }
      Index index = index_of(order);
      reduction.yielded.push_back(at(2).affine(index.affine));
    }
    reductions.push_back(std::move(reduction));
    nodes.push_back(node);
  }
  store_all(pass, false);
  blocks_[2] = nullptr;
  if (body.empty() && reductions.empty()) return;
  const int container = nest_.form == LoopNest::Form::columns ? lane_level_ : 0;
  emit_reduced_loops(std::move(reductions), std::move(body), *blocks_[static_cast<size_t>(container)], nullptr);
  const Loop& done = *blocks_[static_cast<size_t>(container)]->back().loop;
  for (size_t k = 0; k < nodes.size(); ++k) {
    const std::vector<ValueId>& results = done.reductions[k].results;
    memo_.push_back({&nodes[k]->results[0], {}, {results.back(), container}});
    for (const Partial& partial : partials_)
      if (partial.node == nodes[k]) store_partials(container, partial, results);
  }
}

/// Stores at element (outer, lane, chunk) of the partial results.
void NestBuilder::store_partials(int level, const Partial& partial, const std::vector<ValueId>& results) {
  Affine index;
  int64_t factor = 1;
  auto add = [&](const Index& part) {
    for (const Affine::Term& term : part.affine.terms) index.add(factor * term.factor.constant, term.value);
  };
  add(chunk_);
  factor = chunks_;
  if (nest_.has_lane) {
    add(leaf_value_[nest_.lane.innermost()]);
    factor *= nest_.lane.size;
  }
  for (size_t j = nest_.outer.size(); j-- > 0; factor *= nest_.outer[j].size)
    add(leaf_value_[nest_.outer[j].innermost()]);
  for (size_t j = 0; j < results.size(); ++j) at(level).store(partial.buffers[j], index, results[j]);
}

/// The part of a reduced axis that this kernel runs over: all of it, or of the outermost what this chunk has.
NestBuilder::Span NestBuilder::whole_span(size_t depth, Builder builder) {
  const int64_t size = nest_.reduced[depth].size;
  if (depth > 0 || chunks_ == 1) return {none, none, size};
  const int64_t length = (size + chunks_ - 1) / chunks_;
  Affine begin, end;
  for (const Affine::Term& term : chunk_.affine.terms) {
    begin.add(length * term.factor.constant, term.value);
    end.add(length * term.factor.constant, term.value);
  }
  end.offset.constant += length;
  const ValueId limit = builder.constant(DType::i64, Number::of_int(size));
  return {builder.affine(begin), builder.compute(Op::minimum, {builder.affine(end), limit}), size};
}

/// Makes `loop` run in blocks: it is bounded to [%block, %block + length), and the loop over blocks is returned.
/// Sums of blocks are then added up, which keeps rounding errors small (cascade summation).
std::unique_ptr<Loop> NestBuilder::block_loop(const Span& span, int64_t length, Span& block, Builder builder) {
  auto blocks = std::make_unique<Loop>();
  blocks->var = kernel_.add_value(DType::i64);
  blocks->end = Extent(span.size);
  blocks->begin_value = span.begin;
  blocks->end_value = span.end;
  blocks->step = length;
  Affine next;
  next.add(1, blocks->var);
  next.offset = Extent(length);
  Builder inside(kernel_, blocks->body);
  const ValueId limit = span.end != none ? span.end : builder.constant(DType::i64, Number::of_int(span.size));
  block = {blocks->var, inside.compute(Op::minimum, {inside.affine(next), limit}), span.size};
  return blocks;
}

/// Wraps `body` into the loops over reduced axes, innermost first, handing partial results outwards. `outermost`,
/// if given, bounds the first of them.
void NestBuilder::emit_reduced_loops(std::vector<Reduction> reductions, Block body, Block& into,
                                     const Span* outermost) {
  constexpr int64_t longest_sum = 1 << 14, block = 1 << 12;
  const auto wrap = [&](std::unique_ptr<Loop> loop, Block inner) {
    for (Stmt& stmt : inner) loop->body.push_back(std::move(stmt));
    for (Reduction& reduction : reductions) {
      Reduction here;
      here.combine = reduction.combine;
      here.yielded = reduction.yielded;
      for (ValueId value : reduction.yielded) here.results.push_back(kernel_.add_value(kernel_.types[value]));
      reduction.yielded = here.results;
      loop->reductions.push_back(std::move(here));
    }
    Stmt stmt{};
    stmt.kind = StmtKind::loop;
    stmt.loop = std::move(loop);
    return stmt;
  };
  const size_t depth = nest_.reduced.size();
  for (size_t k = depth; k-- > 0;) {
    const LoopAxis& axis = nest_.reduced[k];
    Builder outside(kernel_, into);
    Span span = k == 0 && outermost ? *outermost : whole_span(k, outside);
    std::unique_ptr<Loop> blocks;
    const bool lanes = k + 1 == depth && nest_.form == LoopNest::Form::rows;
    if (lanes && !reductions.empty() && axis.size > longest_sum) blocks = block_loop(span, block, span, outside);
    auto loop = std::make_unique<Loop>();
    loop->var = leaf_value_[axis.innermost()].affine.terms[0].value;
    loop->end = Extent(axis.size);
    loop->begin_value = span.begin;
    loop->end_value = span.end;
    loop->schedule.vector = lanes;
    if (lanes) loop->schedule.unroll = unroll_for(body.size());
    Stmt stmt = wrap(std::move(loop), std::exchange(body, {}));
    if (blocks) {
      Block one;
      one.push_back(std::move(stmt));
      stmt = wrap(std::move(blocks), std::move(one));
    }
    (k == 0 ? into : body).push_back(std::move(stmt));
  }
}

void NestBuilder::build_reductions() {
  if (nest_.form == LoopNest::Form::strips) return build_strips();
  Stmt top{};
  top.kind = StmtKind::loop;
  top.loop = std::make_unique<Loop>();
  Loop& loop = *top.loop;
  blocks_[0] = &loop.body;
  const int64_t below = nest_.reduced_size() * std::max(1, passes_);
  if (nest_.form == LoopNest::Form::columns && nest_.outer.empty() && chunks_ == 1) {
    loop.var = kernel_.add_value(DType::i64);
    loop.end = Extent(nest_.lane.size);
    loop.schedule.parallel = loop.schedule.vector = true;
    loop.schedule.grain = whole_lines(grain(below), target_);
    leaf_value_[nest_.lane.innermost()].affine.add(1, loop.var);
    build_passes(0);
  } else {
    loop.end = Extent(nest_.outer_size() * chunks_);
    loop.schedule.parallel = true;
    const int64_t inner = below / chunks_ * (nest_.has_lane ? nest_.lane.size : 1);
    loop.schedule.grain = grain(inner);
    open_outer(loop);
    if (nest_.form == LoopNest::Form::columns) {
      Stmt lane{};
      lane.kind = StmtKind::loop;
      lane.loop = std::make_unique<Loop>();
      lane.loop->var = kernel_.add_value(DType::i64);
      lane.loop->end = Extent(nest_.lane.size);
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

/// Few results of much input: phase 0 reduces chunks in parallel into partial results, phase 1 joins those.
void NestBuilder::build_split() {
  const int64_t axis = nest_.reduced[0].size;
  const int64_t wanted =
      std::min({limits_.most_chunks, axis, std::max<int64_t>(1, nest_.reduced_size() / limits_.thread_work)});
  const int64_t length = (axis + wanted - 1) / wanted;
  chunks_ = (axis + length - 1) / length;
  if (chunks_ == 1) return build_reductions();
  const int64_t results = nest_.outer_size() * (nest_.has_lane ? nest_.lane.size : 1);
  for (const Node* node : group_.nodes) {
    if (ir::info(node->op).kind != OpKind::Reduction) continue;
    Partial partial{node, {}};
    const DType type = ir::compute_dtype(node->operands[0]->type->dtype);
    auto add = [&](DType dtype) {
      Buffer buffer;
      buffer.name = concat("partial", kernel_.buffers.size());
      buffer.dtype = dtype;
      buffer.access = Access::inout;
      buffer.may_alias = false;
      partial.buffers.push_back(static_cast<BufferId>(kernel_.buffers.size()));
      kernel_.buffers.push_back(std::move(buffer));
      draft_.parameters.push_back({nullptr, results * chunks_ * ir::byte_size(dtype)});
    };
    add(type);
    if (with_index(combine_of(node->op))) add(DType::i64);
    partials_.push_back(std::move(partial));
  }
  build_reductions();

  Stmt top{};
  top.kind = StmtKind::loop;
  top.loop = std::make_unique<Loop>();
  Loop& loop = *top.loop;
  loop.end = Extent(results);
  memo_.clear();
  blocks_ = {&loop.body, nullptr, nullptr};
  lane_level_ = 0;
  const int64_t chunks = std::exchange(chunks_, 1);
  if (nest_.has_lane) nest_.outer.push_back(nest_.lane);  // no lanes here: results are few
  open_outer(loop);
  Block body;
  Builder builder(kernel_, body);
  const ValueId chunk = kernel_.add_value(DType::i64);
  Affine index;
  index.add(chunks, loop.var);
  index.add(1, chunk);
  std::vector<Reduction> reductions;
  for (const Partial& partial : partials_) {
    Reduction reduction;
    reduction.combine = combine_of(partial.node->op);
    for (BufferId buffer : partial.buffers) {
      reduction.yielded.push_back(builder.load(buffer, index));
      reduction.results.push_back(kernel_.add_value(kernel_.types[reduction.yielded.back()]));
    }
    memo_.push_back({&partial.node->results[0], {}, {reduction.results.back(), 0}});
    reductions.push_back(std::move(reduction));
  }
  Stmt join{};
  join.kind = StmtKind::loop;
  join.loop = std::make_unique<Loop>();
  join.loop->var = chunk;
  join.loop->end = Extent(chunks);
  join.loop->body = std::move(body);
  join.loop->reductions = std::move(reductions);
  loop.body.push_back(std::move(join));
  store_all(0, true);
  kernel_.body.push_back(std::move(top));
}

KernelDraft NestBuilder::build() {
  number_leaves();
  collect_accesses();
  nest_ = make_nest(leaves_, accesses_, limits_);
  plan_passes();
  if (!reduces()) {
    build_points();
  } else {
    plan_scratch();
    // A reduction over dimensions of size 1 has no loop: give it one of a single step.
    if (nest_.reduced.empty()) {
      leaves_.axes.push_back(~0u);
      leaves_.sizes.push_back(1);
      leaves_.reduced.push_back(true);
      leaves_.individual.push_back(false);
      leaf_value_.emplace_back();
      nest_.reduced.push_back({{leaves_.axes.size() - 1}, 1});
      if (nest_.form == LoopNest::Form::points)
        nest_.form = nest_.has_lane ? LoopNest::Form::columns : LoopNest::Form::rows;
    }
    group_.wide ? build_split() : build_reductions();
  }
  parameters_first(kernel_);
  count_bytes();
  return std::move(draft_);
}

KernelDraft build_kernel(const Group& group, const Facts& facts) {
  return NestBuilder(group, facts).build();
}

}  // namespace braze::loops
