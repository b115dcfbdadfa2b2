// loops/schedule/nest_plan.cpp: what a kernel stores, which pass over the reduced axes computes what, and which
// values are kept between passes.
#include "loops/schedule/nest_plan.h"

#include <algorithm>

#include "loops/cost.h"
#include "support/error.h"

namespace braze::loops {

using ir::Node;
using ir::Op;
using ir::OpKind;
using ir::Value;

NestPlan::NestPlan(const Group& group, const Facts& facts)
    : group_(group),
      inside_(group.nodes),
      facts_(facts),
      target_(facts.target(group.nodes[0])),
      draft_{std::make_unique<Kernel>(), {}, {}, 0, 0},
      kernel_(*draft_.kernel),
      extents_(kernel_, draft_.symbols, facts.rules()) {}

bool NestPlan::is_stored(const Value* value) const {
  if (group_.does_again(value->def)) return false;
  if (facts_.escapes(value)) return true;
  const auto& consumers = facts_.consumers(value);
  return std::any_of(consumers.begin(), consumers.end(), [&](const Node* node) { return !inside_.contains(node); });
}

Sizes NestPlan::strides_of(const Value* stored) const {
  return store_strides_.empty() ? facts_.windows.storage(stored) : store_strides_;
}

void NestPlan::number_leaves() {
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

bool NestPlan::runs_over_reduced(const Label& label) const {
  for (AxisId axis : group_.space.axes_of(label))
    if (std::binary_search(reduced_.begin(), reduced_.end(), axis)) return true;
  return false;
}

/// In which pass a value can first be computed: after all reductions that it needs.
int NestPlan::depth_of(const Value* value) {
  const Value* base = facts_.windows.base(value);
  const Node* node = base->def;
  if (facts_.is_free(value) || !inside_.contains(node)) return 0;
  for (const auto& [known, depth] : depths_)
    if (known == base) return depth;
  int depth = 0;
  for (const Value* operand : node->operands) depth = std::max(depth, depth_of(operand));
  if (ir::info(node->op).kind == OpKind::Reduction) ++depth;
  depths_.push_back({base, depth});
  return depth;
}

void NestPlan::plan_passes() {
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

/// What it costs to compute a value of the reduced axes again, in instructions.
int64_t NestPlan::recompute_cost(const Value* value) const {
  constexpr int64_t cheap = 1, costly = 16;  // as exp, the cheapest function that is a polynomial (ir/ops.def)
  const int64_t load = target_.load;
  const Value* base = facts_.windows.base(value);
  const Node* node = base->def;
  if (facts_.is_free(value)) return cheap;
  if (!inside_.contains(node)) return load;
  if (ir::info(node->op).kind == OpKind::Reduction || !runs_over_reduced(*group_.find(base))) return 0;
  if (std::any_of(kept_.begin(), kept_.end(), [&](const Kept& s) { return s.value == base; })) return load;
  if (ir::info(node->op).kind == OpKind::Gather) return load;
  int64_t cost = ir::info(node->op).kind == OpKind::View ? 0 : is_cheap(node->op) ? cheap : costly;
  for (const Value* operand : node->operands) cost += recompute_cost(operand);
  return cost;
}

/// Marks what one pass evaluates. A costly value that an earlier pass had is kept in a row buffer from there.
void NestPlan::mark_evaluated(const Value* value, int pass) {
  const int64_t worth_keeping = 2 * target_.load;  // a store and a load
  const Value* base = facts_.windows.base(value);
  const Node* node = base->def;
  if (facts_.is_free(value) || !inside_.contains(node) || ir::info(node->op).kind == OpKind::Reduction) return;
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

void NestPlan::plan_kept() {
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

/// New loop variables for all reduced axes.
void NestPlan::number_reduced() {
  for (const LoopAxis& axis : nest_.reduced) {
    Index& index = leaf_value_[axis.innermost()];
    index = {};
    index.level = 2;
    index.affine.add(1, kernel_.add_value(DType::i64));
  }
}

std::vector<std::pair<const Value*, Label>> NestPlan::read_again() const {
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

void NestPlan::keep(const std::vector<std::pair<const Value*, Label>>& loads) {
  for (const auto& [value, label] : loads) kept_.push_back({value, none, false, 0, label});
}

}  // namespace braze::loops
