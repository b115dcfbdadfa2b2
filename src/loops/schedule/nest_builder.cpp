// loops/schedule/nest_builder.cpp: what a kernel stores, which pass over the reduced axes computes what, and which
// values are kept between passes.
#include "loops/schedule/nest_builder.h"

#include <algorithm>

#include "loops/cost.h"
#include "loops/schedule/cpu/schedule.h"
#include "loops/schedule/gpu/schedule.h"
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
      target_(facts.target(group.nodes[0])),
      draft_{std::make_unique<Kernel>(), {}, {}, 0, 0},
      kernel_(*draft_.kernel),
      extents_(kernel_, draft_.symbols, facts.rules()) {}

// ---- planning

bool NestBuilder::is_stored(const Value* value) const {
  if (facts_.escapes(value)) return true;
  const auto& consumers = facts_.consumers(value);
  return std::any_of(consumers.begin(), consumers.end(), [&](const Node* node) { return !group_.contains(node); });
}

Sizes NestBuilder::strides_of(const Value* stored) const {
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
    work_ += ir::info(node->op).kind == OpKind::Gather ? target_.gather : vector_instructions(node->op);
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
  if (std::any_of(kept_.begin(), kept_.end(), [&](const Kept& s) { return s.value == base; })) return load;
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
  } else if (std::any_of(kept_.begin(), kept_.end(), [&](const Kept& s) { return s.value == base; })) {
    return;
  } else if (recompute_cost(base) > worth_keeping) {
    kept_.push_back({base});
    return;
  }
  for (const Value* operand : node->operands) mark_evaluated(operand, pass);
}

void NestBuilder::plan_kept() {
  if (nest_.form != LoopNest::Form::rows || !facts_.decide.at_most(nest_.reduced_size(), longest_kept())) return;
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

// ---- passes

/// What one pass contributes: its reductions' operands and its stores, as the body of the loops over reduced axes,
/// whose indices the caller has set.
NestBuilder::Pass NestBuilder::evaluate_pass(int number) {
  Pass pass;
  pass_ = number;
  blocks_[2] = &pass.body;
  for (const Node* node : group_.nodes) {
    if (ir::info(node->op).kind != OpKind::Reduction || depth_of(&node->results[0]) - 1 != number) continue;
    Reduction reduction;
    reduction.combine = combine_of(node->op);
    const Label& label = *group_.find_reduced(node);
    reduction.yielded.push_back(read(node->operands[0], label).id);
    if (with_index(reduction.combine)) reduction.yielded.push_back(at(2).affine(place_in_reduced(node).affine));
    pass.reductions.push_back(std::move(reduction));
    pass.nodes.push_back(node);
  }
  store_all(number, false);
  blocks_[2] = nullptr;
  return pass;
}

/// The place of an element among those that `reduction` joins, in the order of its dimensions.
NestBuilder::Index NestBuilder::place_in_reduced(const Node* reduction) {
  const Label& label = *group_.find_reduced(reduction);
  AxisList order;
  for (int64_t dim : reduction->ints_attr("dims")) {
    const AxisList& list = label[static_cast<size_t>(dim)];
    order.insert(order.end(), list.begin(), list.end());
  }
  return index_of(order);
}

/// The results of a pass, whose loops were done at `level`.
void NestBuilder::remember(const Pass& pass, const Loop& done, int level) {
  for (size_t k = 0; k < pass.nodes.size(); ++k) {
    const std::vector<ValueId>& results = done.reductions[k].results;
    memo_.push_back({&pass.nodes[k]->results[0], {}, {results.back(), level}});
    for (const Partial& partial : partials_)
      if (partial.node == pass.nodes[k]) store_partials(level, partial, results);
  }
}

/// New loop variables for all reduced axes.
void NestBuilder::number_reduced() {
  for (const LoopAxis& axis : nest_.reduced) {
    Index& index = leaf_value_[axis.innermost()];
    index = {};
    index.level = 2;
    index.affine.add(1, kernel_.add_value(DType::i64));
  }
}

void NestBuilder::store_all(int pass, bool rows) {
  for (const Node* node : group_.nodes) {
    const Value* result = &node->results[0];
    if (!is_stored(result)) continue;
    const bool full = !reduces() || runs_over_reduced(*group_.find(result));
    if (full == rows || (full && reduces() && depth_of(result) != pass)) continue;
    store(result, member(result), full);
  }
}

void NestBuilder::store(const Value* result, Scalar value, bool full) {
  const Window window{result, list_of(result->type->sizes), strides_of(result), 0};
  int level = 0;
  const Affine index = offset_of(window, place_of(*group_.find(result), window.sizes), level);
  level = full && reduces() ? 2 : lane_level_;
  at(level).store(buffer_of(result, Access::out), index, value.id, none, streams(result, full));
}

/// Stores at element (outer, lane, chunk) of the partial results.
void NestBuilder::store_partials(int level, const Partial& partial, const std::vector<ValueId>& results) {
  Affine index;
  Size factor = 1;
  auto add = [&](const Index& part) { extents_.add(index, factor, part.affine); };
  add(chunk_);
  factor = chunks_;
  if (nest_.has_lane) {
    add(leaf_value_[nest_.lane.innermost()]);
    factor = factor * nest_.lane.size;
  }
  for (size_t j = nest_.outer.size(); j-- > 0; factor = factor * nest_.outer[j].size)
    add(leaf_value_[nest_.outer[j].innermost()]);
  for (size_t j = 0; j < results.size(); ++j) at(level).store(partial.buffers[j], index, results[j]);
}

/// The part of a reduced axis that this kernel runs over: all of it, or of the outermost what this chunk has.
NestBuilder::Span NestBuilder::whole_span(size_t depth, Builder builder) {
  const Size size = nest_.reduced[depth].size;
  if (depth > 0 || chunks_ == 1) return {none, none, size};
  const Affine begin = extents_.scaled(chunk_length_, chunk_.affine);
  Affine end = begin;
  extents_.add_offset(end, chunk_length_);
  const ValueId limit = extents_.value(builder, size);
  return {builder.affine(begin), builder.compute(Op::minimum, {builder.affine(end), limit}), size};
}

/// The loop around `inner`, which hands its part of each reduction on: `reductions` then yield the loop's results.
Stmt NestBuilder::wrap(std::unique_ptr<Loop> loop, Block inner, std::vector<Reduction>& reductions) {
  for (Stmt& stmt : inner) loop->body.push_back(std::move(stmt));
  for (Reduction& reduction : reductions) {
    Reduction here;
    here.combine = reduction.combine;
    here.yielded = reduction.yielded;
    for (ValueId value : reduction.yielded) here.results.push_back(kernel_.add_value(kernel_.types[value]));
    reduction.yielded = here.results;
    loop->reductions.push_back(std::move(here));
  }
  return as_statement(std::move(loop));
}

/// Memory for what phase 0 of a split reduction leaves to phase 1.
void NestBuilder::add_partials(Size results) {
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
}

void NestBuilder::split_index(Affine whole, const std::vector<std::pair<Size, Index*>>& parts) {
  Sizes sizes;
  for (const auto& part : parts) sizes.push_back(part.first);
  std::vector<Affine> taken = take_apart(extents_, at(0), std::move(whole), sizes);
  for (size_t k = 0; k < parts.size(); ++k) *parts[k].second = {std::move(taken[k]), 0};
}

KernelDraft NestBuilder::build() {
  number_leaves();
  collect_accesses();
  nest_ = make_nest(leaves_, accesses_, target_.short_axis, rules());
  plan_passes();
  if (reduces()) {
    plan_kept();
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
  }
  build_loops();
  parameters_first(kernel_);
  drop_unused_symbols(kernel_, draft_.symbols);
  count_bytes();
  return std::move(draft_);
}

std::vector<std::pair<const Value*, Label>> NestBuilder::read_again() const {
  std::vector<std::pair<const Value*, Label>> found;
  for (const Read& read : reads_) {
    const std::pair<const Value*, Label> load{read.value, read.label};
    const bool again = std::ranges::any_of(reads_, [&](const Read& other) {
      return other.value == read.value && other.label == read.label && other.pass != read.pass;
    });
    if (again && std::ranges::find(found, load) == found.end()) found.push_back(load);
  }
  return found;
}

void NestBuilder::keep(const std::vector<std::pair<const Value*, Label>>& loads) {
  for (const auto& [value, label] : loads) kept_.push_back({value, none, false, 0, label});
}

std::unique_ptr<NestBuilder> make_builder(const Group& group, const Facts& facts) {
  if (facts.target(group.nodes[0]).is_gpu()) return std::make_unique<GpuNest>(group, facts);
  return std::make_unique<CpuNest>(group, facts);
}

KernelDraft build_kernel(const Group& group, const Facts& facts) {
  const std::unique_ptr<NestBuilder> builder = make_builder(group, facts);
  KernelDraft draft = builder->build();
  // A CPU reads a row again from its cache. A GPU's threads have registers for it; what is worth keeping is known
  // when the loops are built.
  if (!facts.target(group.nodes[0]).is_gpu()) return draft;
  const auto loads = builder->read_again();
  if (loads.empty()) return draft;
  const std::unique_ptr<NestBuilder> keeping = make_builder(group, facts);
  keeping->keep(loads);
  return keeping->build();
}

}  // namespace braze::loops
