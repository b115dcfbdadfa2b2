// loops/schedule/nest_builder.cpp: passes over the reduced axes, and what they leave.
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
