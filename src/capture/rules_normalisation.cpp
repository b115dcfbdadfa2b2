// Normalisations: softmax, layer norm, batch norm with fixed statistics.
#include <limits>

#include "capture/call.h"

namespace braze::capture {
namespace {

/// _softmax and _log_softmax: (self, dim, half_to_float). Contiguous results.
bool softmax(Call& call, const RuleRow& row) {
  const auto x = call.operand(0);
  if (!x || x->is_number() || !c10::isFloatingType(x->dtype) || x->sizes.empty() || call.flag(2)) return false;
  const auto dim = wrap(call.integer(1), static_cast<int64_t>(x->sizes.size()));
  return dim && call.give(call.node(row.op, {x->value}, call.contiguous(x->dtype, x->sizes), {{"dim", *dim}}));
}

/// _safe_softmax(self, dim, dtype): 0 where a whole row is -inf. Source: ATen/native/transformers/attention.cpp.
bool safe_softmax(Call& call, const RuleRow&) {
  const auto x = call.operand(0);
  if (!x || x->is_number() || !c10::isFloatingType(x->dtype) || x->sizes.empty()) return false;
  const ScalarType dtype = call.dtype(2).value_or(x->dtype);
  const auto dim = wrap(call.integer(1), static_cast<int64_t>(x->sizes.size()));
  if (!dim || !c10::isFloatingType(dtype)) return false;
  const ir::Type* type = call.contiguous(dtype, x->sizes);
  const ir::Type* mask = call.contiguous(ScalarType::Bool, x->sizes);
  Sizes kept = x->sizes;
  kept[*dim] = 1;
  ir::Value* soft = call.node(Op::softmax, {call.cast(x->value, to_dtype(dtype))}, type, {{"dim", *dim}});
  ir::Value* lowest = call.scalar(x->dtype, -std::numeric_limits<double>::infinity());
  ir::Value* masked = call.node(Op::eq, {x->value, lowest}, mask);
  const std::span<const int64_t> dims(&*dim, 1);
  ir::Value* rows =
      call.node(Op::all, {masked}, call.contiguous(ScalarType::Bool, kept), {{"dims", dims}, {"keepdim", true}});
  return call.give(call.node(Op::where, {rows, call.scalar(dtype, 0), soft}, type));
}

/// native_layer_norm(input, normalized_shape, weight, bias, eps) -> (output, mean, rstd)
bool layer_norm(Call& call, const RuleRow&) {
  const auto x = call.operand(0);
  if (!x || x->is_number() || !c10::isFloatingType(x->dtype)) return false;
  const Sizes shape = call.ints(1);
  const size_t rank = shape.size();
  if (rank == 0 || rank > x->sizes.size() || !std::equal(shape.begin(), shape.end(), x->sizes.end() - rank))
    return false;
  if (!call.has(2) && call.has(3)) return false;
  c10::SmallVector<ir::Value*, 3> operands{x->value};
  for (size_t i = 2; i < 4; ++i) {
    if (!call.has(i)) continue;
    const auto affine = call.operand(i);
    if (!affine || affine->dtype != x->dtype || affine->sizes != shape) return false;
    operands.push_back(affine->value);
  }
  Sizes kept = x->sizes;
  for (size_t k = kept.size() - rank; k < kept.size(); ++k) kept[k] = 1;
  const ir::Type* statistics = call.contiguous(x->dtype, kept);
  const ir::Type* types[] = {call.contiguous(x->dtype, x->sizes), statistics, statistics};
  const ir::Attr attrs[] = {{"rank", static_cast<int64_t>(rank)}, {"eps", ir::Number::of(call.real(4))}};
  ir::Node* node = call.graph().create(Op::layer_norm, {operands.data(), operands.size()}, attrs, types);
  for (size_t k = 0; k < 3; ++k) call.give(node->result(k));
  return true;
}

/// Batch norm with the running statistics: x * (w / sqrt(var + eps)) + (b - mean * that), as the CPU's kernel does.
/// variant: where `training` and `eps` stand; -1: never training. Results: output, and two empty statistics.
struct BatchNormForm {
  int training, eps;
};
constexpr BatchNormForm kBatchNormForms[] = {{5, 7}, {-1, 6}};

bool batch_norm(Call& call, const RuleRow& row) {
  const BatchNormForm& form = kBatchNormForms[row.variant];
  if (form.training >= 0 && call.flag(form.training)) return false;
  const auto x = call.operand(0);
  if (!x || x->dtype != ScalarType::Float || x->sizes.size() < 2 || !call.has(3) || !call.has(4)) return false;
  if (Sizes(x->strides) != contiguous(x->sizes)) return false;
  const Sizes channels{x->sizes[1]};
  std::optional<Operand> parts[4];  // weight, bias, mean, variance
  for (size_t k = 0; k < 4; ++k) {
    if (!call.has(k + 1)) continue;
    parts[k] = call.operand(k + 1);
    if (!parts[k] || parts[k]->dtype != x->dtype || parts[k]->sizes != channels) return false;
  }
  const ir::Type* row_type = call.contiguous(x->dtype, channels);
  const auto rows = [&](Op op, std::initializer_list<ir::Value*> operands) {
    return call.node(op, operands, row_type);
  };
  ir::Value* variance = rows(Op::add, {parts[3]->value, call.scalar(x->dtype, call.real(form.eps))});
  ir::Value* scale = rows(Op::div, {call.scalar(x->dtype, 1), rows(Op::sqrt, {variance})});
  if (parts[0]) scale = rows(Op::mul, {scale, parts[0]->value});
  ir::Value* shift = rows(Op::mul, {parts[2]->value, scale});
  shift = parts[1] ? rows(Op::sub, {parts[1]->value, shift}) : rows(Op::neg, {shift});
  Sizes column(x->sizes.size() - 1, 1);
  column[0] = channels[0];
  const ir::Type* column_type = call.contiguous(x->dtype, column);
  const ir::Type* type = call.contiguous(x->dtype, x->sizes);
  ir::Value* scaled = call.node(Op::mul, {x->value, call.node(Op::reshape, {scale}, column_type)}, type);
  call.give(call.node(Op::add, {scaled, call.node(Op::reshape, {shift}, column_type)}, type));
  const ir::Type* none = call.contiguous(x->dtype, {0});
  call.give(call.full(none, 0));
  return call.give(call.full(none, 0));
}

}  // namespace

std::span<const RuleRow> normalisation_rules() {
  static constexpr RuleRow rows[] = {
      {"_softmax", softmax, Op::softmax},
      {"_log_softmax", softmax, Op::log_softmax},
      {"_safe_softmax", safe_softmax},
      {"native_layer_norm", layer_norm},
      {"native_batch_norm", batch_norm, Op::input, 0},
      {"_native_batch_norm_legit_no_training", batch_norm, Op::input, 1},
  };
  return rows;
}

}  // namespace braze::capture
