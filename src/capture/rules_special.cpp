// Rarer functions of single elements, written out in those that kernels know: logit, sinc, xlogy, logaddexp, ...
#include <cmath>
#include <limits>
#include <numbers>

#include "capture/arithmetic.h"
#include "capture/pointwise.h"

namespace braze::capture {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// A formula of one operand, integers taken as floats; f16 and bf16 are computed in f32 and rounded once.
template <typename Formula>
bool in_float(Call& call, Formula&& formula) {
  const auto x = call.operand(0);
  if (!x) return false;
  Pointwise p(call, floating(x->dtype), {&*x});
  if (!p.valid()) return false;
  p.compute_in_float();
  return p.give(formula(p, p.in(*x)));
}

/// Likewise of two operands, promoted to one floating type.
template <typename Formula>
bool both_in_float(Call& call, Formula&& formula) {
  const auto x = call.operand(0), y = call.operand(1);
  if (!x || !y) return false;
  const ScalarType dtype = floating(promoted({&*x, &*y}));
  if (!is_kernel_dtype(dtype)) return false;
  Pointwise p(call, dtype, {&*x, &*y});
  if (!p.valid()) return false;
  p.compute_in_float();
  return p.give(formula(p, p.in(narrowed(*x, dtype)), p.in(narrowed(*y, dtype))));
}

bool frac(Call& call, const RuleRow&) {
  const auto x = call.operand(0);
  if (!x || !c10::isFloatingType(x->dtype)) return false;
  return in_float(call, [](Pointwise& p, ir::Value* x) { return p.op(Op::sub, x, p.op(Op::trunc, x)); });
}

/// sin(pi*x) / (pi*x), 1 at 0
bool sinc(Call& call, const RuleRow&) {
  return in_float(call, [](Pointwise& p, ir::Value* x) {
    ir::Value* product = p.op(Op::mul, p.number(std::numbers::pi), x);
    ir::Value* quotient = p.op(Op::div, p.op(Op::sin, product), product);
    return p.where(p.test(Op::eq, x, p.number(0)), p.number(1), quotient);
  });
}

double rounded(double value, ScalarType dtype) {
  switch (dtype) {
    case ScalarType::BFloat16: return static_cast<c10::BFloat16>(static_cast<float>(value));
    case ScalarType::Half: return static_cast<c10::Half>(static_cast<float>(value));
    case ScalarType::Float: return static_cast<float>(value);
    default: return value;
  }
}

/// log(x / (1 - x)), with x limited to [eps, 1 - eps] if that is given.
bool logit(Call& call, const RuleRow&) {
  const auto operand = call.operand(0);
  if (operand && call.has(1) && !std::isfinite(rounded(call.real(1), floating(operand->dtype)))) return false;
  return in_float(call, [&](Pointwise& p, ir::Value* x) {
    if (call.has(1)) {
      const ScalarType dtype = to_scalar_type(p.type()->dtype);
      const double low = rounded(call.real(1), dtype), high = rounded(1 - low, dtype);
      ir::Value* limited = p.where(p.test(Op::gt, x, p.number(high)), p.number(high), x);
      x = p.where(p.test(Op::lt, x, p.number(low)), p.number(low), limited);
    }
    return p.op(Op::log, p.op(Op::div, x, p.op(Op::sub, p.number(1), x)));
  });
}

/// x * log(y), and with Op::log1p x * log(1 + y): 0 where x is 0, unless y is NaN. The CPU's kernel computes in the
/// type of the result: of halves the logarithm is rounded too.
bool times_log(Call& call, const RuleRow& row) {
  return both_in_float(call, [&](Pointwise& p, ir::Value* x, ir::Value* y) {
    ir::Value* logarithm = p.op(row.op, y);
    if (call.device().is_cpu())
      logarithm = call.cast(call.cast(logarithm, p.type()->dtype), logarithm->type->dtype);
    ir::Value* product = p.op(Op::mul, x, logarithm);
    ir::Value* vanishes =
        p.test(Op::bitwise_and, p.test(Op::eq, x, p.number(0)), p.test(Op::logical_not, p.test(Op::isnan, y)));
    return p.where(vanishes, p.number(0), product);
  });
}

/// -x * log(x); 0 at 0, -inf below.
bool entropy(Call& call, const RuleRow&) {
  return in_float(call, [](Pointwise& p, ir::Value* x) {
    ir::Value* inside = p.op(Op::mul, p.op(Op::neg, x), p.op(Op::log, x));
    ir::Value* result = p.where(p.test(Op::eq, x, p.number(0)), p.number(0), inside);
    return p.where(p.test(Op::lt, x, p.number(0)), p.number(-kInfinity), result);
  });
}

/// log(exp(x) + exp(y)), and to base 2 with Op::exp2: from the larger one. Equal infinities are themselves.
bool log_add_exp(Call& call, const RuleRow& row) {
  const auto x = call.operand(0), y = call.operand(1);
  if (!x || !y || !c10::isFloatingType(promoted({&*x, &*y}))) return false;
  return both_in_float(call, [&](Pointwise& p, ir::Value* x, ir::Value* y) {
    ir::Value* distance = p.op(Op::abs, p.op(Op::sub, x, y));
    ir::Value* more = p.op(Op::log1p, p.op(row.op, p.op(Op::neg, distance)));
    if (row.op == Op::exp2) more = p.op(Op::mul, more, p.number(std::numbers::log2e));
    ir::Value* sum = p.op(Op::add, p.op(Op::maximum, x, y), more);
    ir::Value* same_infinity = p.test(Op::bitwise_and, p.test(Op::isinf, x), p.test(Op::eq, x, y));
    return p.where(same_infinity, x, sum);
  });
}

/// 0 below 0 and for NaN, 1 above, operand 1 at 0.
bool heaviside(Call& call, const RuleRow&) {
  const auto x = call.operand(0), y = call.operand(1);
  if (!x || !y || x->dtype != y->dtype) return false;
  Pointwise p(call, x->dtype, {&*x, &*y});
  if (!p.valid()) return false;
  ir::Value* value = p.in(*x);
  ir::Value* step = p.op(Op::cast, p.test(Op::gt, value, p.number(0)));
  return p.give(p.where(p.test(Op::eq, value, p.number(0)), p.in(*y), step));
}

/// variant: the sign of the infinity that is looked for.
bool is_signed_infinity(Call& call, const RuleRow& row) {
  const auto x = call.operand(0);
  if (!x) return false;
  Pointwise p(call, ScalarType::Bool, {&*x});
  if (!p.valid()) return false;
  if (!c10::isFloatingType(x->dtype)) return p.give(call.full(p.type(), false));
  return p.give(p.test(Op::eq, x->value, call.scalar(x->dtype, row.variant * kInfinity)));
}

/// x times a constant of the conversion between degrees and radians; variant 1: to radians. A new result lies as
/// empty_like(x) does.
bool convert_angle(Call& call, const RuleRow& row) {
  const double factor = row.variant == 1 ? std::numbers::pi / 180 : 180 / std::numbers::pi;
  const bool known = in_float(call, [&](Pointwise& p, ir::Value* x) { return p.op(Op::mul, x, p.number(factor)); });
  if (!known || call.entry.mode != OpEntry::Mode::functional) return known;
  ir::Value*& value = call.results[0].value;
  const at::Tensor& x = call.tensor(0);
  const Sizes strides = preserved_strides(x.sizes(), x.strides());
  value = call.copy(value, call.type(to_scalar_type(value->type->dtype), x.sizes(), strides));
  return true;
}

/// round(self, decimals): scaled by a power of ten, rounded half to even, scaled back.
bool round_decimals(Call& call, const RuleRow&) {
  const auto x = call.operand(0);
  if (!x || (x->dtype != ScalarType::Float && x->dtype != ScalarType::Double)) return false;
  const int64_t decimals = call.integer(1);
  Pointwise p(call, x->dtype, {&*x});
  if (!p.valid()) return false;
  if (decimals == 0) return p.give(p.op(Op::round, p.in(*x)));
  // pow rounds alike in eager, whose kernel calls std::pow(10, n) in f64 and converts.
  ir::Value* power = p.number(std::pow(10.0, static_cast<double>(std::abs(decimals))));
  const Op there = decimals > 0 ? Op::mul : Op::div, back = decimals > 0 ? Op::div : Op::mul;
  return p.give(p.op(back, p.op(Op::round, p.op(there, p.in(*x), power)), power));
}

/// nan_to_num(self, nan, posinf, neginf)
bool nan_to_num(Call& call, const RuleRow&) {
  const auto x = call.operand(0);
  if (!x || lies_as_empty_like(*x)) return false;
  Pointwise p(call, x->dtype, {&*x});
  if (!p.valid()) return false;
  ir::Value* value = p.in(*x);
  double largest = 0;
  switch (x->dtype) {
    case ScalarType::Double: largest = std::numeric_limits<double>::max(); break;
    case ScalarType::Float: largest = std::numeric_limits<float>::max(); break;
    case ScalarType::BFloat16: largest = std::numeric_limits<c10::BFloat16>::max(); break;
    case ScalarType::Half: largest = std::numeric_limits<c10::Half>::max(); break;
    default: return p.give(value);  // integers have neither
  }
  const auto given = [&](size_t i, double otherwise) {
    return p.rounded(Call::operand_of(call.has(i) ? call.real(i) : otherwise));
  };
  ir::Value* finite = p.where(p.test(Op::eq, value, p.number(kInfinity)), given(2, largest), value);
  finite = p.where(p.test(Op::eq, value, p.number(-kInfinity)), given(3, -largest), finite);
  return p.give(p.where(p.test(Op::isnan, value), given(1, 0), finite));
}

/// The angle of real numbers: pi below 0, NaN for NaN.
bool angle(Call& call, const RuleRow&) {
  return in_float(call, [](Pointwise& p, ir::Value* x) {
    ir::Value* turned = p.where(p.test(Op::lt, x, p.number(0)), p.number(std::numbers::pi), p.number(0));
    return p.where(p.test(Op::isnan, x), x, turned);
  });
}

/// polygamma(n, self), of which only n = 0 has a kernel here.
bool polygamma(Call& call, const RuleRow&) {
  const auto x = call.operand(1);
  if (!x || call.integer(0) != 0) return false;
  Pointwise p(call, floating(x->dtype), {&*x});
  return p.valid() && p.give(p.op(Op::digamma, p.in(*x)));
}

/// ldexp(self, other): self * 2**other, where the power has other's type, or the default one for integers.
bool ldexp(Call& call, const RuleRow&) {
  const auto x = call.operand(0), exponent = call.operand(1);
  if (!x || !exponent || exponent->is_number()) return false;
  // From 2.13 on the exponent of a float is moved by an integer, without a power that may overflow, and a single
  // power is one of the float's type.
  const bool is_single = exponent->sizes.empty() && exponent->dtype != x->dtype;
  if (c10::isFloatingType(x->dtype) && (c10::isIntegralType(exponent->dtype, true) || is_single)) return false;
  Operand power = *exponent;
  power.dtype = floating(exponent->dtype);
  power.strides = contiguous(power.sizes);  // as a number to the power of a tensor is laid out
  const ScalarType dtype = promoted({&*x, &power});
  if (!is_kernel_dtype(dtype) || !is_kernel_dtype(power.dtype)) return false;
  ir::Value* raised = call.cast(exponent->value, to_dtype(power.dtype));
  const DType wide = ir::compute_dtype(raised->type->dtype);
  raised = call.cast(raised, wide);
  power.value = call.cast(call.node(Op::exp2, {raised}, raised->type), to_dtype(power.dtype));
  Pointwise p(call, dtype, {&*x, &power});
  if (!p.valid()) return false;
  ir::Value* factor = p.in_as_factor(power);
  return p.give(p.op(Op::mul, p.in(*x), factor));
}

/// addr(self, vec1, vec2, *, beta, alpha): beta * self + alpha * vec1 * vec2', without self if beta is 0.
bool addr(Call& call, const RuleRow&) {
  const auto x = call.operand(0), column = call.operand(1), row = call.operand(2);
  if (!x || !column || !row || column->sizes.size() != 1 || row->sizes.size() != 1) return false;
  const ScalarType dtype = promoted({&*x, &*column, &*row});
  const c10::Scalar beta = call.number(3), alpha = call.number(4);
  if (beta.isComplex() || alpha.isComplex() || dtype == ScalarType::Bool) return false;
  if (!c10::isFloatingType(dtype) && (beta.isFloatingPoint() || alpha.isFloatingPoint())) return false;
  Operand standing = *column;
  standing.sizes = {column->sizes[0], 1};
  standing.strides = {column->strides[0], column->strides[0]};
  standing.value = call.node(Op::reshape, {column->value}, call.contiguous(column->dtype, standing.sizes));
  Operand whole = *x;  // Eager sees self expanded, and refuses one that is larger.
  const Sizes sizes{column->sizes[0], row->sizes[0]};
  Sizes joined = sizes;
  if (!broadcast_into(joined, x->sizes) || joined != sizes) return false;
  Pointwise p(call, dtype, {&whole, &standing, &*row});
  if (!p.valid()) return false;
  p.compute_in_float();
  ir::Value* product = p.op(Op::mul, p.op(Op::mul, p.number(alpha), p.in(standing)), p.in(*row));
  if (beta.equal(0)) return p.give(product);
  return p.give(p.op(Op::add, p.op(Op::mul, p.number(beta), p.in(whole)), product));
}

/// frexp(self) -> (mantissa, exponent): 0.5 <= |mantissa| < 1, and an i32. What is 0 or not finite has exponent 0.
bool frexp(Call& call, const RuleRow&) {
  const auto x = call.operand(0);
  if (!x || x->is_number() || !c10::isFloatingType(x->dtype) || call.entry.mode != OpEntry::Mode::functional ||
      lies_as_empty_like(*x))
    return false;
  Pointwise p(call, x->dtype, {&*x});
  if (!p.valid()) return false;
  p.compute_in_float();
  const bool wide = x->dtype == ScalarType::Double;
  const double tiny = wide ? 0x1p-900 : 0x1p-60, lift = wide ? 300 : 90;
  ir::Value* value = p.in(*x);
  ir::Value* size = p.op(Op::abs, value);
  // Denormals are scaled up before a logarithm is taken.
  ir::Value* small = p.test(Op::lt, size, p.number(tiny));
  ir::Value* scaled = p.where(small, p.op(Op::mul, value, p.number(std::exp2(lift))), value);
  ir::Value* exponent = p.op(Op::add, p.op(Op::floor, p.op(Op::log2, p.op(Op::abs, scaled))), p.number(1));
  // In two steps, neither of which leaves the range.
  ir::Value* half = p.op(Op::floor, p.op(Op::mul, exponent, p.number(0.5)));
  const auto lowered = [&](ir::Value* x, ir::Value* by) {
    return p.op(Op::mul, x, p.op(Op::exp2, p.op(Op::neg, by)));
  };
  ir::Value* mantissa = lowered(lowered(scaled, half), p.op(Op::sub, exponent, half));
  // The logarithm may have been rounded over a whole number.
  ir::Value* above = p.test(Op::ge, p.op(Op::abs, mantissa), p.number(1));
  ir::Value* below = p.test(Op::lt, p.op(Op::abs, mantissa), p.number(0.5));
  const auto corrected = [&](ir::Value* x, auto up, auto down) {
    return p.where(above, up(x), p.where(below, down(x), x));
  };
  exponent = corrected(
      exponent, [&](ir::Value* e) { return p.op(Op::add, e, p.number(1)); },
      [&](ir::Value* e) { return p.op(Op::sub, e, p.number(1)); });
  mantissa = corrected(
      mantissa, [&](ir::Value* m) { return p.op(Op::mul, m, p.number(0.5)); },
      [&](ir::Value* m) { return p.op(Op::mul, m, p.number(2)); });
  exponent = p.op(Op::sub, exponent, p.where(small, p.number(lift), p.number(0)));
  ir::Value* regular =
      p.test(Op::bitwise_and, p.test(Op::ne, value, p.number(0)), p.test(Op::lt, size, p.number(kInfinity)));
  p.give(p.where(regular, mantissa, value));
  return call.give(call.cast(p.where(regular, exponent, p.number(0)), DType::i32));
}

/// mvlgamma(self, p): p(p-1)/4 log(pi) + the sum over j < p of lgamma(x - j/2)
bool multivariate_lgamma(Call& call, const RuleRow&) {
  constexpr int64_t most_terms = 16;
  const auto x = call.operand(0);
  const int64_t terms = call.integer(1);
  if (!x || x->dtype == ScalarType::Bool || terms < 1 || terms > most_terms) return false;
  if (x->strides != contiguous(x->sizes)) return false;  // a sum in eager, which orders strides otherwise
  return in_float(call, [&](Pointwise& p, ir::Value* x) {
    ir::Value* sum = nullptr;
    for (int64_t j = terms - 1; j >= 0; --j) {
      ir::Value* term = p.op(Op::lgamma, p.op(Op::sub, x, p.number(static_cast<double>(j) / 2)));
      sum = sum ? p.op(Op::add, sum, term) : term;
    }
    const double constant = static_cast<double>(terms * (terms - 1)) / 4 * std::log(std::numbers::pi);
    return p.op(Op::add, sum, p.number(constant));
  });
}

/// linalg_cross(self, other, *, dim): element k is a[k+1] * b[k+2] - a[k+2] * b[k+1], places counted modulo 3.
bool cross(Call& call, const RuleRow&) {
  const auto x = call.operand(0), y = call.operand(1);
  if (!x || !y || x->is_number() || y->is_number() || x->dtype != y->dtype || x->dtype == ScalarType::Bool)
    return false;
  const auto rank = static_cast<int64_t>(x->sizes.size());
  const auto dim = wrap(call.integer(2), rank);
  Sizes sizes = x->sizes;
  if (!dim || rank == 0 || y->sizes.size() != x->sizes.size() || x->sizes[*dim] != 3 || y->sizes[*dim] != 3)
    return false;
  if (!broadcast_into(sizes, y->sizes) || numel(sizes) == 0) return false;
  Arithmetic a(call);
  const DType dtype = computing_dtype(x->dtype);
  ir::Value* const turns[] = {a.constant(std::vector<int64_t>{1, 2, 0}), a.constant(std::vector<int64_t>{2, 0, 1})};
  const auto turned = [&](const Operand& of, size_t by) {
    return call.cast(a.index(of.value, *dim, {&turns[by], 1}), dtype);
  };
  // The CPU's kernel computes in the type of its operands: products of halves may overflow.
  const auto product = [&](size_t of_x, size_t of_y) {
    ir::Value* value = a.op(Op::mul, turned(*x, of_x), turned(*y, of_y));
    return call.device().is_cpu() ? call.cast(call.cast(value, to_dtype(x->dtype)), dtype) : value;
  };
  ir::Value* result = a.op(Op::sub, product(0, 1), product(1, 0));
  return call.give(call.copy(call.cast(result, to_dtype(x->dtype)), call.contiguous(x->dtype, sizes)));
}

}  // namespace

std::span<const RuleRow> special_rules() {
  static constexpr RuleRow rows[] = {
      {"frac", frac},
      {"sinc", sinc},
      {"logit", logit},
      {"xlogy.Tensor", times_log, Op::log},
      {"xlogy.Scalar_Self", times_log, Op::log},
      {"xlogy.Scalar_Other", times_log, Op::log},
      {"special_xlog1py", times_log, Op::log1p},
      {"special_xlog1py.self_scalar", times_log, Op::log1p},
      {"special_xlog1py.other_scalar", times_log, Op::log1p},
      {"special_entr", entropy},
      {"logaddexp", log_add_exp, Op::exp},
      {"logaddexp2", log_add_exp, Op::exp2},
      {"heaviside", heaviside},
      {"isposinf", is_signed_infinity, Op::eq, 1},
      {"isneginf", is_signed_infinity, Op::eq, -1},
      {"deg2rad", convert_angle, Op::mul, 1},
      {"rad2deg", convert_angle, Op::mul, 0},
      {"round.decimals", round_decimals},
      {"nan_to_num", nan_to_num},
      {"angle", angle},
      {"polygamma", polygamma},
      {"ldexp.Tensor", ldexp},
      {"addr", addr},
      {"frexp.Tensor", frexp},
      {"mvlgamma", multivariate_lgamma},
      {"linalg_cross", cross},
  };
  return rows;
}

}  // namespace braze::capture
