// The gradients of losses. Formulas are those of ATen's kernels.
#include "capture/arithmetic.h"
#include "capture/index_map.h"
#include "capture/pointwise.h"

namespace braze::capture {
namespace {

/// Of (grad, self, target, ...): `formula` of gradient, self and target, over the count of elements for a mean.
template <typename Formula>
bool loss_backward(Call& call, int64_t reduction, bool keeps_layout, Formula&& formula) {
  const auto g = call.operand(0), x = call.operand(1), y = call.operand(2);
  if (!g || !x || !y || g->is_number() || x->is_number() || y->is_number()) return false;
  if (!c10::isFloatingType(x->dtype) || g->dtype != x->dtype || y->dtype != x->dtype) return false;
  const Dim count = numel(x->sizes);
  if (count == 0 || y->sizes != x->sizes) return false;
  Pointwise p(call, x->dtype, {&*x, &*y, &*g});
  if (!p.valid() || to_ref(p.type()->sizes) != DimsRef(x->sizes)) return false;
  p.compute_in_float();
  ir::Value* result = formula(p, p.in(*g), p.in(*x), p.in(*y));
  const DType dtype = result->type->dtype;
  if (reduction == at::Reduction::Mean)
    result = p.op(Op::mul, result,
                  count.is_number()
                      ? p.number(1.0 / static_cast<double>(count.hint()))
                      : call.node(Op::reciprocal, {number_of(call.graph(), count, to_device(call.device()), dtype)},
                                  call.contiguous(to_scalar_type(dtype), {})));
  const Sizes strides = keeps_layout ? preserved_strides(x->sizes, x->strides) : contiguous(x->sizes);
  return call.give(call.copy(call.cast(result, to_dtype(x->dtype)), call.type(x->dtype, x->sizes, strides)));
}

/// mse_loss_backward(grad, self, target, reduction): 2 * (self - target) * grad
bool mse_loss_backward(Call& call, const RuleRow&) {
  return loss_backward(call, call.integer(3), false, [](Pointwise& p, ir::Value* g, ir::Value* x, ir::Value* y) {
    return p.op(Op::mul, p.op(Op::mul, p.number(2), p.op(Op::sub, x, y)), g);
  });
}

/// smooth_l1_loss_backward(grad, self, target, reduction, beta): (self - target) / beta, at most 1 and at least -1.
bool smooth_l1_loss_backward(Call& call, const RuleRow&) {
  const double beta = call.real(4);
  return loss_backward(call, call.integer(3), false, [&](Pointwise& p, ir::Value* g, ir::Value* x, ir::Value* y) {
    ir::Value* difference = p.op(Op::sub, x, y);
    ir::Value* inner = p.op(Op::div, p.op(Op::mul, difference, g), p.number(beta));
    ir::Value* above = p.where(p.test(Op::ge, difference, p.number(beta)), g, inner);
    return p.where(p.test(Op::le, difference, p.number(-beta)), p.op(Op::neg, g), above);
  });
}

/// huber_loss_backward(grad, self, target, reduction, delta): self - target, at most delta and at least -delta.
bool huber_loss_backward(Call& call, const RuleRow&) {
  const double delta = call.real(4);
  return loss_backward(call, call.integer(3), false, [&](Pointwise& p, ir::Value* g, ir::Value* x, ir::Value* y) {
    ir::Value* difference = p.op(Op::sub, x, y);
    ir::Value* above = p.where(p.test(Op::ge, difference, p.number(delta)), p.op(Op::mul, g, p.number(delta)),
                               p.op(Op::mul, difference, g));
    return p.where(p.test(Op::le, difference, p.number(-delta)), p.op(Op::mul, g, p.number(-delta)), above);
  });
}

/// binary_cross_entropy_backward(grad, self, target, weight, reduction): weight * (x - y) / (x * (1 - x))
bool binary_cross_entropy_backward(Call& call, const RuleRow&) {
  std::optional<Operand> weight;
  if (call.has(3)) {
    weight = call.operand(3);
    const auto x = call.operand(1);
    if (!weight || !x || weight->is_number() || weight->dtype != x->dtype) return false;
    Sizes sizes = x->sizes;
    if (!broadcast_into(sizes, weight->sizes) || sizes != x->sizes) return false;
  }
  return loss_backward(call, call.integer(4), true, [&](Pointwise& p, ir::Value* g, ir::Value* x, ir::Value* y) {
    ir::Value* spread = p.op(Op::mul, p.op(Op::sub, p.number(1), x), x);
    ir::Value* top = p.op(Op::mul, g, p.op(Op::sub, x, y));
    ir::Value* result = p.op(Op::div, top, p.op(Op::maximum, spread, p.number(1e-12)));
    return weight ? p.op(Op::mul, result, p.in(*weight)) : result;
  });
}

/// nll_loss_backward and nll_loss2d_backward: (grad, self, target, weight, reduction, ignore_index, total_weight):
/// -weight[t] * grad in the place of the target, if it is not to be ignored; over the total weight for a mean.
bool nll_loss_backward(Call& call, const RuleRow&) {
  const auto g = call.operand(0), x = call.operand(1), target = call.operand(2), total = call.operand(6);
  if (!g || !x || !target || !total || x->is_number() || x->sizes.empty() || numel(x->sizes) == 0) return false;
  if (!c10::isFloatingType(x->dtype) || g->dtype != x->dtype || total->dtype != x->dtype) return false;
  if (target->dtype != ScalarType::Long) return false;
  const size_t rank = x->sizes.size(), dim = rank == 1 ? 0 : 1;
  Sizes column = x->sizes;
  column[dim] = 1;
  if (numel(target->sizes) != numel(column)) return false;
  std::optional<Operand> weight;
  if (call.has(3)) {
    weight = call.operand(3);
    if (!weight || weight->dtype != x->dtype || weight->sizes != Sizes{x->sizes[dim]}) return false;
  }
  const int64_t reduction = call.integer(4);
  const bool is_reduced = reduction != at::Reduction::None;
  if (is_reduced && numel(g->sizes) != 1) return false;
  if (!is_reduced && numel(g->sizes) != numel(column)) return false;
  Arithmetic a(call);
  const DType dtype = computing_dtype(x->dtype);
  ir::Value* labels = a.reshape(target->value, column);
  ir::Value* gradient = call.cast(g->value, dtype);
  gradient = is_reduced ? a.reshape(gradient, {}) : a.reshape(gradient, column);
  gradient = a.op(Op::neg, gradient);
  if (reduction == at::Reduction::Mean)
    gradient = a.op(Op::div, gradient, a.reshape(call.cast(total->value, dtype), {}));
  if (weight) {
    Sizes row(rank, 1);
    row[dim] = x->sizes[dim];
    gradient = a.op(Op::mul, gradient, a.reshape(call.cast(weight->value, dtype), row));
  }
  ir::Value* hit = a.op(Op::eq, a.along(a.count(x->sizes[dim]), dim, rank), labels);
  hit = a.op(Op::bitwise_and, hit, a.op(Op::ne, labels, a.number(DType::i64, static_cast<int64_t>(call.dim(5)))));
  ir::Value* result = a.expand(a.where(hit, gradient, a.number(dtype, 0)), x->sizes);
  return call.give(call.copy(call.cast(result, to_dtype(x->dtype)), call.contiguous(x->dtype, x->sizes)));
}

}  // namespace

std::span<const RuleRow> loss_backward_rules() {
  static constexpr RuleRow rows[] = {
      {"mse_loss_backward", mse_loss_backward},
      {"smooth_l1_loss_backward", smooth_l1_loss_backward},
      {"huber_loss_backward", huber_loss_backward},
      {"binary_cross_entropy_backward", binary_cross_entropy_backward},
      {"nll_loss_backward", nll_loss_backward},
      {"nll_loss2d_backward", nll_loss_backward},
  };
  return rows;
}

}  // namespace braze::capture
