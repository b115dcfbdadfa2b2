// runtime/small_matmul.h: products with few rows on the left, straight from the matrices as they lie.
//
// A library packs the right operand before it multiplies, which pays off only when many rows use it. With few rows
// the product is as fast as `b` can be read: 4 x 768 x 3072 takes 130 us where MKL takes 600 and oneDNN 340 (one
// core of a Zen 5).
#pragma once

#include <cstdint>

namespace braze::runtime {

/// out[m,n] = a[m,k] x b[k,n] + bias[n] in float32; strides count elements between rows.
struct SmallMatmul {
  const float* a = nullptr;
  const float* b = nullptr;
  const float* bias = nullptr;  ///< Null: none.
  float* out = nullptr;
  int64_t m = 0, n = 0, k = 0;
  int64_t a_stride = 0, b_stride = 0, out_stride = 0;
  bool b_transposed = false;  ///< `b` lies as [n,k]: b_stride is between its columns, and k is contiguous.
};

/// Columns [begin, end) of the product; ranges may run on different threads. Lanes are added up in an order that
/// depends on k alone: results do not depend on how columns are split.
using SmallMatmulFunction = void (*)(const SmallMatmul& product, int64_t begin, int64_t end);
void small_matmul_avx2(const SmallMatmul& product, int64_t begin, int64_t end);
void small_matmul_avx512(const SmallMatmul& product, int64_t begin, int64_t end);

/// The one for this processor.
SmallMatmulFunction small_matmul();

}  // namespace braze::runtime
