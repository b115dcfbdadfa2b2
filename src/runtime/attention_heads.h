// runtime/attention_heads.h: what attention on a CPU and its gradients share: heads of tensors as rows of f32.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/BFloat16.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <type_traits>

#include "runtime/attention_rows.h"

namespace braze::runtime {

inline constexpr int64_t queries_at_once = 72;  ///< Whole tiles of panel_matmul.h, for both instruction sets.
inline constexpr int64_t keys_at_once = 256;    ///< Their scores stay in the second cache.

/// Those for this processor.
const AttentionFunctions& attention_functions();

/// Numbers of one thread, not initialised.
class Scratch {
 public:
  void reserve(int64_t count) { numbers_ = std::make_unique_for_overwrite<float[]>(static_cast<size_t>(count)); }
  float* data() const { return numbers_.get(); }

 private:
  std::unique_ptr<float[]> numbers_;
};

/// Rows of one head; a row's numbers lie side by side.
template <typename T>
struct Head {
  T* data;
  int64_t row_stride;
};

/// Of a tensor [batch, heads, length, width].
template <typename T>
Head<T> head_of(const at::Tensor& tensor, int64_t batch, int64_t head) {
  const auto base = [&] {
    if constexpr (std::is_const_v<T>)
      return tensor.const_data_ptr<std::remove_const_t<T>>();
    else
      return tensor.mutable_data_ptr<T>();
  }();
  return {base + batch * tensor.stride(0) + head * tensor.stride(1), tensor.stride(2)};
}

/// Rows [first, first + count): themselves, or widened into `scratch`.
template <typename T>
Head<const float> as_floats(Head<const T> head, int64_t first, int64_t count, int64_t width,
                            const Scratch& scratch) {
  const T* from = head.data + first * head.row_stride;
  if constexpr (std::is_same_v<T, float>) {
    return {from, head.row_stride};
  } else {
    for (int64_t row = 0; row < count; ++row)
      attention_functions().widen(reinterpret_cast<const uint16_t*>(from + row * head.row_stride),
                                  scratch.data() + row * width, width);
    return {scratch.data(), width};
  }
}

/// \returns whether one is NaN or infinite.
template <typename T>
bool store_row(const float* from, T* to, int64_t width) {
  if constexpr (std::is_same_v<T, float>)
    std::copy_n(from, width, to);
  else
    attention_functions().narrow(from, reinterpret_cast<uint16_t*>(to), width);
  float sum = 0;
  for (int64_t i = 0; i < width; ++i) sum += from[i] * 0.0f;
  return std::isnan(sum);
}

/// Rows are rows of memory.
inline bool has_rows(const at::Tensor& tensor) {
  return tensor.stride(-1) == 1 || tensor.size(-1) == 1;
}

}  // namespace braze::runtime
