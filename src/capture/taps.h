// capture/taps.h: sums of elements along one dimension, whose places and weights are known while tracing: what
// interpolates, averages over windows, and takes the gradients of both.
#pragma once

#include "capture/arithmetic.h"

namespace braze::capture {

struct Tap {
  int64_t place;
  double weight;
};

/// What each element of a result reads along one dimension; some may read nothing.
struct Taps {
  int64_t size = 0;  ///< Of the dimension that is read.
  std::vector<std::vector<Tap>> of;

  /// Of the gradient: which elements each of those that were read has gone to, and how much of it.
  Taps transposed() const;
};

/// Of windows from `begin` to before `end`, each element with the same weight.
struct Window {
  int64_t begin, end;
  double weight;
};
Taps window_taps(int64_t size, std::span<const Window> windows);

/// Window `o` of the `out` that an adaptive pooling lays over `size` elements: floor(o*size/out) up to
/// ceil((o+1)*size/out).
Window adaptive_window(int64_t o, int64_t size, int64_t out);

/// Dimension `dim` of `value` with the weighted sums that `taps` tells in its place, in `dtype` and in the order of
/// the taps. What nothing is read for is 0.
ir::Value* weighted_sums(Arithmetic& a, ir::Value* value, int64_t dim, const Taps& taps, DType dtype);

}  // namespace braze::capture
