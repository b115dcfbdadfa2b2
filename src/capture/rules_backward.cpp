// Operators that only the backward of others calls: of activations, normalisations and parts of tensors. Formulas
// are those of ATen's kernels.
#include <cmath>
#include <numbers>

#include "capture/arithmetic.h"
#include "capture/index_map.h"
#include "capture/pointwise.h"
#include "capture/registry.h"

namespace braze::capture {
namespace {

// ---- activations: the gradient at argument 0, of the shape of what it is combined with

/// \param place  of the tensor that the activation was given, or gave.
template <typename Formula>
bool activation_backward(Call& call, size_t place, Formula&& formula) {
  const auto gradient = call.operand(0), x = call.operand(place);
  if (!gradient || !x || gradient->is_number() || x->is_number()) return false;
  if (!c10::isFloatingType(x->dtype) || gradient->dtype != x->dtype) return false;
  Pointwise p(call, x->dtype, {&*gradient, &*x});
  if (!p.valid()) return false;
  p.compute_in_float();
  ir::Value *g = p.in(*gradient), *value = p.in(*x);
  return p.give(formula(p, g, value));
}

/// Whether ATen's kernel has taken the elements in vectors, or all but a rest. Its two forms differ in where a NaN
/// belongs: beyond all limits, or to none. Where sizes vary it has; a GPU's kernels take elements one by one.
bool is_in_vectors(const Pointwise& p, Pointwise::Vectors vectors) {
  if (p.type()->device.kind != ir::DeviceKind::cpu) return false;
  return !p.type()->symbolic_numel().is_constant() || p.in_vectors(vectors);
}

/// The slope of x * Phi(x): Phi(x) + x * phi(x).
ir::Value* gelu_slope(Pointwise& p, ir::Value* x) {
  ir::Value* erf = p.op(Op::erf, p.op(Op::mul, x, p.number(1 / std::numbers::sqrt2)));
  ir::Value* cdf = p.op(Op::mul, p.number(0.5), p.op(Op::add, p.number(1), erf));
  ir::Value* power = p.op(Op::exp, p.op(Op::mul, p.op(Op::mul, x, x), p.number(-0.5)));
  ir::Value* pdf = p.op(Op::mul, power, p.number(std::numbers::inv_sqrtpi / std::numbers::sqrt2));
  return p.op(Op::add, cdf, p.op(Op::mul, x, pdf));
}

/// Of 0.5 * x * (1 + tanh(u)), u = beta * (x + kappa * x**3).
ir::Value* gelu_tanh_slope(Pointwise& p, ir::Value* x) {
  const double beta = std::numbers::sqrt2 * 2 * std::numbers::inv_sqrtpi * 0.5, kappa = 0.044715;
  ir::Value* square = p.op(Op::mul, x, x);
  ir::Value* u =
      p.op(Op::mul, p.number(beta), p.op(Op::add, x, p.op(Op::mul, p.number(kappa), p.op(Op::mul, square, x))));
  ir::Value* tanh = p.op(Op::tanh, u);
  ir::Value* left = p.op(Op::mul, p.number(0.5), p.op(Op::add, p.number(1), tanh));
  ir::Value* inner =
      p.op(Op::mul, p.number(beta), p.op(Op::add, p.number(1), p.op(Op::mul, p.number(3 * kappa), square)));
  ir::Value* slope = p.op(Op::sub, p.number(1), p.op(Op::mul, tanh, tanh));
  ir::Value* right = p.op(Op::mul, p.op(Op::mul, p.op(Op::mul, p.number(0.5), x), slope), inner);
  return p.op(Op::add, left, right);
}

/// gelu_backward(grad, self, *, approximate)
bool gelu_backward(Call& call, const RuleRow&) {
  const std::string_view form = call.arg(2).toStringView();
  if (form != "none" && form != "tanh") return false;
  return activation_backward(call, 1, [&](Pointwise& p, ir::Value* g, ir::Value* x) {
    return p.op(Op::mul, g, form == "tanh" ? gelu_tanh_slope(p, x) : gelu_slope(p, x));
  });
}

/// silu_backward(grad, self): s * (1 + x * (1 - s)) with s = sigmoid(x)
bool silu_backward(Call& call, const RuleRow&) {
  return activation_backward(call, 1, [](Pointwise& p, ir::Value* g, ir::Value* x) {
    ir::Value* s = p.op(Op::sigmoid, x);
    ir::Value* slope = p.op(Op::add, p.number(1), p.op(Op::mul, x, p.op(Op::sub, p.number(1), s)));
    return p.op(Op::mul, p.op(Op::mul, g, s), slope);
  });
}

/// mish_backward(grad, self)
bool mish_backward(Call& call, const RuleRow&) {
  return activation_backward(call, 1, [](Pointwise& p, ir::Value* g, ir::Value* x) {
    ir::Value *s = p.op(Op::sigmoid, x), *t = p.op(Op::tanh, p.op(Op::log1p, p.op(Op::exp, x)));
    ir::Value* rest = p.op(Op::mul, p.op(Op::mul, x, s), p.op(Op::sub, p.number(1), p.op(Op::mul, t, t)));
    return p.op(Op::mul, g, p.op(Op::add, t, rest));
  });
}

/// leaky_relu_backward(grad, self, negative_slope, self_is_result)
bool leaky_relu_backward(Call& call, const RuleRow&) {
  return activation_backward(call, 1, [&](Pointwise& p, ir::Value* g, ir::Value* x) {
    return p.where(p.test(Op::gt, x, p.number(0)), g, p.op(Op::mul, g, p.number(call.number(2))));
  });
}

/// elu_backward(grad, alpha, scale, input_scale, is_result, self_or_result)
bool elu_backward(Call& call, const RuleRow&) {
  const double below = call.real(1) * call.real(2), above = call.real(2), inner = call.real(3);
  const bool is_result = call.flag(4);
  return activation_backward(call, 5, [&](Pointwise& p, ir::Value* g, ir::Value* x) {
    ir::Value* scaled = p.op(Op::mul, g, p.number(inner));
    ir::Value* power = is_result ? p.op(Op::add, x, p.number(below))
                                 : p.op(Op::mul, p.number(below), p.op(Op::exp, p.op(Op::mul, x, p.number(inner))));
    ir::Value *lower = p.op(Op::mul, scaled, power), *upper = p.op(Op::mul, g, p.number(above));
    if (is_in_vectors(p, Pointwise::Vectors::widest)) return p.where(p.test(Op::gt, x, p.number(0)), upper, lower);
    return p.where(p.test(Op::le, x, p.number(0)), lower, upper);
  });
}

/// hardtanh_backward(grad, self, low, high): nothing where self is a limit or beyond it.
bool hardtanh_backward(Call& call, const RuleRow&) {
  return activation_backward(call, 1, [&](Pointwise& p, ir::Value* g, ir::Value* x) {
    ir::Value *low = p.number(call.real(2)), *high = p.number(call.real(3));
    if (is_in_vectors(p, Pointwise::Vectors::of_avx2))
      return p.where(p.test(Op::bitwise_and, p.test(Op::gt, x, low), p.test(Op::lt, x, high)), g, p.number(0));
    return p.where(p.test(Op::bitwise_or, p.test(Op::le, x, low), p.test(Op::ge, x, high)), p.number(0), g);
  });
}

/// softplus_backward(grad, self, beta, threshold)
bool softplus_backward(Call& call, const RuleRow&) {
  return activation_backward(call, 1, [&](Pointwise& p, ir::Value* g, ir::Value* x) {
    ir::Value* scaled = p.op(Op::mul, x, p.number(call.real(2)));
    ir::Value* z = p.op(Op::exp, scaled);
    ir::Value* soft = p.op(Op::div, p.op(Op::mul, g, z), p.op(Op::add, z, p.number(1)));
    return p.where(p.test(Op::gt, scaled, p.number(call.real(3))), g, soft);
  });
}

/// hardsigmoid_backward(grad, self): a sixth within (-3, 3).
bool hardsigmoid_backward(Call& call, const RuleRow&) {
  return activation_backward(call, 1, [](Pointwise& p, ir::Value* g, ir::Value* x) {
    ir::Value* inside = p.test(Op::bitwise_and, p.test(Op::gt, x, p.number(-3)), p.test(Op::lt, x, p.number(3)));
    return p.where(inside, p.op(Op::mul, g, p.number(1.0 / 6)), p.number(0));
  });
}

/// hardswish_backward(grad, self): x / 3 + 1 / 2 between -3 and 3.
bool hardswish_backward(Call& call, const RuleRow&) {
  return activation_backward(call, 1, [](Pointwise& p, ir::Value* g, ir::Value* x) {
    ir::Value* inside = p.op(Op::mul, g, p.op(Op::add, p.op(Op::div, x, p.number(3)), p.number(0.5)));
    ir::Value* above = is_in_vectors(p, Pointwise::Vectors::widest)
                           ? p.where(p.test(Op::ge, x, p.number(3)), g, inside)
                           : p.where(p.test(Op::lt, x, p.number(3)), inside, g);
    return p.where(p.test(Op::le, x, p.number(-3)), p.number(0), above);
  });
}

/// hardshrink_backward and softshrink_backward: (grad, self, lambd), nothing where |self| is at most lambd.
bool shrink_backward(Call& call, const RuleRow&) {
  return activation_backward(call, 1, [&](Pointwise& p, ir::Value* g, ir::Value* x) {
    // In the type of x, on every device.
    const Operand limit = narrowed(Call::operand_of(call.real(2)), to_scalar_type(p.type()->dtype));
    ir::Value *low = p.number(-limit.number.toDouble()), *high = p.in(limit);
    if (is_in_vectors(p, Pointwise::Vectors::of_avx2))
      return p.where(p.test(Op::bitwise_or, p.test(Op::lt, x, low), p.test(Op::gt, x, high)), g, p.number(0));
    return p.where(p.test(Op::bitwise_and, p.test(Op::ge, x, low), p.test(Op::le, x, high)), p.number(0), g);
  });
}

/// log_sigmoid_backward(grad, self, buffer): sigmoid(-x), whose exponential is taken of -|x|. A CPU's forward has
/// kept that in the buffer: x may have been written to since, through its `data`.
bool log_sigmoid_backward(Call& call, const RuleRow&) {
  const auto buffer = call.operand(2);
  return activation_backward(call, 1, [&](Pointwise& p, ir::Value* g, ir::Value* x) {
    const bool is_kept = buffer && p.type()->device.kind == ir::DeviceKind::cpu;
    ir::Value* power = is_kept ? p.in(*buffer) : p.op(Op::exp, p.op(Op::neg, p.op(Op::abs, x)));
    ir::Value* part = p.op(Op::div, power, p.op(Op::add, p.number(1), power));
    ir::Value* is_negative = p.test(Op::lt, x, p.number(0));
    return p.op(Op::mul, g, p.where(is_negative, p.op(Op::sub, p.number(1), part), part));
  });
}

/// glu_backward(grad, self, dim): of a * sigmoid(b), the halves of self.
bool glu_backward(Call& call, const RuleRow&) {
  const auto g = call.operand(0), x = call.operand(1);
  if (!g || !x || g->is_number() || x->is_number() || x->sizes.empty()) return false;
  if (!c10::isFloatingType(x->dtype) || g->dtype != x->dtype) return false;
  const auto rank = static_cast<int64_t>(x->sizes.size());
  const int64_t dim = call.integer(2) < 0 ? call.integer(2) + rank : call.integer(2);
  const Dim size = x->sizes[static_cast<size_t>(dim)];
  if (!size.is_number() || size == 0 || size % 2 != 0 || numel(g->sizes) == 0) return false;
  const int64_t half = size / 2;
  Sizes halved = x->sizes;
  halved[static_cast<size_t>(dim)] = half;
  if (g->sizes != halved) return false;
  Arithmetic a(call);
  const DType dtype = computing_dtype(x->dtype);
  ir::Value *gradient = call.cast(g->value, dtype), *whole = call.cast(x->value, dtype);
  ir::Value* gate = a.op(Op::sigmoid, a.slice(whole, dim, half, half));
  ir::Value* slope = a.op(Op::mul, a.op(Op::sub, a.number(dtype, 1), gate), gate);
  ir::Value* of_gate = a.op(Op::mul, a.op(Op::mul, slope, gradient), a.slice(whole, dim, 0, half));
  ir::Value* parts[] = {call.cast(a.op(Op::mul, gate, gradient), to_dtype(x->dtype)),
                        call.cast(of_gate, to_dtype(x->dtype))};
  return call.give(call.node(Op::cat, {parts[0], parts[1]}, call.contiguous(x->dtype, x->sizes), {{"dim", dim}}));
}

/// _prelu_kernel_backward(grad, self, weight): the gradients of self and, before it is summed up, of the weight.
bool prelu_backward(Call& call, const RuleRow&) {
  const auto g = call.operand(0), x = call.operand(1), weight = call.operand(2);
  if (!g || !x || !weight || g->is_number() || x->is_number() || weight->is_number()) return false;
  if (!c10::isFloatingType(x->dtype) || g->dtype != x->dtype || weight->dtype != x->dtype) return false;
  Pointwise p(call, x->dtype, {&*x, &*weight, &*g});
  if (!p.valid()) return false;
  p.compute_in_float();
  ir::Value *value = p.in(*x), *gradient = p.in(*g);
  ir::Value* is_above = p.test(Op::gt, value, p.number(0));
  p.give(p.where(is_above, gradient, p.op(Op::mul, p.in(*weight), gradient)));
  return p.give(p.where(is_above, p.number(0), p.op(Op::mul, value, gradient)));
}

// ---- normalisations

/// Sums over `dims`, without keepdim.
/// \param in_double  Terms of f32 are added up in f64.
ir::Value* sum_over(Arithmetic& a, ir::Value* value, DimsRef dims, bool in_double) {
  if (!in_double) return a.reduce(Op::sum, value, dims);
  return a.cast(a.reduce(Op::sum, a.cast(value, DType::f64), dims), value->type->dtype);
}

/// The same; `dims` stay as dimensions of one element.
ir::Value* kept_sum(Arithmetic& a, ir::Value* value, DimsRef dims, bool in_double) {
  const DimsRef all = value->type->sizes;
  Sizes kept(all.begin(), all.end());
  for (const int64_t dim : dims) kept[dim] = 1;
  return dims.empty() ? value : a.reshape(sum_over(a, value, dims, in_double), kept);
}

/// What all normalisations have in common: x was normalised over `dims`, to (x - mean) * rstd.
struct Normalised {
  ir::Value *gradient, *scaled;  ///< Of the result; times the weight.
  ir::Value *normal, *rstd;
  Sizes dims;
  Dim count;  ///< Of elements that were normalised together.
  bool sums_in_double = false;
};

/// A count as a number to compute with.
ir::Value* count_of(Call& call, Dim count, DType dtype) {
  return number_of(call.graph(), count, to_device(call.device()), dtype);
}

/// rstd * (g - mean(g) - normal * mean(g * normal))
ir::Value* gradient_of_normalised(Call& call, const Normalised& n) {
  Arithmetic a(call);
  const DType dtype = n.scaled->type->dtype;
  ir::Value* share = n.count.is_number() ? a.number(dtype, 1.0 / static_cast<double>(n.count.hint()))
                                         : a.op(Op::div, a.number(dtype, 1), count_of(call, n.count, dtype));
  ir::Value* mean = a.op(Op::mul, kept_sum(a, n.scaled, n.dims, n.sums_in_double), share);
  ir::Value* along = a.op(Op::mul, kept_sum(a, a.op(Op::mul, n.scaled, n.normal), n.dims, n.sums_in_double), share);
  ir::Value* centred = a.op(Op::sub, n.scaled, mean);
  return a.op(Op::mul, a.op(Op::sub, centred, a.op(Op::mul, n.normal, along)), n.rstd);
}

void give_or_undefined(Call& call, bool wanted, const std::function<ir::Value*()>& make) {
  if (wanted)
    call.give(make());
  else
    call.give_tensor(at::Tensor());
}

/// native_layer_norm_backward(grad, input, normalized_shape, mean, rstd, weight, bias, output_mask)
bool layer_norm_backward(Call& call, const RuleRow&) {
  const auto g = call.operand(0), x = call.operand(1), mean = call.operand(3), rstd = call.operand(4);
  if (!g || !x || !mean || !rstd || !c10::isFloatingType(x->dtype) || numel(x->sizes) == 0) return false;
  if (g->dtype != x->dtype || g->sizes != x->sizes) return false;
  const Sizes shape = call.ints(2);
  const size_t rank = x->sizes.size(), outer = rank - shape.size();
  std::optional<Operand> weight;
  if (call.has(5)) {
    weight = call.operand(5);
    if (!weight || weight->dtype != x->dtype || weight->sizes != shape) return false;
  }
  const auto mask = call.arg(7).toBoolList();
  const DType dtype = computing_dtype(x->dtype);
  Arithmetic a(call);
  Sizes kept = x->sizes, rows;
  Normalised n;
  for (size_t k = 0; k < rank; ++k) {
    if (k >= outer) kept[k] = 1;
    (k >= outer ? n.dims : rows).push_back(static_cast<int64_t>(k));
  }
  if (numel(mean->sizes) != numel(kept) || numel(rstd->sizes) != numel(kept)) return false;
  n.count = numel(shape);
  n.gradient = n.scaled = call.cast(g->value, dtype);
  n.rstd = a.reshape(call.cast(rstd->value, dtype), kept);
  ir::Value* centred = a.op(Op::sub, call.cast(x->value, dtype), a.reshape(call.cast(mean->value, dtype), kept));
  n.normal = a.op(Op::mul, centred, n.rstd);
  if (weight) n.scaled = a.op(Op::mul, n.gradient, call.cast(weight->value, dtype));
  const auto end = [&](ir::Value* value, DimsRef sizes) {
    return call.copy(call.cast(value, to_dtype(x->dtype)), call.contiguous(x->dtype, sizes));
  };
  const auto over_rows = [&](ir::Value* value) { return rows.empty() ? value : a.reduce(Op::sum, value, rows); };
  give_or_undefined(call, mask.get(0), [&] { return end(gradient_of_normalised(call, n), x->sizes); });
  give_or_undefined(call, mask.get(1) && weight,
                    [&] { return end(over_rows(a.op(Op::mul, n.gradient, n.normal)), shape); });
  give_or_undefined(call, mask.get(2) && call.has(6), [&] { return end(over_rows(n.gradient), shape); });
  return true;
}

/// native_batch_norm_backward(grad, input, weight, running_mean, running_var, save_mean, save_invstd, train, eps,
/// output_mask), or
/// cudnn_batch_norm_backward(input, grad, weight, running_mean, running_var, save_mean, save_invstd, eps, buffer).
bool batch_norm_backward(Call& call, const RuleRow& row) {
  const bool of_cudnn = row.variant == 1;
  const auto g = call.operand(of_cudnn ? 1 : 0), x = call.operand(of_cudnn ? 0 : 1);
  if (!g || !x || !c10::isFloatingType(x->dtype) || x->sizes.size() < 2 || numel(x->sizes) == 0) return false;
  if (g->dtype != x->dtype || g->sizes != x->sizes) return false;
  const Sizes strides = format_strides(x->sizes, suggested_format(*x));
  if (!of_cudnn && !is_row_major(x->sizes, x->strides) && x->strides != strides) return false;
  const bool train = of_cudnn || call.flag(7);
  const auto mean = call.operand(train ? 5 : 3), spread = call.operand(train ? 6 : 4);
  const Sizes channels{x->sizes[1]};
  if (!mean || !spread || mean->sizes != channels || spread->sizes != channels) return false;
  std::optional<Operand> weight;
  if (call.has(2)) {
    weight = call.operand(2);
    if (!weight || weight->sizes != channels) return false;
  }
  const DType dtype = computing_dtype(x->dtype);
  // GPUs keep statistics of halves in f32, and take such parameters.
  const auto fits = [&](const Operand& row) {
    return row.dtype == x->dtype || (call.device().is_cuda() && to_dtype(row.dtype) == dtype);
  };
  if (!fits(*mean) || !fits(*spread) || (weight && !fits(*weight))) return false;
  const auto wanted = [&](size_t k) { return of_cudnn || call.arg(9).toBoolList().get(k); };
  Arithmetic a(call);
  Sizes column(x->sizes.size(), 1);
  column[1] = channels[0];
  const auto along = [&](const Operand& operand) { return a.reshape(call.cast(operand.value, dtype), column); };
  Normalised n;
  for (size_t k = 0; k < x->sizes.size(); ++k)
    if (k != 1) n.dims.push_back(static_cast<int64_t>(k));
  n.count = numel(x->sizes) / channels[0];
  n.gradient = n.scaled = call.cast(g->value, dtype);
  n.rstd = along(*spread);
  if (!train) n.rstd = a.op(Op::rsqrt, a.op(Op::add, n.rstd, a.number(dtype, call.real(8))));
  n.normal = a.op(Op::mul, a.op(Op::sub, call.cast(x->value, dtype), along(*mean)), n.rstd);
  // All elements of a channel have one weight: it comes last, as in eager, and the sums are also the gradients of
  // weight and bias.
  if (weight) n.rstd = a.op(Op::mul, n.rstd, along(*weight));
  // A GPU waits for memory meanwhile.
  n.sums_in_double = call.device().is_cuda();
  const auto sum = [&](ir::Value* value) { return sum_over(a, value, n.dims, n.sums_in_double); };
  const auto end = [&](ir::Value* value, const ir::Type* type) {
    return call.copy(call.cast(value, type->dtype), type);
  };
  const ir::Type* row_type = call.contiguous(weight ? weight->dtype : x->dtype, channels);
  give_or_undefined(call, wanted(0), [&] {
    ir::Value* result = train ? gradient_of_normalised(call, n) : a.op(Op::mul, n.gradient, n.rstd);
    return end(result, call.type(x->dtype, x->sizes, strides));
  });
  give_or_undefined(call, wanted(1), [&] { return end(sum(a.op(Op::mul, n.gradient, n.normal)), row_type); });
  give_or_undefined(call, wanted(2), [&] { return end(sum(n.gradient), row_type); });
  return true;
}

/// native_group_norm_backward(grad, input, mean, rstd, weight, N, C, HxW, group, output_mask)
bool group_norm_backward(Call& call, const RuleRow&) {
  const auto g = call.operand(0), x = call.operand(1), mean = call.operand(2), rstd = call.operand(3);
  if (!g || !x || !mean || !rstd || !c10::isFloatingType(x->dtype) || numel(x->sizes) == 0) return false;
  if (g->dtype != x->dtype || g->sizes != x->sizes || !is_row_major(x->sizes, x->strides)) return false;
  const Dim batch = call.dim(5), channels = call.dim(6);
  const int64_t groups = call.integer(8);
  if (x->sizes[0] != batch || x->sizes[1] != channels || channels % groups != 0) return false;
  std::optional<Operand> weight;
  if (call.has(4)) {
    weight = call.operand(4);
    if (!weight || weight->dtype != mean->dtype || numel(weight->sizes) != channels) return false;
  }
  const bool is_mixed = mean->dtype == ScalarType::Float && call.device().is_cpu();
  if (mean->dtype != rstd->dtype || (mean->dtype != x->dtype && !is_mixed)) return false;
  const auto mask = call.arg(9).toBoolList();
  const DType dtype = computing_dtype(x->dtype);
  Arithmetic a(call);
  const Dim each = channels / groups, inner = numel(x->sizes) / (batch * channels);
  const Sizes grouped{batch, groups, each, inner}, kept{batch, groups, 1, 1};
  if (numel(mean->sizes) != batch * groups || numel(rstd->sizes) != batch * groups) return false;
  Normalised n;
  n.dims = {2, 3};
  n.count = each * inner;
  n.gradient = n.scaled = a.reshape(call.cast(g->value, dtype), grouped);
  n.rstd = a.reshape(call.cast(rstd->value, dtype), kept);
  ir::Value* value = a.reshape(call.cast(x->value, dtype), grouped);
  n.normal = a.op(Op::mul, a.op(Op::sub, value, a.reshape(call.cast(mean->value, dtype), kept)), n.rstd);
  if (weight)
    n.scaled = a.op(Op::mul, n.gradient, a.reshape(call.cast(weight->value, dtype), {1, groups, each, 1}));
  const auto format = call.device().is_cpu() ? suggested_format(*x) : c10::MemoryFormat::Contiguous;
  const auto end = [&](ir::Value* result, ScalarType type, DimsRef sizes, c10::MemoryFormat wanted) {
    return call.copy(call.cast(a.reshape(result, sizes), to_dtype(type)),
                     call.type(type, sizes, format_strides(sizes, wanted)));
  };
  const auto of_channels = [&](ir::Value* value) {  // of the weight's type, which the statistics have
    return end(a.reduce(Op::sum, value, {0, 3}), mean->dtype, {channels}, c10::MemoryFormat::Contiguous);
  };
  give_or_undefined(call, mask.get(0),
                    [&] { return end(gradient_of_normalised(call, n), x->dtype, x->sizes, format); });
  give_or_undefined(call, mask.get(1), [&] { return of_channels(a.op(Op::mul, n.gradient, n.normal)); });
  give_or_undefined(call, mask.get(2), [&] { return of_channels(n.gradient); });
  return true;
}

// ---- parts of a whole

/// slice_backward(grad, input_sizes, dim, start, end, step)
bool slice_backward(Call& call, const RuleRow&) {
  const auto g = call.operand(0);
  if (!g || g->is_number() || !is_kernel_dtype(g->dtype)) return false;
  const Sizes sizes = call.ints(1);
  const auto dim = wrap(call.integer(2), static_cast<int64_t>(sizes.size()));
  if (!dim || numel(sizes) == 0 || numel(g->sizes) == 0) return false;
  const int64_t step = call.dim(5);
  const Dim size = sizes[*dim];
  Dim start = call.dim(3);
  if (start < 0) start += size;
  if (start < 0) start = 0;
  if (start > size) start = size;
  if (start + (g->sizes[*dim] - 1) * step >= size) return false;
  Arithmetic a(call);
  const ir::Type* type = call.contiguous(g->dtype, sizes);
  if (step == 1) {
    Sizes low(sizes.size(), 0), high(sizes.size(), 0);
    low[*dim] = start;
    high[*dim] = size - start - g->sizes[*dim];
    return call.give(call.copy(a.pad(g->value, low, high, 0), type));
  }
  return call.give(call.node(Op::slice_scatter, {call.full(type, 0), g->value}, type,
                             {{"dim", *dim}, {"start", start.size()}, {"step", step}}));
}

/// select_backward(grad, input_sizes, dim, index)
bool select_backward(Call& call, const RuleRow&) {
  const auto g = call.operand(0);
  if (!g || g->is_number() || !is_kernel_dtype(g->dtype)) return false;
  const Sizes sizes = call.ints(1);
  const auto dim = wrap(call.integer(2), static_cast<int64_t>(sizes.size()));
  if (!dim || sizes.empty() || numel(sizes) == 0 || g->sizes.size() + 1 != sizes.size()) return false;
  const Dim size = sizes[*dim], given = call.dim(3), index = given < 0 ? given + size : given;
  if (index < 0 || index >= size) return false;
  Arithmetic a(call);
  Sizes whole = g->sizes, low(sizes.size(), 0), high(sizes.size(), 0);
  whole.insert(whole.begin() + *dim, 1);
  low[*dim] = index;
  high[*dim] = size - index - 1;
  return call.give(call.copy(a.pad(a.reshape(g->value, whole), low, high, 0), call.contiguous(g->dtype, sizes)));
}

/// embedding_dense_backward(grad, indices, num_weights, padding_idx, scale_grad_by_freq): rows added up where the
/// indices say.
bool embedding_backward(Call& call, const RuleRow&) {
  const auto g = call.operand(0), indices = call.operand(1);
  if (!g || !indices || g->is_number() || indices->is_number() || !c10::isFloatingType(g->dtype)) return false;
  if (call.flag(4) || numel(g->sizes) == 0 || g->sizes.size() != indices->sizes.size() + 1) return false;
  const int64_t padding = call.dim(3);
  const Dim rows = call.dim(2), width = g->sizes.back(), count = numel(indices->sizes);
  Arithmetic a(call);
  const DType dtype = computing_dtype(g->dtype);
  if (dtype != to_dtype(g->dtype)) return false;  // Half types are added up in their own precision.
  // A GPU's atomic operations would add up in an order of their own; eager sorts, and gives the same bits each
  // time.
  if (call.device().is_cuda()) return false;
  ir::Value* places = a.reshape(call.cast(indices->value, DType::i64), {count});
  ir::Value* gradient = a.reshape(g->value, {count, width});
  if (padding >= 0) {
    ir::Value* is_padding = a.op(Op::eq, a.reshape(places, {count, 1}), a.number(DType::i64, padding));
    gradient = a.where(is_padding, a.number(dtype, 0), gradient);
  }
  const ir::Type* type = call.contiguous(g->dtype, {rows, width});
  ir::Value* const index[] = {places};
  return call.give(a.index_put(call.full(type, 0), 0, index, gradient, "add"));
}

}  // namespace

std::span<const RuleRow> backward_rules() {
  static constexpr RuleRow rows[] = {
      {"gelu_backward", gelu_backward},
      {"silu_backward", silu_backward},
      {"mish_backward", mish_backward},
      {"leaky_relu_backward", leaky_relu_backward},
      {"elu_backward", elu_backward},
      {"hardtanh_backward", hardtanh_backward},
      {"softplus_backward", softplus_backward},
      {"hardsigmoid_backward", hardsigmoid_backward},
      {"hardswish_backward", hardswish_backward},
      {"hardshrink_backward", shrink_backward},
      {"softshrink_backward", shrink_backward},
      {"log_sigmoid_backward", log_sigmoid_backward},
      {"glu_backward", glu_backward},
      {"_prelu_kernel_backward", prelu_backward},
      {"native_layer_norm_backward", layer_norm_backward},
      {"native_batch_norm_backward", batch_norm_backward, Op::input, 0},
      {"cudnn_batch_norm_backward", batch_norm_backward, Op::input, 1},
      {"native_group_norm_backward", group_norm_backward},
      {"slice_backward", slice_backward},
      {"select_backward", select_backward},
      {"embedding_dense_backward", embedding_backward},
  };
  return rows;
}

}  // namespace braze::capture
