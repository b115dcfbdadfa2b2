// Activation functions. gelu and silu stay whole for pattern passes; the others are written out.
#include <cmath>
#include <limits>

#include "capture/pointwise.h"

namespace braze::capture {
namespace {

/// x is a float operand at argument 0; the formula runs in f32 at least, and may give null where ATen is to
/// compute.
template <typename Formula>
bool activation(Call& call, Formula&& formula) {
  const auto x = call.operand(0);
  if (!x || !c10::isFloatingType(x->dtype)) return false;
  Pointwise p(call, x->dtype, {&*x});
  if (!p.valid()) return false;
  p.compute_in_float();
  ir::Value* value = formula(p, p.in(*x));
  return value && p.give(value);
}

/// Whether oneDNN computes this gelu in eager. It makes NaN of inf, and inf of what overflows when it is doubled.
bool is_gelu_of_onednn(const Operand& x) {
  if (numel(x.sizes) < 2 || !is_row_major(x.sizes, x.strides)) return false;
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const at::Tensor infinite =
      at::full({2}, std::numeric_limits<float>::infinity(), at::TensorOptions().dtype(x.dtype));
  return at::gelu(infinite).isnan().all().item<bool>();
}

bool gelu(Call& call, const RuleRow&) {
  const auto x = call.operand(0);
  if (!x || !c10::isFloatingType(x->dtype)) return false;
  Pointwise p(call, x->dtype, {&*x});
  const bool tanh = call.arg(1).toStringView() == "tanh";
  if (!tanh && call.arg(1).toStringView() != "none") return false;
  if (!p.valid()) return false;
  if (tanh || !call.device().is_cpu() || !is_gelu_of_onednn(*x))
    return p.give(call.node(Op::gelu, {x->value}, p.type(), {{"tanh", tanh}}));
  p.compute_in_float();
  ir::Value* value = p.in(*x);
  ir::Value* result = call.node(Op::gelu, {value}, value->type, {{"tanh", false}});
  result = p.op(Op::mul, p.op(Op::add, result, result), p.number(0.5));
  return p.give(p.op(Op::sub, result, p.op(Op::sub, value, value)));
}

bool silu(Call& call, const RuleRow&) {
  const auto x = call.operand(0);
  if (!x || !c10::isFloatingType(x->dtype)) return false;
  Pointwise p(call, x->dtype, {&*x});
  return p.valid() && p.give(call.node(Op::silu, {x->value}, p.type()));
}

/// min(max(x, low), high) with NaN kept, and x where it equals a limit: a zero has its sign.
ir::Value* clamped(Pointwise& p, ir::Value* x, double low, double high) {
  return p.op(Op::minimum, p.number(high), p.op(Op::maximum, p.number(low), x));
}

bool hardtanh(Call& call, const RuleRow&) {
  const auto x = call.operand(0);
  if (!x || lies_as_empty_like(*x)) return false;
  if (c10::isIntegralType(x->dtype, true)) {
    if (x->dtype == ScalarType::Bool || x->dtype == ScalarType::Byte) return false;
    const int64_t low = call.number(1).toLong(), high = call.number(2).toLong();
    if (!fits(low, x->dtype) || !fits(high, x->dtype)) return false;
    Pointwise p(call, x->dtype, {&*x});
    return p.valid() && p.give(p.op(Op::minimum, p.op(Op::maximum, p.in(*x), p.number(low)), p.number(high)));
  }
  return activation(call, [&](Pointwise& p, ir::Value* x) { return clamped(p, x, call.real(1), call.real(2)); });
}

/// relu6(x + 3) / 6
ir::Value* hard_gate(Pointwise& p, ir::Value* x) {
  return clamped(p, p.op(Op::add, x, p.number(3)), 0, 6);
}

/// x / 6. CUDA's kernels multiply by a sixth that was rounded to f32, in f64 too.
ir::Value* sixth_of(Pointwise& p, const Call& call, ir::Value* x) {
  return call.device().is_cuda() ? p.op(Op::mul, x, p.number(double{1.0F / 6.0F})) : p.op(Op::div, x, p.number(6));
}

bool hardsigmoid(Call& call, const RuleRow&) {
  return activation(call, [&](Pointwise& p, ir::Value* x) { return sixth_of(p, call, hard_gate(p, x)); });
}

bool hardswish(Call& call, const RuleRow&) {
  return activation(
      call, [&](Pointwise& p, ir::Value* x) { return sixth_of(p, call, p.op(Op::mul, x, hard_gate(p, x))); });
}

bool leaky_relu(Call& call, const RuleRow&) {
  const auto slope = call.operand(1);
  return slope && activation(call, [&](Pointwise& p, ir::Value* x) {
           return p.where(p.test(Op::gt, x, p.number(0)), x, p.op(Op::mul, x, p.in(*slope)));
         });
}

/// rrelu_with_noise(self, noise, lower, upper, training, generator) outside of training. Contiguous results.
bool rrelu(Call& call, const RuleRow&) {
  const auto x = call.operand(0);
  if (call.flag(4) || !x || x->is_number() || !c10::isFloatingType(x->dtype)) return false;
  Operand flat = *x;
  flat.strides = contiguous(x->sizes);
  Pointwise p(call, x->dtype, {&flat});
  if (!p.valid()) return false;
  p.compute_in_float();
  ir::Value *value = p.in(*x), *slope = p.number((call.real(2) + call.real(3)) / 2);
  return p.give(p.where(p.test(Op::gt, value, p.number(0)), value, p.op(Op::mul, value, slope)));
}

/// _prelu_kernel(self, weight), the weight of self's rank.
bool prelu(Call& call, const RuleRow&) {
  const auto x = call.operand(0), weight = call.operand(1);
  if (!x || !weight || !c10::isFloatingType(x->dtype) || weight->dtype != x->dtype) return false;
  if (lies_as_empty_like(*x)) return false;
  Pointwise p(call, x->dtype, {&*x, &*weight});
  if (!p.valid()) return false;
  p.compute_in_float();
  ir::Value* value = p.in(*x);
  return p.give(p.where(p.test(Op::gt, value, p.number(0)), value, p.op(Op::mul, p.in(*weight), value)));
}

/// native_dropout_backward(grad, mask, scale)
bool dropout_backward(Call& call, const RuleRow&) {
  const auto grad = call.operand(0);
  auto mask = call.operand(1);
  if (!grad || !mask || grad->is_number() || mask->dtype != ScalarType::Bool || !c10::isFloatingType(grad->dtype))
    return false;
  Pointwise p(call, grad->dtype, {&*grad, &*mask});
  if (!p.valid()) return false;
  p.compute_in_float();
  return p.give(p.op(Op::mul, p.in(*grad), p.op(Op::mul, p.in(*mask), p.number(call.real(2)))));
}

/// x where it is further than lambda from 0 (NaN too), else 0.
bool hardshrink(Call& call, const RuleRow&) {
  return activation(call, [&](Pointwise& p, ir::Value* x) {
    // In the type of x, on every device.
    const Operand lambda = narrowed(Call::operand_of(call.real(1)), to_scalar_type(p.type()->dtype));
    ir::Value* inside = p.test(Op::bitwise_and, p.test(Op::ge, x, p.number(-lambda.number.toDouble())),
                               p.test(Op::le, x, p.in(lambda)));
    return p.where(inside, p.number(0), x);
  });
}

/// A number that x is compared with: CUDA's kernels round it to x's type before.
Operand limit_of(const Call& call, const c10::Scalar& number, ScalarType dtype) {
  const Operand limit = Call::operand_of(number);
  return call.device().is_cuda() ? narrowed(limit, dtype) : limit;
}

/// Towards 0 by lambda; what is nearer becomes x * 0, which keeps NaN and, but for vectors, signs.
bool softshrink(Call& call, const RuleRow&) {
  // Eager refuses a lambda below 0 or beyond the dtype's largest number, which is at least this.
  const double limit = call.real(1);
  if (!(limit >= 0 && limit <= std::numeric_limits<c10::Half>::max())) return false;
  return activation(call, [&](Pointwise& p, ir::Value* x) {
    const Operand distance = limit_of(call, call.real(1), to_scalar_type(p.type()->dtype));
    if (p.in_vectors() && p.leaves_rest()) return static_cast<ir::Value*>(nullptr);
    ir::Value *lambda = p.in(distance), *negative = p.number(-distance.number.toDouble());
    ir::Value* nothing = p.op(Op::mul, p.in_vectors() ? p.op(Op::abs, x) : x, p.number(0));
    ir::Value* below = p.where(p.test(Op::lt, x, negative), p.op(Op::add, x, lambda), nothing);
    return p.where(p.test(Op::gt, x, lambda), p.op(Op::sub, x, lambda), below);
  });
}

/// log_sigmoid_forward(self) -> (output, exp(-|x|)): min(x, 0) - log(1 + exp(-|x|)). Contiguous results; CUDA's
/// kernel lays the first out like x and leaves the second empty.
bool log_sigmoid(Call& call, const RuleRow&) {
  const auto x = call.operand(0);
  if (!x || x->is_number() || !c10::isFloatingType(x->dtype)) return false;
  Operand flat = *x;
  const bool on_cpu = call.device().is_cpu();
  if (on_cpu) flat.strides = contiguous(x->sizes);
  Pointwise p(call, x->dtype, {&flat});
  if (!p.valid()) return false;
  p.compute_in_float();
  ir::Value* value = p.in(*x);
  ir::Value* small = p.op(Op::exp, p.op(Op::neg, p.op(Op::abs, value)));
  p.give(p.op(Op::sub, p.op(Op::minimum, value, p.number(0)), p.op(Op::log1p, small)));
  return on_cpu ? p.give(small) : call.give(call.full(call.contiguous(x->dtype, {0}), 0));
}

/// glu(self, dim): the first half times the sigmoid of the second.
bool glu(Call& call, const RuleRow&) {
  const auto x = call.operand(0);
  if (!x || x->is_number() || !c10::isFloatingType(x->dtype) || x->sizes.empty()) return false;
  const auto dim = wrap(call.integer(1), static_cast<int64_t>(x->sizes.size()));
  if (!dim || x->sizes[*dim] % 2 != 0) return false;
  Operand halves[2] = {*x, *x};
  const int64_t size = x->sizes[*dim] / 2;
  for (int64_t k = 0; k < 2; ++k) {
    halves[k].sizes[*dim] = size;
    const ir::Type* type = call.type(x->dtype, halves[k].sizes, halves[k].strides);
    halves[k].value =
        call.node(Op::slice, {x->value}, type, {{"dim", *dim}, {"start", k * size}, {"step", int64_t{1}}});
  }
  Pointwise p(call, x->dtype, {&halves[0], &halves[1]});
  if (!p.valid()) return false;
  p.compute_in_float();
  return p.give(p.op(Op::mul, p.in(halves[0]), p.op(Op::sigmoid, p.in(halves[1]))));
}

/// ATen's kernels of a CPU ask whether x < 0, those of a GPU whether x > 0: where alpha is infinite, zeros tell.
ir::Value* where_negative(Call& call, Pointwise& p, ir::Value* x, ir::Value* below, ir::Value* above) {
  if (call.device().is_cpu()) return p.where(p.test(Op::lt, x, p.number(0)), below, above);
  return p.where(p.test(Op::gt, x, p.number(0)), above, below);
}

/// celu(self, alpha): x < 0 ? alpha * expm1(x / alpha) : x
bool celu(Call& call, const RuleRow&) {
  const double alpha = call.real(1);
  if (alpha == 0) return false;
  return activation(call, [&](Pointwise& p, ir::Value* x) {
    ir::Value* below = p.op(Op::mul, p.op(Op::expm1, p.op(Op::mul, x, p.number(1 / alpha))), p.number(alpha));
    return where_negative(call, p, x, below, x);
  });
}

/// elu(self, alpha, scale, input_scale): x < 0 ? scale * alpha * expm1(input_scale * x) : scale * x
bool elu(Call& call, const RuleRow&) {
  return activation(call, [&](Pointwise& p, ir::Value* x) {
    const double alpha = call.real(1), scale = call.real(2), input_scale = call.real(3);
    ir::Value* scaled = input_scale == 1 ? x : p.op(Op::mul, x, p.number(input_scale));
    ir::Value* below = p.op(Op::mul, p.op(Op::expm1, scaled), p.number(alpha * scale));
    ir::Value* above = scale == 1 ? x : p.op(Op::mul, x, p.number(scale));
    return where_negative(call, p, x, below, above);
  });
}

/// softplus(self, beta, threshold): x * beta > threshold ? x : log1p(exp(x * beta)) / beta
bool softplus(Call& call, const RuleRow&) {
  return activation(call, [&](Pointwise& p, ir::Value* x) {
    const double beta = call.real(1);
    ir::Value* scaled = beta == 1 ? x : p.op(Op::mul, x, p.number(beta));
    ir::Value* soft = p.op(Op::log1p, p.op(Op::exp, scaled));
    if (beta != 1) soft = p.op(Op::div, soft, p.number(beta));
    return p.where(p.test(Op::gt, scaled, p.number(call.number(2))), x, soft);
  });
}

/// x * tanh(log1p(exp(x)))
bool mish(Call& call, const RuleRow&) {
  return activation(call, [](Pointwise& p, ir::Value* x) {
    return p.op(Op::mul, x, p.op(Op::tanh, p.op(Op::log1p, p.op(Op::exp, x))));
  });
}

/// x <= threshold ? value : x
bool threshold(Call& call, const RuleRow&) {
  const auto x = call.operand(0);
  if (!x || x->dtype == ScalarType::Bool) return false;
  const c10::Scalar limit = call.number(1), value = call.number(2);
  if (c10::isIntegralType(x->dtype, true))
    for (const c10::Scalar& number : {limit, value})
      if (!fits(number.toLong(), x->dtype)) return false;
  Pointwise p(call, x->dtype, {&*x});
  if (!p.valid()) return false;
  p.compute_in_float();
  ir::Value* given = p.in(*x);
  ir::Value* closed = p.test(Op::le, given, p.in(limit_of(call, limit, x->dtype)));
  return p.give(p.where(closed, p.number(value), given));
}

/// The gradient of threshold: x <= threshold ? 0 : gradient
bool threshold_backward(Call& call, const RuleRow&) {
  const auto gradient = call.operand(0), x = call.operand(1);
  if (!gradient || !x || !c10::isFloatingType(x->dtype) || gradient->dtype != x->dtype) return false;
  Pointwise p(call, x->dtype, {&*x, &*gradient});
  if (!p.valid()) return false;
  ir::Value* closed = p.test(Op::le, p.in(*x), p.in(limit_of(call, call.number(2), x->dtype)));
  return p.give(p.where(closed, p.number(0), p.in(*gradient)));
}

/// gradient * y * (1 - y) and gradient * (1 - y * y)
bool output_gradient(Call& call, const RuleRow& row) {
  const auto gradient = call.operand(0), y = call.operand(1);
  if (!gradient || !y || !c10::isFloatingType(y->dtype) || gradient->dtype != y->dtype) return false;
  Pointwise p(call, y->dtype, {&*gradient, &*y});
  if (!p.valid()) return false;
  p.compute_in_float();
  ir::Value *g = p.in(*gradient), *v = p.in(*y);
  if (row.op == Op::tanh) return p.give(p.op(Op::mul, g, p.op(Op::sub, p.number(1), p.op(Op::mul, v, v))));
  return p.give(p.op(Op::mul, p.op(Op::mul, g, p.op(Op::sub, p.number(1), v)), v));
}

}  // namespace

std::span<const RuleRow> activation_rules() {
  static constexpr RuleRow rows[] = {
      {"gelu", gelu},
      {"silu", silu},
      {"hardtanh", hardtanh},
      {"hardsigmoid", hardsigmoid},
      {"hardswish", hardswish},
      {"leaky_relu", leaky_relu},
      {"elu", elu},
      {"celu", celu},
      {"_prelu_kernel", prelu},
      {"rrelu_with_noise", rrelu},
      {"hardshrink", hardshrink},
      {"softshrink", softshrink},
      {"native_dropout_backward", dropout_backward},
      {"log_sigmoid_forward", log_sigmoid},
      {"glu", glu},
      {"softplus", softplus},
      {"mish", mish},
      {"threshold", threshold},
      {"threshold_backward", threshold_backward},
      {"sigmoid_backward", output_gradient, Op::sigmoid},
      {"tanh_backward", output_gradient, Op::tanh},
  };
  return rows;
}

}  // namespace braze::capture
