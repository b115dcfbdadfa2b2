// Reading by index tensors.
#include "capture/call.h"

namespace braze::capture {
namespace {

bool is_index(const Operand& operand) {
  return !operand.is_number() && (operand.dtype == ScalarType::Long || operand.dtype == ScalarType::Int);
}

/// embedding(weight, indices, padding_idx, scale_grad_by_freq, sparse)
bool embedding(Call& call, const RuleRow&) {
  const auto weight = call.operand(0), index = call.operand(1);
  if (!weight || !index || weight->is_number() || !is_index(*index) || weight->sizes.size() != 2) return false;
  Sizes sizes = index->sizes;
  sizes.push_back(weight->sizes[1]);
  return call.give(call.node(Op::embedding, {weight->value, index->value}, call.contiguous(weight->dtype, sizes)));
}

/// index_select(self, dim, index)
bool index_select(Call& call, const RuleRow&) {
  const auto x = call.operand(0), index = call.operand(2);
  if (!x || !index || x->is_number() || !is_index(*index) || x->sizes.empty() || index->sizes.size() != 1)
    return false;
  const auto dim = wrap(call.integer(1), static_cast<int64_t>(x->sizes.size()));
  if (!dim) return false;
  Sizes sizes = x->sizes;
  sizes[*dim] = index->sizes[0];
  return call.give(
      call.node(Op::index_select, {x->value, index->value}, call.contiguous(x->dtype, sizes), {{"dim", *dim}}));
}

/// gather(self, dim, index, *, sparse_grad)
bool gather(Call& call, const RuleRow&) {
  const auto x = call.operand(0), index = call.operand(2);
  if (!x || !index || x->is_number() || !is_index(*index) || x->sizes.empty()) return false;
  const auto rank = static_cast<int64_t>(x->sizes.size());
  const auto dim = wrap(call.integer(1), rank);
  if (!dim || static_cast<int64_t>(index->sizes.size()) != rank) return false;
  for (int64_t k = 0; k < rank; ++k)
    if (k != *dim && index->sizes[k] > x->sizes[k]) return false;
  return call.give(
      call.node(Op::gather, {x->value, index->value}, call.contiguous(x->dtype, index->sizes), {{"dim", *dim}}));
}

/// index.Tensor(self, indices): integer tensors for adjacent dimensions of a contiguous tensor. Masks have shapes
/// that the data decides; other layouts have strides that TensorIterator decides.
bool index(Call& call, const RuleRow&) {
  const auto x = call.operand(0);
  if (!x || x->is_number() || x->strides != contiguous(x->sizes)) return false;
  c10::SmallVector<ir::Value*, 4> operands{x->value};
  Sizes dims, shape;
  const auto given = call.arg(1).toOptionalTensorVector();
  for (size_t k = 0; k < given.size(); ++k) {
    if (!given[k] || !given[k]->defined()) continue;
    const auto one = call.operand_of(*given[k]);
    if (!one || !is_index(*one) || one->strides != contiguous(one->sizes)) return false;
    if (!dims.empty() && dims.back() + 1 != static_cast<int64_t>(k)) return false;
    if (!broadcast_into(shape, one->sizes)) return false;
    dims.push_back(static_cast<int64_t>(k));
    operands.push_back(one->value);
  }
  if (dims.empty() || dims.back() >= static_cast<int64_t>(x->sizes.size())) return false;
  // Sizes of zero are refused by eager if the indexed dimension is empty; leave those to it.
  if (numel(x->sizes) == 0 || numel(shape) == 0) return false;
  Sizes sizes(x->sizes.begin(), x->sizes.begin() + dims[0]);
  sizes.append(shape.begin(), shape.end());
  sizes.append(x->sizes.begin() + dims.back() + 1, x->sizes.end());
  // With several indices of unlike shapes TensorIterator may order the result differently.
  if (dims[0] != 0 && shape.size() > 1) return false;
  const ir::Attr attrs[] = {{"dims", std::span<const int64_t>(dims.data(), dims.size())}};
  const ir::Type* type = call.contiguous(x->dtype, sizes);
  return call.give(call.graph().create(Op::index, {operands.data(), operands.size()}, attrs, {&type, 1})->result());
}

}  // namespace

std::span<const RuleRow> indexing_rules() {
  static constexpr RuleRow rows[] = {
      {"embedding", embedding},
      {"index_select", index_select},
      {"gather", gather},
      {"index.Tensor", index},
  };
  return rows;
}

}  // namespace braze::capture
