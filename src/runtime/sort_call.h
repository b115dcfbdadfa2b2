// runtime/sort_call.h: aten::sort and aten::topk by braze's own row sort, with ATen's results to the bit.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "capture/trace.h"

namespace braze::runtime {

/// What a recorded call of sort or topk asks for.
struct SortCall {
  int64_t dim = -1;
  int64_t count = -1;  ///< topk: so many; -1: all.
  bool descending = false;
  bool stable = false;
  bool any_order = false;  ///< topk: as ATen's algorithm leaves them.

  /// nullopt if it is another operator.
  static std::optional<SortCall> of(const capture::CallPayload& payload);
  /// It has keys for the dtype, and the tensor's data lies in memory as its strides say.
  bool serves(const at::Tensor& self) const;
  /// `values` and `indices` (int64) have the result's sizes, any strides; they share no memory with `self`. Null is
  /// one that is not wanted; not both.
  /// \returns false, with nothing written, where equal elements abound and ATen is as fast.
  bool run(const at::Tensor& self, const at::Tensor* values, const at::Tensor* indices) const;
};

}  // namespace braze::runtime
