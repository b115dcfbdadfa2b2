// capture/pooling_axis.h: the windows of a pooling along one dimension.
#pragma once

#include <algorithm>

#include "capture/arithmetic.h"

namespace braze::capture {

/// One spatial dimension: window o covers the input at o*stride - pad + k*dilation.
struct Axis {
  Dim size, kernel, stride, pad, dilation, out;
  Dim start(Dim o) const { return o * stride - pad; }
  /// How many elements of a window can lie in the input or before it: a kernel may be far larger than its input.
  Dim steps() const { return std::min(kernel, (size + pad - 1) / dilation + 1); }
};
using Axes = c10::SmallVector<Axis, 3>;

/// As pooling_output_shape in ATen/native/Pool.h. False: eager refuses them.
bool set_output(Axis& axis, bool ceil);

/// Elements that count in each window, all dimensions together; of the computing type.
ir::Value* window_counts(Call& call, const Axes& axes, bool with_padding, DType dtype);

}  // namespace braze::capture
