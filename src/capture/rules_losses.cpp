// Losses: elementwise formulas, then the mean or the sum over everything.
#include "capture/arithmetic.h"
#include "capture/pointwise.h"

namespace braze::capture {
namespace {

enum Reduction { kNone = 0, kMean = 1, kSum = 2 };  // at::Reduction

/// Ends a rule: the elements themselves, or all of them reduced to one. f16 and bf16 are summed in f32.
bool give_loss(Call& call, Pointwise& p, ir::Value* value, int64_t reduction) {
  if (reduction == kNone) return p.give(value);
  std::vector<int64_t> dims;
  for (int64_t dim = 0; dim < p.type()->rank(); ++dim) dims.push_back(dim);
  const ScalarType compute = to_scalar_type(value->type->dtype);
  if (!dims.empty())
    value = call.node(reduction == kMean ? Op::mean : Op::sum, {value}, call.contiguous(compute, {}),
                      {{"dims", std::span<const int64_t>(dims)}, {"keepdim", false}});
  return call.give(call.cast(value, p.type()->dtype));
}

/// A loss of (input, target), both of one floating dtype, reduced as argument `reduction` says.
template <typename Formula>
bool loss(Call& call, size_t reduction, Formula&& formula) {
  const auto x = call.operand(0), y = call.operand(1);
  if (!x || !y || x->is_number() || y->is_number()) return false;
  const ScalarType dtype = promoted({&*x, &*y});
  if (!c10::isFloatingType(dtype) || !is_kernel_dtype(dtype)) return false;
  Pointwise p(call, dtype, {&*x, &*y});
  if (!p.valid()) return false;
  p.compute_in_float();
  return give_loss(call, p, formula(p, p.in(*x), p.in(*y)), call.integer(reduction));
}

/// mse_loss(self, target, reduction)
bool mse_loss(Call& call, const RuleRow&) {
  return loss(call, 2, [](Pointwise& p, ir::Value* x, ir::Value* y) {
    ir::Value* difference = p.op(Op::sub, x, y);
    return p.op(Op::mul, difference, difference);
  });
}

/// smooth_l1_loss(self, target, reduction, beta): z < beta ? z*z / (2*beta) : z - beta/2 with z = |x - y|
bool smooth_l1_loss(Call& call, const RuleRow&) {
  const double beta = call.real(3);
  if (!(beta > 0)) return false;  // |x - y|, or an error
  return loss(call, 2, [&](Pointwise& p, ir::Value* x, ir::Value* y) {
    ir::Value* z = p.op(Op::abs, p.op(Op::sub, x, y));
    ir::Value* square = p.op(Op::mul, p.op(Op::mul, p.number(0.5), z), z);
    return p.where(p.test(Op::lt, z, p.number(beta)), p.op(Op::div, square, p.number(beta)),
                   p.op(Op::sub, z, p.number(0.5 * beta)));
  });
}

/// huber_loss(self, target, reduction, delta): z <= delta ? z*z / 2 : delta * (z - delta/2)
bool huber_loss(Call& call, const RuleRow&) {
  const double delta = call.real(3);
  const auto x = call.operand(0), target = call.operand(1);
  if (!(delta > 0) || !x || !target || lies_as_empty_like(*x)) return false;
  if (target->dtype != x->dtype) return false;  // The result is of the input's type, or refused.
  return loss(call, 2, [&](Pointwise& p, ir::Value* x, ir::Value* y) {
    ir::Value* z = p.op(Op::abs, p.op(Op::sub, x, y));
    ir::Value* square = p.op(Op::mul, p.op(Op::mul, p.number(0.5), z), z);
    ir::Value* line = p.op(Op::mul, p.number(delta), p.op(Op::sub, z, p.number(0.5 * delta)));
    return p.where(p.test(Op::le, z, p.number(delta)), square, line);
  });
}

/// soft_margin_loss(self, target, reduction): log(1 + exp(-y*x))
bool soft_margin_loss(Call& call, const RuleRow&) {
  const auto x = call.operand(0), y = call.operand(1);
  if (!x || !y || x->sizes != y->sizes) return false;  // It is computed into a tensor of the input's sizes.
  return loss(call, 2, [](Pointwise& p, ir::Value* x, ir::Value* y) {
    return p.op(Op::log1p, p.op(Op::exp, p.op(Op::mul, p.op(Op::neg, x), y)));
  });
}

/// binary_cross_entropy_with_logits(self, target, weight, pos_weight, reduction)
bool bce_with_logits(Call& call, const RuleRow&) {
  const auto x = call.operand(0), y = call.operand(1);
  if (!x || !y || x->dtype != y->dtype || !c10::isFloatingType(x->dtype) || x->sizes != y->sizes) return false;
  if (lies_as_empty_like(*x)) return false;
  std::optional<Operand> weights[2];  // of elements, of positive examples
  for (size_t k = 0; k < 2; ++k) {
    if (!call.has(2 + k)) continue;
    weights[k] = call.operand(2 + k);
    Sizes sizes = x->sizes;
    if (!weights[k] || weights[k]->dtype != x->dtype || !broadcast_into(sizes, weights[k]->sizes) ||
        sizes != x->sizes)
      return false;
  }
  Pointwise p(call, x->dtype, {&*y, &*x});
  if (!p.valid()) return false;
  p.compute_in_float();
  ir::Value *logit = p.in(*x), *target = p.in(*y);
  // log(sigmoid(x)) = min(x, 0) - log(1 + exp(-|x|))
  ir::Value* tail = p.op(Op::log1p, p.op(Op::exp, p.op(Op::neg, p.op(Op::abs, logit))));
  ir::Value* log_sigmoid = p.op(Op::sub, p.op(Op::minimum, logit, p.number(0)), tail);
  if (weights[1]) {
    ir::Value* more = p.op(Op::mul, p.op(Op::sub, p.in(*weights[1]), p.number(1)), target);
    log_sigmoid = p.op(Op::mul, log_sigmoid, p.op(Op::add, more, p.number(1)));
  }
  ir::Value* result = p.op(Op::sub, p.op(Op::mul, p.op(Op::sub, p.number(1), target), logit), log_sigmoid);
  if (weights[0]) result = p.op(Op::mul, result, p.in(*weights[0]));
  return give_loss(call, p, result, call.integer(4));
}

/// binary_cross_entropy(self, target, weight, reduction): -log(x) where the target is 1, -log(1 - x) where it is 0,
/// each at most 100.
bool binary_cross_entropy(Call& call, const RuleRow&) {
  const auto x = call.operand(0), y = call.operand(1);
  if (!x || !y || x->dtype != y->dtype || !c10::isFloatingType(x->dtype) || x->sizes != y->sizes) return false;
  if (numel(x->sizes) == 0) return false;
  std::optional<Operand> weight;
  if (call.has(2)) {
    weight = call.operand(2);
    Sizes sizes = x->sizes;
    if (!weight || weight->dtype != x->dtype || !broadcast_into(sizes, weight->sizes) || sizes != x->sizes)
      return false;
  }
  Pointwise p(call, x->dtype, {&*x});
  if (!p.valid()) return false;
  p.compute_in_float();
  ir::Value *chance = p.op(Op::probability, p.in(*x)), *target = p.in(*y);
  const auto limited = [&](ir::Value* log) { return p.op(Op::maximum, log, p.number(-100)); };
  ir::Value* absent =
      p.op(Op::mul, p.op(Op::sub, target, p.number(1)), limited(p.op(Op::log1p, p.op(Op::neg, chance))));
  ir::Value* result = p.op(Op::sub, absent, p.op(Op::mul, target, limited(p.op(Op::log, chance))));
  if (weight) result = p.op(Op::mul, result, p.in(*weight));
  return give_loss(call, p, result, call.integer(3));
}

/// multi_margin_loss(self [N,C] or [C], target [N] or [], p, margin, weight, reduction): for every row the mean of
/// weight[t] * max(0, margin - x[t] + x[c])**p over the classes c, where that of t itself counts as 0.
bool multi_margin_loss(Call& call, const RuleRow&) {
  const auto x = call.operand(0), target = call.operand(1);
  if (!x || !target || x->is_number() || target->dtype != ScalarType::Long) return false;
  if (x->dtype != ScalarType::Float && x->dtype != ScalarType::Double) return false;
  const size_t rank = x->sizes.size();
  if (rank > 2 || numel(x->sizes) == 0) return false;
  const Dim rows = rank == 2 ? x->sizes[0] : Dim(1), classes = rank ? x->sizes.back() : Dim(1);
  if (numel(target->sizes) != rows || target->sizes.size() > 1 || (rank == 2 && target->sizes.empty()))
    return false;
  const double power = call.real(2);
  if (power != 1 && power != 2) return false;
  Arithmetic a(call);
  const DType dtype = to_dtype(x->dtype);
  const auto number = [&](double value) { return a.number(dtype, value); };
  ir::Value* value = a.reshape(x->value, {rows, classes});
  ir::Value* labels = a.reshape(target->value, {rows, 1});
  ir::Value* picked =
      call.node(Op::gather, {value, labels}, call.contiguous(x->dtype, {rows, 1}), {{"dim", int64_t{1}}});
  ir::Value* excess = a.op(Op::add, a.op(Op::sub, number(call.real(3)), picked), value);
  ir::Value* penalty = power == 1 ? excess : a.op(Op::mul, excess, excess);
  if (call.has(4)) {
    const auto weight = call.operand(4);
    if (!weight || weight->dtype != x->dtype || weight->sizes != Sizes{classes}) return false;
    ir::Value* const index[] = {labels};
    penalty = a.op(Op::mul, penalty, a.index(weight->value, 0, index));
  }
  ir::Value* itself = a.op(Op::eq, a.along(a.count(classes), 1, 2), labels);
  penalty = a.where(a.op(Op::gt, excess, number(0)), penalty, number(0));
  penalty = a.where(itself, number(0), penalty);
  ir::Value* result = a.op(Op::div, a.reduce(Op::sum, penalty, {1}), number(static_cast<double>(classes)));
  const int64_t reduction = call.integer(5);
  if (reduction == kNone) return call.give(target->sizes.empty() ? a.reshape(result, {}) : result);
  result = a.reduce(Op::sum, result, {0});
  if (reduction == kMean) result = a.op(Op::div, result, number(static_cast<double>(rows)));
  return call.give(result);
}

/// nll_loss_forward and nll_loss2d_forward: (self, target, weight, reduction, ignore_index) -> (output, total
/// weight) self [C] or [N, C, ...], target [] or [N, ...]: -weight[t] * self[t], 0 where the target is to be
/// ignored.
bool nll_loss(Call& call, const RuleRow&) {
  const auto x = call.operand(0), target = call.operand(1);
  if (!x || !target || x->is_number() || !c10::isFloatingType(x->dtype) || x->sizes.empty()) return false;
  if (target->dtype != ScalarType::Long && target->dtype != ScalarType::Byte) return false;
  const int64_t dim = x->sizes.size() == 1 ? 0 : 1;
  const Dim classes = x->sizes[dim];
  Sizes rest = x->sizes, column = x->sizes;
  rest.erase(rest.begin() + dim);
  column[dim] = 1;
  if (target->sizes != rest || classes == 0) return false;
  std::optional<Operand> weight;
  if (call.has(2)) {
    weight = call.operand(2);
    if (!weight || weight->dtype != x->dtype || weight->sizes != Sizes{classes}) return false;
  }
  const DType compute = ir::compute_dtype(to_dtype(x->dtype));
  const ir::Type* type = call.contiguous(to_scalar_type(compute), rest);
  const ir::Type* index_type = call.retyped(type, DType::i64);
  const auto elements = [&](Op op, std::initializer_list<ir::Value*> operands) {
    return call.node(op, operands, type);
  };
  const auto zero = [&] { return call.scalar(to_scalar_type(compute), 0); };
  ir::Value* labels = call.node(Op::cast, {target->value}, index_type);
  ir::Value* ignored =
      call.node(Op::eq, {labels, call.scalar(ScalarType::Long, call.integer(4))}, call.retyped(type, DType::b8));
  labels = call.node(Op::where, {ignored, call.scalar(ScalarType::Long, 0), labels}, index_type);
  ir::Value* index = call.node(Op::reshape, {labels}, call.contiguous(ScalarType::Long, column));
  ir::Value* picked = call.node(Op::gather, {x->value, index}, call.contiguous(x->dtype, column), {{"dim", dim}});
  picked = elements(Op::reshape, {call.cast(picked, compute)});
  ir::Value* share;
  if (weight) {
    const Sizes flat{numel(rest)};
    ir::Value* list = call.node(Op::reshape, {labels}, call.contiguous(ScalarType::Long, flat));
    share =
        call.node(Op::index_select, {weight->value, list}, call.contiguous(x->dtype, flat), {{"dim", int64_t{0}}});
    share = elements(Op::reshape, {call.cast(share, compute)});
    picked = elements(Op::mul, {picked, share});
    share = elements(Op::where, {ignored, zero(), share});
  } else {
    share = elements(Op::where, {ignored, zero(), call.scalar(to_scalar_type(compute), 1)});
  }
  ir::Value* result = elements(Op::where, {ignored, zero(), elements(Op::neg, {picked})});
  // Weights of both signs cancel: in f64, not to lose more than eager's cascade of sums.
  const ir::Type* one = call.contiguous(ScalarType::Double, {});
  const auto sum = [&](ir::Value* value) {
    value = call.cast(value, DType::f64);
    if (rest.empty()) return value;
    std::vector<int64_t> dims;
    for (size_t k = 0; k < rest.size(); ++k) dims.push_back(static_cast<int64_t>(k));
    return call.node(Op::sum, {value}, one, {{"dims", std::span<const int64_t>(dims)}, {"keepdim", false}});
  };
  const int64_t reduction = call.integer(3);
  const DType dtype = to_dtype(x->dtype);
  if (reduction == kNone && !rest.empty()) {
    call.give(call.cast(result, dtype));
    return call.give(call.scalar(x->dtype, 0));
  }
  ir::Value* total = sum(share);
  result = sum(result);
  if (reduction == kMean) result = call.node(Op::div, {result, total}, one);
  call.give(call.cast(result, dtype));
  return call.give(call.cast(total, dtype));
}

}  // namespace

std::span<const RuleRow> loss_rules() {
  static constexpr RuleRow rows[] = {
      {"mse_loss", mse_loss},
      {"smooth_l1_loss", smooth_l1_loss},
      {"huber_loss", huber_loss},
      {"soft_margin_loss", soft_margin_loss},
      {"binary_cross_entropy_with_logits", bce_with_logits},
      {"binary_cross_entropy", binary_cross_entropy},
      {"multi_margin_loss", multi_margin_loss},
      {"nll_loss_forward", nll_loss},
      {"nll_loss2d_forward", nll_loss},
  };
  return rows;
}

}  // namespace braze::capture
