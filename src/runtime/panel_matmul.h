// runtime/panel_matmul.h: float32 products whose right operand is copied into panels first.
//
// A panel has all rows of k and a few columns, which lie together: whatever the strides of `b`, the inner loop
// reads it front to back, and a chunk of it stays in the nearest cache while the rows of `a` pass. Copying costs a
// hundredth of the product with 1,000 rows and an eighth with 64, if `b` is transposed; a weight that stays as it
// is can be kept in panels (runtime/packed_weights.h).
#pragma once

#include <cstdint>

namespace braze::runtime {

/// out[m,n] = a[m,k] x b[k,n] + bias[n], or more by that; strides count elements.
struct PanelMatmul {
  const float* a = nullptr;
  const float* b = nullptr;       ///< Not read if there are panels.
  const float* panels = nullptr;  ///< What pack() wrote, or null: `b` is packed chunk by chunk on the way.
  const float* bias = nullptr;    ///< Null: none.
  float* out = nullptr;
  int64_t m = 0, n = 0, k = 0;
  int64_t a_stride = 0;               ///< Between rows; `a` is contiguous along k.
  int64_t b_rows = 0, b_columns = 0;  ///< Between rows and between columns of `b`; one of them is 1.
  int64_t out_stride = 0;             ///< Between rows.
  bool adds = false;                  ///< To what `out` holds.
};

/// One instruction set's functions. Sums are made in an order that depends on k alone: results depend neither on
/// how the work is split nor on whether `b` was packed before.
struct PanelFunctions {
  int64_t width;  ///< Columns of a panel.
  /// Rows [begin, end) of the columns of one panel.
  void (*multiply)(const PanelMatmul& product, int64_t panel, int64_t begin, int64_t end);
  /// Writes panels [begin, end), k * width floats each, zeros beyond column n. `to` is where panel 0 lies.
  void (*pack)(const PanelMatmul& product, int64_t begin, int64_t end, float* to);

  int64_t count(int64_t n) const { return (n + width - 1) / width; }
  void multiply_all(const PanelMatmul& product) const {
    for (int64_t panel = 0; panel < count(product.n); ++panel) multiply(product, panel, 0, product.m);
  }
  void pack_all(const PanelMatmul& product, float* to) const { pack(product, 0, count(product.n), to); }
};
extern const PanelFunctions panel_matmul_avx2, panel_matmul_avx512;

/// Those for this processor.
const PanelFunctions& panel_matmul();

}  // namespace braze::runtime
