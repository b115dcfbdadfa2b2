// Normalisations over rows: softmax, layer norm, group norm.
#include <limits>

#include "capture/arithmetic.h"

namespace braze::capture {
namespace {

/// _softmax and _log_softmax: (self, dim, half_to_float). Contiguous results. GPUs alone give f32 for half types.
bool softmax(Call& call, const RuleRow& row) {
  auto x = call.operand(0);
  if (!x || x->is_number() || !c10::isFloatingType(x->dtype)) return false;
  if (call.flag(2)) {
    if (call.device().is_cpu() || x->dtype != ScalarType::Half) return false;
    x->value = call.cast(x->value, DType::f32);
    x->dtype = ScalarType::Float;
  }
  if (x->sizes.empty()) {  // 1 and 0, NaN for NaN and infinities
    if (call.integer(1) != 0 && call.integer(1) != -1) return false;
    ir::Value* nothing = call.node(Op::sub, {x->value, x->value}, x->value->type);
    return call.give(row.op == Op::softmax ? call.node(Op::exp, {nothing}, x->value->type) : nothing);
  }
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
  // Of half types, GPUs keep them in f32.
  const ScalarType wide = call.device().is_cpu() ? x->dtype : to_scalar_type(ir::compute_dtype(to_dtype(x->dtype)));
  const ir::Type* statistics = call.contiguous(wide, kept);
  if (is_empty(shape) && call.device().is_cpu()) {  // The mean of nothing is 0 in eager's kernel.
    call.give(call.full(call.contiguous(x->dtype, x->sizes), 0));
    call.give(call.full(statistics, 0));
    return call.give(call.full(statistics, std::numeric_limits<double>::quiet_NaN()));
  }
  const ir::Type* types[] = {call.contiguous(x->dtype, x->sizes), statistics, statistics};
  const ir::Attr attrs[] = {{"rank", static_cast<int64_t>(rank)}, {"eps", ir::Number::of(call.real(4))}};
  ir::Node* node = call.graph().create(Op::layer_norm, {operands.data(), operands.size()}, attrs, types);
  for (size_t k = 0; k < 3; ++k) call.give(node->result(k));
  return true;
}

/// native_group_norm(input, weight, bias, N, C, HxW, groups, eps) -> (output, mean, rstd): a layer norm of each
/// group, then the channels' weight and bias. Those of a CPU may be f32 beside a half type (autocast), and so are
/// mean and rstd then.
bool group_norm(Call& call, const RuleRow&) {
  const auto x = call.operand(0);
  if (!x || x->is_number() || !c10::isFloatingType(x->dtype) || x->sizes.size() < 2) return false;
  const Dim batch = x->sizes[0], channels = x->sizes[1];
  const int64_t groups = call.integer(6);
  if (groups <= 0 || channels % groups != 0) return false;
  if (batch == 0) {
    const ir::Type* none = call.contiguous(x->dtype, {batch, groups});
    call.give(call.full(call.contiguous(x->dtype, x->sizes), 0));
    call.give(call.full(none, 0));
    return call.give(call.full(none, 0));
  }
  if (!is_row_major(x->sizes, x->strides) || numel(x->sizes) == 0) return false;
  Sizes column(x->sizes.size() - 1, 1);
  column[0] = channels;
  const DType compute = ir::compute_dtype(to_dtype(x->dtype));
  const ir::Type* type = call.contiguous(to_scalar_type(compute), x->sizes);
  ir::Value* affine[2] = {};
  ScalarType kept_dtype = x->dtype;
  for (size_t k = 0; k < 2; ++k) {
    if (!call.has(k + 1)) continue;
    const auto part = call.operand(k + 1);
    if (!part || part->sizes != Sizes{channels}) return false;
    if (part->dtype != (k == 0 || !affine[0] ? x->dtype : kept_dtype)) {
      const bool is_mixed = part->dtype == ScalarType::Float && c10::isReducedFloatingType(x->dtype);
      if (!is_mixed || !call.device().is_cpu() || affine[0]) return false;
      kept_dtype = part->dtype;
    }
    affine[k] =
        call.node(Op::reshape, {call.cast(part->value, compute)}, call.contiguous(to_scalar_type(compute), column));
  }
  const Dim in_group = channels / groups * numel(DimsRef(x->sizes).slice(2));
  const Sizes grouped{batch, groups, in_group}, kept{batch, groups, 1}, rows{batch, groups};
  const ir::Type* grouped_type = call.contiguous(to_scalar_type(compute), grouped);
  const ir::Type* statistics = call.contiguous(to_scalar_type(compute), kept);
  const ir::Type* types[] = {grouped_type, statistics, statistics};
  const ir::Attr attrs[] = {{"rank", int64_t{1}}, {"eps", ir::Number::of(call.real(7))}};
  ir::Value* groups_of_x = call.node(Op::reshape, {call.cast(x->value, compute)}, grouped_type);
  ir::Node* norm = call.graph().create(Op::layer_norm, {&groups_of_x, 1}, attrs, types);
  ir::Value* result = call.node(Op::reshape, {norm->result(0)}, type);
  if (affine[0]) result = call.node(Op::mul, {result, affine[0]}, type);
  if (affine[1]) result = call.node(Op::add, {result, affine[1]}, type);
  // Of row-major tensors too the CPU's kernel asks which format is suggested: dimensions of size 1 may tell.
  const auto format = call.device().is_cpu() ? suggested_format(*x) : c10::MemoryFormat::Contiguous;
  call.give(call.copy(call.cast(result, to_dtype(x->dtype)),
                      call.type(x->dtype, x->sizes, format_strides(x->sizes, format))));
  const ir::Type* flat = call.contiguous(to_scalar_type(compute), rows);
  for (size_t k = 1; k < 3; ++k)
    call.give(call.cast(call.node(Op::reshape, {norm->result(k)}, flat), to_dtype(kept_dtype)));
  return true;
}

/// _softmax_backward_data(grad, output, dim, input_dtype): (grad - sum(grad * output)) * output, as CUDA's kernel
/// has it grad * output - sum(grad * output) * output; and _log_softmax_backward_data: grad - exp(output) *
/// sum(grad).
bool softmax_backward(Call& call, const RuleRow& row) {
  const auto grad = call.operand(0), y = call.operand(1);
  if (!grad || !y || grad->is_number() || y->is_number() || !c10::isFloatingType(y->dtype)) return false;
  if (grad->dtype != y->dtype || call.dtype(3) != y->dtype || grad->sizes != y->sizes || numel(y->sizes) == 0)
    return false;
  const auto rank = static_cast<int64_t>(y->sizes.size());
  const auto dim = wrap(call.integer(2), rank);
  if (!dim || rank == 0) return false;
  const ScalarType compute = to_scalar_type(ir::compute_dtype(to_dtype(y->dtype)));
  const ir::Type* type = call.contiguous(compute, y->sizes);
  Sizes kept = y->sizes;
  kept[*dim] = 1;
  ir::Value *g = call.cast(grad->value, type->dtype), *out = call.cast(y->value, type->dtype);
  const bool is_log = row.op == Op::log_softmax;
  const int64_t dims[] = {*dim};
  const auto binary = [&](Op op, ir::Value* a, ir::Value* b) { return call.node(op, {a, b}, type); };
  ir::Value* summed = is_log ? g : binary(Op::mul, g, out);
  ir::Value* sum =
      call.node(Op::sum, {summed}, call.contiguous(compute, kept), {{"dims", std::span(dims)}, {"keepdim", true}});
  ir::Value* result;
  if (is_log)
    result = binary(Op::sub, g, binary(Op::mul, call.node(Op::exp, {out}, type), sum));
  else if (call.device().is_cpu())
    result = binary(Op::mul, binary(Op::sub, g, sum), out);
  else
    result = binary(Op::sub, summed, binary(Op::mul, out, sum));
  return call.give(call.cast(result, to_dtype(y->dtype)));
}

/// _weight_norm_interface(v, g, dim) -> (v * g / norm, norm): the norm of each slice along dim, the first or last
/// one.
bool weight_norm(Call& call, const RuleRow&) {
  const auto v = call.operand(0), g = call.operand(1);
  if (!v || !g || v->is_number() || !c10::isFloatingType(v->dtype) || g->dtype != v->dtype) return false;
  const auto rank = static_cast<int64_t>(v->sizes.size());
  const int64_t dim = call.integer(2);
  if (rank < 2 || (dim != 0 && dim != rank - 1) || numel(v->sizes) == 0) return false;
  Sizes kept(v->sizes.size(), 1), others;
  kept[dim] = v->sizes[dim];
  for (int64_t k = 0; k < rank; ++k)
    if (k != dim) others.push_back(k);
  if (g->sizes != kept) return false;
  Arithmetic a(call);
  const DType dtype = computing_dtype(v->dtype);
  ir::Value *value = call.cast(v->value, dtype), *size = call.cast(g->value, dtype);
  ir::Value* norm = a.reshape(a.op(Op::sqrt, a.reduce(Op::sum, a.op(Op::mul, value, value), others)), kept);
  ir::Value* result = a.op(Op::mul, value, a.op(Op::div, size, norm));
  call.give(call.copy(call.cast(result, to_dtype(v->dtype)), call.contiguous(v->dtype, v->sizes)));
  return call.give(call.copy(norm, call.contiguous(to_scalar_type(dtype), kept)));
}

/// _weight_norm_interface_backward(grad_w, v, g, norm, dim) -> the gradients of v and g: with s the sum of grad_w *
/// v of a slice, g / norm * (grad_w - v * s / norm**2) and s / norm.
bool weight_norm_backward(Call& call, const RuleRow&) {
  const auto gradient = call.operand(0), v = call.operand(1), g = call.operand(2), norm = call.operand(3);
  if (!gradient || !v || !g || !norm || v->is_number() || !c10::isFloatingType(v->dtype)) return false;
  if (gradient->dtype != v->dtype || g->dtype != v->dtype || gradient->sizes != v->sizes) return false;
  const auto rank = static_cast<int64_t>(v->sizes.size());
  const int64_t dim = call.integer(4);
  if (rank < 2 || (dim != 0 && dim != rank - 1) || is_empty(v->sizes)) return false;
  Sizes kept(v->sizes.size(), 1), others;
  kept[dim] = v->sizes[dim];
  for (int64_t k = 0; k < rank; ++k)
    if (k != dim) others.push_back(k);
  if (g->sizes != kept || numel(norm->sizes) != kept[dim]) return false;
  Arithmetic a(call);
  const DType dtype = computing_dtype(v->dtype);
  ir::Value *value = call.cast(v->value, dtype), *given = call.cast(gradient->value, dtype);
  ir::Value *size = call.cast(g->value, dtype), *length = a.reshape(call.cast(norm->value, dtype), kept);
  ir::Value* sum = a.reshape(a.reduce(Op::sum, a.op(Op::mul, given, value), others), kept);
  ir::Value* along = a.op(Op::div, sum, a.op(Op::mul, length, length));
  ir::Value* across = a.op(Op::sub, given, a.op(Op::mul, value, along));
  ir::Value* of_v = a.op(Op::mul, a.op(Op::div, size, length), across);
  const DType stored = to_dtype(v->dtype);
  call.give(call.copy(call.cast(of_v, stored), call.contiguous(v->dtype, v->sizes)));
  return call.give(call.copy(call.cast(a.op(Op::div, sum, length), stored), call.contiguous(v->dtype, kept)));
}

}  // namespace

std::span<const RuleRow> normalisation_rules() {
  static constexpr RuleRow rows[] = {
      {"_softmax", softmax, Op::softmax},
      {"_log_softmax", softmax, Op::log_softmax},
      {"_safe_softmax", safe_softmax},
      {"native_layer_norm", layer_norm},
      {"native_group_norm", group_norm},
      {"_softmax_backward_data", softmax_backward, Op::softmax},
      {"_log_softmax_backward_data", softmax_backward, Op::log_softmax},
      {"_weight_norm_interface", weight_norm},
      {"_weight_norm_interface_backward", weight_norm_backward},
  };
  return rows;
}

}  // namespace braze::capture
