// runtime/small_matmul_kernel.h: the body of small_matmul_avx2.cpp and small_matmul_avx512.cpp, which set
// BRAZE_LANES and are compiled for their processors.
//
// Everything is in an unnamed namespace and nothing of the standard library is used: an inline function of it,
// compiled here with AVX-512, could be the copy that the linker keeps for the whole library.
#pragma once

#include "runtime/kernel_vectors.h"
#include "runtime/small_matmul.h"

namespace braze::runtime {

namespace {

constexpr int tile_rows = lanes == 16 ? 6 : 3;  // of `a`; 24 accumulators of 32 registers, or 12 of 16
constexpr int tile_columns = 4;                 // rows of a transposed `b`, or vectors of a plain one
// Long sums are made of shorter ones, whose rounding errors do not grow with k.
constexpr int64_t chunk = 256;
typedef float Vector4 __attribute__((vector_size(16), aligned(4), may_alias));

/// The sums of the lanes of a, b, c and d.
inline Vector4 sums(Vector a, Vector b, Vector c, Vector d) {
#if BRAZE_LANES == 16
#define EVEN 0, 16, 2, 18, 4, 20, 6, 22, 8, 24, 10, 26, 12, 28, 14, 30
#define ODD 1, 17, 3, 19, 5, 21, 7, 23, 9, 25, 11, 27, 13, 29, 15, 31
#define LOW 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29
#define HIGH 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31
#else
#define EVEN 0, 8, 2, 10, 4, 12, 6, 14
#define ODD 1, 9, 3, 11, 5, 13, 7, 15
#define LOW 0, 1, 8, 9, 4, 5, 12, 13
#define HIGH 2, 3, 10, 11, 6, 7, 14, 15
#endif
  const Vector ab = __builtin_shufflevector(a, b, EVEN) + __builtin_shufflevector(a, b, ODD);
  const Vector cd = __builtin_shufflevector(c, d, EVEN) + __builtin_shufflevector(c, d, ODD);
  const Vector all = __builtin_shufflevector(ab, cd, LOW) + __builtin_shufflevector(ab, cd, HIGH);
  Vector4 sum = __builtin_shufflevector(all, all, 0, 1, 2, 3) + __builtin_shufflevector(all, all, 4, 5, 6, 7);
#if BRAZE_LANES == 16
  sum += __builtin_shufflevector(all, all, 8, 9, 10, 11) + __builtin_shufflevector(all, all, 12, 13, 14, 15);
#endif
  return sum;
#undef EVEN
#undef ODD
#undef LOW
#undef HIGH
}

/// Rows [row, row + R) times C rows of the transposed `b`, beginning at `column`: dot products along k.
template <int R, int C>
inline void dots(const SmallMatmul& p, int64_t row, int64_t column) {
  const float *a = p.a + row * p.a_stride, *b = p.b + column * p.b_stride;
  Vector sum[R][tile_columns] = {};
  int64_t k = 0;
  for (; k + lanes <= p.k; k += lanes) {
    Vector left[R];
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) left[r] = load(a + r * p.a_stride + k);
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c) {
      const Vector right = load(b + c * p.b_stride + k);
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) sum[r][c] += left[r] * right;
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
    const Vector4 whole = sums(sum[r][0], sum[r][1], sum[r][2], sum[r][3]);
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c) {
      float value = whole[c];
      for (int64_t rest = k; rest < p.k; ++rest) value += a[r * p.a_stride + rest] * b[c * p.b_stride + rest];
      p.out[(row + r) * p.out_stride + column + c] = p.bias ? value + p.bias[column + c] : value;
    }
  }
}

/// Rows [row, row + R) times C vectors of columns of a plain `b`. Long sums are made of shorter ones, whose
/// rounding errors do not grow with k.
template <int R, int C>
inline void panels(const SmallMatmul& p, int64_t row, int64_t column) {
  const float *a = p.a + row * p.a_stride, *b = p.b + column;
  for (int64_t begin = 0; begin < p.k; begin += chunk) {
    const int64_t end = begin + chunk < p.k ? begin + chunk : p.k;
    Vector sum[R][C] = {};
    for (int64_t k = begin; k < end; ++k, b += p.b_stride) {
      Vector right[C];
#pragma GCC unroll 8
      for (int c = 0; c < C; ++c) right[c] = load(b + c * lanes);
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        const Vector left = a[r * p.a_stride + k] - Vector{};
#pragma GCC unroll 8
        for (int c = 0; c < C; ++c) sum[r][c] += left * right[c];
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
      for (int c = 0; c < C; ++c) {
        Vector& out = *reinterpret_cast<Vector*>(p.out + (row + r) * p.out_stride + column + c * lanes);
        if (begin > 0) sum[r][c] += out;
        if (p.bias && end == p.k) sum[r][c] += load(p.bias + column + c * lanes);
        out = sum[r][c];
      }
    }
  }
}

/// One column of a plain `b`, where less than a vector is left.
inline void single(const SmallMatmul& p, int64_t row, int64_t column) {
  float sum = 0;
  for (int64_t begin = 0; begin < p.k; begin += chunk) {
    const int64_t end = begin + chunk < p.k ? begin + chunk : p.k;
    float part = 0;
    for (int64_t k = begin; k < end; ++k) part += p.a[row * p.a_stride + k] * p.b[k * p.b_stride + column];
    sum += part;
  }
  p.out[row * p.out_stride + column] = p.bias ? sum + p.bias[column] : sum;
}

template <int R>
inline void row_tile(const SmallMatmul& p, int64_t row, int64_t begin, int64_t end) {
  int64_t column = begin;
  if (p.b_transposed) {
    for (; column + tile_columns <= end; column += tile_columns) dots<R, tile_columns>(p, row, column);
    for (; column < end; ++column) dots<R, 1>(p, row, column);
    return;
  }
  for (; column + tile_columns * lanes <= end; column += tile_columns * lanes)
    panels<R, tile_columns>(p, row, column);
  for (; column + lanes <= end; column += lanes) panels<R, 1>(p, row, column);
  for (; column < end; ++column)
    for (int r = 0; r < R; ++r) single(p, row + r, column);
}

inline void rows(const SmallMatmul& p, int64_t begin, int64_t end) {
  int64_t row = 0;
  for (; row + tile_rows <= p.m; row += tile_rows) row_tile<tile_rows>(p, row, begin, end);
  switch (p.m - row) {
#if BRAZE_LANES == 16
    case 5: return row_tile<5>(p, row, begin, end);
    case 4: return row_tile<4>(p, row, begin, end);
    case 3: return row_tile<3>(p, row, begin, end);
#endif
    case 2: return row_tile<2>(p, row, begin, end);
    case 1: return row_tile<1>(p, row, begin, end);
    default: return;
  }
}

/// All rows take their turn at a strip of `b` while it lies in the nearest cache.
inline void columns(const SmallMatmul& p, int64_t begin, int64_t end) {
  const int64_t strip = p.b_transposed ? tile_columns : tile_columns * lanes;
  for (int64_t at = begin; at < end; at += strip) rows(p, at, at + strip < end ? at + strip : end);
}

}  // namespace

}  // namespace braze::runtime
