#include "codegen/x86/math_avx512.h"

#include <llvm/IR/IntrinsicsX86.h>

#include <iterator>

#include "codegen/x86/math_tables.h"

namespace braze::codegen {

namespace {

using V = llvm::Value*;
constexpr unsigned kLanes = 16;

/// Arithmetic on 16 floats with the instructions of AVX-512.
class Zmm : public Lanes {
 public:
  explicit Zmm(llvm::IRBuilderBase& builder)
      : Lanes(builder, llvm::FixedVectorType::get(builder.getFloatTy(), kLanes)) {}

  /// values[index % 16].
  V pick(const float (&values)[kLanes], V index) const {
    V table = llvm::ConstantDataVector::get(b.getContext(), values);
    return b.CreateIntrinsic(llvm::Intrinsic::x86_avx512_permvar_sf_512, {}, {table, index});
  }
  /// floor(log2(|x|)), also of denormals; -inf, inf and NaN for 0, inf and NaN.
  V exponent(V x) const { return masked(llvm::Intrinsic::x86_avx512_mask_getexp_ps_512, {x}); }
  /// x / 2**exponent(x), in [1, 2); 1 for 0 and inf, NaN for NaN and below 0.
  V mantissa(V x) const {
    constexpr int from_1_to_2 = 0, negative_is_nan = 3 << 2;
    return masked(llvm::Intrinsic::x86_avx512_mask_getmant_ps_512, {x, b.getInt32(from_1_to_2 | negative_is_nan)});
  }
  /// value * 2**floor(n), rounded once.
  V scale(V value, V n) const { return masked(llvm::Intrinsic::x86_avx512_mask_scalef_ps_512, {value, n}); }
  /// Of x and `limit` what is nearer to 0, with the sign of x; `limit` for NaN.
  V at_most_in_magnitude(V x, double limit) const {
    constexpr int least_magnitude = 2;
    return masked(llvm::Intrinsic::x86_avx512_mask_range_ps_512, {x, number(limit), b.getInt32(least_magnitude)});
  }

 private:
  V masked(llvm::Intrinsic::ID id, std::initializer_list<V> operands) const {
    llvm::SmallVector<V, 6> args(operands);
    // vscalef and vrange name the value of masked-off lanes after all operands, as do the others.
    args.push_back(number(0));
    args.push_back(llvm::ConstantInt::getAllOnesValue(b.getInt16Ty()));
    args.push_back(b.getInt32(4));  // the rounding of the control register
    return b.CreateIntrinsic(id, {}, args);
  }
};

/// f of 16 lanes at a time, whatever the number of lanes of x.
template <typename Function>
V in_sixteens(const Lanes& l, V x, Function f) {
  llvm::IRBuilderBase& b = l.b;
  const Zmm z(b);
  const unsigned count = l.count();
  if (count == kLanes) return f(z, x);
  if (count == 1) {
    const bool is_vector = l.type()->isVectorTy();
    const V lane = is_vector ? b.CreateExtractElement(x, uint64_t{0}) : x;
    const V wide = b.CreateInsertElement(llvm::PoisonValue::get(z.type()), lane, uint64_t{0});
    const V result = b.CreateExtractElement(f(z, wide), uint64_t{0});
    return is_vector ? b.CreateInsertElement(llvm::PoisonValue::get(l.type()), result, uint64_t{0}) : result;
  }
  // Lanes first.. of x, `width` of them; the last ones may be beyond its end.
  const auto lanes_of_x = [](unsigned first, unsigned available, unsigned width) {
    llvm::SmallVector<int, 32> mask(width, -1);
    for (unsigned i = 0; i < width && first + i < available; ++i) mask[i] = static_cast<int>(first + i);
    return mask;
  };
  V joined = nullptr;
  for (unsigned first = 0; first < count; first += kLanes) {
    const V piece = f(z, b.CreateShuffleVector(x, lanes_of_x(first, count, kLanes)));
    const V spread = b.CreateShuffleVector(piece, lanes_of_x(0, kLanes, count));
    if (!joined) {
      joined = spread;
      continue;
    }
    llvm::SmallVector<int, 32> mask;
    for (unsigned i = 0; i < count; ++i) mask.push_back(static_cast<int>(i < first ? i : count + i - first));
    joined = b.CreateShuffleVector(joined, spread, mask);
  }
  return joined;
}

/// What is added to a number so that its sixteenths are the last bits of the sum.
constexpr double kSixteenths = 0x1.8p19;
/// Above what is left of an argument by taking away whole sixteenths of a power. An infinite one leaves NaN, which
/// must not come into the result: vscalef makes 0 or infinity of anything finite there.
constexpr double kRest = 0x1p-5;

/// 2**n * (1 + q), where `sum` is n + kSixteenths.
V power(const Zmm& z, V sum, V n, V q) {
  const V table = z.pick(tables::exp2_sixteenths, z.to_bits(sum));
  return z.scale(z.fma(table, q, table), n);
}

}  // namespace

bool has_f32_tables(const Lanes& l) {
  if (l.is_double()) return false;
  const llvm::Attribute cpu = l.b.GetInsertBlock()->getParent()->getFnAttribute("target-cpu");
  return cpu.isStringAttribute() && cpu.getValueAsString() == "x86-64-v4";
}

// e**x = 2**(j/16 + k) * e**r with |r| <= ln(2)/32.
V emit_exp_by_table(const Lanes& lanes, V argument) {
  return in_sixteens(lanes, argument, [](const Zmm& z, V x) {
    const V rounder = z.number(kSixteenths);
    const V sum = z.fma(x, z.number(0x1.715476p+0), rounder);
    const V n = z.sub(sum, rounder);
    V r = z.fma(n, z.number(-0x1.62e43p-1), x);
    r = z.fma(n, z.number(0x1.05c61p-29), r);
    r = z.at_most_in_magnitude(r, kRest);
    return power(z, sum, n, z.fma(z.mul(r, r), z.horner(tables::exp_rest, r), r));
  });
}

V emit_exp2_by_table(const Lanes& lanes, V argument) {
  return in_sixteens(lanes, argument, [](const Zmm& z, V x) {
    const V rounder = z.number(kSixteenths);
    const V sum = z.add(x, rounder);
    const V n = z.sub(sum, rounder);
    const V r = z.at_most_in_magnitude(z.sub(x, n), kRest);
    return power(z, sum, n, z.mul(r, z.horner(tables::exp2_rest, r)));
  });
}

// x = 2**e * m, and with c near 1/m: log(x) = e * ln 2 - log(c) + log(1 + r), r = c * m - 1. Just above 1, c is 1,
// and just below it is 1/2, so that all but r cancels. The other c are such that -log(c) is almost a float.
V emit_log_by_table(const Lanes& lanes, V argument) {
  return in_sixteens(lanes, argument, [](const Zmm& z, V x) {
    const V m = z.mantissa(x);
    const V interval = z.b.CreateLShr(z.to_bits(m), z.bits(19));
    const V r = z.fma(m, z.pick(tables::log_inverse, interval), z.number(-1));
    const V high = z.fma(z.exponent(x), z.number(0x1.62e43p-1), z.pick(tables::log_of_inverse, interval));
    return z.add(high, z.fma(z.mul(r, r), z.horner(tables::log_rest, r), r));
  });
}

// a = |x| = c + t, c near the middle of one of 16 intervals: erf(a) = erf(c) + (t + t * rest(t)). From the end of
// the last interval on it is 1.
V emit_erf_by_table(const Lanes& lanes, V argument) {
  return in_sixteens(lanes, argument, [](const Zmm& z, V x) {
    const V a = z.at_most(z.abs(x), z.number(15.49 / tables::erf_scale));
    const V interval = z.to_bits(z.fma(a, z.number(tables::erf_scale), z.rounder()));
    const V t = z.sub(a, z.pick(tables::erf_middle, interval));
    V rest = z.pick(tables::erf_rest[std::size(tables::erf_rest) - 1], interval);
    for (size_t power = std::size(tables::erf_rest) - 1; power-- > 0;)
      rest = z.fma(rest, t, z.pick(tables::erf_rest[power], interval));
    return z.copysign(z.add(z.fma(rest, t, t), z.pick(tables::erf_of_middle, interval)), x);
  });
}

}  // namespace braze::codegen
