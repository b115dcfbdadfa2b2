#include "loops/extension.h"

#include <algorithm>

#include "loops/cost.h"

namespace braze::loops {

using ir::Node;
using ir::Op;
using ir::OpKind;
using ir::Value;

void Group::roll_back(const Mark& mark) {
  nodes.resize(mark.nodes);
  labels.resize(mark.labels);
  reduced_inputs.resize(mark.reduced);
  reshaped_inputs.resize(mark.reshaped);
  space.roll_back(mark.space);
  wide = mark.wide;
}

void LabelTable::add(const Value* value, Label label) {
  rows_.push_back({value, std::move(label)});
  if (index_.empty() && rows_.size() <= few) return;
  for (size_t k = index_.empty() ? 0 : rows_.size() - 1; k < rows_.size(); ++k)
    index_[rows_[k].first].push_back(static_cast<uint32_t>(k));
}

void LabelTable::resize(size_t count) {
  for (size_t k = rows_.size(); k-- > count && !index_.empty();) {
    const auto row = index_.find(rows_[k].first);
    row->second.pop_back();
    if (row->second.empty()) index_.erase(row);
  }
  rows_.resize(count);
}

const Label* LabelTable::find(const Value* value) const {
  if (!index_.empty()) {
    const auto row = index_.find(value);
    return row == index_.end() ? nullptr : &rows_[row->second.back()].second;
  }
  // What is asked for was computed lately, as a rule.
  for (size_t k = rows_.size(); k-- > 0;)
    if (rows_[k].first == value) return &rows_[k].second;
  return nullptr;
}

const Label* Group::find(const Value* value) const {
  return labels.find(value);
}

const Label* Group::find_reduced(const Node* reduction) const {
  for (const auto& [node, label] : reduced_inputs)
    if (node == reduction) return &label;
  return nullptr;
}

const Label* Group::find_reshaped(const Node* reshape) const {
  for (const auto& [node, label] : reshaped_inputs)
    if (node == reshape) return &label;
  return nullptr;
}

bool Group::contains(const Node* node) const {
  return std::find(nodes.begin(), nodes.end(), node) != nodes.end();
}

AxisList Group::reduced_axes() const {
  AxisList axes;
  if (reduced_inputs.empty()) return axes;
  const auto& [node, label] = reduced_inputs.front();
  for (int64_t dim : node->ints_attr("dims")) {
    AxisList more = space.leaves(label[dim]);
    axes.insert(axes.end(), more.begin(), more.end());
  }
  std::sort(axes.begin(), axes.end());
  return axes;
}

/// Whether blocks of a GPU that see each other's memory reduce such rows together, so that what needs the results
/// can go on with the row.
static bool is_a_clusters(const Node* reduction, int64_t length, const GpuLimits& limits) {
  const auto& dims = reduction->ints_attr("dims");
  const auto rank = static_cast<int64_t>(reduction->operands[0]->type->sizes.symbolic().size());
  return dims.size() == 1 && dims[0] == rank - 1 && length <= limits.most_cluster * limits.cluster_row;
}

/// What lies in memory of all that `value` is computed from within the group, one of as many elements: in its order
/// the value is computed, whatever strides its type has.
static const Value* read_for(const Value* value, const Group& group, const Facts& facts) {
  for (;;) {
    const Node* producer = facts.windows.base(value)->def;
    if (!ir::is_elementwise(producer->op) || !group.contains(producer)) return value;
    const auto whole = std::ranges::find_if(producer->operands, [&](const Value* operand) {
      return facts.elements(operand) == facts.elements(&producer->results[0]);
    });
    if (whole == producer->operands.end()) return value;
    value = *whole;
  }
}

/// Whether strips of columns are too few for all threads, or do not stay in the cache for a second pass: shares of
/// the rows, read from front to back, then serve all threads.
static bool has_long_columns(const Node* reduction, int64_t results, int64_t length, const Group& group,
                             const Facts& facts) {
  const Target& target = facts.target(reduction);
  const Value* operand = read_for(reduction->operands[0], group, facts);
  if (operand->type->sizes.size() != reduction->operands[0]->type->sizes.size()) return false;
  if (reduction->results[0].type->device.kind == ir::DeviceKind::cuda) {
    const GpuLimits& limits = target.gpu;
    const int64_t strips = (results + limits.warp - 1) / limits.warp;
    if (strips >= limits.multiprocessors || length * limits.warp < 4 * limits.least_chunk) return false;
  } else {
    const int64_t strip = target.cpu.shortest_strip * ir::byte_size(operand->type->dtype);
    if (results > target.cpu.longest_strip || length * strip <= target.second_cache) return false;
  }
  const Window& shown = facts.windows.of(operand);
  const auto& dims = reduction->ints_attr("dims");
  for (size_t k = 0; k < shown.sizes.size(); ++k)
    if (shown.strides[k] == 1 && shown.sizes[k] != 1)
      return std::ranges::find(dims, static_cast<int64_t>(k)) == dims.end();
  return false;
}

bool Extension::add(const Node* node) {
  if (group_.nodes.size() >= facts_.target(node).most_nodes) return false;
  Label label;
  if (!label_of(node, label)) return false;
  group_.labels.add(&node->results[0], std::move(label));
  group_.nodes.push_back(node);
  if (ir::info(node->op).kind == OpKind::Reduction) {
    const Value* operand = node->operands[0];
    const int64_t results = std::max<int64_t>(1, facts_.elements(&node->results[0]));
    const int64_t length = facts_.elements(operand) / results;
    const Target& target = facts_.target(node);
    const bool is_wide = results <= target.few_results && length >= target.wide_reduction &&
                         !is_a_clusters(node, length, target.gpu);
    group_.wide |= is_wide || has_long_columns(node, results, length, group_, facts_);
  }
  return true;
}

bool Extension::legal() {
  return only_adds_elementwise() ? added_nodes_fit() : fits();
}

bool Extension::only_adds_elementwise() const {
  if (!group_.axes_known || group_.wide || !group_.space.stands_since(before_.space)) return false;
  return std::all_of(group_.nodes.begin() + static_cast<int64_t>(before_.nodes), group_.nodes.end(),
                     [](const Node* node) { return ir::is_elementwise(node->op); });
}

bool Extension::added_nodes_fit() const {
  const AxisSpace& space = group_.space;
  for (size_t k = before_.labels; k < group_.labels.size(); ++k) {
    const AxisList axes = space.axes_of(group_.labels[k].second);
    if (std::adjacent_find(axes.begin(), axes.end()) != axes.end()) return false;
    if (!std::includes(group_.all_axes.begin(), group_.all_axes.end(), axes.begin(), axes.end())) return false;
  }
  return std::all_of(group_.nodes.begin() + static_cast<int64_t>(before_.nodes), group_.nodes.end(),
                     [&](const Node* node) { return fits(node, group_.all_axes, group_.row_axes); });
}

bool Extension::fits(const Node* node, const AxisList& all, const AxisList& rows) const {
  const AxisList axes = group_.space.axes_of(*group_.find(&node->results[0]));
  if (axes == all || axes == rows) return true;
  // Computed for fewer axes than it is read for: only if never stored, and if that repeats no costly work.
  return is_internal(node) && (is_cheap(node->op) || ir::info(node->op).kind == OpKind::Gather);
}

bool Extension::fits() {
  const AxisSpace& space = group_.space;
  AxisList all, reduced;
  bool first = true;
  for (const auto& [node, label] : group_.reduced_inputs) {
    AxisList these = reduced_by(node, label);
    if (!first && these != reduced) return false;
    reduced = std::move(these);
    first = false;
  }
  auto join = [&](const Label& label) {
    AxisList axes = space.axes_of(label);
    if (std::adjacent_find(axes.begin(), axes.end()) != axes.end()) return false;
    all.insert(all.end(), axes.begin(), axes.end());
    return true;
  };
  for (const auto& [value, label] : group_.labels)
    if (!join(label)) return false;
  for (const auto& [node, label] : group_.reduced_inputs)
    if (!join(label)) return false;
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  for (const auto& [node, label] : group_.reduced_inputs)
    if (space.axes_of(label) != all) return false;
  AxisList rows;
  std::set_difference(all.begin(), all.end(), reduced.begin(), reduced.end(), std::back_inserter(rows));
  for (const Node* node : group_.nodes)
    if (!fits(node, all, rows)) return false;
  if (group_.wide && !nothing_follows_reductions(rows)) return false;
  group_.all_axes = std::move(all);
  group_.row_axes = std::move(rows);
  group_.axes_known = true;
  return true;
}

AxisList Extension::reduced_by(const Node* node, const Label& label) const {
  AxisList axes;
  for (int64_t dim : node->ints_attr("dims")) {
    AxisList more = group_.space.leaves(label[dim]);
    axes.insert(axes.end(), more.begin(), more.end());
  }
  std::sort(axes.begin(), axes.end());
  return axes;
}

bool Extension::is_internal(const Node* node) const {
  const Value* value = &node->results[0];
  if (facts_.escapes(value)) return false;
  for (const Node* consumer : facts_.consumers(value))
    if (!group_.contains(consumer)) return false;
  return true;
}

bool Extension::nothing_follows_reductions(const AxisList& rows) const {
  std::vector<const Node*> after;  // what needs the result of a reduction
  const auto needs_one = [&](const Value* operand) {
    const Node* producer = facts_.windows.base(operand)->def;
    if (ir::info(producer->op).kind == OpKind::Reduction) return group_.contains(producer);
    return std::ranges::find(after, producer) != after.end();
  };
  for (bool grows = true; grows;) {
    grows = false;
    for (const Node* node : group_.nodes) {
      if (std::ranges::find(after, node) != after.end() || std::ranges::none_of(node->operands, needs_one))
        continue;
      // On a GPU the phase that joins the parts goes on with the results, and with nothing else.
      const bool is_on_gpu = node->results[0].type->device.kind == ir::DeviceKind::cuda;
      if (!is_on_gpu || group_.space.axes_of(*group_.find(&node->results[0])) != rows) return false;
      after.push_back(node);
      grows = true;
    }
  }
  return true;
}

bool Extension::member_label(const Value* value, Label& label, bool& bad) {
  if (const Label* known = group_.find(value)) {
    label = *known;
    return true;
  }
  if (ir::info(value->def->op).kind != OpKind::View || value->def->operands.empty()) return false;
  Label operand;
  if (!member_label(value->def->operands[0], operand, bad) || bad) return false;
  if (facts_.windows.is_base(value)) return false;  // a copy of its own, in another kernel
  if (!group_.space.through_view(value->def, operand, label)) {
    bad = true;
    return false;
  }
  group_.labels.add(value, label);
  return true;
}

bool Extension::label_of(const Node* node, Label& out) {
  const auto sizes = node->results[0].type->sizes.symbolic();
  const uint32_t random = random_access_operands(node);
  bool bad = false;
  Label label;
  std::vector<std::pair<bool, Label>> operands;  // (computed here, label)
  for (size_t k = 0; k < node->operands.size(); ++k) {
    // What is read at any place comes from memory, even if recomputing it would be free.
    const bool anywhere = (random >> k & 1) != 0;
    const bool here =
        (anywhere || !facts_.is_free(node->operands[k])) && member_label(node->operands[k], label, bad);
    if (bad || (here && anywhere)) return false;
    operands.push_back({here, here ? label : Label{}});
  }
  AxisSpace& space = group_.space;
  auto operand_label = [&](size_t k) {
    return operands[k].first ? operands[k].second : space.fresh_label(node->operands[k]->type->sizes.symbolic());
  };
  switch (ir::info(node->op).kind) {
    case OpKind::View: {
      // A reshape that no strides express: rows of the operand are read in their own axes, which the result
      // regroups.
      Label operand = operand_label(0);
      if (space.through_view(node, operand, out)) {
        group_.reshaped_inputs.push_back({node, std::move(operand)});
        return true;
      }
      if (operands[0].first) return false;
      out = space.fresh_label(sizes);
      return true;
    }
    case OpKind::Reduction: {
      Label operand = operand_label(0);
      const bool keep = node->bool_attr("keepdim");
      const auto dims = node->ints_attr("dims");
      out.clear();
      for (size_t k = 0; k < operand.size(); ++k) {
        const bool reduced = std::find(dims.begin(), dims.end(), static_cast<int64_t>(k)) != dims.end();
        if (!reduced)
          out.push_back(operand[k]);
        else if (keep)
          out.push_back({});
      }
      group_.reduced_inputs.push_back({node, std::move(operand)});
      return true;
    }
    case OpKind::Gather: return gather_label(node, operands, out);
    case OpKind::Pad: out = space.fresh_label(sizes); return true;
    default: break;
  }
  // Elementwise (and operand 0 of slice_scatter): one label for all, dimension by dimension.
  out.assign(sizes.size(), {});
  for (const auto& [here, mine] : operands) {
    if (!here) continue;
    if (!space.unify_broadcast(out, mine)) return false;
    for (size_t k = 1; k <= mine.size(); ++k)
      if (out[out.size() - k].empty()) out[out.size() - k] = mine[mine.size() - k];
  }
  for (size_t k = 0; k < sizes.size(); ++k) {
    if (!out[k].empty() || sizes[k] == 1) continue;
    if (!propose_from_reduction(sizes.size() - k, sizes[k], out[k])) out[k].push_back(space.fresh(sizes[k]));
  }
  return true;
}

bool Extension::propose_from_reduction(size_t from_right, Size size, AxisList& out) const {
  if (!propose_ || group_.reduced_inputs.empty()) return false;
  const Label& label = group_.reduced_inputs.front().second;
  if (from_right > label.size()) return false;
  const AxisList& list = label[label.size() - from_right];
  Size product = 1;
  for (AxisId axis : list) product = product * group_.space.size(axis);
  if (!facts_.windows.rules().equal(product, size) || list.empty()) return false;
  out = list;
  return true;
}

bool Extension::gather_label(const Node* node, const std::vector<std::pair<bool, Label>>& operands, Label& out) {
  AxisSpace& space = group_.space;
  const auto sizes = node->results[0].type->sizes.symbolic();
  // Dimensions [first, first + rank of the index) of the result are the index's.
  size_t first = 0;
  if (node->op == Op::index_select) first = static_cast<size_t>(node->int_attr("dim"));
  if (node->op == Op::index) first = static_cast<size_t>(node->ints_attr("dims")[0]);
  out = space.fresh_label(sizes);
  size_t rank = 0;
  for (size_t k = 1; k < node->operands.size(); ++k) rank = std::max(rank, node->operands[k]->type->sizes.size());
  for (size_t k = 1; k < node->operands.size(); ++k) {
    if (!operands[k].first) continue;
    const Label part(out.begin() + static_cast<int64_t>(first), out.begin() + static_cast<int64_t>(first + rank));
    if (!space.unify_broadcast(part, operands[k].second)) return false;
  }
  return true;
}

}  // namespace braze::loops
