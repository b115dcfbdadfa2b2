// asin, acos, atan, the hyperbolic functions and their inverses, erfc and hypot of f32.
//
// Each is written in f64: the textbook formulas cancel where both terms are large or near 1, but never so much that
// what is left of f64 is less than an f32. That costs two vectors instead of one and no coefficients of its own.
#include "codegen/math_coefficients.h"
#include "codegen/math_lanes.h"

namespace braze::codegen {

namespace {

using V = llvm::Value*;

constexpr double kPi = 0x1.921fb54442d18p+1;

/// The operand in f64, and the way back.
struct Wide {
  explicit Wide(const Lanes& l) : l(l), d(l.b, l.doubles()) {}
  V up(V x) const { return l.b.CreateFPExt(x, d.type()); }
  V down(V x) const { return l.b.CreateFPTrunc(x, l.type()); }

  const Lanes& l;
  const Lanes d;
};

/// The angle of (adjacent, opposite), both finite and not both zero, `opposite` not below 0: in [0, pi].
V angle(const Lanes& d, V opposite, V adjacent) {
  const V size = d.abs(adjacent);
  const V steep = d.greater(opposite, size);
  const V q = d.div(d.select(steep, size, opposite), d.select(steep, opposite, size));
  V result = d.mul(q, d.polynomial(coefficients::atan_f64, d.mul(q, q)));
  result = d.select(steep, d.sub(d.number(kPi / 2), result), result);
  return d.select(d.less(adjacent, d.number(0)), d.sub(d.number(kPi), result), result);
}

/// sqrt(1 - x^2): NaN beyond 1.
V cosine_of_sine(const Lanes& d, V x) {
  return d.sqrt(d.mul(d.sub(d.number(1), x), d.add(d.number(1), x)));
}

}  // namespace

V emit_asin_f32(const Lanes& l, V x) {
  const Wide w(l);
  const V a = w.up(l.abs(x));
  return l.copysign(w.down(angle(w.d, a, cosine_of_sine(w.d, a))), x);
}

V emit_acos_f32(const Lanes& l, V x) {
  const Wide w(l);
  const V a = w.up(x);
  return w.down(angle(w.d, cosine_of_sine(w.d, a), a));
}

V emit_atan_f32(const Lanes& l, V x) {
  const Wide w(l);
  // A double holds the tangent that f32 cannot tell from infinity, and inf / inf is avoided.
  const V a = w.d.at_most(w.up(l.abs(x)), w.d.number(0x1p200));
  return l.copysign(w.down(angle(w.d, a, w.d.number(1))), x);
}

// With t = e**a - 1: (t + t / (t + 1)) / 2.
V emit_sinh_f32(const Lanes& l, V x) {
  const Wide w(l);
  const V t = emit_expm1(w.d, w.d.at_most(w.up(l.abs(x)), w.d.number(100)));
  const V twice = w.d.add(t, w.d.div(t, w.d.add(t, w.d.number(1))));
  return l.copysign(w.down(w.d.mul(twice, w.d.number(0.5))), x);
}

V emit_cosh_f32(const Lanes& l, V x) {
  const Wide w(l);
  const V e = emit_exp(w.d, w.d.at_most(w.up(l.abs(x)), w.d.number(100)));
  const V twice = w.d.add(e, w.d.div(w.d.number(1), e));
  return w.down(w.d.mul(twice, w.d.number(0.5)));
}

// log(a + sqrt(a^2 + 1)) = log1p(a + a^2 / (1 + sqrt(a^2 + 1)))
V emit_asinh_f32(const Lanes& l, V x) {
  const Wide w(l);
  const V a = w.d.at_most(w.up(l.abs(x)), w.d.number(0x1p300));  // inf / inf
  const V square = w.d.mul(a, a);
  const V root = w.d.add(w.d.number(1), w.d.sqrt(w.d.add(square, w.d.number(1))));
  const V result = emit_log1p(w.d, w.d.add(a, w.d.div(square, root)));
  const V infinite = l.equal(l.abs(x), l.infinity());
  return l.select(infinite, x, l.copysign(w.down(result), x));
}

// With t = x - 1: log1p(t + sqrt(2*t + t^2)). Below 1 the argument is NaN or less than -1.
V emit_acosh_f32(const Lanes& l, V x) {
  const Wide w(l);
  const V t = w.d.sub(w.up(x), w.d.number(1));
  const V root = w.d.sqrt(w.d.mul(t, w.d.add(t, w.d.number(2))));
  const V result = w.down(emit_log1p(w.d, w.d.add(t, root)));
  return l.select(l.less(x, l.number(1)), l.nan(), result);
}

// log((1 + a) / (1 - a)) / 2 = log1p(2*a / (1 - a)) / 2
V emit_atanh_f32(const Lanes& l, V x) {
  const Wide w(l);
  const V a = w.up(l.abs(x));
  const V ratio = w.d.div(w.d.add(a, a), w.d.sub(w.d.number(1), a));
  const V result = w.down(w.d.mul(emit_log1p(w.d, ratio), w.d.number(0.5)));
  return l.copysign(l.select(l.greater(l.abs(x), l.number(1)), l.nan(), result), x);
}

// With w = 1 / (1 + a/2): erfc(a) = w * e**(P(w) - a^2), and erfc(-a) = 2 - erfc(a).
V emit_erfc_f32(const Lanes& l, V x) {
  const Wide wide(l);
  const Lanes& d = wide.d;
  const V a = d.at_most(wide.up(l.abs(x)), d.number(10.3));  // 0 from there on
  const V w = d.div(d.number(1), d.fma(a, d.number(0.5), d.number(1)));
  const V exponent = d.fma(d.neg(a), a, d.polynomial(coefficients::erfc_f64, w));
  const V upper = d.mul(w, emit_exp(d, exponent));
  const V result = d.select(d.less(wide.up(x), d.number(0)), d.sub(d.number(2), upper), upper);
  return wide.down(result);
}

// In f64 no square of an f32 overflows or is lost.
V emit_hypot_f32(const Lanes& l, V x, V y) {
  const Wide w(l);
  const V a = w.up(x), b = w.up(y);
  const V result = w.down(w.d.sqrt(w.d.fma(a, a, w.d.mul(b, b))));
  const V infinite =
      l.b.CreateOr(l.equal(l.abs(x), l.infinity()), l.equal(l.abs(y), l.infinity()));  // stronger than NaN
  return l.select(infinite, l.infinity(), result);
}

}  // namespace braze::codegen
