// Arithmetic, comparisons, logic: operators that compute each element from one element of each operand.
#include <ATen/Version.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "capture/pointwise.h"

namespace braze::capture {

namespace {

/// Does the result of integers stay integral?
enum Integers { kFloats, kKeep };

bool unary(Call& call, const RuleRow& row) {
  const auto x = call.operand(0);
  if (!x) return false;
  const bool integral = c10::isIntegralType(x->dtype, true);
  if (x->dtype == ScalarType::Bool && row.variant == kKeep && row.op != Op::bitwise_not) return false;
  // floor and its like are the identity on integers; relu, abs and neg are not.
  const bool rounding = row.op == Op::floor || row.op == Op::ceil || row.op == Op::round || row.op == Op::trunc;
  if (row.op == Op::bitwise_not && !integral) return false;
  Pointwise p(call, row.variant == kFloats ? floating(x->dtype) : x->dtype, {&*x});
  if (!p.valid()) return false;
  if (rounding && integral) return p.give(p.in(*x));
  // Python's c / x is this times c, which users see as one operator: rounded in between as eager does.
  if (row.op == Op::reciprocal) {
    p.compute_in_float();
    return p.give(call.cast(p.op(row.op, p.in(*x)), p.type()->dtype));
  }
  return p.give(p.op(row.op, p.in(*x)));
}

/// In f16 and bf16 ATen has 1 - (p1 t + ... + p5 t**5) exp(-x**2), t = 1 / (1 + 0.3275911 |x|), on the CPU: off by
/// up to 1.5e-7, which is all of a small result, and 0 for what is smaller still.
/// Source: Abramowitz, Stegun, "Handbook of mathematical functions", 7.1.26; Vectorized<float>::erf.
bool erf(Call& call, const RuleRow& row) {
  const auto x = call.operand(0);
  if (!x || !c10::isReducedFloatingType(x->dtype) || !call.device().is_cpu()) return unary(call, row);
  Pointwise p(call, x->dtype, {&*x});
  if (!p.valid()) return false;
  p.compute_in_float();
  ir::Value *value = p.in(*x), *one = p.number(1);
  ir::Value* scaled = p.op(Op::mul, p.op(Op::abs, value), p.number(double{0.3275911F}));
  ir::Value* t = p.op(Op::div, one, p.op(Op::add, scaled, one));
  ir::Value* sum = p.number(double{1.061405429F});
  for (const float factor : {-1.453152027F, 1.421413741F, -0.284496736F, 0.254829592F})
    sum = p.op(Op::add, p.op(Op::mul, sum, t), p.number(double{factor}));
  ir::Value* bell = p.op(Op::exp, p.op(Op::neg, p.op(Op::mul, value, value)));
  ir::Value* off = p.op(Op::mul, p.op(Op::mul, bell, t), sum);
  return p.give(p.op(Op::copysign, p.op(Op::sub, one, off), value));
}

/// sinh and cosh: in vectors they overflow where exp(|x|) does.
bool hyperbolic(Call& call, const RuleRow& row) {
  const auto x = call.operand(0);
  if (!x) return false;
  Pointwise p(call, floating(x->dtype), {&*x});
  if (!p.valid()) return false;
  p.compute_in_float();
  ir::Value *value = p.in(*x), *result = p.op(row.op, value);
  if (!p.in_vectors(Pointwise::Vectors::widest)) return p.give(result);
  const double last = p.type()->dtype == DType::f64 ? 0x1.62e42fefa39efp+9 : 0x1.62e42ep+6;
  ir::Value* infinite = p.number(std::numeric_limits<double>::infinity());
  if (row.op == Op::sinh) infinite = p.op(Op::copysign, infinite, value);
  return p.give(p.where(p.test(Op::gt, p.op(Op::abs, value), p.number(last)), infinite, result));
}

/// torch.sign of NaN is 0; torch.sgn is the same for real numbers.
bool sign(Call& call, const RuleRow&) {
  const auto x = call.operand(0);
  if (!x) return false;
  Pointwise p(call, x->dtype, {&*x});
  if (!p.valid()) return false;
  if (x->dtype == ScalarType::Bool) return p.give(p.in(*x));
  ir::Value* value = p.in(*x);
  ir::Value* zero = p.number(0);
  return p.give(
      p.op(Op::sub, p.op(Op::cast, p.test(Op::gt, value, zero)), p.op(Op::cast, p.test(Op::lt, value, zero))));
}

bool test(Call& call, const RuleRow& row) {
  const auto x = call.operand(0);
  if (!x) return false;
  // |x| == inf, of strides that of nothing ATen alone knows; integers are filled by empty_like.
  if (row.op == Op::isinf && (c10::isFloatingType(x->dtype) ? is_empty(x->sizes) : lies_as_empty_like(*x)))
    return false;
  Pointwise p(call, ScalarType::Bool, {&*x});
  if (!p.valid()) return false;
  const bool of_integers = row.op == Op::logical_not || (row.op == Op::signbit && x->dtype != ScalarType::Bool);
  if (!of_integers && !c10::isFloatingType(x->dtype)) return p.give(call.full(p.type(), false));
  return p.give(p.op(row.op, x->value));
}

/// operand 0 + alpha * operand 1, and its like. variant 1: operands exchanged (rsub).
bool add_or_sub(Call& call, const RuleRow& row) {
  auto x = call.operand(0), y = call.operand(1);
  if (!x || !y) return false;
  if (row.variant == 1) std::swap(x, y);
  const ScalarType dtype = promoted({&*x, &*y});
  const auto alpha = call.operand(2);
  if (!alpha) return false;
  const bool scaled = !alpha->is_number() || !alpha->number.equal(1);
  const bool any_bool = x->dtype == ScalarType::Bool || y->dtype == ScalarType::Bool;
  if (!is_kernel_dtype(dtype)) return false;
  if (row.op == Op::sub && any_bool) return false;
  // ATen subtracts by adding -alpha, which this integer has none of.
  if (row.op == Op::sub && alpha->is_number() && alpha->number.equal(std::numeric_limits<int64_t>::min()))
    return false;
  if (alpha->dtype == ScalarType::Bool && dtype != ScalarType::Bool) return false;  // Refused: also a True.
  if (scaled && dtype == ScalarType::Bool && alpha->dtype != ScalarType::Bool) return false;
  if (scaled && c10::isFloatingType(alpha->dtype) && !c10::isFloatingType(dtype)) return false;
  Pointwise p(call, dtype, {&*x, &*y});
  if (!p.valid()) return false;
  if (scaled) p.compute_in_float();
  ir::Value* left = p.rounded_on_cpu(*x);
  ir::Value* right = p.rounded_on_cpu(*y);
  // rsub computes other - alpha * self: alpha goes with the second operand in both.
  if (scaled) right = p.op(Op::mul, right, p.rounded_on_cpu(*alpha));
  // Single elements of f16 and bf16 are computed in their own type (binary_kernel_reduced_floating_vec). One
  // rounding is not worth a second program where the sizes vary.
  const bool is_half = dtype == ScalarType::Half || dtype == ScalarType::BFloat16;
  if (scaled && is_half && call.device().is_cpu() && p.type()->symbolic_numel().is_constant() && !p.in_vectors())
    right = call.cast(call.cast(right, p.type()->dtype), right->type->dtype);
  return p.give(p.op(row.op, left, right));
}

/// Whether an integer division by this raises nothing: a number that is not zero, in `dtype` too.
bool never_zero(const Operand& divisor, ScalarType dtype) {
  int64_t number = 0;
  if (divisor.is_number())
    number = divisor.number.toLong();
  else if (divisor.value->def->op == Op::scalar)
    number = divisor.value->def->number_attr("value").as_int();
  const bool fits = dtype == ScalarType::Long || (number >= -127 && number <= 127);
  return number != 0 && fits;
}

/// The operand as a divisor: one of integers that may be zero is checked, since eager raises ZeroDivisionError, but
/// for that on GPUs.
/// Null: eager is to be asked, as the check of a number would also fail where no element is divided.
ir::Value* divisor(Pointwise& p, const Operand& y) {
  const DType dtype = p.type()->dtype;
  if (p.type()->device.kind != ir::DeviceKind::cpu) return p.in(y);
  if (ir::is_floating(dtype) || never_zero(y, to_scalar_type(dtype))) return p.in(y);
  if (y.is_number()) return nullptr;
  return numel(p.type()->sizes) == 0 ? p.in(y) : p.op(Op::divisor, p.in(y));
}

/// Of two zeros, vectors give the second and single elements the first one, as ir::Op gives the second. Integers
/// have one zero: nothing is asked about how many elements there are.
ir::Value* extreme(Pointwise& p, Op op, ir::Value* a, ir::Value* b) {
  return !ir::is_floating(p.type()->dtype) || p.in_vectors() ? p.op(op, a, b) : p.op(op, b, a);
}

/// Both operands in the promoted type.
bool binary(Call& call, const RuleRow& row) {
  const auto x = call.operand(0), y = call.operand(1);
  if (!x || !y) return false;
  ScalarType dtype = promoted({&*x, &*y});
  if (row.variant == kFloats) dtype = floating(dtype);
  if (!is_kernel_dtype(dtype)) return false;
  const bool is_bool = dtype == ScalarType::Bool;
  const bool bitwise = row.op == Op::bitwise_and || row.op == Op::bitwise_or || row.op == Op::bitwise_xor;
  const bool shift = row.op == Op::shift_left || row.op == Op::shift_right;
  if ((bitwise || shift) && c10::isFloatingType(dtype)) return false;
  if (row.op == Op::hypot && !c10::isFloatingType(dtype)) return false;
  // The neighbour of a bf16 or f16 is not that of the f32 it is computed in.
  if (row.op == Op::nextafter && dtype != ScalarType::Float && dtype != ScalarType::Double) return false;
  const bool divides = row.op == Op::remainder || row.op == Op::fmod;
  if (is_bool && (shift || divides)) return false;
  if (row.op == Op::gcd && (is_bool || c10::isFloatingType(dtype))) return false;
  Pointwise p(call, dtype, {&*x, &*y});
  if (!p.valid()) return false;
  if (divides) {
    ir::Value *whole = p.in(narrowed(*x, dtype)), *by = divisor(p, narrowed(*y, dtype));
    if (!by) return false;
    ir::Value* rest = p.op(row.op, whole, by);
    const bool may_overflow = !y->is_number() || std::abs(y->number.toDouble()) < 1;
    if (!c10::isFloatingType(dtype) || !may_overflow || !p.in_vectors()) return p.give(rest);
    if (p.leaves_rest()) return false;  // Whose single elements ATen does not divide.
    // Vectors divide on the way, in f32 at least (Sleef's fmod): there is no remainder of a quotient that
    // overflows.
    p.compute_in_float();
    rest = call.cast(rest, ir::compute_dtype(rest->type->dtype));
    ir::Value* quotient = p.op(Op::div, p.in(narrowed(*x, dtype)), p.in(narrowed(*y, dtype)));
    ir::Value* nan = p.number(std::numeric_limits<double>::quiet_NaN());
    return p.give(p.where(p.test(Op::isinf, quotient), nan, rest));
  }
  if (is_bool && row.op == Op::maximum) return p.give(p.op(Op::bitwise_or, p.in(*x), p.in(*y)));
  if (is_bool && row.op == Op::minimum) return p.give(p.op(Op::bitwise_and, p.in(*x), p.in(*y)));
  if (row.op == Op::mul) {
    ir::Value* factor = p.in_as_factor(*y);
    return p.give(p.op(Op::mul, p.rounded_on_cpu(*x), factor));
  }
  if (row.op == Op::maximum || row.op == Op::minimum) return p.give(extreme(p, row.op, p.in(*x), p.in(*y)));
  return p.give(p.op(row.op, p.in(*x), p.in(*y)));
}

/// |x / gcd * y|, in i32 for narrower integers, as C computes it; 0 where both are 0.
bool least_common_multiple(Call& call, const RuleRow&) {
  const auto x = call.operand(0), y = call.operand(1);
  if (!x || !y) return false;
  const ScalarType dtype = promoted({&*x, &*y});
  if (!c10::isIntegralType(dtype, false)) return false;
  Pointwise p(call, dtype, {&*x, &*y});
  if (!p.valid()) return false;
  ir::Value *a = p.in(*x), *b = p.in(*y), *gcd = p.op(Op::gcd, a, b);
  const bool narrow = c10::elementSize(dtype) < 4;
  const auto widened = [&](ir::Value* value) { return narrow ? call.cast(value, DType::i32) : value; };
  if (narrow) p.compute_in(DType::i32);
  a = widened(a), b = widened(b), gcd = widened(gcd);
  return p.give(p.op(Op::abs, p.op(Op::mul, p.op(Op::trunc_div, a, gcd), b)));
}

/// fmax and fmin: the other operand where one is NaN.
bool nan_ignoring(Call& call, const RuleRow& row) {
  const auto x = call.operand(0), y = call.operand(1);
  if (!x || !y) return false;
  const ScalarType dtype = promoted({&*x, &*y});
  if (!c10::isFloatingType(dtype)) return binary(call, row);
  Pointwise p(call, dtype, {&*x, &*y});
  if (!p.valid()) return false;
  ir::Value *a = p.in(*x), *b = p.in(*y);
  // Of two zeros the first, as fmax() of the C library has it; not so the kernel for bf16.
  ir::Value* larger = dtype == ScalarType::BFloat16 ? p.op(row.op, a, b) : p.op(row.op, b, a);
  ir::Value* inner = p.where(p.test(Op::isnan, b), a, larger);
  return p.give(p.where(p.test(Op::isnan, a), b, inner));
}

bool compare(Call& call, const RuleRow& row) {
  const auto x = call.operand(0), y = call.operand(1);
  if (!x || !y) return false;
  ScalarType dtype = promoted({&*x, &*y});
  if (!is_kernel_dtype(dtype)) return false;
  // Eager compares a tensor of integers with a float in float, and with a too large integer by its own rule.
  for (const auto& operand : {*x, *y})
    if (operand.is_number() && c10::isIntegralType(dtype, true) && dtype != ScalarType::Long &&
        !operand.number.isBoolean() && !fits(operand.number, dtype))
      return false;
  Pointwise p(call, ScalarType::Bool, {&*x, &*y});
  if (!p.valid()) return false;
  // Kernels have a number in the type of the tensors, on every device.
  const auto side = [&](const Operand& operand) { return call.as(narrowed(operand, dtype), dtype); };
  return p.give(p.op(row.op, side(*x), side(*y)));
}

bool logical(Call& call, const RuleRow& row) {
  const auto x = call.operand(0), y = call.operand(1);
  if (!x || !y) return false;
  Pointwise p(call, ScalarType::Bool, {&*x, &*y});
  if (!p.valid()) return false;
  // A single element of a wider type is one of the tensors' type first, where 256 is 0.
  const ScalarType dtype = promoted({&*x, &*y});
  if (!is_kernel_dtype(dtype) || (x->is_number() && !fits(x->number, dtype)) ||
      (y->is_number() && !fits(y->number, dtype)))
    return false;
  const auto side = [&](const Operand& operand) {
    ir::Value* value =
        call.as(narrowed(operand, dtype), operand.is_number() || operand.sizes.empty() ? dtype : operand.dtype);
    return call.cast(value, DType::b8);
  };
  return p.give(p.op(row.op, side(*x), side(*y)));
}

/// Division with rounding towards -inf. Floats as in c10/util/generic_math.h (div_floor_floating), which corrects
/// the quotient by the remainder.
ir::Value* floor_quotient(Pointwise& p, ir::Value* a, ir::Value* b) {
  if (!ir::is_floating(p.type()->dtype)) return p.op(Op::floor_div, a, b);
  ir::Value* zero = p.number(0);
  ir::Value* mod = p.op(Op::fmod, a, b);
  ir::Value* quotient = p.op(Op::div, p.op(Op::sub, a, mod), b);
  ir::Value* signs_differ = p.test(Op::ne, p.test(Op::lt, b, zero), p.test(Op::lt, mod, zero));
  ir::Value* lower = p.test(Op::bitwise_and, p.test(Op::ne, mod, zero), signs_differ);
  quotient = p.where(lower, p.op(Op::sub, quotient, p.number(1)), quotient);
  ir::Value* floored = p.op(Op::floor, quotient);
  ir::Value* too_low = p.test(Op::gt, p.op(Op::sub, quotient, floored), p.number(0.5));
  floored = p.where(too_low, p.op(Op::add, floored, p.number(1)), floored);
  // A zero quotient has the sign of a / b; a zero divisor gives a / b.
  ir::Value* plain = p.op(Op::div, a, b);
  ir::Value* zero_quotient = p.op(Op::mul, plain, zero);
  floored = p.where(p.test(Op::eq, quotient, zero), zero_quotient, floored);
  return p.where(p.test(Op::eq, b, zero), plain, floored);
}

enum Rounding { kTrue, kByArgument, kFloor };

bool divide(Call& call, const RuleRow& row) {
  const auto x = call.operand(0), y = call.operand(1);
  if (!x || !y) return false;
  std::string_view mode = row.variant == kFloor ? "floor" : "";
  if (row.variant == kByArgument && call.has(2)) mode = call.arg(2).toStringView();
  ScalarType dtype = promoted({&*x, &*y});
  if (mode.empty()) dtype = floating(dtype);
  if (!is_kernel_dtype(dtype) || dtype == ScalarType::Bool) return false;
  Pointwise p(call, dtype, {&*x, &*y});
  if (!p.valid()) return false;
  // f16 and bf16 are rounded after every step in eager, and here on request (emulate_precision_casts).
  const bool is_float = c10::isFloatingType(dtype);
  if (mode.empty()) {
    // A GPU's kernel multiplies by the reciprocal of a number.
    if (call.device().is_cuda() && y->is_number() && !x->is_number()) {
      const double by = y->number.toDouble();
      const double factor = dtype == ScalarType::Double ? 1 / by : double{1 / static_cast<float>(by)};
      return p.give(p.op(Op::mul, p.rounded_on_cpu(*x), p.number(factor)));
    }
    ir::Value* by = p.in_as_factor(*y);
    return p.give(p.op(Op::div, p.rounded_on_cpu(*x), by));
  }
  // By one number the CPU's kernels divide in f32, and round once.
  if (is_float && call.device().is_cpu() && (y->rank == Rank::number || numel(y->sizes) == 1)) p.compute_in_float();
  ir::Value* b = is_float ? p.in_as_factor(*y) : divisor(p, *y);
  if (!b) return false;
  ir::Value* a = p.rounded_on_cpu(*x);
  if (mode == "floor") return p.give(floor_quotient(p, a, b));
  if (mode != "trunc") return false;
  return p.give(is_float ? p.op(Op::trunc, p.op(Op::div, a, b)) : p.op(Op::trunc_div, a, b));
}

/// x ** number. Source: pow_tensor_scalar_kernel in ATen/native/cpu/PowKernel.cpp.
ir::Value* power_by_number(Pointwise& p, ir::Value* x, double exponent) {
  const bool by_root = p.type()->dtype != DType::f16;  // whose kernel has no roots of its own
  if (exponent == 1) return x;
  if (exponent == 2) return p.op(Op::mul, x, x);
  if (exponent == 3) return p.op(Op::mul, p.op(Op::mul, x, x), x);
  if (!ir::is_floating(p.type()->dtype)) return nullptr;
  if (exponent == 0.5 && by_root) return p.op(Op::sqrt, x);
  if (exponent == -0.5 && by_root) return p.op(Op::rsqrt, x);
  if (exponent == -1) return p.op(Op::reciprocal, x);
  if (exponent == -2) return p.op(Op::reciprocal, p.op(Op::mul, x, x));
  return nullptr;
}

bool power(Call& call, const RuleRow&) {
  const auto x = call.operand(0), y = call.operand(1);
  if (!x || !y) return false;
  const ScalarType dtype = promoted({&*x, &*y});
  if (!is_kernel_dtype(dtype)) return false;
  if (dtype == ScalarType::Bool) {
    // x, or not y: the meta kernel would tell another type.
    if (x->is_number() || !y->is_number()) return false;
    Pointwise p(call, dtype, {&*x});
    return p.valid() && p.give(y->number.toBool() ? p.in(*x) : call.full(p.type(), 1));
  }
  const bool integral = c10::isIntegralType(dtype, true);
  // Eager refuses a negative number as the power of integers; among tensors it gives 0, 1 or -1.
  if (integral && y->is_number() && y->number.toLong() < 0) return false;
  Pointwise p(call, dtype, {&*x, y->is_number() ? nullptr : &*y});
  if (!p.valid()) return false;
  if (!integral) p.compute_in_float();
  // Kernels have both numbers in the type of the tensor, on every device.
  ir::Value* base = p.in(narrowed(*x, dtype));
  const Operand power = narrowed(*y, dtype);
  // A number to the power of a tensor is row-major, whatever the tensor.
  if (x->is_number() && call.entry.mode == OpEntry::Mode::functional)
    return call.give(call.copy(call.cast(p.op(Op::pow, base, p.in(*y)), p.type()->dtype),
                               call.contiguous(dtype, to_ref(p.type()->sizes))));
  if (y->is_number()) {
    const double exponent = power.number.toDouble();
    if (exponent == 0) return p.give(call.full(p.type(), 1));
    if (ir::Value* simple = power_by_number(p, base, exponent)) return p.give(simple);
    // Whole in f32 alone: ATen's kernels round it for vectors, and not for single elements.
    const double narrow = static_cast<float>(exponent);
    if (p.type()->dtype != DType::f64 && narrow != exponent && std::trunc(narrow) == narrow) return false;
  }
  return p.give(p.op(Op::pow, base, p.in(power)));
}

bool where(Call& call, const RuleRow&) {
  auto condition = call.operand(0);
  const auto x = call.operand(1), y = call.operand(2);
  if (!condition || !x || !y || condition->dtype != ScalarType::Bool) return false;
  condition->is_mask = true;
  const ScalarType dtype = promoted({&*x, &*y});
  if (!is_kernel_dtype(dtype)) return false;
  Pointwise p(call, dtype, {&*condition, &*x, &*y});
  return p.valid() && p.give(p.where(condition->value, p.in(*x), p.in(*y)));
}

bool masked_fill(Call& call, const RuleRow&) {
  const auto x = call.operand(0), value = call.operand(2);
  auto mask = call.operand(1);
  if (!x || !mask || !value || mask->dtype != ScalarType::Bool || !value->sizes.empty()) return false;
  mask->is_mask = true;
  if (!c10::canCast(value->dtype, x->dtype) && !value->is_number()) return false;
  if (c10::isFloatingType(value->dtype) && !c10::isFloatingType(x->dtype)) return false;
  Pointwise p(call, x->dtype, {&*x, &*mask});
  if (!p.valid()) return false;
  ir::Value* result = p.where(mask->value, p.rounded(*value), p.in(*x));
  if (call.entry.mode != OpEntry::Mode::functional) return p.give(result);
  // Eager clones self row-major, whatever the layout of either.
  return call.give(call.copy(result, call.contiguous(x->dtype, to_ref(p.type()->sizes))));
}

/// clamp(self, min, max): NaN stays, and max wins where min > max.
bool clamp(Call& call, const RuleRow& row) {
  const auto x = call.operand(0);
  if (!x) return false;
  // variant: 0 both limits, 1 the minimum alone, 2 the maximum alone.
  std::optional<Operand> low, high;
  if (row.variant != 2 && call.has(1) && !(low = call.operand(1))) return false;
  const size_t place = row.variant == 2 ? 1 : 2;
  if (row.variant != 1 && call.has(place) && !(high = call.operand(place))) return false;
  if (!low && !high) return false;
  Promotion promotion;
  promotion.add(x->dtype, x->rank);
  for (const auto* limit : {&low, &high})
    if (*limit) promotion.add((*limit)->dtype, (*limit)->rank);
  const ScalarType dtype = promotion.result();
  if (!is_kernel_dtype(dtype)) return false;
  // Only clamp_min and clamp_max by a tensor take bools.
  if (dtype == ScalarType::Bool && (row.variant == 0 || (low ? low : high)->rank == Rank::number)) return false;
  for (const auto* limit : {&low, &high})  // A NaN limit makes everything NaN, by a case of its own.
    if (*limit && (*limit)->is_number() && std::isnan((*limit)->number.toDouble())) return false;
  const auto tensor = [](const std::optional<Operand>& limit) {
    return limit && limit->rank != Rank::number ? &*limit : nullptr;
  };
  Pointwise p(call, dtype, {&*x, tensor(low), tensor(high)});
  if (!p.valid()) return false;
  ir::Value* value = p.in(*x);
  const bool by_numbers = !tensor(low) && !tensor(high);
  // A zero among numbers leaves x its own zero.
  const auto limited = [&](Op op, const Operand& limit) {
    return by_numbers ? p.op(op, p.rounded(limit), value) : extreme(p, op, value, p.rounded(limit));
  };
  if (low) value = limited(Op::maximum, *low);
  if (high) value = limited(Op::minimum, *high);
  return p.give(value);
}

/// self + value * t1 * t2, or self + value * t1 / t2.
bool add_product(Call& call, const RuleRow& row) {
  const auto x = call.operand(0), a = call.operand(1), b = call.operand(2);
  if (!x || !a || !b) return false;
  const ScalarType dtype = promoted({&*x, &*a, &*b});
  const auto factor = call.operand(3);
  if (!factor) return false;
  if (row.op == Op::div && c10::isIntegralType(a->dtype, true) && c10::isIntegralType(b->dtype, true)) return false;
  const bool product_of_integers = row.op == Op::mul && c10::isIntegralType(factor->dtype, false);
  if (!c10::isFloatingType(dtype) && !(product_of_integers && dtype != ScalarType::Bool)) return false;
  Pointwise p(call, dtype, {&*x, &*a, &*b});
  if (!p.valid()) return false;
  p.compute_in_float();
  ir::Value* product = p.in(*a);
  if (!factor->is_number() || !factor->number.equal(1)) product = p.op(Op::mul, p.in(*factor), product);
  return p.give(p.op(Op::add, p.in(*x), p.op(row.op, product, p.in(*b))));
}

/// self + weight * (end - self), from the nearer end. Source: ATen/native/Lerp.h.
bool lerp(Call& call, const RuleRow&) {
  const auto x = call.operand(0), end = call.operand(1), weight = call.operand(2);
  if (!x || !end || !weight || x->dtype != end->dtype || !c10::isFloatingType(x->dtype)) return false;
  if (weight->rank != Rank::number && weight->dtype != x->dtype) return false;
  Pointwise p(call, x->dtype, {&*x, &*end, weight->rank == Rank::number ? nullptr : &*weight});
  if (!p.valid()) return false;
  p.compute_in_float();
  ir::Value *a = p.in(*x), *b = p.in(*end), *w = p.in(*weight);
  ir::Value* difference = p.op(Op::sub, b, a);
  const auto from_start = [&] { return p.op(Op::add, a, p.op(Op::mul, w, difference)); };
  const auto from_end = [&] { return p.op(Op::sub, b, p.op(Op::mul, difference, p.op(Op::sub, p.number(1), w))); };
  if (weight->is_number()) return p.give(std::abs(weight->number.toDouble()) < 0.5 ? from_start() : from_end());
  return p.give(p.where(p.test(Op::lt, p.op(Op::abs, w), p.number(0.5)), from_start(), from_end()));
}

}  // namespace

std::span<const RuleRow> pointwise_rules() {
  static constexpr RuleRow rows[] = {
      {"exp", unary, Op::exp, kFloats},
      {"exp2", unary, Op::exp2, kFloats},
      {"expm1", unary, Op::expm1, kFloats},
      {"log", unary, Op::log, kFloats},
      {"log2", unary, Op::log2, kFloats},
      {"log10", unary, Op::log10, kFloats},
      {"log1p", unary, Op::log1p, kFloats},
      {"sqrt", unary, Op::sqrt, kFloats},
      {"rsqrt", unary, Op::rsqrt, kFloats},
      {"reciprocal", unary, Op::reciprocal, kFloats},
      {"sin", unary, Op::sin, kFloats},
      {"cos", unary, Op::cos, kFloats},
      {"tan", unary, Op::tan, kFloats},
      {"tanh", unary, Op::tanh, kFloats},
      {"erf", erf, Op::erf, kFloats},
      {"sigmoid", unary, Op::sigmoid, kFloats},
      {"asin", unary, Op::asin, kFloats},
      {"acos", unary, Op::acos, kFloats},
      {"atan", unary, Op::atan, kFloats},
      {"sinh", hyperbolic, Op::sinh},
      {"cosh", hyperbolic, Op::cosh},
      {"asinh", unary, Op::asinh, kFloats},
      {"acosh", unary, Op::acosh, kFloats},
      {"atanh", unary, Op::atanh, kFloats},
      {"erfc", unary, Op::erfc, kFloats},
      {"erfinv", unary, Op::erfinv, kFloats},
      {"lgamma", unary, Op::lgamma, kFloats},
      {"digamma", unary, Op::digamma, kFloats},
      {"neg", unary, Op::neg, kKeep},
      {"abs", unary, Op::abs, kKeep},
      {"relu", unary, Op::relu, kKeep},
      {"floor", unary, Op::floor, kKeep},
      {"ceil", unary, Op::ceil, kKeep},
      {"round", unary, Op::round, kKeep},
      {"trunc", unary, Op::trunc, kKeep},
      {"bitwise_not", unary, Op::bitwise_not, kKeep},
      {"sign", sign},
      {"sgn", sign},
      {"isnan", test, Op::isnan},
      {"isinf", test, Op::isinf},
      {"signbit", test, Op::signbit},
      {"logical_not", test, Op::logical_not},
      {"add.Tensor", add_or_sub, Op::add},
      {"add.Scalar", add_or_sub, Op::add},
      {"sub.Tensor", add_or_sub, Op::sub},
      {"sub.Scalar", add_or_sub, Op::sub},
      {"rsub.Tensor", add_or_sub, Op::sub, 1},
      {"rsub.Scalar", add_or_sub, Op::sub, 1},
      {"mul.Tensor", binary, Op::mul, kKeep},
      {"mul.Scalar", binary, Op::mul, kKeep},
      {"maximum", binary, Op::maximum, kKeep},
      {"minimum", binary, Op::minimum, kKeep},
      {"remainder.Tensor", binary, Op::remainder, kKeep},
      {"remainder.Scalar", binary, Op::remainder, kKeep},
      {"remainder.Scalar_Tensor", binary, Op::remainder, kKeep},
      {"fmod.Tensor", binary, Op::fmod, kKeep},
      {"fmod.Scalar", binary, Op::fmod, kKeep},
      {"atan2", binary, Op::atan2, kFloats},
      {"hypot", binary, Op::hypot, kKeep},
      {"gcd", binary, Op::gcd, kKeep},
      {"lcm", least_common_multiple},
      {"copysign.Tensor", binary, Op::copysign, kFloats},
      {"copysign.Scalar", binary, Op::copysign, kFloats},
      {"nextafter", binary, Op::nextafter, kKeep},
      {"bitwise_and.Tensor", binary, Op::bitwise_and, kKeep},
      {"bitwise_and.Scalar", binary, Op::bitwise_and, kKeep},
      {"bitwise_and.Scalar_Tensor", binary, Op::bitwise_and, kKeep},
      {"bitwise_or.Tensor", binary, Op::bitwise_or, kKeep},
      {"bitwise_or.Scalar", binary, Op::bitwise_or, kKeep},
      {"bitwise_or.Scalar_Tensor", binary, Op::bitwise_or, kKeep},
      {"bitwise_xor.Tensor", binary, Op::bitwise_xor, kKeep},
      {"bitwise_xor.Scalar", binary, Op::bitwise_xor, kKeep},
      {"bitwise_xor.Scalar_Tensor", binary, Op::bitwise_xor, kKeep},
      {"__and__.Tensor", binary, Op::bitwise_and, kKeep},
      {"__or__.Tensor", binary, Op::bitwise_or, kKeep},
      {"__xor__.Tensor", binary, Op::bitwise_xor, kKeep},
      {"bitwise_left_shift.Tensor", binary, Op::shift_left, kKeep},
      {"bitwise_left_shift.Tensor_Scalar", binary, Op::shift_left, kKeep},
      {"bitwise_right_shift.Tensor", binary, Op::shift_right, kKeep},
      {"bitwise_right_shift.Tensor_Scalar", binary, Op::shift_right, kKeep},
      {"__lshift__.Tensor", binary, Op::shift_left, kKeep},
      {"__lshift__.Scalar", binary, Op::shift_left, kKeep},
      {"__rshift__.Tensor", binary, Op::shift_right, kKeep},
      {"__rshift__.Scalar", binary, Op::shift_right, kKeep},
      {"fmax", nan_ignoring, Op::maximum, kKeep},
      {"fmin", nan_ignoring, Op::minimum, kKeep},
      {"eq.Tensor", compare, Op::eq},
      {"eq.Scalar", compare, Op::eq},
      {"ne.Tensor", compare, Op::ne},
      {"ne.Scalar", compare, Op::ne},
      {"lt.Tensor", compare, Op::lt},
      {"lt.Scalar", compare, Op::lt},
      {"le.Tensor", compare, Op::le},
      {"le.Scalar", compare, Op::le},
      {"gt.Tensor", compare, Op::gt},
      {"gt.Scalar", compare, Op::gt},
      {"ge.Tensor", compare, Op::ge},
      {"ge.Scalar", compare, Op::ge},
      {"logical_and", logical, Op::bitwise_and},
      {"logical_or", logical, Op::bitwise_or},
      {"logical_xor", logical, Op::bitwise_xor},
      {"div.Tensor", divide, Op::div, kTrue},
      {"div.Scalar", divide, Op::div, kTrue},
      {"div.Tensor_mode", divide, Op::div, kByArgument},
      {"div.Scalar_mode", divide, Op::div, kByArgument},
      {"floor_divide", divide, Op::div, kFloor},
      {"floor_divide.Scalar", divide, Op::div, kFloor},
      {"pow.Tensor_Tensor", power},
      {"pow.Tensor_Scalar", power},
      {"pow.Scalar", power},
      {"where.self", where},
      {"masked_fill.Scalar", masked_fill},
      {"masked_fill.Tensor", masked_fill},
      {"clamp", clamp},
      {"clamp.Tensor", clamp},
      {"clamp_min", clamp, Op::maximum, 1},
      {"clamp_min.Tensor", clamp, Op::maximum, 1},
      {"clamp_max", clamp, Op::minimum, 2},
      {"clamp_max.Tensor", clamp, Op::minimum, 2},
      {"addcmul", add_product, Op::mul},
      {"addcdiv", add_product, Op::div},
      {"lerp.Scalar", lerp},
      {"lerp.Tensor", lerp},
  };
  return rows;
}

}  // namespace braze::capture
