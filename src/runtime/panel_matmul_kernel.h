// runtime/panel_matmul_kernel.h: the body of panel_matmul_avx2.cpp and panel_matmul_avx512.cpp, which set
// BRAZE_LANES and are compiled for their processors. As in small_matmul_kernel.h, nothing is included.
//
// The register tile and the blocking follow Goto and van de Geijn, "Anatomy of High-Performance Matrix
// Multiplication", 2008, without a copy of `a`: its rows are read in order, a number at a time.
#pragma once

#include "runtime/kernel_vectors.h"
#include "runtime/panel_matmul.h"

namespace braze::runtime {

namespace {

constexpr int tile_vectors = 2;
constexpr int64_t width = tile_vectors * lanes;
constexpr int tile_rows = lanes == 16 ? 12 : 6;  // 24 accumulators of 32 registers, or 12 of 16
// Of k. A chunk of a panel takes 32 KB (16 with AVX2) of the nearest cache; and long sums are made of shorter ones,
// whose rounding errors do not grow with k.
constexpr int64_t chunk = 256;
// Rows of k between what is read and what is asked for: 8 KB. 8 x 768 x 3072 in panels takes 390 us without, 263
// with it (one core of a Zen 5).
constexpr int ahead = 64;

#if BRAZE_LANES == 16
#define LOW 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29
#define HIGH 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31
#define LOW2 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29
#define HIGH2 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31
#define EVEN4 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27
#define ODD4 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31
#else
#define LOW 0, 8, 1, 9, 4, 12, 5, 13
#define HIGH 2, 10, 3, 11, 6, 14, 7, 15
#define LOW2 0, 1, 8, 9, 4, 5, 12, 13
#define HIGH2 2, 3, 10, 11, 6, 7, 14, 15
#define EVEN4 0, 1, 2, 3, 8, 9, 10, 11
#define ODD4 4, 5, 6, 7, 12, 13, 14, 15
#endif

/// A square of numbers, transposed: to[i * to_stride + j] = from[j * from_stride + i].
inline void transpose(const float* from, int64_t from_stride, float* to, int64_t to_stride) {
  Vector in[lanes], out[lanes];
#pragma GCC unroll 16
  for (int i = 0; i < lanes; ++i) in[i] = load(from + i * from_stride);
  // Within the quarters of 128 bits: four rows at a time.
#pragma GCC unroll 4
  for (int i = 0; i < lanes; i += 4) {
    const Vector a = __builtin_shufflevector(in[i], in[i + 1], LOW);
    const Vector b = __builtin_shufflevector(in[i], in[i + 1], HIGH);
    const Vector c = __builtin_shufflevector(in[i + 2], in[i + 3], LOW);
    const Vector d = __builtin_shufflevector(in[i + 2], in[i + 3], HIGH);
    out[i] = __builtin_shufflevector(a, c, LOW2);
    out[i + 1] = __builtin_shufflevector(a, c, HIGH2);
    out[i + 2] = __builtin_shufflevector(b, d, LOW2);
    out[i + 3] = __builtin_shufflevector(b, d, HIGH2);
  }
  // Row i + 4q of the result is quarter q of out[i], out[i + 4], ...
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
#if BRAZE_LANES == 16
    const Vector even = __builtin_shufflevector(out[i], out[i + 4], EVEN4);  // quarters 0 and 2 of both
    const Vector odd = __builtin_shufflevector(out[i], out[i + 4], ODD4);    // 1 and 3
    const Vector even2 = __builtin_shufflevector(out[i + 8], out[i + 12], EVEN4);
    const Vector odd2 = __builtin_shufflevector(out[i + 8], out[i + 12], ODD4);
    store(to + i * to_stride, __builtin_shufflevector(even, even2, EVEN4));
    store(to + (i + 4) * to_stride, __builtin_shufflevector(odd, odd2, EVEN4));
    store(to + (i + 8) * to_stride, __builtin_shufflevector(even, even2, ODD4));
    store(to + (i + 12) * to_stride, __builtin_shufflevector(odd, odd2, ODD4));
#else
    store(to + i * to_stride, __builtin_shufflevector(out[i], out[i + 4], 0, 1, 2, 3, 8, 9, 10, 11));
    store(to + (i + 4) * to_stride, __builtin_shufflevector(out[i], out[i + 4], 4, 5, 6, 7, 12, 13, 14, 15));
#endif
  }
}

/// `length` rows of k of one panel from `b`, beginning at row `first`.
inline void pack_chunk(const PanelMatmul& p, int64_t column, int64_t first, int64_t length, float* to) {
  const int64_t columns = p.n - column < width ? p.n - column : width;
  const float* from = p.b + first * p.b_rows + column * p.b_columns;
  int64_t k = 0;
  if (columns == width && p.b_columns == 1) {
    for (; k < length; ++k)
#pragma GCC unroll 2
      for (int v = 0; v < tile_vectors; ++v)
        store(to + k * width + v * lanes, load(from + k * p.b_rows + v * lanes));
  } else if (columns == width && p.b_rows == 1) {
    for (; k + lanes <= length; k += lanes)
#pragma GCC unroll 2
      for (int v = 0; v < tile_vectors; ++v)
        transpose(from + v * lanes * p.b_columns + k, p.b_columns, to + k * width + v * lanes, width);
  }
  for (; k < length; ++k)
    for (int64_t c = 0; c < width; ++c)
      to[k * width + c] = c < columns ? from[k * p.b_rows + c * p.b_columns] : 0.0f;
}

/// What one chunk of k adds to R rows of a panel's columns.
template <int R>
inline void tile(const PanelMatmul& p, const float* panel, int64_t row, int64_t column, int64_t first,
                 int64_t length) {
  const float* a = p.a + row * p.a_stride + first;
  Vector sum[R][tile_vectors] = {};
  for (int64_t k = 0; k < length; ++k, panel += width) {
    // Panels that come from memory: the processor's own prefetching begins anew on every page.
#pragma GCC unroll 2
    for (int v = 0; v < tile_vectors; ++v) __builtin_prefetch(panel + ahead * width + v * lanes);
    Vector right[tile_vectors];
#pragma GCC unroll 2
    for (int v = 0; v < tile_vectors; ++v) right[v] = load(panel + v * lanes);
#pragma GCC unroll 12
    for (int r = 0; r < R; ++r) {
      const Vector left = a[r * p.a_stride + k] - Vector{};
#pragma GCC unroll 2
      for (int v = 0; v < tile_vectors; ++v) sum[r][v] += left * right[v];
    }
  }
  const bool last = first + length == p.k, adds = first > 0 || p.adds;
  const int64_t columns = p.n - column < width ? p.n - column : width;
#pragma GCC unroll 12
  for (int r = 0; r < R; ++r) {
    float* out = p.out + (row + r) * p.out_stride + column;
    if (columns == width) {
#pragma GCC unroll 2
      for (int v = 0; v < tile_vectors; ++v) {
        Vector value = sum[r][v];
        if (adds) value += load(out + v * lanes);
        if (last && p.bias) value += load(p.bias + column + v * lanes);
        store(out + v * lanes, value);
      }
    } else {
      float values[width];
#pragma GCC unroll 2
      for (int v = 0; v < tile_vectors; ++v) store(values + v * lanes, sum[r][v]);
      for (int64_t c = 0; c < columns; ++c) {
        float value = values[c];
        if (adds) value += out[c];
        if (last && p.bias) value += p.bias[column + c];
        out[c] = value;
      }
    }
  }
}

using Tile = void (*)(const PanelMatmul& p, const float* panel, int64_t row, int64_t column, int64_t first,
                      int64_t length);
#if BRAZE_LANES == 16
constexpr Tile tiles[tile_rows + 1] = {nullptr, tile<1>, tile<2>, tile<3>,  tile<4>,  tile<5>, tile<6>,
                                       tile<7>, tile<8>, tile<9>, tile<10>, tile<11>, tile<12>};
#else
constexpr Tile tiles[tile_rows + 1] = {nullptr, tile<1>, tile<2>, tile<3>, tile<4>, tile<5>, tile<6>};
#endif

inline void multiply_panel(const PanelMatmul& p, int64_t which, int64_t begin, int64_t end) {
  alignas(64) float packed[chunk * width];
  const int64_t column = which * width;
  // Tiles of about the same height: a low one at the end would wait for its own sums.
  const int64_t rows = end - begin, count = (rows + tile_rows - 1) / tile_rows;
  for (int64_t first = 0; first < p.k; first += chunk) {
    const int64_t length = p.k - first < chunk ? p.k - first : chunk;
    const float* panel = packed;
    if (p.panels)
      panel = p.panels + (which * p.k + first) * width;
    else
      pack_chunk(p, column, first, length, packed);
    for (int64_t t = 0, row = begin; t < count; ++t) {
      const int64_t next = begin + rows * (t + 1) / count;
      tiles[next - row](p, panel, row, column, first, length);
      row = next;
    }
  }
}

inline void pack_panels(const PanelMatmul& p, int64_t begin, int64_t end, float* to) {
  for (int64_t which = begin; which < end; ++which) pack_chunk(p, which * width, 0, p.k, to + which * p.k * width);
}

}  // namespace

}  // namespace braze::runtime
