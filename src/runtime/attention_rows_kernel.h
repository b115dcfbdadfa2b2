// runtime/attention_rows_kernel.h: the body of attention_rows_avx2.cpp and attention_rows_avx512.cpp, which set
// BRAZE_LANES and are compiled for their processors. As in small_matmul_kernel.h, nothing is included.
#pragma once

#include "runtime/attention_rows.h"
#include "runtime/kernel_vectors.h"

namespace braze::runtime {

namespace {

constexpr float infinity = __builtin_inff();
typedef int32_t Integers __attribute__((vector_size(lanes * 4), aligned(4), may_alias));
typedef uint32_t Words __attribute__((vector_size(lanes * 4), aligned(4), may_alias));
typedef uint16_t Halves __attribute__((vector_size(lanes * 2), aligned(2), may_alias));

/// e^x for x of at most 0, within two units in the last place; 0 below the least normal number. NaN stays NaN.
inline Vector exponential(Vector x) {
  // To the nearest whole number: what lies behind the point falls off the end.
  constexpr float shift = 12582912.0f;  // 1.5 * 2^23
  const Vector shifted = x * 1.44269504f + shift;
  const Vector whole = shifted - shift;
  const Vector rest = (x - whole * 0.693359375f) + whole * 2.12194440e-4f;
  Vector p = rest * 1.9875691500e-4f + 1.3981999507e-3f;
  p = p * rest + 8.3334519073e-3f;
  p = p * rest + 4.1665795894e-2f;
  p = p * rest + 1.6666665459e-1f;
  p = p * rest + 5.0000001201e-1f;
  p = p * (rest * rest) + rest + 1.0f;
  const Vector power = (Vector)(((Integers)shifted << 23) + 0x3f800000);
  return x < -87.33654f ? Vector{} : p * power;
}

inline float exponential(float x) {
  const Vector all = x - Vector{};
  return exponential(all)[0];
}

inline float sum_of(Vector value) {
  float total = 0;
#pragma GCC unroll 16
  for (int i = 0; i < lanes; ++i) total += value[i];
  return total;
}

inline float greatest_of(Vector value) {
  float greatest = value[0];
#pragma GCC unroll 16
  for (int i = 1; i < lanes; ++i) greatest = value[i] > greatest ? value[i] : greatest;
  return greatest;
}

inline void weigh_row(const AttentionBlock& b, int64_t row) {
  float* scores = b.scores + row * b.stride;
  int64_t seen = b.columns;
  if (b.is_causal) {
    seen = b.visible + row;
    seen = seen < 0 ? 0 : seen > b.columns ? b.columns : seen;
  }
  const int64_t end = (seen + lanes - 1) / lanes * lanes;
  for (int64_t k = end; k < b.columns; ++k) scores[k] = 0;
  // NaNs are found by the sum; the greatest passes over them.
  Vector greatest = -infinity - Vector{};
  const float* mask = b.mask ? b.mask + row * b.mask_stride : nullptr;
  for (int64_t k = 0; k < end; k += lanes) {
    Vector value = load(scores + k) * b.scale;
    if (k + lanes <= seen) {
      if (mask) value += load(mask + k);
    } else {
      for (int64_t i = 0; i < lanes; ++i)
        value[i] = k + i >= seen ? -infinity : mask ? value[i] + mask[k + i] : value[i];
    }
    store(scores + k, value);
    greatest = value > greatest ? value : greatest;
  }
  const float before = b.greatest[row], found = greatest_of(greatest), now = found > before ? found : before;
  // Nothing is seen but -inf, or NaN: differences of these would be NaN where there is none.
  const float base = now == -infinity ? 0.0f : now;
  Vector sums = {};
  for (int64_t k = 0; k < end; k += lanes) {
    const Vector value = exponential(load(scores + k) - base);
    store(scores + k, value);
    sums += value;
  }
  const float kept = before == -infinity ? 0.0f : exponential(before - base);
  b.sums[row] = b.sums[row] * kept + sum_of(sums);
  b.greatest[row] = now;
  if (kept == 1.0f) return;
  float* results = b.results + row * b.width;
  int64_t k = 0;
  for (; k + lanes <= b.width; k += lanes) store(results + k, load(results + k) * kept);
  for (; k < b.width; ++k) results[k] *= kept;
}

inline void weigh(const AttentionBlock& block) {
  for (int64_t row = 0; row < block.rows; ++row) weigh_row(block, row);
}

inline void weigh_back(const AttentionBackBlock& b) {
  for (int64_t key = 0; key < b.keys; ++key) {
    float *scores = b.scores + key * b.stride, *slopes = b.slopes + key * b.stride;
    int64_t hidden = b.is_causal ? b.visible + key : 0;
    hidden = hidden < 0 ? 0 : hidden > b.queries ? b.queries : hidden;
    for (int64_t q = 0; q < b.queries; q += lanes) {
      Vector score = load(scores + q) * b.scale;
      if (b.mask) score += load(b.mask + key * b.stride + q);
      Vector weight = exponential(score - load(b.logsumexp + q));
      if (q < hidden)
        for (int64_t i = 0; i < lanes && q + i < hidden; ++i) weight[i] = 0;
      store(scores + q, weight);
      const Vector slope = weight * (load(slopes + q) - load(b.delta + q)) * b.scale;
      store(slopes + q, slope);
    }
  }
}

inline float widened(uint16_t number) {
  const uint32_t bits = uint32_t{number} << 16;
  float wide;
  __builtin_memcpy(&wide, &bits, sizeof(wide));
  return wide;
}

inline void widen(const uint16_t* from, float* to, int64_t count) {
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes)
    store(to + i, (Vector)(__builtin_convertvector(*reinterpret_cast<const Halves*>(from + i), Words) << 16));
  for (; i < count; ++i) to[i] = widened(from[i]);
}

inline Words narrowed(Words bits) {
  return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

/// Ties to even. Not of NaN.
inline void narrow(const float* from, uint16_t* to, int64_t count) {
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes)
    *reinterpret_cast<Halves*>(to + i) = __builtin_convertvector(narrowed((Words)load(from + i)), Halves);
  for (; i < count; ++i) {
    const Vector one = from[i] - Vector{};
    to[i] = static_cast<uint16_t>(narrowed((Words)one)[0]);
  }
}

}  // namespace

}  // namespace braze::runtime
