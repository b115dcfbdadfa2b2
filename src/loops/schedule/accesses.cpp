// loops/schedule/accesses.cpp: how a kernel will move through memory, before its loops are decided.
#include <algorithm>

#include "loops/schedule/nest_plan.h"
#include "support/error.h"

namespace braze::loops {

using ir::Node;
using ir::Op;
using ir::OpKind;
using ir::Value;

namespace {

const Node* free_iota(const Value* value) {
  if (value->def->op == Op::iota) return value->def;
  for (const Value* operand : value->def->operands)
    if (const Node* found = free_iota(operand)) return found;
  return nullptr;
}

}  // namespace

Combine combine_of(Op op) {
  switch (op) {
    case Op::sum: return Combine::sum;
    case Op::prod: return Combine::prod;
    case Op::amax: return Combine::max;
    case Op::amin: return Combine::min;
    case Op::any: return Combine::any;
    case Op::all: return Combine::all;
    case Op::argmax: return Combine::argmax;
    case Op::argmin: return Combine::argmin;
    default: break;
  }
  BRAZE_CHECK(false, "not a reduction: ", ir::info(op).name);
  return Combine::sum;
}

bool with_index(Combine combine) {
  return combine == Combine::argmax || combine == Combine::argmin;
}

void NestPlan::collect_accesses() {
  for (const Node* node : group_.nodes) {
    const Value* result = &node->results[0];
    const Label& label = *group_.find(result);
    if (is_stored(result))
      add_access(label, result->type->sizes.symbolic(), strides_of(result),
                 {{}, ir::byte_size(result->type->dtype), true, result});
    switch (ir::info(node->op).kind) {
      case OpKind::Reduction: add_reduced(node); break;
      case OpKind::Gather: add_gathered(node, label); break;
      case OpKind::Pad:
      case OpKind::Scatter: add_moved(node, label); break;
      case OpKind::View:
        if (const Label* operand = group_.find_reshaped(node))
          add_read(node->operands[0], *operand);
        else
          keep_apart(label);
        break;
      default:
        for (const Value* operand : node->operands) add_read(operand, label);
    }
  }
}

/// `access` with what its address moves by along each axis: `strides` of the dimensions that `label` is of.
void NestPlan::add_access(const Label& label, std::span<const Size> sizes, std::span<const Size> strides,
                          AccessPattern access) {
  access.strides = Sizes(leaves_.axes.size());
  for (size_t k = 1; k <= std::min(label.size(), sizes.size()); ++k) {
    if (sizes[sizes.size() - k] == 1) continue;
    Size stride = strides[sizes.size() - k];
    const AxisList list = group_.space.leaves(label[label.size() - k]);
    for (size_t j = list.size(); j-- > 0;) {
      const size_t leaf = leaves_.index_of(list[j]);
      access.strides[leaf] = access.strides[leaf] + stride;
      if (stride != 0) access.weight *= hint(leaves_.sizes[leaf]);
      stride = stride * leaves_.sizes[leaf];
    }
  }
  accesses_.push_back(std::move(access));
}

/// The place along these dimensions is computed with: their axes are walked through by loops of their own.
void NestPlan::keep_apart(const Label& label) {
  for (const AxisId axis : group_.space.axes_of(label)) leaves_.individual[leaves_.index_of(axis)] = true;
}

void NestPlan::add_read(const Value* value, const Label& label) {
  if (facts_.is_free(value)) {
    if (free_iota(value)) keep_apart(label);
    return;
  }
  const Value* base = facts_.windows.base(value);
  if (inside_.contains(base->def) || is_number(base->def->op)) return;
  const Window& window = facts_.windows.of(value);
  add_access(label, window.sizes, window.strides, {{}, ir::byte_size(base->type->dtype), false, base});
}

void NestPlan::add_reduced(const Node* node) {
  const Label& operand = *group_.find_reduced(node);
  add_read(node->operands[0], operand);
  if (!with_index(combine_of(node->op))) return;
  // The index counts through the reduced dimensions in order: loops may be one only if it agrees.
  Sizes strides(operand.size(), 0);
  Size stride = 1;
  const auto sizes = node->operands[0]->type->sizes.symbolic();
  const auto dims = node->ints_attr("dims");
  for (size_t k = dims.size(); k-- > 0;) {
    strides[static_cast<size_t>(dims[k])] = stride;
    stride = stride * sizes[static_cast<size_t>(dims[k])];
  }
  add_access(operand, sizes, strides, {{}, 0, false, nullptr});
}

/// The indices are read where the result's dimensions that they replace are; of the table only rows that are read
/// whole say anything about the order of loops.
void NestPlan::add_gathered(const Node* node, const Label& label) {
  size_t first = 0;
  if (node->op == Op::index_select) first = static_cast<size_t>(node->int_attr("dim"));
  if (node->op == Op::index) first = static_cast<size_t>(node->ints_attr("dims")[0]);
  size_t broadcast = 0;
  for (size_t k = 1; k < node->operands.size(); ++k)
    broadcast = std::max(broadcast, static_cast<size_t>(node->operands[k]->type->rank()));
  for (size_t k = 1; k < node->operands.size(); ++k) {
    const size_t rank = node->op == Op::index ? broadcast : static_cast<size_t>(node->operands[k]->type->rank());
    const auto begin = label.begin() + static_cast<int64_t>(first);
    add_read(node->operands[k], Label(begin, begin + static_cast<int64_t>(rank)));
  }
  if (node->op != Op::embedding) return keep_apart(label);
  const Window& table = facts_.windows.of(node->operands[0]);
  const Label rows(label.begin() + node->operands[1]->type->rank(), label.end());
  add_access(rows, std::span(table.sizes).subspan(1), std::span(table.strides).subspan(1),
             {{}, ir::byte_size(node->results[0].type->dtype), false, table.base});
}

/// Pads and slice_scatter: an operand that lies at an offset within the result.
void NestPlan::add_moved(const Node* node, const Label& label) {
  const Value* moved = node->operands[node->op == Op::pad ? 0 : 1];
  if (node->op == Op::slice_scatter) add_read(node->operands[0], label);
  const Window& window = facts_.windows.of(moved);
  const Sizes sizes(window.sizes.size(), 2);  // also a dimension of size 1 moves once padded
  add_access(label, sizes, window.strides, {{}, ir::byte_size(moved->type->dtype), false, window.base});
  const auto out = node->results[0].type->sizes.symbolic();
  for (size_t k = 0; k < out.size(); ++k) {
    const bool has_bounds =
        node->op == Op::pad ? node->sizes_attr("low")[k] != 0 : node->int_attr("dim") == static_cast<int64_t>(k);
    if (out[k] != window.sizes[k] || has_bounds) keep_apart({label[k]});
  }
}

/// The outer axis along which the heaviest load across the lanes is contiguous; outer.size() if there is none.
/// Sides shorter than `least_side` gain nothing.
size_t NestPlan::crosswise_axis(int64_t least_side) const {
  const size_t no_axis = nest_.outer.size();
  if (!nest_.has_lane || hint(nest_.lane.size) < least_side) return no_axis;
  size_t found = no_axis;
  int64_t weight = 0;
  for (const AccessPattern& access : accesses_) {
    const Size lane = access.strides[nest_.lane.innermost()];
    if (access.is_store || !access.base || lane == 0 || lane == 1 || access.weight <= weight) continue;
    for (size_t k = 0; k < nest_.outer.size(); ++k) {
      if (hint(nest_.outer[k].size) < least_side || access.strides[nest_.outer[k].innermost()] != 1) continue;
      found = k;
      weight = access.weight;
    }
  }
  return found;
}

/// Each element of each operand once, however often a kernel reads it again from the cache.
void NestPlan::count_bytes() {
  std::vector<const AccessPattern*> counted;
  for (const AccessPattern& access : accesses_) {
    if (!access.base) continue;
    const int64_t size = facts_.elements(access.base) * ir::byte_size(access.base->type->dtype);
    const int64_t bytes = std::min(access.weight, size);
    const bool seen = std::any_of(counted.begin(), counted.end(), [&](const AccessPattern* other) {
      return other->base == access.base && other->is_store == access.is_store;
    });
    if (seen) continue;
    counted.push_back(&access);
    (access.is_store ? draft_.bytes_written : draft_.bytes_read) += bytes;
  }
}

}  // namespace braze::loops
