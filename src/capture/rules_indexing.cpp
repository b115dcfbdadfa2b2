// Reading by index tensors.
#include <ATen/ExpandUtils.h>
#include <ATen/TensorUtils.h>

#include <algorithm>

#include "capture/arithmetic.h"

namespace braze::capture {
namespace {

// Where there is nothing to pick from, any index is out of range: eager's kernels say so, and these are left to
// them.

bool is_index(const Operand& operand) {
  return !operand.is_number() && (operand.dtype == ScalarType::Long || operand.dtype == ScalarType::Int);
}

Sizes at_least_one(const Sizes& sizes) {
  return sizes.empty() ? Sizes{1} : sizes;
}

/// embedding(weight, indices, padding_idx, scale_grad_by_freq, sparse)
bool embedding(Call& call, const RuleRow&) {
  const auto weight = call.operand(0), index = call.operand(1);
  if (!weight || !index || weight->is_number() || !is_index(*index) || weight->sizes.size() != 2) return false;
  if (weight->sizes[0] == 0) return false;
  Sizes sizes = index->sizes;
  sizes.push_back(weight->sizes[1]);
  return call.give(call.node(Op::embedding, {weight->value, index->value}, call.contiguous(weight->dtype, sizes)));
}

/// embedding_renorm(self, indices, max_norm, norm_type): scales down the rows that indices name. One that is named
/// twice is written twice, the same.
bool embedding_renorm(Call& call, const RuleRow&) {
  const auto weight = call.operand(0), index = call.operand(1);
  if (!weight || !index || weight->is_number() || !is_index(*index) || weight->sizes.size() != 2) return false;
  const double most = call.real(2), order = call.real(3);
  const int64_t count = numel(index->sizes), columns = weight->sizes[1];
  if (!c10::isFloatingType(weight->dtype) || (order != 1 && order != 2) || count == 0) return false;
  if (weight->sizes[0] == 0) return false;
  Arithmetic a(call);
  const DType dtype = to_dtype(weight->dtype), compute = computing_dtype(weight->dtype);
  ir::Value* rows = a.reshape(index->value, {count});
  ir::Value* picked = a.cast(
      call.node(Op::embedding, {weight->value, rows}, call.contiguous(weight->dtype, {count, columns})), compute);
  ir::Value* norm = a.reduce(Op::sum, order == 1 ? a.op(Op::abs, picked) : a.op(Op::mul, picked, picked), {1});
  if (order == 2) norm = a.op(Op::sqrt, norm);
  // Eager rounds the norm to the weight's type and divides in double.
  norm = a.reshape(a.cast(a.cast(norm, dtype), DType::f64), {count, 1});
  ir::Value* limit = a.number(DType::f64, most);
  ir::Value* scale = a.op(Op::div, limit, a.op(Op::add, norm, a.number(DType::f64, 1e-7)));
  ir::Value* scaled = a.cast(a.op(Op::mul, picked, a.cast(scale, compute)), dtype);
  ir::Value* kept = a.where(a.op(Op::gt, norm, limit), scaled, a.cast(picked, dtype));
  ir::Value* result = a.index_put(a.reshape(weight->value, weight->sizes), 0, {&rows, 1}, kept, "set");
  return call.give(call.copy(result, call.type(weight->dtype, weight->sizes, weight->strides)));
}

/// index_select(self, dim, index)
bool index_select(Call& call, const RuleRow&) {
  const auto x = call.operand(0), index = call.operand(2);
  if (!x || !index || x->is_number() || !is_index(*index) || index->sizes.size() > 1) return false;
  Arithmetic a(call);
  Sizes sizes = at_least_one(x->sizes);
  const auto dim = wrap(call.integer(1), static_cast<int64_t>(sizes.size()));
  const Dim count = numel(index->sizes);
  if (!dim || (x->sizes.empty() && count != 1) || sizes[*dim] == 0) return false;
  ir::Value* from = a.reshape(x->value, sizes);
  sizes[*dim] = count;
  ir::Value* picked = call.node(Op::index_select, {from, a.reshape(index->value, {count})},
                                call.contiguous(x->dtype, sizes), {{"dim", *dim}});
  return call.give(x->sizes.empty() ? a.reshape(picked, {}) : picked);
}

/// gather(self, dim, index, *, sparse_grad)
bool gather(Call& call, const RuleRow&) {
  const auto x = call.operand(0), index = call.operand(2);
  if (!x || !index || x->is_number()) return false;
  if (numel(index->sizes) == 0) return call.give(call.full(call.contiguous(x->dtype, index->sizes), 0));
  if (!is_index(*index)) return false;
  const Sizes from = at_least_one(x->sizes), sizes = at_least_one(index->sizes);
  const auto rank = static_cast<int64_t>(from.size());
  const auto dim = wrap(call.integer(1), rank);
  if (!dim || from[*dim] == 0) return false;
  Arithmetic a(call);
  if (static_cast<int64_t>(sizes.size()) != rank) return false;
  for (int64_t k = 0; k < rank; ++k)
    if (k != *dim && sizes[k] > from[k]) return false;
  ir::Value* picked = call.node(Op::gather, {a.reshape(x->value, from), a.reshape(index->value, sizes)},
                                call.contiguous(x->dtype, sizes), {{"dim", *dim}});
  return call.give(a.reshape(picked, index->sizes));
}

/// take(self, index): of the elements in row-major order.
bool take(Call& call, const RuleRow&) {
  const auto x = call.operand(0), index = call.operand(1);
  if (!x || !index || x->is_number() || !is_index(*index)) return false;
  if (numel(index->sizes) == 0) return call.give(call.full(call.contiguous(x->dtype, index->sizes), 0));
  if (numel(x->sizes) == 0) return false;
  Arithmetic a(call);
  ir::Value* const indices[] = {a.reshape(index->value, {numel(index->sizes)})};
  ir::Value* picked = a.index(a.reshape(x->value, {numel(x->sizes)}), 0, indices);
  return call.give(call.copy(a.reshape(picked, index->sizes), call.contiguous(x->dtype, index->sizes)));
}

/// index.Tensor(self, indices): integer tensors for any dimensions. Masks have shapes that the data decides.
bool index(Call& call, const RuleRow&) {
  const auto x = call.operand(0);
  if (!x || x->is_number()) return false;
  std::vector<Operand> indices;
  Places dims;
  Sizes joined;
  const auto given = call.arg(1).toOptionalTensorVector();
  for (size_t k = 0; k < given.size(); ++k) {
    if (!given[k] || !given[k]->defined()) continue;
    auto one = call.operand_of(*given[k]);
    if (!one || !is_index(*one) || !broadcast_into(joined, one->sizes)) return false;
    dims.push_back(static_cast<int64_t>(k));
    indices.push_back(std::move(*one));
  }
  if (dims.empty() || dims.back() >= static_cast<int64_t>(x->sizes.size())) return false;
  // Sizes of zero are refused by eager if the indexed dimension is empty; leave those to it.
  if (numel(x->sizes) == 0 || numel(joined) == 0) return false;
  // Indexed dimensions that are not adjacent come first.
  const bool adjacent = dims.back() - dims.front() + 1 == std::ssize(dims);
  Places order = adjacent ? Places() : dims;
  for (int64_t k = 0; k < std::ssize(x->sizes); ++k)
    if (adjacent || std::ranges::find(dims, k) == dims.end()) order.push_back(k);
  Arithmetic a(call);
  ir::Value* from = adjacent ? x->value : a.permute(x->value, order);
  const int64_t first = adjacent ? dims[0] : 0, count = std::ssize(dims);
  // TensorIterator sees self with strides of 0 in the indexed dimensions, and the indices in their place.
  Sizes sizes, strides;
  for (int64_t k = 0; k < std::ssize(order); ++k) {
    if (k == first) {
      sizes.append(joined.begin(), joined.end());
      strides.append(joined.size(), 0);
    }
    if (k >= first && k < first + count) continue;
    sizes.push_back(x->sizes[order[k]]);
    strides.push_back(x->strides[order[k]]);
  }
  const int64_t after = std::ssize(order) - first - count;
  c10::SmallVector<ir::Value*, 4> values;
  std::vector<Sizes> shapes(2 * indices.size());
  std::vector<Layout> layouts{{sizes, strides}};
  for (size_t k = 0; k < indices.size(); ++k) {
    // Each index is expanded to the joined shape, and then viewed with dimensions of size 1 around it: their
    // strides count where self has a dimension of size 1 too.
    Sizes &shape = shapes[2 * k], &steps = shapes[2 * k + 1];
    const Operand& one = indices[k];
    Sizes expanded(joined.size(), 0);
    const size_t added = joined.size() - one.sizes.size();
    for (size_t d = 0; d < one.sizes.size(); ++d)
      if (one.sizes[d] == joined[added + d]) expanded[added + d] = one.strides[d];
    shape.assign(first, 1);
    shape.append(joined.begin(), joined.end());
    shape.append(after, 1);
    const auto viewed = view_strides(joined, expanded, shape);
    if (!viewed) return false;
    steps.assign(viewed->begin(), viewed->end());
    layouts.push_back({shape, steps});
    values.push_back(one.value);
  }
  ir::Value* picked = a.index(from, first, {values.data(), values.size()});
  return call.give(call.copy(picked, call.type(x->dtype, sizes, iterator_strides(layouts, sizes))));
}

}  // namespace

std::span<const RuleRow> indexing_rules() {
  static constexpr RuleRow rows[] = {
      {"embedding", embedding},
      {"embedding_renorm", embedding_renorm},
      {"index_select", index_select},
      {"gather", gather},
      {"take", take},
      {"index.Tensor", index},
  };
  return rows;
}

}  // namespace braze::capture
